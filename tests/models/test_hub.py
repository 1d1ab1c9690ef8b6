"""Models of the hub, over HTTP from a stand-in: what is fetched, what is kept, and what goes wrong
on the way."""

import shutil
import time

import pytest
import torch
from commands import call
from hubserver import HubServer, point_to
from huggingface_hub import close_session
from smallmodels import hub_model, save_model

from rbplib import InputError
from rbplib.models import load_model, model_folder

ID = "EleutherAI/pythia-14m"


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A tiny model's folder."""
    folder = tmp_path_factory.mktemp("small") / "model"
    save_model(folder)
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch, small):
    """A hub with one model, and an empty cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with HubServer() as server:
        point_to(server.url, monkeypatch, tmp_path / "cache")
        server.sha = server.add("models", ID, small)
        yield server


def test_a_model_of_the_hub_is_the_one_in_the_folder(hub, small):
    loaded, local = load_model(hub_model(ID)), load_model(hub_model(small))
    assert loaded.record["revision"] == hub.sha and loaded.record["model_id"] == ID
    assert loaded.record["tokenizer_digest"] == local.record["tokenizer_digest"]
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(loaded.model(ids).logits, local.model(ids).logits)


@pytest.mark.parametrize("listed", [False, True])
def test_a_mirror_that_names_a_path_writes_nothing(hub, tmp_path, listed):
    path = "../../../../evil"
    for name in ("config.json", "model.safetensors"):
        entry = hub.repos["models", ID]["main"].entries[name]
        if listed:
            entry["lfs"] = {"oid": path, "size": 9, "pointerSize": 9}
            entry |= {"sha": "0" * 40, "xetHash": "0" * 64}
        else:
            entry["oid"] = path
    with pytest.raises(InputError, match="answers as no hub does"):
        model_folder(hub_model(ID))
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize("way", [{"Location": "/foo"}, {"Link": '</foo>; rel="next"'}])
def test_a_listing_that_leads_away_is_not_followed(hub, monkeypatch, way):
    monkeypatch.setattr("hubserver.Handler.api", lambda self, *_: self.answer(307, b"", way))
    with pytest.raises(InputError, match="leads from a listing to '/foo'"):
        model_folder(hub_model(ID))


def test_only_what_is_needed_is_fetched(hub, small, tmp_path):
    folder = shutil.copytree(small, tmp_path / "m")
    for name in ("pytorch_model.bin", "model.onnx", "README.md", "code.py"):
        (folder / name).write_bytes(b"much")
    hub.add("models", ID, folder)
    names = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
    cache = model_folder(hub_model(ID), weights=False)[0]
    assert {path.name for path in cache.iterdir()} == names
    load_model(hub_model(ID))
    assert {path.name for path in cache.iterdir()} == names | {"model.safetensors"}


def refusal(ident, revision=None):
    with pytest.raises(InputError, match=f"model '{ident}.*(had from|in the cache of)") as caught:
        load_model(hub_model(ident, revision))
    return str(caught.value)


def test_what_cannot_be_had_is_one_sentence_that_names_it(hub):
    assert "step7" in refusal(ID, "step7")
    refusal("owner/none")
    hub.gated[ID] = 403
    assert "403" in refusal(ID)


def test_a_hub_that_does_not_answer_is_one_sentence_within_seconds(
    hub, monkeypatch, tmp_path, capsys
):
    began = time.monotonic()
    model_folder(hub_model(ID))
    hub.stop()
    close_session()
    point_to("http://127.0.0.1:9", monkeypatch)
    assert load_model(hub_model(ID)).record["revision"] == hub.sha  # from the cache
    assert "model 'owner/other' at revision 'main' is not in the cache" in refusal("owner/other")
    (tmp_path / "text.yml").write_text("source: hub\nid: owner/text\n")
    (tmp_path / "far.yml").write_text("models: [{id: owner/a, nonembedding_params: 9}]\n")
    assert call(f"plan --family {tmp_path}/far.yml --corpus {tmp_path}/text.yml") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "owner/text" in line
    # it is told once, of several models
    (tmp_path / "far.yml").write_text("models: [owner/a, owner/b]\n")
    (tmp_path / "own.txt").write_text("some words\n")
    assert call(f"measure --family {tmp_path}/far.yml --corpus {tmp_path}/own.txt") == 2
    silent, names = capsys.readouterr().err.splitlines()
    assert "127.0.0.1:9, which does not answer" in silent and " a, b could not" in names
    assert time.monotonic() - began < 30


def test_a_named_revision_and_pickled_tensors(hub, small, tmp_path):
    folder = shutil.copytree(small, tmp_path / "m")
    model = load_model(hub_model(small)).model
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    sha = hub.add("models", ID, folder, revision="step1000")
    loaded = load_model(hub_model(ID, "step1000"))
    assert loaded.record["revision"] == sha
    assert torch.equal(loaded.model.lm_head.weight, model.lm_head.weight)
