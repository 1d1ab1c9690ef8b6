"""Half an hour with a GPU: the tests marked `gpu`, the benchmark, and the large ladder, by one command.

    python -m benchmarks.gpu_session [--out FOLDER]     on a machine with a GPU; `make gpu` is the same
    python -m benchmarks.gpu_session --small            the rehearsal: every step in miniature on a processor
    python -m benchmarks.gpu_session --pack FILE        what to carry to a bare machine, as one archive

The machine needs Python 3.11 to 3.13 with torch, transformers, NumPy, safetensors, hypothesis and pytest, no network
and no installation. Each step runs in a process of its own with its own share of the time, and its results are written
as they come, so that a step that fails or is stopped leaves the others running and what it had. Run again with the same
folder, the ladder goes on where it was stopped, and steps that are not run again keep their record. The exit status is
the sum of the steps that failed: 10 the tests, 20 the benchmark, 40 the ladder. Interrupted, or asked to end by a
signal, it ends the running step with all that it started, writes what was done, and exits with 128 and the signal's
number.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from rbplib.settings import InputError, atomic_path, root, write_text

FAILED = {"tests": 10, "benchmark": 20, "ladder": 40}
SHARES = {"tests": 4, "benchmark": 6, "ladder": 15}  # minutes of 25
MOST_BYTES, MOST_FILES = 60_000_000, 8  # of all results
OPTIONAL = ("ladder_weights.safetensors", "gpu_profile.txt", "ladder_checkpoints.npz")  # left out first, in this order
OUTCOMES = "outcomes.jsonl"  # of the tests while they run
GRACE = 10  # seconds between asking a process to end and ending it
LOOK = 0.2  # seconds between looks whether the session was asked to end
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CARRIED = ("benchmarks", "corpora", "families", "rbplib", "tests", "training", "models/tokenizer", "pyproject.toml")
CARRIED += ("Makefile", "README.md", "book/glossary.md", "book/data.md", "book/running.md")
CARRIED += tuple(f"models/nano-pythia/{size}" for size in ("1.9k", "6.6k", "22k"))


def commands(out, small, minutes, text=None, tests="tests/gpu"):
    """{step: its command}, in order; minutes: {step: how long it may take}."""
    python, mini = [sys.executable, "-m"], ["--small"] * small
    which = ["-k", "cpu"] if small else ["-m", "gpu"]
    pytest = ["pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "benchmarks.outcomes"]
    pytest += ["--outcomes", str(out / OUTCOMES), *which, *tests.split()]
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


@contextmanager
def asked():
    """The signals that ask the session to end, noted in a list while this is entered; those ignored before stay so."""
    came, before = [], {}
    if threading.current_thread() is threading.main_thread():
        before = {s: signal.getsignal(s) for s in ENDING if signal.getsignal(s) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_group(process):
    """End a process and all that it started: asked first, and after GRACE seconds not asked; returns its output."""
    for number, wait in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            output = process.communicate(timeout=wait)[0]
            break
    with suppress(ProcessLookupError):  # what gave its output away and goes on
        os.killpg(process.pid, signal.SIGKILL)
    return output


def run_step(command, seconds, came=()):
    """Run a step; {"status", "seconds", "output": its end}. One that outlasts its time, or runs when a signal has come
    (`came`), is ended with all it started."""
    began, environment = time.time(), {**os.environ, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, cwd=root(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        output = None
        while output is None and not came and time.time() < began + seconds:
            with suppress(subprocess.TimeoutExpired):
                output = process.communicate(timeout=max(0.0, min(LOOK, began + seconds - time.time())))[0]
        stopped = output is None
        output = end_group(process) if stopped else output
    lines = (output or "").splitlines()
    said = {"status": process.returncode, "seconds": round(time.time() - began, 1)}
    said |= {"stopped_by_the_clock": stopped and not came}
    said |= {"stopped_by": signal.Signals(came[0]).name} if stopped and came else {}
    return said | {"command": command[1:], "output": lines[-60:]}


def told_tests(out):
    """tests.json from the file of outcomes, which it replaces: each with its reason and time, and what did not end."""
    path = out / OUTCOMES
    if not path.is_file():
        return None
    found, begun, collected = {}, [], None
    for line in path.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the line that was being written when the tests were stopped
            continue
        collected = entry.get("collected", collected)
        begun += [entry["begun"]] if "begun" in entry else []
        if "test" in entry and found.get(entry["test"], {}).get("outcome") not in ("failure", "error"):
            found[entry["test"]] = entry
    path.unlink()
    tests = list(found.values())
    tally = {kind: sum(t["outcome"] == kind for t in tests) for kind in ("passed", "failure", "error", "skipped")}
    tally |= {"collected": collected, "not_ended": [name for name in begun if name not in found]}
    tally |= {"not_begun": None if collected is None else collected - len(set(begun))}
    write_text(out / "tests.json", json.dumps(tally | {"tests": tests}, indent=1) + "\n")
    return tally


def told_ladder(out):
    """How much of the ladder is there, from its own record."""
    path = out / "ladder.json"
    found = json.loads(path.read_text()) if path.is_file() else None
    return found and {"models": len(found["models"]), "not_finished": found["not_finished"], "note": found["note"]}


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


def say_it(words):
    """Print, also where the terminal has gone: then no more is said, and the session goes on."""
    try:
        print(words, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def earlier(out, small):
    """The steps that an earlier call left in session.json."""
    path = out / "session.json"
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
        steps, was = found["steps"], found["small"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is not the record of a session: move it away, or name another --out.") from None
    if was != small:
        kinds = ("a rehearsal", "a session on a GPU")
        raise InputError(f"{out} holds {kinds[not was]}, and this is {kinds[not small]}: name another --out.")
    return steps


def session(out, small, minutes, only, text=None, tests="tests/gpu", say=say_it):
    """Run the steps and return the exit status."""
    out.mkdir(parents=True, exist_ok=True)
    about = machine()
    told = {"machine": about, "minutes": minutes, "small": small, "steps": earlier(out, small)}
    until, failed, left = time.time() + 60 * minutes, 0, list(only)

    def keep(**more):
        status = sum(FAILED[n] for n, step in told["steps"].items() if step["status"])
        write_text(out / "session.json", json.dumps(told | {"status": status} | more, indent=1) + "\n")

    with asked() as came:
        for i, name in enumerate(only):
            shares = [SHARES[n] for n in only[i:]]  # what a step leaves over goes to those after it
            limit = (until - time.time()) * shares[0] / sum(shares)
            if came or limit <= 0:
                break
            left.remove(name)
            limits = dict.fromkeys(FAILED, limit / 60)
            say(f"{name}: at most {limit / 60:.1f} minutes")
            keep(running=name)
            (out / OUTCOMES).unlink(missing_ok=True)
            done = run_step(commands(out, small, limits, text, tests)[name], limit, came)
            done |= {"machine": about["device"], "minutes": round(limit / 60, 2)}
            done |= {"tests": told_tests(out)} if name == "tests" else {}
            done |= {"ladder": told_ladder(out)} if name == "ladder" else {}
            told["steps"][name] = done
            failed += FAILED[name] if done["status"] else 0
            keep()
            say("\n".join(done["output"][-12:]))
            say(f"{name}: {'failed' if done['status'] else 'done'} after {done['seconds']} s")
        beside = keep_within(out)
        more = ({"left_out": beside} if beside else {}) | ({"not_run": left} if left else {})
        more |= {"stopped_by": signal.Signals(came[0]).name} if came else {}
        keep(**more)
    if beside:
        say(f"left beside {out}, so that all results are at most {MOST_BYTES / 1e6:.0f} MB: {', '.join(beside)}")
    if left:
        say(f"not run, {'since it was stopped' if came else 'for want of time'}: {', '.join(left)}")
    if came:
        say(f"stopped by {more['stopped_by']}; what was done is in {out / 'session.json'}")
    return 128 + came[0] if came else failed + sum(FAILED[name] for name in left)


def check(args):
    """Refuse, before anything is run, what would only be found later."""
    from training.large import check_text

    if not args.minutes > 0:
        raise InputError(f"--minutes {args.minutes:g}: it takes a number above 0.")
    if args.text or ("ladder" in args.only and not args.small):
        check_text(args.text)
    if args.small and args.text:
        raise InputError("--small trains on the tokens that a checkout holds: leave --text out.")
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=args.out).close()
        tempfile.TemporaryFile(dir=args.out.resolve().parent).close()  # the ladder's checkpoints lie beside it
    except OSError as error:
        raise InputError(
            f"--out {args.out}: results cannot be written there ({error.strerror}): name another folder."
        ) from None
    earlier(args.out.resolve(), args.small)


def pack(path):
    """Write the archive of what a bare machine needs, with the token ids; returns {name: bytes} of its parts."""
    from training.large import carried_file

    ids = carried_file()
    if not ids.is_file():
        raise InputError(f"there are no token ids in {ids}: write them with `python -m training.large carry`.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"--pack {path}: it takes a file's name in a folder that is there.")
    sizes = {}

    def plain(member):  # families of models that stay behind would only be complained of
        skip = "__pycache__" in member.name or member.name.startswith(("benchmarks/results", "families/nano-"))
        return None if skip else member

    with atomic_path(path) as temporary, tarfile.open(temporary, "w") as archive:
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
        check(args)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    order = [name for name in FAILED if name in args.only]
    return session(args.out.resolve(), args.small, args.minutes, order, args.text, args.tests)


if __name__ == "__main__":
    sys.exit(main())
