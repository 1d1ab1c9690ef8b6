"""A stand-in hub and a tiny model for it, for the tests of this folder."""

import shutil

import pytest
from hubserver import HubServer, point_to
from smallmodels import save_model

from rbplib import network


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A tiny model's folder; copy it to change it."""
    folder = tmp_path_factory.mktemp("small") / "model"
    save_model(folder, "gpt_neox")
    return folder


@pytest.fixture
def copy(small, tmp_path):
    shutil.copytree(small, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with nothing in it, an empty cache, and short pauses."""
    from huggingface_hub import constants

    monkeypatch.setattr(network, "WAIT", 0.01)
    monkeypatch.setattr(network, "VAIN", [float("-inf")])
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1024)  # what is kept of a broken download comes in chunks
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with HubServer() as server:
        point_to(server.url, monkeypatch)
        yield server
