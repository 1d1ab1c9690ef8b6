"""The session with a GPU: rehearsed whole with nothing but what a bare machine has, and what befalls its steps."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import counting, gpu, gpu_record, gpu_session, heads, report
from rbplib import ranks as engine
from rbplib.exchange import read_counts
from rbplib.families import InputError
from rbplib.ranks import head_ranks
from tests.gpu.devices import alive
from training import budget, carried
from training import large as ladder

ROOT = Path(__file__).resolve().parents[2]
ABSENT = ("pandas", "pyarrow", "datasets", "matplotlib", "scipy", "statsmodels", "psutil", "accelerate")
FORBID = f"""
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def find_spec(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in {ABSENT} else find(name, path, target)
PathFinder.find_spec = classmethod(find_spec)
"""


@pytest.fixture
def bare(tmp_path):
    """Environment of processes that find none of ABSENT, nor do those that they start: no finder knows them."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(FORBID)
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RBP_", "PYTEST_"))}
    return own | {"PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}


def test_the_whole_session_is_rehearsed_on_a_bare_machine(bare, tmp_path):
    assert subprocess.run([sys.executable, "-c", "import pandas"], env=bare, capture_output=True).returncode == 1
    out = tmp_path / "results"
    command = [sys.executable, "-m", "benchmarks.gpu_session", "--small", "--out", str(out)]
    of_models = (
        "tests/gpu/test_gpu_models.py::test_half_precision_models_are_ranked_in_float32"  # engine, heads, loading
    )
    command += ["--tests", f"tests/gpu/test_gpu_ranks.py::test_nan_is_refused_with_its_position {of_models}"]
    done = subprocess.run(command, env=bare, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    files = {p.name for p in out.iterdir()}
    assert files == {
        "session.json", "tests.json", "gpu.json", "gpu_profile.txt",
        "ladder.json", "ladder.counts", "ladder_checkpoints.npz", "ladder_weights.safetensors",
    }  # fmt: skip
    assert len(files) <= gpu_record.MOST_FILES and sum(p.stat().st_size for p in out.iterdir()) < 5e6
    said = json.loads((out / "session.json").read_text())
    assert said["status"] == 0 and list(said["steps"]) == list(gpu_record.FAILED)
    assert "no result" in said["machine"]["device"] or torch.cuda.is_available()
    tests = json.loads((out / "tests.json").read_text())
    assert tests["passed"] == len(tests["tests"]) == 3 and tests["skipped"] == 0
    found = json.loads((out / "gpu.json").read_text())
    assert all("failed" not in way for about in found["heads"].values() for way in about["ways"].values())
    assert all(way.get("moved", 0) == 0 for about in found["heads"].values() for way in about["ways"].values())
    assert all(len(about["cases"]) == len(gpu.SMALL_BATCHES) for about in found["shapes"].values())
    assert found["began"] == said["steps"]["benchmark"]["began"]
    assert found["heads"]["wide"]["ways"]["the engine"]["passes"] is None and "| not counted |" in found["table"]
    assert "Self CPU" in (out / "gpu_profile.txt").read_text()
    read_counts(out / "ladder.counts")


STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("begun", flush=True)
subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"])
time.sleep(60)
"""


def test_a_step_that_fails_or_hangs_leaves_the_others(tmp_path, monkeypatch, capsys):
    made = tmp_path / "made"
    fine = f"open({str(made)!r}, 'w').write('x'); print('fine')"
    steps = {"tests": "import sys; sys.exit(3)", "benchmark": STUBBORN, "ladder": fine}
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {n: [sys.executable, "-c", c] for n, c in steps.items()})
    monkeypatch.setattr(gpu_session, "GRACE", 0.3)
    monkeypatch.setattr(gpu_session, "SHARES", {"tests": 0.5, "benchmark": 0.01, "ladder": 0.5})
    assert gpu_session.session(tmp_path / "out", True, 4.0, list(steps)) == 30
    said = json.loads((tmp_path / "out" / "session.json").read_text())
    assert [step["status"] for step in said["steps"].values()] == [3, -9, 0] and said["status"] == 30
    assert [step["stopped_by_the_clock"] for step in said["steps"].values()] == [False, True, False]
    assert said["steps"]["benchmark"]["output"] == ["begun"] and said["steps"]["benchmark"]["seconds"] < 30
    assert made.is_file() and "benchmark: stopped by the clock" in capsys.readouterr().out


SLOW = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({pids!r}).write_text(str(child.pid))
print("begun", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_session_that_is_asked_to_end_leaves_nothing_running_and_tells_what_was_done(tmp_path, monkeypatch, number):
    pids, out, before = tmp_path / "pids", tmp_path / "out", signal.getsignal(number)
    steps = {"tests": "print('fine')", "benchmark": SLOW.format(pids=str(pids)), "ladder": "print('never')"}
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {n: [sys.executable, "-c", c] for n, c in steps.items()})
    monkeypatch.setattr(gpu_session, "GRACE", 5)

    def ask():
        while not (pids.is_file() and pids.read_text()):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    signal.signal(number, signal.default_int_handler)  # whatever this process was started with
    thread = threading.Thread(target=ask)
    try:
        thread.start()
        status = gpu_session.session(out, True, 4.0, list(steps))
    finally:
        thread.join()
        signal.signal(number, before)
    said = json.loads((out / "session.json").read_text())
    assert status == 128 + number and said["stopped_by"] == number.name and said["not_run"] == ["ladder"]
    assert said["steps"]["tests"]["status"] == 0 and list(said["steps"]) == ["tests", "benchmark"]
    assert said["steps"]["benchmark"]["stopped_by"] == number.name and said["steps"]["benchmark"]["output"] == ["begun"]
    assert not said["steps"]["benchmark"]["stopped_by_the_clock"] and not alive(int(pids.read_text()))


def test_a_later_call_keeps_the_record_of_an_earlier_one(tmp_path, monkeypatch, capsys):
    steps = {"tests": "import sys; sys.exit(3)", "ladder": "print('fine')"}
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {n: [sys.executable, "-c", c] for n, c in steps.items()})
    assert gpu_session.session(tmp_path, True, 1.0, ["tests"]) == 10
    assert gpu_session.session(tmp_path, True, 1.0, ["ladder"]) == 0
    said = json.loads((tmp_path / "session.json").read_text())
    assert {n: s["status"] for n, s in said["steps"].items()} == {"tests": 3, "ladder": 0} and said["status"] == 10
    monkeypatch.setattr(gpu_session, "run_step", lambda *a: pytest.fail("it was begun after its time"))
    assert gpu_session.session(tmp_path, True, 0.0, ["tests", "ladder"]) == 50
    assert json.loads((tmp_path / "session.json").read_text()) == said | {
        "minutes": 0.0,
        "not_run": ["tests", "ladder"],
    }
    assert "not run, for want of time: tests, ladder" in capsys.readouterr().out
    (tmp_path / "session.json").write_text(json.dumps(said | {"small": False}))
    assert gpu_session.main(["--small", "--out", str(tmp_path)]) == 2
    assert "holds a session on a GPU, and this is a rehearsal" in capsys.readouterr().err
    (tmp_path / "session.json").write_text("{")
    assert gpu_session.main(["--small", "--out", str(tmp_path)]) == 2
    assert "is not the record of a session" in capsys.readouterr().err


KILLED = """
import sys
from pathlib import Path
from benchmarks import gpu_session
steps = {"tests": "print('fine')", "benchmark": Path(sys.argv[2]).read_text()}
gpu_session.commands = lambda *a: {n: [sys.executable, "-c", c] for n, c in steps.items()}
gpu_session.session(Path(sys.argv[1]), True, 4.0, list(steps))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own signal is Linux's")
def test_a_session_that_is_killed_leaves_no_step_running_and_the_next_one_tells_it(tmp_path, monkeypatch, capsys):
    out, step = tmp_path / "out", tmp_path / "step.py"
    begun = "import os, pathlib, time; p = pathlib.Path({!r}); p.with_suffix('.t').write_text(str(os.getpid()));"
    step.write_text(begun.format(str(tmp_path / "pid")) + " p.with_suffix('.t').rename(p); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", KILLED, str(out), str(step)], cwd=ROOT) as killed:
        while not (tmp_path / "pid").is_file():
            assert killed.poll() is None
            time.sleep(0.02)
        assert gpu_session.main(["--small", "--only", "ladder", "--out", str(out)]) == 2
        assert "another session is at work on" in capsys.readouterr().err
        killed.kill()
    until, pid = time.time() + 20, int((tmp_path / "pid").read_text())
    while alive(pid) and time.time() < until:
        time.sleep(0.05)
    assert not alive(pid)
    (out / gpu_record.OUTCOMES).write_text('{"collected": 2}\n{"begun": "a"}\n')  # as if it had been the tests
    said = json.loads((out / "session.json").read_text())
    assert said["running"] == "benchmark"
    (out / "session.json").write_text(json.dumps(said | {"running": "tests"}))
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {"ladder": [sys.executable, "-c", "print('fine')"]})
    assert gpu_session.session(out, True, 1.0, ["ladder"]) == 0
    told = capsys.readouterr().out.splitlines()[0]
    assert told.startswith("tests: began at 20") and told.endswith("disk full); what it had written is kept"), told
    steps = json.loads((out / "session.json").read_text())["steps"]
    assert steps["tests"]["no_end"] and steps["tests"]["status"] and steps["tests"]["began"] == said["began"]
    assert steps["tests"]["tests"]["not_ended"] == ["a"] and "tests" not in steps["tests"]["tests"]
    assert steps["ladder"]["status"] == 0 and not (out / gpu_record.OUTCOMES).exists()


def test_what_an_earlier_call_left_is_not_taken_for_new_and_results_are_copied(tmp_path, monkeypatch):
    """A step that is run again and leaves nothing has nothing in the folder, nor in the copy; the others' stay."""
    out, copy = tmp_path / "out", tmp_path / "copy"
    copy.mkdir()
    writes = "import pathlib; pathlib.Path({!r}).write_text('{{}}')"
    steps = {"benchmark": writes.format(str(out / "gpu.json")), "ladder": writes.format(str(out / "ladder.counts"))}
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {n: [sys.executable, "-c", c] for n, c in steps.items()})
    assert gpu_session.session(out, True, 1.0, list(steps), copy=copy) == 0
    assert {p.name for p in copy.iterdir()} == {"gpu.json", "ladder.counts", "session.json"}
    steps["benchmark"] = "import sys; sys.exit(1)"
    assert gpu_session.session(out, True, 1.0, ["benchmark"], copy=copy) == 20
    for folder in (out, copy):
        assert {p.name for p in folder.iterdir()} == {"ladder.counts", "session.json"}
    assert (tmp_path / "out.before-gpu.json").is_file()
    said = json.loads((copy / "session.json").read_text())
    assert {n: (s["status"], s["machine"] == said["machine"]) for n, s in said["steps"].items()} == {
        "benchmark": (1, True), "ladder": (0, True),
    }  # fmt: skip


def test_a_copy_that_cannot_be_made_is_said_at_the_end(tmp_path, monkeypatch, capsys):
    out, copy = tmp_path / "out", tmp_path / "copy"
    copy.mkdir()
    gone = f"import pathlib; pathlib.Path({str(copy)!r}).rename({str(tmp_path / 'moved')!r}); "
    gone += f"pathlib.Path({str(copy)!r}).write_text('a file')"
    steps = {"tests": "print('fine')", "benchmark": gone, "ladder": "import sys; sys.exit(75)"}
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {n: [sys.executable, "-c", c] for n, c in steps.items()})
    assert gpu_session.session(out, True, 1.0, list(steps), copy=copy) == 41
    said = capsys.readouterr().out
    assert said.count(f"--copy-to {copy}: not all results of {out} could be copied there") == 1
    assert set(json.loads((out / "session.json").read_text())["steps"]) == set(steps)


def test_results_carry_the_start_of_their_step(tmp_path, monkeypatch):
    asks = f"import os, pathlib; pathlib.Path({str(tmp_path / 'began')!r}).write_text(os.environ['GPU_SESSION_BEGAN'])"
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {"benchmark": [sys.executable, "-c", asks]})
    assert gpu_session.session(tmp_path / "out", True, 1.0, ["benchmark"]) == 0
    told = json.loads((tmp_path / "out" / "session.json").read_text())["steps"]["benchmark"]["began"]
    assert float((tmp_path / "began").read_text()) == told and abs(told - time.time()) < 60


def test_a_call_ends_after_its_seconds_and_the_ladder_keeps_its_plan(tmp_path, monkeypatch):
    made, real = [], gpu_session.commands

    def commands(*given):
        made.append(real(*given))
        return dict.fromkeys(made[-1], [sys.executable, "-c", "import time; time.sleep(0.3)"])

    def number(command, option):
        return float(command[command.index(option) + 1])

    monkeypatch.setattr(gpu_session, "commands", commands)
    assert gpu_session.session(tmp_path / "a", True, 15.0, ["ladder"], stop_after=560.0) == 0
    assert gpu_session.session(tmp_path / "a", True, 15.0, ["ladder"], stop_after=100.0) == 0
    assert [number(m["ladder"], "--minutes") for m in made] == [14.5, 14.5]
    assert number(made[0]["ladder"], "--stop-after") == pytest.approx(530, abs=3)
    assert number(made[1]["ladder"], "--stop-after") == pytest.approx(70, abs=3)
    assert gpu_session.session(tmp_path / "b", True, 25.0, ["tests", "benchmark"], stop_after=0.2) == 30  # of the clock
    steps = json.loads((tmp_path / "b" / "session.json").read_text())
    assert steps["steps"]["tests"]["stopped_by_the_clock"] and steps["steps"]["tests"]["seconds"] < 30


def test_a_disk_that_fills_up_loses_no_status(tmp_path, monkeypatch, capsys):
    """It is printed, the exit status says so, and the next call tells a step without an end."""
    real, out = gpu_record.write_text, tmp_path / "out"

    def fills(path, text):
        if '"running"' not in text:
            raise InputError("there is no room")
        real(path, text)

    monkeypatch.setattr(gpu_session, "commands", lambda *a: {"ladder": [sys.executable, "-c", "print('fine')"]})
    monkeypatch.setattr(gpu_record, "write_text", fills)
    assert gpu_session.session(out, True, 1.0, ["ladder"]) == gpu_session.NOT_WRITTEN
    said = capsys.readouterr().out
    assert said.count("session.json is not up to date: there is no room") == 1
    printed = json.loads(said.splitlines()[-1].removeprefix("there is no room It would say: "))
    assert printed["steps"]["ladder"]["status"] == 0 and "output" not in printed["steps"]["ladder"]
    assert gpu_record.earlier(out, True)["ladder"]["no_end"]
    monkeypatch.undo()
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {"ladder": [sys.executable, "-c", "print('fine')"]})
    assert gpu_session.session(out, True, 1.0, ["ladder"]) == 0 and not gpu_record.recorded(out / "session.json")[0][
        "ladder"
    ].get("no_end")


def test_a_full_disk_ends_no_session(tmp_path, monkeypatch, capsys):
    def full(*a):
        raise InputError("there is no room")

    steps = {"tests": "print('fine')", "ladder": "print('fine')"}
    monkeypatch.setattr(gpu_session, "commands", lambda *a: {n: [sys.executable, "-c", c] for n, c in steps.items()})
    monkeypatch.setattr(gpu_record, "write_text", full)
    monkeypatch.setattr(gpu_record, "told_tests", full)
    assert gpu_session.session(tmp_path / "out", True, 1.0, list(steps)) == gpu_session.NOT_WRITTEN
    said = capsys.readouterr().out
    assert said.count("session.json is not up to date: there is no room") == 1 and "ladder: done" in said
    assert "tests: its results are not whole: there is no room" in said and '"status": 0' in said.splitlines()[-1]


TESTS = """
import time, pytest
def test_one(): pass
def test_two(): assert 1 == 2
@pytest.mark.skip(reason="no such device")
def test_three(): pass
@pytest.fixture
def torn(): raise RuntimeError("no fixture")
def test_four(torn): pass
def test_five(): time.sleep(60)
def test_six(): pass
"""


def test_tests_that_the_clock_stops_leave_what_they_had(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "benchmarks.outcomes"]
    command += ["--outcomes", str(tmp_path / gpu_record.OUTCOMES), "-c", os.devnull, "--rootdir", str(tmp_path)]
    line, came = [*command, str(tmp_path / "test_some.py")], []

    def watch():
        while '"begun": "test_some.py::test_five"' not in outcomes():
            time.sleep(0.05)
        came.append(signal.SIGTERM)

    def outcomes():
        path = tmp_path / gpu_record.OUTCOMES
        return path.read_text() if path.is_file() else ""

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    done = gpu_session.run_step(line, 60, came)
    assert done["status"] == -signal.SIGTERM, done
    tally = gpu_record.told_tests(tmp_path)
    assert [tally[kind] for kind in ("passed", "failure", "error", "skipped")] == [1, 1, 1, 1]
    assert tally["collected"] == 6 and tally["not_begun"] == 1 and tally["not_ended"] == ["test_some.py::test_five"]
    said = {
        t["test"].split("::")[1]: t.get("said", "") for t in json.loads((tmp_path / "tests.json").read_text())["tests"]
    }
    assert "assert 1 == 2" in said["test_two"] and "no such device" in said["test_three"] and not said["test_one"]
    assert "no fixture" in said["test_four"] and not (tmp_path / gpu_record.OUTCOMES).exists()


def test_what_cannot_be_done_is_refused_before_anything_is_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_session, "session", lambda *a: pytest.fail("it began"))
    monkeypatch.setattr(gpu_session, "machine", lambda small: {"device": "a GPU"})
    for module in (gpu_session, carried):
        monkeypatch.setattr(module, "carried_file", lambda: tmp_path / "none.npz")
    file, out = tmp_path / "file", str(tmp_path / "out")
    file.write_text("x")
    for given, said in (
        (["--small", "--out", str(file)], f"--out {file}: results cannot be written there"),
        (["--small", "--out", str(file / "in")], f"--out {file / 'in'}: results cannot be written there"),
        (["--small", "--out", out, "--text", "/nonexist"], "there are no token ids in /nonexist"),
        (["--out", out], f"there are no token ids in {tmp_path / 'none.npz'}"),
        (["--out", out, "--text", str(file)], f"{file} holds no token ids as"),
        (["--small", "--out", out, "--minutes", "0"], "--minutes 0: it takes a number above 0"),
        (["--small", "--out", out, "--minutes", "inf"], "--minutes inf: it takes a number above 0, and a finite one"),
        (["--small", "--out", out, "--stop-after", "-1"], "--stop-after -1: it takes a number above 0"),
        (["--small", "--out", out, "--copy-to", str(file)], f"--copy-to {file}: results cannot be written there"),
        (["--pack", str(tmp_path / "none" / "a.tar")], "there are no token ids"),
    ):
        assert gpu_session.main(given) == 2
        err = capsys.readouterr().err
        assert err.startswith(said) and len(err.splitlines()) == 1, err
    monkeypatch.setattr(gpu_session, "carried_file", lambda: file)
    for path in (tmp_path / "none" / "a.tar", tmp_path):
        assert gpu_session.main(["--pack", str(path)]) == 2
        assert "it takes a file's name in a folder that is there" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_results_stay_within_their_limits(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("ladder.counts", *gpu_record.OPTIONAL):
        (out / name).write_bytes(b"x" * 100)
    monkeypatch.setattr(gpu_record, "MOST_BYTES", 250)
    assert gpu_record.keep_within(out) == list(gpu_record.OPTIONAL[:2])
    assert {p.name for p in out.iterdir()} == {"ladder.counts", gpu_record.OPTIONAL[2]}
    assert (tmp_path / f"out.left-{gpu_record.OPTIONAL[0]}").is_file()
    monkeypatch.setattr(gpu_record, "MOST_EACH", 90)
    assert gpu_record.keep_within(out) == [gpu_record.OPTIONAL[2]]
    (out / "notes.bin").write_bytes(b"x" * 1000)  # no result: it leaves none of them out
    assert gpu_record.keep_within(out) == [] and len(list(out.iterdir())) == 2


def test_what_is_carried_is_small_and_holds_what_the_steps_read(tmp_path, monkeypatch, capsys):
    import tarfile

    ids = tmp_path / "ids.npz"
    monkeypatch.setattr(gpu_session, "carried_file", lambda: ids)
    assert gpu_session.main(["--pack", str(tmp_path / "a.tar")]) == 2 and not (tmp_path / "a.tar").exists()
    assert "python -m training.large carry" in capsys.readouterr().err
    ids.write_bytes(b"x" * 1000)
    assert gpu_session.main(["--pack", str(tmp_path / "a.tar")]) == 0
    with tarfile.open(tmp_path / "a.tar") as archive:
        names = archive.getnames()
    wanted = {"results/training/carried.npz", "rbplib/tiles.py", "training/first_tokens.npz", "Makefile"}
    wanted |= {"tests/gpu/test_gpu_ranks.py", "models/nano-pythia/1.9k/model.safetensors", "families/pythia.yml"}
    assert wanted <= set(names) and not [n for n in names if "__pycache__" in n or "benchmarks/results" in n]
    assert (tmp_path / "a.tar").stat().st_size < 20e6  # the token ids take up to 35 MB more


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_gpu_it_says_what_can_be_done(capsys, tmp_path):
    assert gpu_session.main(["--out", str(tmp_path / "out")]) == 2 and not (tmp_path / "out").exists()
    assert capsys.readouterr().err.strip().endswith("rehearse with --small, or run this where there is one.")
    assert gpu.main([]) == 0 and "not measured" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        gpu.main(["--small"])  # a rehearsal would stand where results do
    capsys.readouterr()
    for minutes in ("inf", "nan", "0", "-1"):
        assert gpu.main(["--minutes", minutes]) == 2
        assert capsys.readouterr().err == f"--minutes {minutes}: it takes a number above 0, and a finite one.\n"


def test_every_way_counts_as_the_engine_does():
    hidden, head, targets = heads.states(130, 24, 1700, "cpu", torch.bfloat16)
    ranks = {None: head_ranks(hidden, head, targets), "stored": head_ranks(hidden, head, targets, dtype=None)}
    ways, seen = heads.ways("cpu", compiler=False), 0
    for name, (run, of) in ways.items():
        if of:
            truth, found = ranks["stored" if "dtype=None" in of else None], run(hidden, head, targets)
            assert torch.equal(found.greater, truth.greater) and torch.equal(found.ties, truth.ties), name
            torch.testing.assert_close(found.logprob, truth.logprob, atol=3e-6, rtol=1e-6)
            seen += 1
    assert seen == len(ways) - 2 and ranks["stored"].ties.sum() > ranks[None].ties.sum() + 100
    own = torch.randn(130, 1)
    for sums in (heads.three_sums, heads.boolean_exp2, heads.boolean_exp, heads.flags_exp):
        scores = torch.randn(130, 999, generator=torch.Generator().manual_seed(1)).round(decimals=1)
        scores[:, :1] = own
        torch.testing.assert_close(sums(scores.clone(), own), heads.engine_sums(scores.clone(), own), rtol=1e-5, atol=0)


def test_a_way_runs_as_many_rows_at_once_as_its_name_says(monkeypatch):
    class Capped(heads.tiles.Product):  # as on a GPU, where tiles take no more than the logits
        def __init__(self, *given):
            super().__init__(*given)
            self.most = 64

    for module in (heads.tiles, engine):
        monkeypatch.setattr(module, "Product", Capped)
    seen, given = [], heads.states(1100, 4, 70, "cpu", torch.bfloat16)

    def sums(tile, own):
        seen.append(len(tile))
        return heads.engine_sums(tile, own)

    found = heads.with_sums(sums, 512)(*given)
    assert seen == [384, 384, 332] and torch.equal(found.greater, head_ranks(*given).greater)
    heads.with_sums(sums, 4096)(*given)
    assert seen[3:] == [1100]


def test_bf16_scores_are_compared_exactly_as_they_are():
    """Every pair of bfloat16 numbers, infinities too, compares as its float32 values do: widening keeps the order."""
    every = torch.arange(-(2**15), 2**15, 7).to(torch.int16).view(torch.bfloat16)
    every = every[~every.isnan()]
    wide = every.float()
    assert len(every) > 9000 and torch.equal(wide.bfloat16(), every)
    for own in every[::301]:
        assert torch.equal(every > own, wide > own.float()) and torch.equal(every == own, wide == own.float())


def test_passes_and_waits_are_counted():
    a = torch.randn(50, 40)
    with counting.Counting(least=a.numel()) as counted:
        b = a + 1  # read, written
        b.mul_(2)  # the same
        b.view(-1), b.t(), b[:, :20]  # nothing
        torch.gt(a, 0.0, out=b)  # the same
        b.sum(1)  # read
        (a > 0).sum()  # read, written as bytes, read as bytes; within the sum, on CUDA, written and read as int64
        b.copy_(a)  # read, written
    assert counted.moved == 4 * a.numel() * (2 + 2 + 2 + 1 + 1.5 + 4 + 2)
    flags, half = a > 0, a.bfloat16()
    for run, passes in (
        (lambda: torch.count_nonzero(flags, 1), 0.25 + 4),
        (lambda: torch.sum(flags, 1, out=torch.empty(50)), 0.25 + 2),
        (lambda: torch.sum(half, 1, out=torch.empty(50)), 0.5),
        (lambda: half.sum(1, dtype=torch.float64), 0.5 + 4),
        (lambda: torch.logsumexp(a, 1), 6),
    ):
        with counting.Counting(least=a.numel()) as counted:
            run()
        assert counted.moved == 4 * a.numel() * passes
    mask = a > 0
    for run, n in ((lambda: a.sum().item(), 1), (lambda: a[mask], 1), (lambda: bool(mask.any()), 1),
                   (lambda: mask.nonzero(), 1), (lambda: a[torch.tensor([1])] + 1, 0)):  # fmt: skip
        assert counting.waits(run) == n


def test_the_page_says_what_was_measured_from_the_results_alone(tmp_path, monkeypatch):
    page = "# B\n<!-- gpu -->\nold\n<!-- end gpu -->\n"
    (tmp_path / "README.md").write_text(page)
    monkeypatch.setattr(report, "README", tmp_path / "README.md")
    monkeypatch.setattr(report, "GPU", tmp_path / "gpu.json")
    report.fill("gpu", report.gpu_text())
    assert "No CUDA line of this project has been run" in (tmp_path / "README.md").read_text()
    (tmp_path / "gpu.json").write_text(json.dumps({"device": "a processor: a rehearsal, no result", "table": "| 1 |"}))
    assert "No CUDA line" in report.gpu_text()
    case = {"batch": 4, "length": 512, "seconds": [[1.0, 1.1, 0.9]] * 3, "tok_s": 2048.0, "over": [0.021, 0.01, 0.04]}
    case |= {"over_body": [0.2, 0.1, 0.3], "peak_mb": 10.0, "full_peak_mb": 900.0, "rate_share": 0.5}
    case |= {"waits": 6, "device_waits": 7, "body_waits": 1}
    found = {"device": "NVIDIA X", "torch": "2.11", "dtype": "bfloat16", "rate": 7e14, "copy_rate": 4e12}
    found |= {"shapes": {"410m": {"cases": [case]}, "6.9b": {"cases": [{"batch": 32, "length": 2048, "failed": "x"}]}}}
    found |= {"heads": {}, "skipped": ["qwen"]}
    (tmp_path / "gpu.json").write_text(json.dumps(found | {"table": gpu.table(found)}))
    assert "| 410M | 4 x 512 | 2,048 | +2.1% (+1.0% to +4.0%) of 3 | yes |" in report.gpu_text()
    assert "Not measured for want of time: qwen." in report.gpu_text() and "No CUDA line" not in report.gpu_text()
    machine, done = (
        {"device": "NVIDIA X", "torch": "2.11"},
        {"status": 0, "seconds": 61.2, "stopped_by_the_clock": False},
    )
    done |= {"machine": machine}
    tests = {"passed": 7, "failure": 1, "error": 0, "skipped": 0, "not_ended": ["t"], "not_begun": 4}
    steps = {"tests": done | {"status": -15, "stopped_by": "SIGTERM", "tests": tests}}
    steps |= {"ladder": done | {"ladder": {"models": 2, "not_finished": ["1.9k-43"], "note": ""}}}
    session = {"machine": machine, "small": False, "steps": steps}
    (tmp_path / "session.json").write_text(json.dumps(session))
    assert "| 410M |" in report.gpu_text() and "* benchmark: not run" in report.gpu_text()
    assert "The session ran no benchmark; the table is of another run." in report.gpu_text()
    (tmp_path / "gpu.json").unlink()
    said = report.gpu_text()
    assert "No CUDA line" not in said and "The benchmark has left no results of a GPU" in said
    assert (
        "tests: stopped by SIGTERM after 61 s, on NVIDIA X, torch 2.11; 7 passed; 1 failure; 0 error; 0 skipped; "
        "1 begun and not ended, 4" in said
    )
    assert "* ladder: done after 61 s, on NVIDIA X, torch 2.11; 2 models; not finished: 1.9k-43" in said
    found |= {"table": gpu.table(found), "began": 5.0}
    for more, shown, table in (
        ({"status": gpu.INCOMPLETE}, "* benchmark: not finished after 61 s", True),
        ({"status": -15, "stopped_by_the_clock": True}, "* benchmark: stopped by the clock after 61 s", True),
        ({"status": 1}, "The benchmark failed, so the table that it left is not shown.", False),
        ({"began": 6.0}, "`gpu.json` is of NVIDIA X, of another session", False),
        ({"machine": {"device": "NVIDIA Y", "torch": "2.11"}}, "`gpu.json` is of NVIDIA X, of another session", False),
        (None, "`gpu.json` does not say when it was begun: the table may be of another run", True),
    ):
        (tmp_path / "gpu.json").write_text(json.dumps({k: v for k, v in found.items() if more or k != "began"}))
        told = session | {"steps": steps | {"benchmark": done | {"began": 5.0} | (more or {})}}
        (tmp_path / "session.json").write_text(json.dumps(told))
        assert shown in report.gpu_text() and ("| 410M |" in report.gpu_text()) == table
    (tmp_path / "gpu.json").unlink()
    (tmp_path / "session.json").write_text(json.dumps(session | {"small": True}))
    assert "No CUDA line" in report.gpu_text()


def test_the_page_tells_a_session_that_was_killed_with_its_machine(tmp_path, monkeypatch):
    """As the folder with the last copy holds it: a step runs for ever in the record, and what it had lies beside."""
    monkeypatch.setattr(report, "GPU", tmp_path / "gpu.json")
    machine = {"device": "NVIDIA X", "torch": "2.11"}
    killed = {"machine": machine, "small": False, "steps": {}, "status": 0, "began": 1_800_000_000.0}
    (tmp_path / "gpu.json").write_text(
        json.dumps({"device": "NVIDIA X", "table": "| 410M |", "began": killed["began"]})
    )
    (tmp_path / "outcomes.jsonl").write_text(
        '{"collected": 3}\n{"begun": "a"}\n{"test": "a", "outcome": "passed", "seconds": 1}\n{"begun": "b"}\n{"te'
    )
    (tmp_path / "ladder.json").write_text(json.dumps({"models": [1, 2], "not_finished": ["c"], "note": ""}))
    cut = "began at 2027-01-15 08:00:00 UTC, did not end as far as is recorded (killed, or the machine was lost, or its"
    for name, left in (
        ("tests", "torch 2.11; what it had written: 1 passed; 0 failure; 0 error; 0 skipped; 1 begun and not ended, 1"),
        ("ladder", "torch 2.11; what it had written: 2 models; not finished: c"),
        ("benchmark", "The benchmark did not end; what it had written is below.\n\n| 410M |"),
    ):
        (tmp_path / "session.json").write_text(json.dumps(killed | {"running": name}))
        said = report.gpu_text()
        assert f"* {name}: {cut} disk full), on NVIDIA X" in said and left in said and said.count("not run") == 2


def test_the_page_names_failed_tests_reasons_of_skips_and_what_the_ladder_left_out(tmp_path, monkeypatch):
    """The ladder's words are those that its own plan makes when its time is short."""
    monkeypatch.setattr(report, "GPU", tmp_path / "gpu.json")
    said = "    def test():\n>       assert 1 == 2\nE       assert 1 == 2\nE         more\n\nfile.py:3: AssertionError"
    lines = [{"collected": 5}, *({"begun": name} for name in "abcde")]
    lines += [{"test": "a", "outcome": "passed", "seconds": 1}, {"test": "b", "outcome": "failure", "said": said}]
    lines += [{"test": name, "outcome": "skipped", "said": "Skipped: no accelerate"} for name in "cd"]
    (tmp_path / gpu_record.OUTCOMES).write_text("\n".join(json.dumps(line) for line in lines))
    tests = gpu_record.told_tests(tmp_path)
    assert json.loads((tmp_path / "tests.json").read_text())["failed"] == tests["failed"] == {"b": "assert 1 == 2"}
    assert gpu_record.reason("\n") == "it says nothing" and gpu_record.reason("x\nKilled\n") == "Killed"
    sizes = list(ladder.Recipe().sizes())
    slow = {name: {"eager": 0.2 * (1 + 19 * (name == sizes[-1])), "look": 0.0} for name in sizes}
    plan = budget.settle(ladder.Recipe(), slow, 2000)
    assert plan["sizes"] == sizes[:-1] and plan["seeds"] == 1 and plan["tokens"] < ladder.Recipe().tokens
    whole = {"models": [{}] * 3, "not_finished": ["c"], "plan": plan, "failed": {"train d": "out of memory"}}
    whole |= {"note": ladder.note_of(plan["tokens"], plan["tokens"] // 10)}
    (tmp_path / "ladder.json").write_text(json.dumps(whole))
    done = {"status": 0, "seconds": 61.2, "stopped_by_the_clock": False}
    done |= {"machine": {"device": "NVIDIA X", "torch": "2.11"}}
    steps = {"tests": done | {"tests": tests}, "ladder": done | {"ladder": gpu_record.told_ladder(tmp_path)}}
    (tmp_path / "session.json").write_text(json.dumps({"small": False, "steps": steps}))
    page = report.gpu_text().splitlines()
    for words in (
        "failed: `b`: assert 1 == 2",
        "begun and not ended: `e`",
        "skipped, 2: Skipped: no accelerate",
        f"by its plan, {sizes[-1]} is left out: with it every size would get less than 50% of the tokens",
        "by its plan, repeated sizes get 1 of the 3 seeds planned",
        f"by its plan, every size gets {plan['tokens']:,} of the {ladder.Recipe().tokens:,} tokens planned",
        f"every size on {plan['tokens']:,} tokens, a text of {plan['tokens'] // 10:,} read about 10.0 times",
        "failed: train d: out of memory",
    ):
        assert f"    * {words}" in page, page


def test_a_torn_file_of_results_is_told_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "GPU", tmp_path / "gpu.json")
    monkeypatch.setattr(report, "write", report.gpu_text)
    whole = {"steps": {"tests": {"status": 0}}, "small": False}
    for name, text, said in (
        ("gpu.json", '{"device": "NVIDIA', "holds no whole results of the benchmark: copy it again, or move it away."),
        (
            "gpu.json",
            '{"device": "NVIDIA"}',
            "holds no whole results of the benchmark: copy it again, or move it away.",
        ),
        ("session.json", '{"steps": {', "is not the record of a session, or a torn one: move it away."),
        ("session.json", json.dumps(whole), "is not the record of a session, or a torn one: move it away."),
        ("session.json", "[]", "is not the record of a session, or a torn one: move it away."),
    ):
        (tmp_path / name).write_text(text)
        assert report.main() == 2 and capsys.readouterr().err == f"{tmp_path / name} {said}\n"
        (tmp_path / name).unlink()


def gpu_case(batch, length, peak, full, body, waits=2):
    case = {
        "batch": batch,
        "length": length,
        "seconds": [[1.0, 1.1, 0.9]] * 3,
        "tok_s": 2048.0,
        "over": [0.021, 0.01, 0.04],
    }
    case |= {"over_body": [0.2, 0.1, 0.3], "peak_mb": peak, "full_peak_mb": full, "rate_share": 0.5}
    return case | {"waits": 9, "device_waits": waits, "body_waits": 0, "body_device_waits": 1, "body_peak_mb": body}


def test_the_table_judges_time_memory_and_waits_and_names_what_was_not_reached():
    found = {"device": "NVIDIA X", "torch": "2.11", "dtype": "bfloat16", "rate": 7e14, "copy_rate": 4e12, "heads": {}}
    found |= {"planned": {"shapes": ["410m", "1.4b", "6.9b"], "batches": [[4, 512], [8, 512]], "heads": ["1.4b"]}}
    dims = [1024, 24, 16, 50_304]
    flat = [gpu_case(4, 512, 60.0, 900.0, 50.0), gpu_case(8, 512, 110.0, 1800.0, 100.0, waits=3)]
    logits = [gpu_case(4, 512, 250.0, 240.0, 50.0) | {"over": [0.2, 0.1, 0.3]}]
    found |= {"shapes": {"410m": {"dims": dims, "cases": flat}, "1.4b": {"dims": dims, "cases": logits}}, "skipped": []}
    said = gpu.table(found)
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in said.splitlines() if line.startswith("| ")]
    assert len({len(row) for row in rows}) == 1
    judged = [(r[rows[0].index("fast")], r[rows[0].index("less")], r[-1]) for r in rows[1:]]
    assert judged == [("yes", "yes", "yes"), ("yes", "yes", "no"), ("no", "no", "yes")]
    assert "Goals met: fast in 2 of 3, less in 2 of 3, waits in 2 of 3 batches" in said
    assert "goes from 10 to 10 MB, 0.0 kB a token; a token's bfloat16 logits are 100.6 kB" in said
    assert "independent of tokens x vocabulary (less than 10% of that): yes." in said.lower()
    flat[1]["peak_mb"] += 2048 * 2 * 50_304 / 2**20  # as if the logits were held
    assert "100.6 kB a token;" in gpu.table(found) and "of that): no." in gpu.table(found)
    assert said.endswith("before: 6.9B; 1.4B at 8 x 512; the head alone at the 1.4B shape.")


def test_a_benchmark_stopped_on_its_way_tells_what_it_had_and_what_not(tmp_path, monkeypatch, capsys):
    """Every file that was kept on the way is the table of its own numbers, the second shape's too."""
    kept, out = [], tmp_path / "gpu.json"
    monkeypatch.setattr(gpu, "write_text", lambda path, text: path == out and kept.append(json.loads(text)))
    monkeypatch.setattr(gpu, "case", lambda model, dims, ids, *a: gpu_case(*ids.shape, 1.0, 2.0, 1.0))
    monkeypatch.setattr(gpu, "head_ways", lambda *a: a[6].update({"width": 1, "vocab": 1, "rows": 1, "ways": {}}))
    monkeypatch.setattr(gpu, "profile_table", lambda *a: "a table")
    monkeypatch.setattr(gpu, "make_model", lambda *a: SimpleNamespace())
    monkeypatch.setattr(gpu, "make_ids", lambda model, batch, length: torch.ones(batch, length))
    assert gpu.main(["--small", "--out", str(out)]) == 0
    assert all(found["table"] == gpu.table(found) for found in kept) and len(kept) > 6
    lost = [gpu.unmeasured(found) for found in kept]
    assert lost[0] == ["14M", "WIDE"] and lost[-1] == [] and "WIDE" in lost[3]
    monkeypatch.setattr(gpu, "write_text", lambda *a: (_ for _ in ()).throw(InputError("there is no room")))
    assert gpu.main(["--small", "--out", str(out)]) == 1 and capsys.readouterr().err == "there is no room\n"
    monkeypatch.setattr(gpu.torch.cuda, "get_device_name", lambda: "NVIDIA X")
    for rate in ("matrix_rate", "copy_rate"):
        monkeypatch.setattr(gpu, rate, lambda *a, **more: 1e12)
    skips = []  # no time at all: every shape is skipped, and the file says so at once
    gpu.measure(gpu.SMALL, gpu.BATCHES, 1, "cuda", 0.0, lambda found, _: skips.append(gpu.table(found)))
    assert "want of time: 14m." in skips[1] and "ended before: WIDE." in skips[1] and "ended before" not in skips[2]
    assert sum(line.startswith("| WIDE |") for line in kept[-1]["table"].splitlines()) == len(gpu.SMALL_BATCHES)


def test_a_head_stopped_amid_its_ways_tells_those_that_it_has_not(monkeypatch):
    """On a GPU no way is begun after its time, so that a shape that comes later keeps its own; the table names them."""
    kinds = {name: (lambda *given: head_ranks(*given), "one, of all") for name in ("one, of all", "two", "three")}
    real, clock = heads.states, iter(range(0, 3000, 2))
    monkeypatch.setattr(gpu.heads, "ways", lambda *a: kinds)
    monkeypatch.setattr(gpu.heads, "states", lambda rows, width, vocab, device, dtype: real(9, 4, 30, "cpu", dtype))
    monkeypatch.setattr(gpu, "seconds", lambda run, *given, device: 0.5)
    monkeypatch.setattr(gpu, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = {"device": "NVIDIA X", "torch": "2.11", "dtype": "bfloat16", "rate": 7e14, "copy_rate": 4e12}
    found |= {"planned": {"shapes": [], "batches": [], "heads": ["1.4b"]}, "shapes": {}, "skipped": []}
    for limit, left in ((0, ""), (3, ' by "two", "three"'), (5, ' by "three"'), (9, "")):
        found["heads"] = {"1.4b": (about := {})}
        gpu.head_ways(4, 30, 9, "cuda", limit, False, about)
        assert all(len(way["seconds"]) >= 3 for way in about["ways"].values())
        lost = ["the head alone at the 1.4B shape" + left] if limit and left else []
        assert gpu.unmeasured(found) == (lost if limit else ["the head alone at the 1.4B shape"])
        assert ("ended before" in gpu.table(found)) == (limit < 9)


def test_the_benchmark_keeps_a_part_of_a_shapes_time_for_its_head(monkeypatch):
    asked = {}
    monkeypatch.setattr(gpu, "tried", lambda *a, **more: asked.update(limit=a[7]) if a[2] is gpu.head_ways else 1)
    monkeypatch.setattr(gpu, "measure_batches", lambda *a: asked.update(ends=a[4] - time.perf_counter()))
    gpu.measure({"14m": (1, 1, 1, 1)}, gpu.SMALL_BATCHES, 1, "cpu", 1.0, lambda *a: None)
    assert asked["limit"] == pytest.approx(15, abs=1) and asked["ends"] == pytest.approx(45, abs=1)


def test_what_fails_costs_its_own_numbers_alone(tmp_path, monkeypatch, capsys):
    """A peer out of memory, a profile, a model, a way that fail: the rest is measured, the table says why."""
    out, real, calls = tmp_path / "gpu.json", gpu.make_model, []

    def full(model, ids):
        calls.append(len(ids))
        if len(ids) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return gpu.body_only(model, ids)

    def fails(*a, **more):
        raise RuntimeError("not on this device")

    monkeypatch.setattr(gpu, "full_logits", full)
    monkeypatch.setattr(gpu, "profile_table", fails)
    monkeypatch.setattr(gpu, "make_model", lambda shape, *a: fails() if shape == "wide" else real(shape, *a))
    kinds = {"the engine": (heads.ways("cpu", False)["the engine"][0], "the engine"), "torn": (fails, "the engine")}
    monkeypatch.setattr(gpu.heads, "ways", lambda *a: kinds)
    monkeypatch.setattr(gpu.heads, "FEWER", {"booleans, exp": heads.boolean_exp, "torn": fails})
    assert gpu.main(["--small", "--out", str(out)]) == gpu.INCOMPLETE
    found = json.loads(out.read_text())
    whole, lost = found["shapes"]["14m"]["cases"]
    assert whole["over"] and whole["way"] == "known" and whole["fewer"]["booleans, exp"] and not whole["fewer"]["torn"]
    assert lost["tok_s"] > 0 and lost["over"] is None and lost["over_body"] and calls.count(3) == 1
    assert found["shapes"]["wide"]["cases"] == [] and set(found["heads"]) == {"14m", "wide"}
    assert all(len(about["ways"]["the engine"]["seconds"]) >= 3 for about in found["heads"].values())
    said = capsys.readouterr().out
    for line in (
        "* 14M at 3 x 32, full logits: OutOfMemoryError: CUDA out of memory",
        "* 14M, the profile: RuntimeError: not on this device",
        "* WIDE, the model: RuntimeError: not on this device",
        "| torn | RuntimeError: not on this device |",
        "the engine's way to its scores is known",
    ):
        assert line in said, said
    assert "not on this device" in (tmp_path / "gpu_profile.txt").read_text()


def test_the_page_in_the_repository_is_up_to_date():
    section = (ROOT / "benchmarks" / "README.md").read_text().split("<!-- gpu -->\n")[1].split("\n<!-- end gpu -->")[0]
    assert section == report.gpu_text()
