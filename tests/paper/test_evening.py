"""The evening of the paper's models, on tiny ones of a stand-in hub: looked at, planned, measured,
exported; a failing one is told, and the same command goes on."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from contextlib import redirect_stderr
from types import SimpleNamespace

import pytest
from hubserver import HubServer, point_to
from smallmodels import save_model

from paper import evening
from rbplib import cli
from rbplib.table import family_tables
from tests.commands import take
from tests.ranks.workshop import write_root


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A root with a family of three models of the hub, the last of which has no weights yet."""
    place = write_root(tmp_path / "root")
    (place / "families/toy.yml").write_text("context: 48\nmodels: [a/m0, a/m1, a/bad]\n")
    for name, value in {"RBP_ROOT": place, "RBP_RESULTS": place / "results"}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("RBP_LOCK", "")
    with HubServer() as server:
        point_to(server.url, monkeypatch, tmp_path / "hf/hub")
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        for number, name in enumerate(("m0", "m1", "bad")):
            (place / f"models/m{number}").rename(tmp_path / name)
            server.add("models", f"a/{name}", tmp_path / name)
        server.place, server.cache = place, tmp_path / "hf/hub"
        (tmp_path / "bad/model.safetensors").rename(tmp_path / "weights")
        server.add("models", "a/bad", tmp_path / "bad")
        yield server


def run(*options):
    return evening.main(["--family", "toy", "--corpus", "lines", "--device", "cpu", *options])


def in_this_process(command, **_):
    """`python -m rbplib ...` as the evening starts it, without the seconds that a start takes."""
    assert command[:3] == [sys.executable, "-m", "rbplib"]
    with redirect_stderr(io.StringIO()) as complaints:
        code = cli.main(command[3:])
    return SimpleNamespace(returncode=code, stderr=complaints.getvalue())


def has_weights(hub, folder):
    """Does the hub's cache hold a blob as large as a folder's weights, linked to or not?"""
    blobs = hub.cache.glob(f"models--a--{folder.name}/blobs/*")
    return (folder / "model.safetensors").stat().st_size in {blob.stat().st_size for blob in blobs}


def test_an_evening(hub, tmp_path, capsys, monkeypatch):
    # what is looked at costs no weight
    hub.gated["a/m1"] = 403
    assert run() == 1
    assert "rbp: toy/m1: model 'a/m1'" in capsys.readouterr().err and not hub.asked("safetensors")
    hub.gated.clear()
    assert run("--plan", "--family", "toy,toy") == 0 and not hub.asked("safetensors")
    plan = json.loads((hub.place / "results/paper/plan.json").read_text())["toy"]
    assert [row["tables_to_measure"] for row in plan["models"]] == [1, 1, 1]
    assert plan["total"]["download_bytes"] > 0
    commits = json.loads((hub.place / "results/paper.lock").read_text())
    assert commits["a/m0@main"] == hub.repos["models", "a/m0"]["main"].sha

    # a model that moves on the hub meanwhile, and one that fails
    hub.repos["models", "a/m0"]["before"] = hub.repos["models", "a/m0"]["main"]
    save_model(tmp_path / "moved", "gpt2", seed=9)
    hub.add("models", "a/m0", tmp_path / "moved")
    monkeypatch.setattr(subprocess, "run", in_this_process)
    assert run("--delete-weights") == 1
    said = capsys.readouterr()
    assert "toy/m1: measured" in said.out and "rbp: toy/bad: model 'a/bad'" in said.err
    tables, missing = family_tables("toy", "lines", partial=True)
    assert missing == ("bad",) and tables[0].record["revision"] == commits["a/m0@main"]
    assert not has_weights(hub, tmp_path / "m0") and not has_weights(hub, tmp_path / "m1")

    # the same command goes on with what lacks
    shutil.move(tmp_path / "weights", tmp_path / "bad/model.safetensors")
    commits["a/bad@main"] = hub.add("models", "a/bad", tmp_path / "bad")
    (hub.place / "results/paper.lock").write_text(json.dumps(commits))
    hub.log.clear()
    assert run() == 0
    assert [path for _, path, _ in hub.asked("safetensors", "HEAD") if "a/m" in path] == []
    assert has_weights(hub, tmp_path / "bad")  # whose weights nobody asked to delete
    with tarfile.open(hub.place / "results/paper.tar") as file:
        assert {"toy.ranks", "plan.json", "failed.json", "paper.lock"} == set(file.getnames())
        file.extract("toy.ranks", tmp_path, filter="data")
    take(tmp_path / "toy.ranks", "theirs")
    theirs, _ = family_tables("theirs", "lines")
    assert [len(t) for t in theirs] == [len(t) for t in family_tables("toy", "lines")[0]]
    assert len(theirs) == 3


def test_what_would_not_be_comparable_is_told_before_the_first_weight(hub, tmp_path):
    folder = tmp_path / "m1"
    words = json.loads((folder / "tokenizer.json").read_text())
    words["model"]["merges"] = words["model"]["merges"][:5]
    (folder / "tokenizer.json").write_text(json.dumps(words))
    (tmp_path / "root/families/toy.yml").write_text("context: 4000\nmodels: [a/m0, a/m1]\n")
    hub.add("models", "a/m1", folder)
    faults = evening.look([evening.load_family("toy")])
    assert "write 'context:" in faults["toy/m0"] and "cuts text otherwise" in faults["toy/m1"]
