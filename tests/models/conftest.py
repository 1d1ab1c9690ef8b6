"""A stand-in hub and a tiny model for it."""

import pytest
from hubserver import HubServer, point_to
from smallmodels import save_model


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A tiny model's folder."""
    folder = tmp_path_factory.mktemp("small") / "model"
    save_model(folder, "gpt_neox")
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with nothing in it, and an empty cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with HubServer() as server:
        point_to(server.url, monkeypatch)
        yield server
