"""Half an hour with a GPU: the tests marked `gpu`, the benchmark, and the large ladder, by one command.

    python -m benchmarks.gpu_session [--out FOLDER]     on a machine with a GPU; `make gpu` is the same
    python -m benchmarks.gpu_session --small            the rehearsal: every step in miniature on a processor
    python -m benchmarks.gpu_session --pack FILE        what to carry to a bare machine, as one archive

The machine needs Python 3.11 to 3.13 with torch, transformers, NumPy, safetensors, hypothesis and pytest, no network
and no installation. Each step runs in a process of its own with its own share of the time, and its results are written
as they come, so that a step that fails or is stopped leaves the others running and what it had. Run again with the same
folder, the ladder goes on where it was stopped. The exit status is the sum of the steps that failed: 10 the tests, 20
the benchmark, 40 the ladder.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path

from rbplib.settings import InputError, root, write_text

FAILED = {"tests": 10, "benchmark": 20, "ladder": 40}
SHARES = {"tests": 4, "benchmark": 6, "ladder": 15}  # minutes of 25
MOST_BYTES, MOST_FILES = 60_000_000, 8  # of all results
OPTIONAL = ("ladder_weights.safetensors", "gpu_profile.txt", "ladder_checkpoints.npz")  # left out first, in this order
GRACE = 10  # seconds between asking a process to end and ending it
CARRIED = ("benchmarks", "corpora", "families", "rbplib", "tests", "training", "models/tokenizer", "pyproject.toml")
CARRIED += ("Makefile", "README.md", "book/glossary.md", "book/data.md", "book/running.md")
CARRIED += tuple(f"models/nano-pythia/{size}" for size in ("1.9k", "6.6k", "22k"))


def commands(out, small, minutes, text=None, tests="tests/gpu"):
    """{step: its command}, in order; minutes: {step: how long it may take}."""
    python, mini = [sys.executable, "-m"], ["--small"] * small
    which = ["-k", "cpu"] if small else ["-m", "gpu"]
    pytest = [
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        f"--junitxml={out / 'tests.xml'}",
        *which,
        *tests.split(),
    ]
    benchmark = [
        "benchmarks.gpu",
        "--out",
        str(out / "gpu.json"),
        "--minutes",
        f"{0.8 * minutes['benchmark']:.3f}",
        *mini,
    ]
    ladder = ["training.large", "run", "--out", str(out), "--minutes", f"{minutes['ladder'] - 0.5:.3f}", *mini]
    ladder += ["--text", str(text)] if text else []
    return {"tests": [*python, *pytest], "benchmark": [*python, *benchmark], "ladder": [*python, *ladder]}


def run_step(command, seconds):
    """Run a step; {"status", "seconds", "output": its end}. One that outlasts its time is ended with all it started."""
    began, environment = time.time(), {**os.environ, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, cwd=root(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, stopped = process.communicate(timeout=seconds)[0], False
        except subprocess.TimeoutExpired:
            stopped = True
            os.killpg(process.pid, signal.SIGTERM)
            try:
                output = process.communicate(timeout=GRACE)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output = process.communicate()[0]
    lines = (output or "").splitlines()
    said = {"status": process.returncode, "seconds": round(time.time() - began, 1), "stopped_by_the_clock": stopped}
    return said | {"command": command[1:], "output": lines[-60:]}


def told_tests(out):
    """tests.json from pytest's report, which it replaces: outcomes with their reasons and times."""
    path = out / "tests.xml"
    if not path.is_file():
        return None
    found = []
    for case in ElementTree.parse(path).iter("testcase"):
        kinds = {child.tag: child for child in case if child.tag in ("failure", "error", "skipped")}
        kind, child = next(iter(kinds.items()), ("passed", None))
        entry = {"test": f"{case.get('classname')}::{case.get('name')}", "outcome": kind}
        entry |= {"seconds": float(case.get("time"))}
        said = "" if child is None else (child.get("message") or "") + ("\n" + (child.text or ""))[-4000:]
        found.append(entry | ({"said": said} if said else {}))
    path.unlink()
    tally = {kind: sum(t["outcome"] == kind for t in found) for kind in ("passed", "failure", "error", "skipped")}
    write_text(out / "tests.json", json.dumps(tally | {"tests": found}, indent=1) + "\n")
    return tally


def machine():
    """What this ran on, as far as torch tells."""
    import torch

    found = {"python": platform.python_version(), "torch": torch.__version__, "transformers": version("transformers")}
    found |= {"cores": os.cpu_count(), "device": "a processor: a rehearsal, no result"}
    if torch.cuda.is_available():
        about = torch.cuda.get_device_properties(0)
        found |= {"device": about.name, "memory": about.total_memory, "cuda": torch.version.cuda}
    return found


def keep_within(out):
    """Leave out what is beyond MOST_BYTES or MOST_FILES: names of the files left out."""
    left = []
    for name in OPTIONAL:
        files = [p for p in out.iterdir() if p.is_file()]
        if len(files) <= MOST_FILES and sum(p.stat().st_size for p in files) <= MOST_BYTES:
            break
        if (out / name).is_file():
            (out / name).rename(out.with_name(f"{out.name}.left-{name}"))
            left.append(name)
    return left


def session(out, small, minutes, only, text=None, tests="tests/gpu", say=print):
    """Run the steps and return the exit status."""
    out.mkdir(parents=True, exist_ok=True)
    told = {"machine": machine(), "minutes": minutes, "small": small, "steps": {}}
    until, failed = time.time() + 60 * minutes, 0
    for i, name in enumerate(only):
        shares = [SHARES[n] for n in only[i:]]  # what a step leaves over goes to those after it
        limit = (until - time.time()) * shares[0] / sum(shares)
        limits = dict.fromkeys(FAILED, limit / 60)
        say(f"{name}: at most {limit / 60:.1f} minutes")
        told["steps"][name] = run_step(commands(out, small, limits, text, tests)[name], limit)
        if name == "tests":
            told["steps"][name]["tests"] = told_tests(out)
        done = told["steps"][name]
        failed += FAILED[name] if done["status"] else 0
        say("\n".join(done["output"][-12:]))
        say(f"{name}: {'failed' if done['status'] else 'done'} after {done['seconds']} s")
        write_text(out / "session.json", json.dumps(told | {"status": failed}, indent=1) + "\n")
    if left := keep_within(out):
        say(f"left beside {out}, so that all results are at most {MOST_BYTES / 1e6:.0f} MB: {', '.join(left)}")
        write_text(out / "session.json", json.dumps(told | {"status": failed, "left_out": left}, indent=1) + "\n")
    return failed


def pack(path):
    """Write the archive of what a bare machine needs, with the token ids; returns {name: bytes} of its parts."""
    from training.large import carried_file

    ids = carried_file()
    if not ids.is_file():
        raise InputError(f"there are no token ids in {ids}: write them with `python -m training.large carry`.")
    sizes = {}

    def plain(member):  # families of models that stay behind would only be complained of
        skip = "__pycache__" in member.name or member.name.startswith(("benchmarks/results", "families/nano-"))
        return None if skip else member

    with tarfile.open(path, "w") as archive:
        for name in CARRIED:
            archive.add(root() / name, name, filter=plain)
        archive.add(ids, "results/training/carried.npz")
        for member in archive.getmembers():
            part = member.name.split("/")[0]
            sizes[part] = sizes.get(part, 0) + member.size
    return sizes


def main(argv=None):
    parser = argparse.ArgumentParser("python -m benchmarks.gpu_session", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="folder of the results")
    parser.add_argument("--small", action="store_true", help="rehearse every step in miniature on a processor")
    parser.add_argument("--minutes", type=float, default=25.0, help="in all")
    parser.add_argument("--only", nargs="+", choices=list(FAILED), default=list(FAILED), help="some of the steps")
    parser.add_argument("--text", type=Path, help="token ids, where they are not in results/training/carried.npz")
    parser.add_argument("--tests", default="tests/gpu", help="what pytest runs")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write what to carry to a bare machine, and end")
    args = parser.parse_args(argv)
    try:
        if args.pack:
            sizes = pack(args.pack)
            print(
                "\n".join(f"{size / 1e6:8.1f} MB  {name}" for name, size in sorted(sizes.items(), key=lambda p: -p[1]))
            )
            print(f"{args.pack.stat().st_size / 1e6:8.1f} MB  {args.pack}")
            return 0
        if not args.small and machine()["device"].startswith("a processor"):
            raise InputError("there is no CUDA device here: rehearse with --small, or run this where there is one.")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    order = [name for name in FAILED if name in args.only]
    return session(args.out.resolve(), args.small, args.minutes, order, args.text, args.tests)


if __name__ == "__main__":
    sys.exit(main())
