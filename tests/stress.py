"""What may befall a run, done to it: `make stress` in full, tests/test_stress.py in a small form.

Each part does an accident, then runs the same command again, and compares everything with a run
that nothing befell: columns and records of all tables, and every file of the results folder. It
cannot see a missing fsync: no kill loses what the system still holds in memory.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
NEVER = 600  # seconds after which a run counts as stuck
CHANGES = ("wall_seconds", "seconds", "date")  # of a record, from run to run
MEASURE = [
    "-m",
    "rbplib",
    "measure",
    "--family",
    "toy",
    "--corpus",
    "lines",
    "--corpus",
    "more",
    "--quiet",
]
ENDS = (signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


@dataclass
class Count:
    """What one part of the harness saw."""

    part: str
    tried: int = 0
    failures: list = field(default_factory=list)
    note: str = ""

    def take(self, fine, what):
        self.tried += 1
        if not fine:
            self.failures.append(what)

    def __str__(self):
        survived = self.tried - len(self.failures)
        line = f"{self.part:<10} tried {self.tried:>3}, survived {survived:>3} {self.note}"
        return "\n  ".join([line, *self.failures])


# ---- a root of two tiny models and two texts, and what a run of it leaves


def workshop(place, documents=30):
    """A root with the family `toy` of two random models and two corpora of its own."""
    from tests.smallmodels import save_model

    for name in ("families", "corpora"):
        (place / name).mkdir(parents=True)
    for number in (0, 1):
        save_model(place / f"models/m{number}", "gpt2", scale=1 + number, seed=number)
    (place / "families/toy.yml").write_text("context: 48\nmodels: [models/m0, models/m1]\n")
    for name, words in (("lines", "the quick brown fox "), ("more", "jumps over the lazy dog ")):
        texts = [f"{name} {i}: " + words * (2 + i % 7) + str(i * i) for i in range(documents)]
        (place / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        (place / f"corpora/{name}.yml").write_text(f"source: file\npath: {name}.jsonl\n")
    return place


def start(place, results, command=MEASURE, before=()):
    """The measuring of the toy family, begun in a process group of its own."""
    environment = os.environ | {
        "RBP_ROOT": str(place),
        "RBP_RESULTS": str(results),
        "OMP_NUM_THREADS": "1",
    }
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'tests'}"
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    arguments = [*before, sys.executable, *command]
    return subprocess.Popen(arguments, cwd=place, env=environment, start_new_session=True, **pipes)


def run(place, results, **options):
    """(exit code, standard error) of such a run, to its end."""
    process = start(place, results, **options)
    words = process.communicate(timeout=NEVER)[1]
    return process.returncode, words


def left(results):
    """{file: what it holds} of a results folder: of a table its columns and record, of others their
    bytes."""
    from rbplib.families import InputError
    from rbplib.table import columns_digest, read_table

    files = {}
    for path in sorted(p for p in Path(results).rglob("*") if p.is_file()):
        name = path.relative_to(results).as_posix()
        if path.suffix == ".parquet":
            with suppress(InputError):
                table = read_table(path)
                record = {k: v for k, v in table.record.items() if k not in CHANGES}
                files[name] = columns_digest(table.columns), json.dumps(record, sort_keys=True)
                continue
        files[name] = path.read_bytes() if not path.name.endswith(".lock") else b""
    return files


@cache
def whole(place):
    """(what a run leaves that nothing befell, its seconds)."""
    began = time.monotonic()
    code, words = run(place, place / "whole")
    assert code == 0, words
    return left(place / "whole"), time.monotonic() - began


def judge(count, place, results, expected, what):
    """Run the same command again: it must end well, and leave just what an undisturbed run does."""
    code, words = run(place, results)
    files = left(results)
    different = sorted(name for name in expected | files if expected.get(name) != files.get(name))
    count.take(
        code == 0 and not different,
        f"{what}: code {code}, different {different[:5]}, {words[-300:]}",
    )


# ---- accidents


def kills(place, tries=40, seed=0):
    """A measuring killed at a random instant, its whole group or its first process alone."""
    count, draw = Count("kills"), random.Random(seed)
    expected, seconds = whole(place)
    for number in range(tries):
        results = place / f"killed-{number}"
        process = start(place, results)
        time.sleep(draw.uniform(0.3, 1.0) * seconds)
        with suppress(ProcessLookupError):
            (os.killpg if number % 2 else os.kill)(process.pid, ENDS[number % 4])
        process.communicate()
        judge(count, place, results, expected, f"killed {number}")
    return count


def together(place, rounds=4):
    """Processes that measure the same tables at once."""
    count, (expected, _) = Count("together"), whole(place)
    for number in range(rounds):
        results = place / f"together-{number}"
        processes = [start(place, results) for _ in range(2 + number % 3)]
        codes = [(p.communicate(timeout=NEVER), p.returncode)[1] for p in processes]
        count.take(codes == [0] * len(codes), f"{len(codes)} at once: {codes}")
        judge(count, place, results, expected, f"{len(codes)} at once")
    return count


@contextmanager
def small_disk(place, **limits):
    """A disk of few bytes or files; yields a call that gives it room."""
    place.mkdir()
    options = ",".join(
        f"{key}={value}" for key, value in ({"size": "64m", "nr_inodes": 10_000} | limits).items()
    )
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True, capture_output=True
    )
    more = ["mount", "-o", "remount,size=64m,nr_inodes=10000", place]
    try:
        yield lambda: subprocess.run(more, check=True)
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def disks(place, tries=10, seed=0):
    """A disk that is full of bytes or of files: one sentence; with room, the next run makes what is
    missing."""
    count, draw = Count("disks"), random.Random(seed)
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        count.note = "(skipped: mounting needs root)"
        return count
    expected, _ = whole(place)
    for number in range(tries):
        limits = (
            {"nr_inodes": draw.randint(2, 14)}
            if number % 2
            else {"size": f"{4 * draw.randint(1, 16)}k"}
        )
        with small_disk(place / f"disk-{number}", **limits) as widen:
            results = place / f"disk-{number}" / "results"
            code, words = run(place, results)
            sentence = code == 2 and words.startswith("rbp: ") and words.count("\n") == 1
            count.take(code == 0 or sentence, f"{limits}: code {code}, {words[-300:]}")
            widen()
            judge(count, place, results, expected, str(limits))
    return count


def reader(place, user=65534):
    """Another user may write nothing: one sentence says so, and nothing is lost."""
    count = Count("reader")
    if os.geteuid():
        count.note = "(skipped: becoming another user needs root)"
        return count
    expected, _ = whole(place)
    subprocess.run(["chmod", "-R", "a+rX", place], check=True)
    table = next((place / "whole").rglob("*.parquet"))
    data = table.read_bytes()
    table.unlink()
    code, words = run(
        place, place / "whole", before=["setpriv", f"--reuid={user}", "--clear-groups"]
    )
    count.take(
        code == 2 and words.startswith("rbp: ") and words.count("\n") == 1,
        f"code {code}, {words[-300:]}",
    )
    table.write_bytes(data)
    judge(count, place, place / "whole", expected, "a reader")
    return count


def book(place, tries=8, seed=0, seconds=(5, 40)):
    """A small book, stopped again and again until it is made; whole tables are never made again."""
    from test_workflow import SETTINGS, write_root

    count, draw, results = Count("book"), random.Random(seed), place / "results"
    write_root(place)
    code = f"from workflow.book import make_book; make_book(**{SETTINGS!r}, show=False)"
    for number in range(tries):
        process = start(place, results, ["-c", code])
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(*seconds))
        before = left(results / "ranks") if (results / "ranks").is_dir() else {}
        with suppress(ProcessLookupError):
            os.killpg(process.pid, ENDS[number % 4])
        process.communicate()
        tables = {
            name: value
            for name, value in before.items()
            if name.endswith(".parquet") and len(value) == 2
        }
        now = left(results / "ranks") if tables else {}
        count.take(
            all(now.get(name) == value for name, value in tables.items()),
            f"stop {number}: a table is lost",
        )
    end, words = run(place, results, command=["-c", code])
    count.take(
        end == 0 and (place / "_build/html/index.html").is_file(), f"at last: {words[-500:]}"
    )
    hidden = [p for p in results.rglob(".*") if p.suffix == ".tmp"]
    count.take(not hidden, f"left: {hidden}")
    return count


PARTS = {part.__name__: part for part in (kills, together, disks, reader, book)}
SMALL = {"kills": {"tries": 2}, "together": {"rounds": 1}, "disks": {"tries": 1}, "reader": {}}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help=f"some of {', '.join(PARTS)}; all of them where none is named"
    )
    parser.add_argument("--small", action="store_true", help="a few of each")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        toys = workshop(Path(folder) / "toys")
        for name in options.parts or (SMALL if options.small else PARTS):
            place = Path(folder) / name
            place.mkdir()
            settings = SMALL[name] if options.small else {}
            count = PARTS[name](place if name == "book" else toys, **settings)
            failed |= bool(count.failures)
            print(count, flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
