"""What may befall a run, done to it: `python -m tests.stress [parts]` in full, tests/test_stress.py
in a small form.

Each part does an accident, then runs the same command again, and compares every byte of the results
with a run that nothing befell. Tables are written slowly, group by group, so that kills fall into
writing, and into measurings that go on from rows of one before, or find another model's. `calls`
watches what no kill can show, as the system holds what a killed process wrote: that files are on
the disk before they take their names, and never written under them. It cannot know whether a disk
keeps what it says it wrote, what a power cut leaves, whether a network's file system locks between
machines, and faults that leave the same bytes.
"""

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
from select import select

from pyarrow.parquet import read_metadata

from rbplib import InputError
from rbplib.measuring import PROGRESS
from rbplib.table import KEY, read_record, read_table, write_table

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
NEVER = 600  # seconds after which a run counts as stuck
SERVE = """
import json, os, sys, time
import rbplib.measuring as measuring
import rbplib.models, transformers.models.gpt2.modeling_gpt2
from rbplib import cli
measuring.SAVED, measuring.GROUP = 0, 200
fsync, replace = os.fsync, os.replace
def slow(source, target):
    print("replace", source, target, file=calls)
    time.sleep(float(os.environ.get("SLEEP", 0)) * (1 if str(target).endswith(".part") else 9))
    replace(source, target)
def synced(file):
    print("fsync", os.readlink(f"/proc/self/fd/{file}"), file=calls)
    fsync(file)
def opened(event, about):
    if event == "open" and set(about[1] or "") & set("wax+"):
        print("open", about[0], file=calls)
for line in sys.stdin:
    if run := os.fork():
        os.setpgid(run, run)
        print(run, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(run, 0)[1]), flush=True)
        continue
    os.setpgid(0, 0)
    os.environ |= json.loads(line)
    results = os.environ["RBP_RESULTS"]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(results + ".says", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), 2)
    calls = open(results + ".calls", "w", buffering=1)
    for _ in range(int(os.environ.get("OTHERS", 0))):
        if not os.fork():
            break
    os.replace, os.fsync = slow, synced
    sys.addaudithook(opened)
    code = cli.main("measure --family toy --corpus lines,more --quiet --batch-tokens 100".split())
    try:
        while True:
            code |= os.waitstatus_to_exitcode(os.wait()[1])
    except ChildProcessError:
        sys.exit(code)
"""
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


def workshop(root):
    """A root with the family `toy` of two random models and two corpora of its own."""
    from tests.ranks.workshop import write_lines, write_root

    write_root(root, models=2)
    write_lines(root / "more.jsonl", 10)
    (root / "corpora/more.yml").write_text("path: more.jsonl\n")
    return root


def begin(root, command, **pipes):
    """A program in a process group of its own, with pipes."""
    environment = os.environ | {"RBP_ROOT": str(root), "OMP_NUM_THREADS": "1"}
    environment |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    environment["PYTHONSAFEPATH"] = "1"  # a root holds an rbplib without its workflow
    how = {"text": True, "cwd": root, "start_new_session": True, "env": environment}
    return subprocess.Popen([sys.executable, *command], **how, **pipes)


@cache
def server(root):
    """A process that has imported what takes longer than to measure: each run is a fork of it."""
    return begin(root, ["-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


class Run:
    """The measuring of the toy family in a process group of its own, one at a time."""

    returncode = None

    def __init__(self, root, results, **variables):
        self.process, self.says = server(root), Path(f"{results}.says")
        print(json.dumps({"RBP_RESULTS": str(results)} | variables), file=self.process.stdin)
        self.process.stdin.flush()
        self.pid = int(self.process.stdout.readline())

    def poll(self, seconds=0):
        if self.returncode is None and select([self.process.stdout], [], [], seconds)[0]:
            self.returncode = int(self.process.stdout.readline())
        return self.returncode

    def wait(self, seconds):
        if self.poll(seconds) is None:
            raise subprocess.TimeoutExpired("a run", seconds)


def run(root, results, **variables):
    """(exit code, standard error) of such a run, to its end."""
    process = Run(root, results, **variables)
    process.wait(NEVER)
    return process.returncode, process.says.read_text()


def left(folder):
    """{file: its bytes} of everything in a folder, hidden or not."""
    files = (path for path in sorted(Path(folder).rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@cache
def whole(root):
    """(what a run leaves that nothing befell, its seconds)."""
    began = time.monotonic()
    code, words = run(root, root / "whole")
    assert code == 0, words
    return left(root / "whole"), time.monotonic() - began


def judge(count, root, results, expected, what, processes=1):
    """Run the same command again, in several processes at once: each must end well, and all leave
    just what an undisturbed run does; each table is measured by one of them."""
    code, words = run(root, results, OTHERS=str(processes - 1))
    files = left(results)
    names = sorted(name for name in expected | files if expected.get(name) != files.get(name))
    tables = [target for _, target in called(results, "replace") if target.endswith(".parquet")]
    names += [name for name in set(tables) if tables.count(name) > 1]
    count.take(not code and not names, f"{what}: {code}, different {names}, {words[-600:]}")


def called(results, name):
    """Arguments of the calls of a name that the last run for these results made."""
    lines = map(str.split, Path(f"{results}.calls").read_text().splitlines())
    return [words for call, *words in lines if call == name]


def flipped(data, draw):
    """Bytes of which one bit is the other."""
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def one_sentence(code, words):
    return code == 2 and words.startswith("rbp: ") and words.count("\n") == 1


# ---- accidents


def kill(process, draw):
    """End a process, its whole group, or one of its children, in one of the ways that end one."""
    import psutil

    end = draw.choice(ENDS)
    with suppress(ProcessLookupError, psutil.Error):
        who = draw.choice(("group", "parent", "child"))
        children = psutil.Process(process.pid).children(recursive=True)
        if who == "group":
            os.killpg(process.pid, end)
        elif who == "child" and children:
            draw.choice(children).send_signal(end)
            process.wait(NEVER)
        else:
            os.kill(process.pid, end)


def kills(root, tries=30, processes=1):
    """A measuring killed at a random instant; most often while something is written."""
    count, draw = Count("kills"), random.Random(0)
    expected, seconds = whole(root)
    for number in range(tries):
        results = root / f"killed-{number}"
        process = Run(root, results, SLEEP="0.2")
        # first while it writes beside the rows so far, then at any time, or while it writes
        kinds = ("*.part", ".*part.*") if not number else ("*.part",) if number % 3 else ()
        while process.poll() is None and not all(any(results.rglob(kind)) for kind in kinds):
            time.sleep(0.05)
        if number:
            with suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(0, 6 if number % 3 else seconds))
            kill(process, draw)
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(NEVER)
        # rows that are gone on from, and every second time damaged ones; and another model's
        for part in results.rglob("*.part") if number % 2 else ():
            part.write_bytes(flipped(part.read_bytes(), draw))
        leave_others_rows(root / "whole", results)
        judge(count, root, results, expected, f"killed {number}", processes)
    return count


def leave_others_rows(whole, results):
    """Where no table is yet, rows so far of a model of another size."""
    for path in whole.rglob("*.parquet"):
        target = results / path.relative_to(whole)
        part = target.with_name(f".{target.name}.part")
        if not target.exists() and not part.exists():
            table = read_table(path)
            other = {"nonembedding_params": 1} | dict.fromkeys(PROGRESS[:2], 1)
            columns = table.columns | {"logprob": table.logprob - 1}
            write_table(part, columns, table.record | other)


def calls(root):
    """Each file takes its name by a renaming, after it is on the disk; no kill can show this."""
    count, (expected, _), results = Count("calls"), whole(root), root / "whole"
    synced = {path for (path,) in called(results, "fsync")}
    opened = {path for (path,) in called(results, "open")}
    safe = {target for source, target in called(results, "replace") if source in synced - {target}}
    for path in map(str, map(results.joinpath, expected)):
        count.take(path in safe - opened, f"{path} was not safe")
    return count


def damage(root, tries=100):
    """A bit of a table, or of its record, is another; or numbers, whose checksum alone says so."""
    count, draw = Count("damage"), random.Random(0)
    whole(root)
    path, copy = next((root / "whole").rglob("*.parquet")), root / "damaged.parquet"
    data, table = path.read_bytes(), read_table(path)
    record = read_metadata(path).metadata[KEY]
    for read, part in {read_record: record, read_table: data}.items():
        for number in range(tries):
            copy.write_bytes(data.replace(part, flipped(part, draw)))
            count.take(refuses(read, copy), f"{read.__name__} takes flip {number}")
    columns = table.columns | {"logprob": table.logprob - 1}
    write_table(copy, columns, table.record, table.record["columns_sha256"])
    count.take(refuses(read_table, copy), "columns of another checksum are taken")
    return count


def refuses(read, path):
    try:
        read(path)
    except InputError:
        return True


def together(root, rounds=4):
    """Processes that measure the same tables at once."""
    count, (expected, _) = Count("together"), whole(root)
    for number in range(rounds):
        processes = 2 + (number + 1) % 3
        judge(count, root, root / f"together-{number}", expected, f"round {number}", processes)
    return count


@contextmanager
def small_disk(root, **limits):
    """A disk of few bytes or files; yields a call that gives it room."""
    root.mkdir()
    limits = {"size": "64m", "nr_inodes": 10_000} | limits
    options = ",".join(f"{key}={value}" for key, value in limits.items())
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", root]
    subprocess.run(mount, check=True, capture_output=True)
    more = ["mount", "-o", "remount,size=64m,nr_inodes=10000", root]
    try:
        yield lambda: subprocess.run(more, check=True)
    finally:
        subprocess.run(["umount", "-l", root], check=True)


def disks(root, tries=10):
    """A disk that is full of bytes or files: one sentence; with room, the next run goes on."""
    count, draw = Count("disks"), random.Random(0)
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        count.note = "(skipped: mounting needs root)"
        return count
    expected, _ = whole(root)
    for number in range(tries):
        limits = {"size": f"{4 * draw.randint(1, 16)}k"}
        if number % 2:
            limits = {"nr_inodes": draw.randint(2, 14)}
        with small_disk(root / f"disk-{number}", **limits) as widen:
            results = root / f"disk-{number}" / "results"
            code, words = run(root, results)
            fine = code == 0 or one_sentence(code, words)
            count.take(fine, f"{limits}: code {code}, {words[-300:]}")
            widen()
            judge(count, root, results, expected, str(limits))
    return count


def book(root, tries=8):
    """A small book, stopped again and again until it is made: no whole table is made again."""
    from test_workflow import WORDS, write_root

    count, draw, results = Count("book"), random.Random(0), root / "results"
    write_root(root)
    command = ["-m", "rbplib", "book", *WORDS]
    for number in range(tries):
        process = begin(root, command, stdout=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(5, 40))
        before = {item for item in left(results).items() if item[0].endswith(".parquet")}
        kill(process, draw)
        process.wait(NEVER)
        lost = [name for name, _ in before - {*left(results).items()}]
        count.take(not lost, f"stop {number}: of another content {lost}")
    process = begin(root, command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    words = process.communicate(timeout=NEVER)[1]
    hidden = [p for p in results.rglob("*") if p.suffix in (".tmp", ".part")]
    made = process.returncode == 0 and (root / "_build/html/index.html").is_file()
    count.take(made and not hidden, f"at last: left {hidden}, {words[-500:]}")
    return count


PARTS = {part.__name__: part for part in (kills, calls, damage, together, disks, book)}


def main():
    if unknown := set(sys.argv[1:]) - set(PARTS):
        raise SystemExit(f"no part is {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    failed = False
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        toys = workshop(Path(folder) / "toys")
        for name in sys.argv[1:] or PARTS:
            root = Path(folder) / name
            root.mkdir()
            count = PARTS[name](root if name == "book" else toys)
            failed |= bool(count.failures)
            print(count, flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
