"""Families written from models, and plans of what measuring one takes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from smallmodels import save_model

from rbplib import cli
from rbplib.devices import choose_device
from rbplib.families import InputError, load_family
from rbplib.family_file import write_family
from rbplib.model_sizes import family_sizes
from rbplib.plan import plan_family, plan_text
from rbplib.stored import read_ranks


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A root of one's own, with three models on disk."""
    for name in ("families", "corpora"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    for scale in (1, 2, 3):
        save_model(tmp_path / "data" / f"m{scale}", "gpt2", scale)
    (tmp_path / "text.md").write_text("one two three\n\n" * 400)
    return tmp_path


def test_family_of_folders(room):
    path = write_family("mine", [str(room / "data" / f"m{i}") for i in (3, 1, 2)])
    assert path == room / "families" / "mine.yml" and len(path.read_text().splitlines()) <= 6
    family = load_family("mine")
    assert [m.name for m in family.models] == ["m1", "m2", "m3"] and family.models[0].id == "data/m1"
    assert {m.context for m in family.models} == {64}
    rows = family_sizes(family)
    assert [r["nonembedding_params"] for r in rows] == [m.nonembedding_params for m in family.models]


def test_family_that_cannot_be(room):
    one = str(room / "data" / "m1")
    write_family("mine", [one])
    for name, ids, said in [
        ("mine", [one], "already"),
        ("../mine", [one], "not a usable name"),
        ("other", [one, one], "named twice"),
        ("other", ["/no/such/folder"], "no folder"),
        ("other", [str(room)], "config.json"),
    ]:
        with pytest.raises(InputError, match=said):
            write_family(name, ids)
    assert write_family("mine", [one], force=True)
    assert [p.name for p in (room / "families").iterdir()] == ["mine.yml"]


def test_a_family_that_could_not_be_read_again_is_not_written(room):
    shutil.copytree(room / "data" / "m1", room / "my model")
    write_family("mine", [str(room / "data" / "m2")])
    before = (room / "families" / "mine.yml").read_bytes()
    for ids in ([str(room / "my model")], [str(room / "data" / "m1"), f"{room}/data/../data/m1"]):
        for name in ("other", "mine"):
            with pytest.raises(InputError, match="not a usable name|again under another name|twice"):
                write_family(name, ids, force=True)
    assert [p.name for p in (room / "families").iterdir()] == ["mine.yml"]
    assert (room / "families" / "mine.yml").read_bytes() == before


def test_models_of_one_name(room):
    save_model(room / "more" / "m1", "gpt2", 2)
    write_family("mine", [str(room / "data" / "m1"), str(room / "more" / "m1")])
    assert [m.name for m in load_family("mine").models] == ["data-m1", "more-m1"]


def test_other_tokenizer_is_told(room):
    tokenizer = room / "data" / "m2" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"<end>"', '"<stop>"'))
    with pytest.warns(UserWarning, match="do not share one tokenizer"):
        write_family("mine", [str(room / "data" / "m1"), str(room / "data" / "m2")])


def test_new_then_measured_then_planned(room, capsys):
    """`rbp family new`, `plan`, `measure`, `plan`: the second plan has nothing left to do."""
    ids = [str(room / "data" / f"m{i}") for i in (1, 2)]
    assert cli.main(["family", "new", "mine", *ids]) == 0
    written = capsys.readouterr().out.strip()
    assert Path(written).is_file()
    ask = ["--family", written, "--corpus", str(room / "text.md")]
    assert cli.main(["plan", *ask, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [m["tables_to_measure"] for m in plan["models"]] == [1, 1] and plan["total"]["download_bytes"] == 0
    assert plan["total"]["seconds"] > 0 and plan["total"]["memory_bytes"] > 0
    assert cli.main(["measure", *ask, "--quiet"]) == 0
    tables = capsys.readouterr().out.split()
    assert len(tables) == 2 and all(Path(t).is_file() for t in tables)
    assert cli.main(["plan", *ask]) == 0
    assert capsys.readouterr().out.count("measured already") == 2
    assert cli.main(["plan", *ask, "--json", "--results", str(room / "elsewhere")]) == 0
    assert [m["tables_to_measure"] for m in json.loads(capsys.readouterr().out)["models"]] == [1, 1]


def test_a_plan_tells_what_a_measurement_takes(tmp_path, monkeypatch):
    """Tokens, disk (within 30%) and memory (20%) are, told by one process, what another then takes to measure."""
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))

    def rbp(*asked):
        child = subprocess.Popen([sys.executable, "-m", "rbplib", *asked], stdout=subprocess.PIPE, text=True)
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        return said, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    ask = ["--family", "nano-pythia", "--model", "1.9k", "--model", "6.6k", "--corpus", "licences"]
    plan = json.loads(rbp("plan", *ask, "--json")[0])
    tables, memory = rbp("measure", *ask, "--quiet")
    tokens = [read_ranks(path).record["read_tokens"] for path in tables.split()]
    assert [m["tokens"] for m in plan["models"]] == tokens
    disk = sum(os.path.getsize(path) for path in tables.split())
    assert plan["total"]["disk_bytes"] == pytest.approx(disk, rel=0.3)
    assert plan["total"]["memory_bytes"] == pytest.approx(memory, rel=0.2)


def test_plan_of_the_papers_models(monkeypatch, tmp_path):
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    monkeypatch.setattr("rbplib.hub.cached_snapshot", lambda *a, **k: None)
    plan = plan_family("pythia", models=["pythia-14m", "pythia-12b"], corpora=["humaneval", "auslegal"])
    small, large = plan["models"]
    assert large["total_params"] == 11_846_072_320 and large["download_bytes"] == 2 * large["total_params"]
    assert small["seconds"] < large["seconds"] and small["memory_bytes"] < large["memory_bytes"]
    tokens = {c["corpus"]: c["tokens"] for c in plan["corpora"]}
    assert tokens["auslegal"] == 1000 * 512 and tokens["humaneval"] < tokens["auslegal"] / 10
    assert "pythia-12b" in plan_text(plan) and "auslegal" in plan_text(plan)


def test_a_plan_for_an_unknown_device_names_the_gpus_it_knows(monkeypatch, tmp_path):
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    for asked, told in (("a999", "a100, h100, h200"), ("h10", "did you mean 'h100'")):
        with pytest.raises(InputError, match=told):
            plan_family("pythia", device=asked)
    with pytest.raises(InputError, match="choose one of cpu, cuda, mps, auto"):
        choose_device("h100")  # only a plan can do without the device
