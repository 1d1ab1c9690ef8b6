"""Training on a GPU: the recipe's steps beside the processor's, recorded steps, and the large ladder in miniature."""

import copy
import json
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks import gpu_record
from benchmarks.counting import waits
from rbplib.exchange import read_counts
from rbplib.families import InputError
from tests.gpu.devices import alive, everywhere, large
from training import budget, carried, data, ladders, train
from training import large as ladder
from training.grid import CORPORA

PLAN = train.Plan(tokens=64 * 2 * ladders.CONTEXT, batch=2)


def ids_of(device, seed=0, batch=2):
    pick = torch.Generator().manual_seed(seed)
    return torch.randint(1, ladders.VOCABULARY, (batch, ladders.CONTEXT + 1), generator=pick).to(device)


@everywhere
def test_the_loss_of_a_step_is_cross_entropy(device):
    """The step's bf16 loss and gradients beside float32 ones of the same weights by transformers' own attention."""
    model, _ = train.prepare("nano-pythia", ladders.Size(2, 32, 2), PLAN, device)
    plain = copy.deepcopy(model).float()
    plain.set_attn_implementation("eager")
    ids, losses = ids_of(device), {}
    for name, net in (("bf16", model), ("float32", plain)):
        for p in net.parameters():
            p.grad = torch.zeros_like(p)
        if name == "bf16":
            loss = train.loss_of(net, ids)
        else:
            loss = torch.nn.functional.cross_entropy(net(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        losses[name] = loss.item()
    assert losses["bf16"] == pytest.approx(losses["float32"], abs=0.02)
    for (name, a), b in zip(model.named_parameters(), plain.parameters(), strict=True):
        size = b.grad.norm()
        assert (a.grad.float() - b.grad).norm() <= 0.15 * size + 1e-6, name


@everywhere
def test_recorded_steps_are_those_launched_one_by_one(device):
    """Losses of the first steps within AGREE; recording leaves neither weights nor moments behind. (On a processor
    nothing is recorded: steps after `put_back` are those from the start.)"""
    losses = {}
    for graph in (False, large(device)):
        model, master = train.prepare("nano-pythia", ladders.Size(2, 32, 2), PLAN, device)
        kept = copy.deepcopy(master.state())
        one = train.stepper(model, master, ids_of(device), graph)
        if not large(device):
            for i in range(3):
                one(ids_of(device, 50 + i), 1.0)
            master.put_back(kept)
        losses[graph, len(losses)] = [one(ids_of(device, i), PLAN.factor(i)).item() for i in range(8)]
    first, second = losses.values()
    assert np.abs(np.subtract(first, second)).max() <= (ladder.AGREE if large(device) else 0.0)
    assert first[0] != first[-1]


@everywhere
def test_a_step_waits_for_nothing(device):
    model, master = train.prepare("nano-pythia", ladders.Size(1, 12, 1), PLAN, device)
    one = train.stepper(model, master, None)
    one(ids_of(device), 0.5)
    assert waits(one, ids_of(device), 0.5) == 0
    stream = ladder.on_device(np.arange(2000, dtype=np.uint16), device)
    numbers = np.array([1, 0]) if device == "cpu" else torch.tensor([1, 0], device=device)
    assert waits(train.windows, stream, numbers) == 0
    assert train.windows(stream, numbers)[:, 0].tolist() == [ladders.CONTEXT, 0]


@everywhere
def test_training_on_a_device_is_the_processors(device, tmp_path):
    """The same recipe: means of two steps within 0.02 nats of a processor's, and a stopped run goes on as it was."""
    with np.load(data.root() / "training" / "first_tokens.npz") as held:
        stream = held["training"]
    plan, size = replace(PLAN, tokens=8 * 512, text=1024), ladders.Size(1, 16, 1)
    _, truth = train.train("nano-pythia", size, plan, stream, stream[-2049:], every=2)
    given = ladder.on_device(stream, device)
    options = {"checkpoint": tmp_path / "c.pt", "every": 2, "device": device}
    train.train("nano-pythia", size, plan, given, stop=4, **options)
    _, found = train.train("nano-pythia", size, plan, given, given[-2049:], **options)
    np.testing.assert_allclose(found["curve"], truth["curve"], atol=0.02 if large(device) else 0)
    assert found["heldout_loss"] == pytest.approx(truth["heldout_loss"], abs=0.02)
    assert found["steps"] == 8 and ("core" in found["hardware"]) == (device == "cpu")


@everywhere
def test_the_large_ladder_in_miniature(device, tmp_path):
    """Trained, looked at on the way, counted; what the clock stopped goes on; the counts file is believed."""
    out, recipe = tmp_path / "made", ladder.SMALL
    said = []
    assert ladder.run(recipe, out, 0.0, device, small=True, say=said.append) == ladder.INCOMPLETE  # there is no time
    plan = json.loads((tmp_path / "made.work" / "plan.json").read_text())
    assert plan["tokens"] < recipe.tokens and "of the 4,096 tokens planned" in said[0]
    assert ladder.run(recipe, out, 10.0, device, small=True, say=said.append, stop_after=1.0) == ladder.INCOMPLETE
    assert (
        json.loads((tmp_path / "made.work" / "plan.json").read_text())["tokens"] == 4096
    )  # of ten minutes, not of one
    assert len(json.loads((out / "ladder.json").read_text())["not_finished"]) == 4  # also where nothing was trained
    assert ladder.run(recipe, out, 10.0, device, small=True, say=said.append) == 0
    found = json.loads((out / "ladder.json").read_text())
    assert [(m["size"], m["seed"]) for m in found["models"]] == [(n, s) for n in ("1.9k", "6.6k") for s in (42, 43)]
    assert not found["not_finished"] and found["weights"] == ["1.9k", "6.6k"]
    for m in found["models"]:
        assert m["tokens"] == found["plan"]["tokens"] == 4096 and m["passes"] == 1.0 and len(m["curve"]) == 2
    record, tables = read_counts(out / "ladder.counts")
    again = ["1.9k", "1.9k-43", "6.6k", "6.6k-43"]
    assert record["models"] == {"family": ["1.9k", "6.6k"], "repeats": again}
    by_name = {t.record["model"]: t for t in tables["family", "first", "paper"]}
    with np.load(out / "ladder_checkpoints.npz") as marks:
        assert {key.split("/")[1] for key in marks} == {f"first.{s}.{w}" for s in (4, 8) for w in ("pairs", "loss")}
        for name, table in by_name.items():
            assert np.array_equal(marks[f"{name}-42/first.8.pairs"], table.pairs)
            assert marks[f"{name}-42/first.8.loss"] == pytest.approx(table.nll.sum() / len(table))
    before = (out / "ladder.counts").stat().st_size
    assert ladder.run(recipe, out, 10.0, device, small=True, say=said.append) == 0  # nothing is trained again
    assert (out / "ladder.counts").stat().st_size == before
    place = tmp_path / "made.work" / "4096"
    for name in ("1.9k-42.counts.npz", "1.9k-43.json", "6.6k-43.safetensors", "6.6k-42.8.npz"):
        (place / name).write_bytes((place / name).read_bytes()[:100])
    for name in ("1.9k-42.pt", "../plan.json", "../1.9k.probe"):
        (place / name).write_bytes(b"PK torn")
    assert ladder.run(recipe, out, 10.0, device, small=True, say=said.append) == 0  # each costs its own model
    healed = json.loads((out / "ladder.json").read_text())
    assert [m["curve"] for m in healed["models"]] == [m["curve"] for m in found["models"]] and not healed[
        "not_finished"
    ]
    assert healed["unreadable"] == ["6.6k-42.8.npz"]
    assert sum(p.stat().st_size for p in out.iterdir()) < 5e6 and len(list(out.iterdir())) == 4


def test_a_ladder_stopped_by_the_clock_goes_on(tmp_path):
    text, recipe = carried.small_text(), replace(ladder.SMALL, marks=())
    said = {"tokens": recipe.tokens, "graphs": False, "seeds": 1}
    ladder.work_of(tmp_path / "a").mkdir()
    assert not ladder.one(recipe, text, "1.9k", 42, tmp_path / "a", until=0.0, said=said)
    assert ladder.one(recipe, text, "1.9k", 42, tmp_path / "a", said=said)
    ladder.work_of(tmp_path / "b").mkdir()
    assert ladder.one(recipe, text, "1.9k", 42, tmp_path / "b", said=said)
    a, b = (json.loads((tmp_path / f"{x}.work" / "4096" / "1.9k-42.json").read_text()) for x in "ab")
    assert a["curve"] == b["curve"] and a["tables"]["first"]["sha256"] == b["tables"]["first"]["sha256"]


def test_the_recipe_is_as_large_as_it_says():
    recipe = ladder.Recipe()
    sizes, jobs = recipe.sizes(), recipe.jobs(recipe.sizes())
    with torch.device("meta"):
        counted = [ladders.nonembedding_parameters(ladders.build(ladder.FAMILY, size)) for size in sizes.values()]
    assert np.log10(counted[-1] / counted[0]) > 3.5 and 9e6 < counted[-1] < 11e6
    assert recipe.tokens >= 200e6 and len(jobs) == len(set(jobs)) == 9 + 4
    again = [name for name, seed in jobs if seed != ladders.SEED]
    assert len(set(again)) == 2 and all(again.count(n) == 2 for n in again) and jobs[0][0] == list(sizes)[-1]
    plan = train.Plan(8 * 512, 2, text=3 * ladders.CONTEXT)
    assert np.bincount(plan.order()).tolist() == [6, 5, 5] or set(np.bincount(plan.order())) == {5, 6}
    assert str(plan) != str(replace(plan, text=None)) and "text" not in str(train.Plan())


def test_the_files_of_the_whole_ladder_are_within_their_limits():
    """Before anything is compressed, by the real shapes: of arrays by the published counts of the same family and text,
    where the largest of each kind is taken, half as much again where it grows with a model's success."""
    recipe, most, path = ladder.Recipe(), {}, data.root() / "published" / "ranks" / "nano-pythia-4m.counts"
    if not path.is_file():
        pytest.skip("the published counts are not here")
    with zipfile.ZipFile(path) as held:
        published, sizes = json.loads(held.read("record.json")), {i.filename[:-4]: i.file_size for i in held.infolist()}
    assert {t["record"]["corpus"] for t in published["tables"]} == set(CORPORA)
    for name, digest in ((n, d) for t in published["tables"] for n, d in t["arrays"].items()):
        most[name] = max(most.get(name, 0), sizes[digest])
    jobs, table = recipe.jobs(recipe.sizes()), sum(n for name, n in most.items() if name != "sourced")
    counts = len(jobs) * len(CORPORA) * 1.5 * table + 2 * len(CORPORA) * most["sourced"] + sizes["record."]
    pairs = 3 * 4 * ladders.VOCABULARY + 1000  # a column for each number of candidates above, and two headers
    checkpoints = len(jobs) * (len(recipe.marks) + 1) * len(CORPORA) * pairs
    assert most["pairs"] < pairs
    curves = len(jobs) * recipe.plan(SimpleNamespace(stream=range(2))).steps / recipe.every * 60
    files = [counts, checkpoints, ladder.MOST_BYTES + 200_000, curves + 200_000]  # weights with the names of tensors
    assert max(files) < gpu_record.MOST_EACH, files
    assert sum(files) + 5e6 < gpu_record.MOST_BYTES  # what tests and benchmark leave is text


def test_the_plan_fits_the_time_or_says_what_it_leaves_out():
    recipe = ladder.Recipe()
    names = list(recipe.sizes())

    def timed(eager, graph=None):
        return {n: {"eager": eager * (i + 1), "graph": graph and graph * (i + 1)} for i, n in enumerate(names)}

    whole = budget.settle(recipe, timed(0.004), 850)
    assert whole["tokens"] == recipe.tokens and whole["sizes"] == names and not whole["graphs"]
    fewer = budget.settle(recipe, timed(0.015), 850)
    assert recipe.tokens / 2 <= fewer["tokens"] < recipe.tokens and fewer["sizes"] == names
    assert fewer["expected_seconds"] <= 850 and "tokens planned" in " ".join(fewer["words"])
    cut = budget.settle(recipe, timed(0.1), 850)
    assert cut["sizes"] == names[: len(cut["sizes"])] != names and f"{names[-1]} is left out" in cut["words"][0]
    faster = budget.settle(recipe, timed(0.015, 0.004), 850)
    assert faster["graphs"] and faster["tokens"] == recipe.tokens
    mixed = timed(0.015, 0.004)
    mixed[names[0]]["graph"] = "operation not permitted when stream is capturing"
    assert not budget.settle(recipe, mixed, 850)["graphs"]
    lost = timed(0.004)
    del lost[names[3]]
    assert names[3] not in budget.settle(recipe, lost, 850)["sizes"]
    with pytest.raises(InputError, match="no size"):
        budget.settle(recipe, {}, 850)


def test_repeats_go_first_then_tokens_then_the_largest():
    recipe = ladder.Recipe()
    names = list(recipe.sizes())
    timed = {n: {"eager": 0.004 * (i + 1)} for i, n in enumerate(names)}
    whole = budget.settle(recipe, timed, 1e6)["expected_seconds"]
    seen = [budget.settle(recipe, timed, whole * part) for part in (1.0, 0.9, 0.75, 0.6, 0.45, 0.2)]
    shape = [(len(p["sizes"]), p["seeds"], round(p["tokens"] / recipe.tokens, 1)) for p in seen]
    assert shape[0] == (9, 3, 1.0) and shape[1] == (9, 2, 1.0), shape
    assert [s[0] for s in shape[:5]] == [9] * 5 and shape[4][1] == 1 and shape[5][0] < 9, shape
    assert shape == sorted(shape, reverse=True) and all(p["seeds"] == 1 for p in seen if p["tokens"] < recipe.tokens)
    for p, part in zip(seen, (1.0, 0.9, 0.75, 0.6, 0.45, 0.2), strict=True):
        assert p["expected_seconds"] <= whole * part + 0.1 and len(recipe.jobs(p["sizes"], p["seeds"])) <= 13
    looked = budget.settle(recipe, {n: t | {"look": 2.0} for n, t in timed.items()}, 1e6)["expected_seconds"]
    assert looked - whole == pytest.approx(13 * 2.0 * (len(recipe.marks) + 1) / recipe.workers, abs=0.2)


def test_one_model_at_once_where_several_gain_nothing():
    """On a device that does one thing at a time, four at once take four times as long and save the starts alone; where
    changing between them costs as much again, or all four fit, the other way is taken."""
    recipe = ladder.Recipe()
    names = list(recipe.sizes())
    for slower, workers in ((1.0, 4), (2.0, 4), (4.0, 4), (8.0, 1)):
        timed = {n: {"eager": 0.001 * slower * (i + 1), "look": 1.0 * slower} for i, n in enumerate(names)}
        alone = {names[5]: {"eager": 0.001 * 6, "look": 1.0}}
        plan = budget.faster_way(recipe, timed, alone, 850)
        assert plan["workers"] == workers and ("one after" in plan["words"][-1]) == (workers == 1)
        assert plan["sizes"] == names and plan["tokens"] == recipe.tokens and len(plan["expected_seconds_of_ways"]) == 2
    jobs, steps = recipe.jobs(names), recipe.tokens // (recipe.batch * ladders.CONTEXT)
    whole = sum(0.001 * (names.index(n) + 1) * steps + 5 for n, _ in jobs) + budget.START * len(jobs)
    assert plan["expected_seconds"] == plan["expected_seconds_of_ways"][1] == pytest.approx(whole, abs=0.1)
    assert budget.faster_way(recipe, timed, {}, 850)["workers"] == 4  # where none could be timed alone
    graph, no = {"eager": 0.4, "graph": 0.2}, {"eager": 0.8, "graph": "its losses differ"}
    alone = {"eager": 0.1, "graph": 0.1}
    slower = {"eager": 0.2, "graph": no["graph"]}
    assert budget.as_alone({"a": graph, "b": no}, "a", alone) == {"a": alone, "b": slower}
    assert budget.as_alone({"a": graph, "b": no}, "b", alone | {"graph": "no"})["a"] == {"eager": 0.05, "graph": 0.2}


def test_more_time_makes_a_new_plan_and_less_takes_nothing_away():
    recipe = ladder.Recipe()
    timed = {n: {"eager": 0.01} for n in recipe.sizes()}
    small, large = (budget.settle(recipe, timed, seconds) for seconds in (150, 850))
    assert small["tokens"] < large["tokens"] == recipe.tokens
    assert budget.renewed(small, large) is large and budget.renewed(large, small) is large
    little = budget.settle(recipe, timed, 155, small["tokens"])
    assert little["tokens"] == small["tokens"] and budget.renewed(small, little) is small
    assert f"{small['tokens']:,} of the" in " ".join(little["words"])
    assert "none of it twice" in ladder.note_of(4096, 4096) and "about 2.5 times" in ladder.note_of(250, 100)


def test_processes_are_begun_told_and_not_begun_after_the_clock(tmp_path, monkeypatch, capsys):
    stub = tmp_path / "python"
    stub.write_text('#!/bin/sh\necho "$@"; [ "$4" != bad ] || { echo "first" >&2; echo "it is bad" >&2; exit 3; }\n')
    stub.chmod(0o755)
    monkeypatch.setattr(ladder.sys, "executable", str(stub))
    ended = []
    commands = [("one", name, "--seed", "7") for name in ("a", "bad", "c")]
    assert ladder.in_processes(2, commands, ["--small"], lambda: ended.append(1)) == {commands[1]: "it is bad"}
    said = capsys.readouterr().out
    assert len(ended) == 3 and "-m training.large one c --seed 7 --small\n" in said and "one bad: it is bad\n" in said
    assert ladder.in_processes(2, commands, [], lambda: ended.append(1), until=time.time()) == {}
    assert len(ended) == 3 and not capsys.readouterr().out

    def torn():
        raise ValueError("a torn file")

    assert list(ladder.in_processes(2, commands, [], torn)) == [commands[1]]
    assert capsys.readouterr().out.count("not gathered: ValueError: a torn file") == 3


def test_a_ladder_of_several_processes_is_that_of_one(tmp_path, monkeypatch):
    """What the processes do is done here, one after the other: their command lines and what they leave are real."""
    lock, lines = threading.Lock(), []

    def start(line, **about):
        with lock:
            lines.append(line[3:])
            assert about["preexec_fn"].__qualname__.startswith("with_parent.")
            assert ladder.main(line[3:]) == 0
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    few = replace(ladder.SMALL, tokens=2 * 512, seeds=(42,), every=1)  # two steps
    monkeypatch.setattr(ladder, "SMALL", few)
    monkeypatch.setattr(ladder, "probe", lambda *a, probe=ladder.probe, **more: probe(*a, seconds=0.01, steps=1))
    monkeypatch.setattr(ladder, "subprocess", SimpleNamespace(run=start))
    (tmp_path / "a.work" / "1024").mkdir(parents=True)
    (tmp_path / "a.work" / "1024" / "1.9k-42.7.npz").write_bytes(b"PK torn")
    monkeypatch.setattr(budget, "START", 0)
    assert ladder.run(replace(few, workers=2), tmp_path / "a", 10.0, "cpu", small=True, say=str) == 0
    assert [line[0] for line in lines] == ["probe"] * 3 + ["one"] * 2 and all("--until" in line for line in lines[3:])
    assert lines[2][:3] == ["probe", "1.9k", "--alone"] and (tmp_path / "a.work" / "1.9k.alone").is_file()
    assert ladder.run(few, tmp_path / "b", 10.0, "cpu", small=True, say=str) == 0
    (_, a), (_, b) = (read_counts(tmp_path / x / "ladder.counts") for x in "ab")
    for mine, other in zip(a["family", "first", "paper"], b["family", "first", "paper"], strict=True):
        assert mine.record["sha256"] == other.record["sha256"]
    found = json.loads((tmp_path / "a" / "ladder.json").read_text())
    assert found["unreadable"] == ["1.9k-42.7.npz"] and "none of it twice" in found["note"]
    with np.load(tmp_path / "a" / "ladder_checkpoints.npz") as marks:
        assert {key.split("/")[0] for key in marks} == {"1.9k-42", "6.6k-42"}
    assert ladder.main(["one", "1.9k", "--seed", "9", "--small", "--out", str(tmp_path / "a"), "--until", "1"]) == 0
    assert not list((tmp_path / "a.work" / "1024").glob("1.9k-9*"))  # its time was over before it began
    for given in (["--text", "x"], ["--out", str(tmp_path / "a" / "ladder.json" / "in")]):
        with pytest.raises(InputError, match="leave --text out|cannot be written there"):
            ladder.main(["run", "--small", *given])
    with pytest.raises(InputError, match="another recipe or another text"):
        ladder.run(replace(few, batch=1), tmp_path / "a", 10.0, "cpu", small=True)


HELD = """
import sys, time
from pathlib import Path
from rbplib.inputs import one_at_a_time
with one_at_a_time(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of files stands for a full disk")
def test_a_full_disk_is_told_in_one_sentence(tmp_path):
    import resource

    path, limits = tmp_path / "a.pt", resource.getrlimit(resource.RLIMIT_FSIZE)
    path.write_text("the checkpoint before")
    master = SimpleNamespace(state=lambda: torch.zeros(1 << 18))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(InputError) as told:
            train._save(path, None, master, 0, [], 0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    why = "File too large): free space or fix permissions, then run again."
    assert str(told.value) == f"{path} could not be written ({why}"
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"] and path.read_text() == "the checkpoint before"


def test_two_ladders_do_not_write_the_same_files(tmp_path):
    (tmp_path / "a.work").mkdir()
    command = [sys.executable, "-c", HELD, str(tmp_path / "a.work" / "plan.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another process trains the ladder of .*: wait until it ends, or name"):
            ladder.run(ladder.SMALL, tmp_path / "a", 10.0, "cpu", small=True, say=str)
        other.kill()


PARENT = """
import subprocess, sys, time
from training.children import with_parent
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], preexec_fn=with_parent())
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own signal is Linux's")
def test_a_process_ends_with_the_one_that_started_it_though_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    until = time.time() + 20
    while alive(child) and time.time() < until:
        time.sleep(0.05)
    assert not alive(child)


def test_steps_that_cannot_be_recorded_cost_nothing_else(monkeypatch):
    """The look is had before anything is recorded, and what is known is kept before; training goes on without."""
    text, kept, order = carried.small_text(), [], []

    def timed(recipe, text, name, device, graph, *more):
        order.append(graph)
        if graph:
            raise AssertionError("operation not permitted when stream is capturing")
        return "a model", 0.01, [1.0]

    monkeypatch.setattr(ladder, "timed_steps", timed)
    monkeypatch.setattr(ladder, "rank_tables", lambda model, *a: order.append(model))
    monkeypatch.setattr(ladder, "on_device", lambda *a: None)
    monkeypatch.setattr(ladder.train, "heldout_loss", lambda *a: None)
    found = ladder.probe(ladder.SMALL, text, "1.9k", "cuda", keep=kept.append)
    assert order == [False, "a model", True] and found["eager"] == kept[0]["eager"] == 0.01 and "look" in kept[0]
    assert "not permitted" in found["graph"] and isinstance(kept[0]["graph"], str)
    monkeypatch.undo()
    if not torch.cuda.is_available():  # where there is no device, recording fails at its first call
        plan, size = replace(PLAN, tokens=4 * 512), ladders.Size(1, 16, 1)
        records = [train.train("nano-pythia", size, plan, text.stream, every=2, graph=g)[1] for g in (True, False)]
        assert records[0].pop("not_recorded") and records[0]["curve"] == records[1]["curve"]


def test_token_ids_travel_as_they_are(tmp_path, monkeypatch):
    ids = [np.array([5, 6, 7]), np.array([4095]), np.array([], np.int64), np.array([9] * 256)]
    windows = carried.make_windows(ids, (0,), ladders.CONTEXT)
    about = carried.fragment("docs", windows, ["a", "b", "c", "d"], special=[0])
    monkeypatch.setattr(data, "streams", lambda: (np.arange(600, dtype=np.uint16), np.arange(300, dtype=np.uint16)))
    monkeypatch.setattr(carried, "evaluation_text", lambda: {"docs": (about, ids)})
    assert carried.carry(tmp_path / "ids.npz") == (tmp_path / "ids.npz").stat().st_size
    text = carried.read_text(tmp_path / "ids.npz")
    assert np.array_equal(text.stream, np.arange(600)) and text.stream.dtype == np.uint16
    record, found = text.evaluation["docs"]
    assert record == json.loads(json.dumps(about)) and len(found.windows) == len(windows.windows) == 2
    pairs = zip(found.windows, windows.windows, strict=True)
    assert all(np.array_equal(a.ids, b.ids) and a[1:] == b[1:] for a, b in pairs)
    with pytest.raises(InputError, match="no token ids in .*: write them with .python -m training.large carry"):
        carried.read_text(tmp_path / "none.npz")
