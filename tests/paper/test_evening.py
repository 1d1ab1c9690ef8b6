"""The evening of the paper's models, on tiny ones of a stand-in hub: looked at, planned, measured,
exported; a failing one is reported, and the same command goes on."""

import io
import json
import subprocess
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
    root = write_root(tmp_path)
    (root / "families/toy.yml").write_text("context: 48\nmodels: [a/m0, a/m1, a/m2]\n")
    for name, value in {"ROOT": root, "RESULTS": root / "results", "LOCK": ""}.items():
        monkeypatch.setenv(f"RBP_{name}", str(value))
    with HubServer() as server:
        point_to(server.url, monkeypatch, root / "hf/hub")
        for name, value in {"HF_ENDPOINT": server.url, "HF_HOME": root / "hf"}.items():
            monkeypatch.setenv(name, str(value))
        (root / "models/m2/model.safetensors").rename(root / "weights")
        for name in ("m0", "m1", "m2"):
            server.add("models", f"a/{name}", root / "models" / name)
        yield server


def run(*options):
    return evening.main(["--family", "toy", "--corpus", "lines", "--device", "cpu", *options])


def in_this_process(command, **_):
    """`python -m rbplib ...` as the evening starts it, without the seconds that a start takes."""
    with redirect_stderr(io.StringIO()) as complaints:
        code = cli.main(command[3:])
    return SimpleNamespace(returncode=code, stderr=complaints.getvalue())


def test_an_evening(hub, tmp_path, capsys, monkeypatch):
    # what is looked at costs no weight
    results, repos = tmp_path / "results", hub.repos
    hub.gated["a/m1"] = 403
    assert run() == 1 and "rbp: toy/m1: model 'a/m1'" in capsys.readouterr().err
    hub.gated.clear()
    assert run("--plan", "--family", "toy,toy") == 0 and not hub.requests("safetensors")
    plan = json.loads((results / "paper/plan.json").read_text())["toy"]
    assert [row["tables_to_measure"] for row in plan["models"]] == [1, 1, 1]
    commits = json.loads((results / "paper.lock").read_text())
    assert commits["a/m0@main"] == repos["models", "a/m0"]["main"].sha

    # a model that moves on the hub meanwhile, and one that fails
    repos["models", "a/m0"]["before"] = repos["models", "a/m0"]["main"]
    save_model(tmp_path / "moved", seed=9)
    hub.add("models", "a/m0", tmp_path / "moved")
    monkeypatch.setattr(subprocess, "run", in_this_process)
    assert run("--delete-weights") == 1
    out, err = capsys.readouterr()
    assert "toy/m1: measured" in out and "rbp: toy/m2: model 'a/m2'" in err
    tables, missing = family_tables("toy", "lines", partial=True)
    assert missing == ("m2",) and tables[0].record["revision"] == commits["a/m0@main"]

    def cached(name):
        """Whether the hub's cache holds the weights of a model, which are its largest file."""
        blobs = tmp_path.glob(f"hf/hub/models--a--{name}/blobs/*")
        return any(blob.stat().st_size > 50_000 for blob in blobs)

    assert not cached("m0") and not cached("m1")

    # the same command goes on with what lacks
    (tmp_path / "weights").rename(tmp_path / "models/m2/model.safetensors")
    commits["a/m2@main"] = hub.add("models", "a/m2", tmp_path / "models/m2")
    (results / "paper.lock").write_text(json.dumps(commits))
    hub.log.clear()
    assert run() == 0
    assert {"a/m2" in path for _, path, _ in hub.requests("safetensors", "HEAD")} == {True}
    assert cached("m2")  # whose weights nobody wanted deleted
    with tarfile.open(results / "paper.tar") as file:
        assert {"toy.ranks", "plan.json", "failed.json", "paper.lock"} == set(file.getnames())
        file.extract("toy.ranks", tmp_path, filter="data")
    take(tmp_path / "toy.ranks", "theirs")
    ours, theirs = (family_tables(name, "lines")[0] for name in ("toy", "theirs"))
    assert [len(table) for table in theirs] == [len(table) for table in ours] and len(ours) == 3


def test_what_would_not_be_comparable_is_reported_before_the_first_weight(hub, tmp_path):
    path = tmp_path / "models/m1/tokenizer.json"
    words = json.loads(path.read_text())
    words["model"]["merges"] = words["model"]["merges"][:5]
    path.write_text(json.dumps(words))
    (tmp_path / "families/toy.yml").write_text("context: 4000\nmodels: [a/m0, a/m1]\n")
    hub.add("models", "a/m1", path.parent)
    faults = evening.look([evening.load_family("toy")])
    assert "write 'context:" in faults["toy/m0"] and "cuts text otherwise" in faults["toy/m1"]
