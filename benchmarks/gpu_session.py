"""Half an hour with a GPU: the tests marked `gpu`, the benchmark, and the large ladder, by one command.

    python -m benchmarks.gpu_session [--out FOLDER]     on a machine with a GPU; `make gpu` is the same
    python -m benchmarks.gpu_session --small            the rehearsal: every step in miniature on a processor
    python -m benchmarks.gpu_session --pack FILE        what to carry to a bare machine, as one archive

The machine needs Python 3.11 to 3.13 with torch, transformers, NumPy, safetensors, hypothesis and pytest, no network
and no installation. Each step runs in a process of its own with its own share of the time, and its results are written
as they come, so that a step that fails or is stopped leaves the others running and what it had. Run again with the same
folder, the ladder goes on where it was stopped, and steps that are not run again keep their record and results; those
that are run again have their old results moved beside the folder first. The exit status is the sum of the steps that
failed or are not finished: 10 the tests, 20 the benchmark, 40 the ladder; and 1 where the record, results or their last
copy could not be written. Interrupted, or asked to end by a signal, it ends the running step with all that it started,
writes what was done, and exits with 128 and the signal's number; killed outright, it takes the running step along.

Where one command may run only ten minutes, the whole takes three, each of which ends itself; what they share lies in
--out and beside it, and --copy-to names a folder that gets a copy of the results as they come:

    python -m benchmarks.gpu_session --only tests benchmark --stop-after 500 --copy-to FOLDER
    python -m benchmarks.gpu_session --only ladder --minutes 14 --stop-after 500 --copy-to FOLDER      this one twice
"""

import argparse
import json
import math
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
from functools import cache
from importlib.metadata import version
from pathlib import Path

from training.carried import carried_file, check_text, check_times
from training.children import with_parent

from benchmarks.gpu_record import (
    FAILED,
    MOST_BYTES,
    OUTCOMES,
    Record,
    copy_results,
    earlier,
    ended,
    keep_within,
    set_aside,
    told_of,
)
from rbplib.families import InputError, atomic_path, one_at_a_time, root

SHARES = {"tests": 4, "benchmark": 6, "ladder": 15}  # minutes of 25
NOT_WRITTEN = 1  # of the exit status
BEGAN = "GPU_SESSION_BEGAN"  # environment: when the step was begun, which its results carry
GRACE = 10  # seconds between asking a process to end and ending it
LOOK = 0.2  # seconds between looks whether the session was asked to end
COPY = 20  # seconds between copies of results while a step runs
LEAST_ROOM = 1 << 20  # bytes that the folder of the results must take, or nothing is begun
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CARRIED = ("benchmarks", "corpora", "families", "rbplib", "tests", "training", "models/tokenizer", "pyproject.toml")
CARRIED += ("Makefile", "README.md", "book/glossary.md", "book/data.md", "book/running.md", "book/cluster.md")
CARRIED += tuple(f"models/nano-pythia/{size}" for size in ("1.9k", "6.6k", "22k"))


def commands(out, small, minutes, planned, text=None, tests="tests/gpu"):
    """{step: its command}, in order; minutes: that a step may take; planned: those that the ladder is made for."""
    python, mini = [sys.executable, "-m"], ["--small"] * small
    which = ["-k", "cpu"] if small else ["-m", "gpu"]
    pytest = ["pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "benchmarks.outcomes"]
    pytest += ["--outcomes", str(out / OUTCOMES), *which, *tests.split()]
    benchmark = ["benchmarks.gpu", "--out", str(out / "gpu.json"), "--minutes", f"{0.8 * minutes:.3f}", *mini]
    ladder = ["training.large", "run", "--out", str(out), "--minutes", f"{max(planned - 0.5, 0.01):.3f}", *mini]
    ladder += ["--stop-after", f"{max(60 * minutes - 30, 1.0):.1f}", *(["--text", str(text)] if text else [])]
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


def run_step(command, seconds, came=(), meanwhile=lambda: None, start=None):
    """Run a step; {"status", "seconds", "output": its end}. One that outlasts its time, or runs when a signal has come
    (`came`), is ended with all it started. meanwhile: called every COPY seconds. start: BEGAN of the step."""
    last = time.time()
    began, environment = time.time(), {**os.environ, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
    environment |= {BEGAN: str(start)} if start else {}
    with subprocess.Popen(
        command, cwd=root(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True, preexec_fn=with_parent(),
    ) as process:  # fmt: skip
        output = None
        while output is None and not came and time.time() < began + seconds:
            with suppress(subprocess.TimeoutExpired):
                output = process.communicate(timeout=max(0.0, min(LOOK, began + seconds - time.time())))[0]
            if time.time() > last + COPY:
                meanwhile()
                last = time.time()
        stopped = output is None
        output = end_group(process) if stopped else output
    lines = (output or "").splitlines()
    said = {"status": process.returncode, "seconds": round(time.time() - began, 1)}
    said |= {"stopped_by_the_clock": stopped and not came}
    said |= {"stopped_by": signal.Signals(came[0]).name} if stopped and came else {}
    return said | {"command": command[1:], "output": lines[-60:]}


@cache
def machine(small):
    """What this runs on. A process of its own looks at the device: one that has looked holds memory of it."""
    found = {"python": platform.python_version(), "torch": version("torch"), "transformers": version("transformers")}
    found |= {"cores": os.cpu_count(), "device": "a processor: a rehearsal, no result"}
    look = "import json, torch; a = torch.cuda.get_device_properties(0); print(json.dumps({'device': a.name, "
    look += "'memory': a.total_memory, 'cuda': torch.version.cuda}))"
    if not small:
        done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True)
        found |= {} if done.returncode else json.loads(done.stdout.splitlines()[-1])
    return found


def say_it(words):
    """Print, also where the terminal has gone: then no more is said, and the session goes on."""
    try:
        print(words, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def session(out, small, minutes, only, **more):
    """`session_alone`, where no other works on the same folder."""
    out.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(out / "session.json", wait=False) as mine:
        if not mine:
            raise InputError(f"another session is at work on {out}: wait until it ends, or name another --out.")
        return session_alone(out, small, minutes, only, **more)


def session_alone(out, small, minutes, only, text=None, tests="tests/gpu", say=say_it, stop_after=None, copy=None):
    """Run the steps and return the exit status.

    minutes: of all the steps, which the ladder's share is planned by. stop_after: seconds after which this call ends.
    """
    began, steps, shares = time.time(), earlier(out, small, say), {n: SHARES[n] for n in only}
    record = Record(out, copy, machine=machine(small), minutes=minutes, small=small, steps=steps)
    until, failed, left = began + min(60 * minutes, stop_after or math.inf), 0, list(only)
    if (out / OUTCOMES).is_file():  # of a session that was killed
        steps.get("tests", {}).update(told_of(out, "tests"))
    with asked() as came:
        for i, name in enumerate(only):
            limit = (until - time.time()) * shares[name] / sum(shares[n] for n in only[i:])  # what one leaves over, too
            if came or limit <= 0:
                break
            left.remove(name)  # with stop_after, the plan is the same in every call
            planned = minutes * shares[name] / sum(shares.values()) if stop_after else limit / 60
            say(f"{name}: at most {limit / 60:.1f} minutes")
            set_aside(out, name, copy)
            steps.pop(name, None)
            record.keep(say, running=name, began=(start := round(time.time(), 3)))
            command = commands(out, small, limit / 60, planned, text, tests)[name]
            done = run_step(command, limit, came, lambda: copy_results(out, copy), start)
            steps[name] = done | {"machine": record.told["machine"], "minutes": round(limit / 60, 2), "began": start}
            steps[name] |= told_of(out, name)
            failed += FAILED[name] if done["status"] else 0
            record.keep(say)
            say("\n".join(done["output"][-12:]))
            say(f"{name}: {ended(done)} after {done['seconds']} s")
        beside = keep_within(out, copy)
        more = ({"left_out": beside} if beside else {}) | ({"not_run": left} if left else {})
        more |= {"stopped_by": signal.Signals(came[0]).name} if came else {}
        record.keep(say, **more)
    if beside:
        say(f"left beside {out}, so that all results are at most {MOST_BYTES / 1e6:.0f} MB: {', '.join(beside)}")
    if left:
        say(f"not run, {'since it was stopped' if came else 'for want of time'}: {', '.join(left)}")
    if came:
        say(f"stopped by {more['stopped_by']}; what was done is in {out / 'session.json'}")
    for words in (lost := list(record.lost())):
        say(words)
    failed += sum(FAILED[name] for name in left) + (NOT_WRITTEN if lost else 0)
    return 128 + came[0] if came else failed


def check(args):
    """Refuse, before anything is run, what would only be found later."""
    check_times(args, "minutes", "stop_after")
    if args.text or ("ladder" in args.only and not args.small):
        check_text(args.text)
    if args.small and args.text:
        raise InputError("--small trains on the tokens that a checkout holds: leave --text out.")
    beside = args.out.resolve().parent  # the ladder's checkpoints lie there
    for option, folder in (("--copy-to", args.copy_to), ("--out", args.out), ("--out", beside)):
        try:
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder) as file:
                    file.write(b"x" * LEAST_ROOM)
        except OSError as error:
            given = args.copy_to if option == "--copy-to" else args.out
            raise InputError(
                f"{option} {given}: results cannot be written there ({error.strerror}): name another folder."
            ) from None
    earlier(args.out.resolve(), args.small)


def pack(path):
    """Write the archive of what a bare machine needs, with the token ids; returns {name: bytes} of its parts."""
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
    parser.add_argument("--minutes", type=float, default=25.0, help="of all steps; the ladder is planned by its share")
    parser.add_argument("--stop-after", type=float, metavar="SECONDS", help="end this call then, to go on in another")
    parser.add_argument("--copy-to", type=Path, metavar="FOLDER", help="copy the results there as they come")
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
        if not args.small and machine(False)["device"].startswith("a processor"):
            raise InputError("there is no CUDA device here: rehearse with --small, or run this where there is one.")
        check(args)
        order = [name for name in FAILED if name in args.only]
        more = {"stop_after": args.stop_after, "copy": args.copy_to and args.copy_to.resolve()}
        more |= {"text": args.text, "tests": args.tests}
        return session(args.out.resolve(), args.small, args.minutes, order, **more)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
