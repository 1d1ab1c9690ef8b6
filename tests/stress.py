"""What may befall a run, done to it: `make stress` in full, tests/test_stress.py in a small form.

Each part prints what was tried and survived (it ended, or told in one sentence what is wrong, and the next run made the
same bytes), the rows that were lost for good, and the files that a crash left and the next run did not remove.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # children are forked: they start at once
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
NEVER = 600  # seconds after which a run counts as stuck
ENDS = ("SIGKILL", "SIGHUP", "SIGTERM", "SIGINT")


@dataclass
class Count:
    """What one part of the harness saw."""

    part: str
    tried: int = 0
    survived: int = 0
    rows_lost: int = 0
    strays: int = 0
    told: list = field(default_factory=list)  # of what did not survive
    note: str = ""

    def take(self, fine, what, lost=0, strays=()):
        self.tried += 1
        self.survived += bool(fine and not lost and not strays)
        self.rows_lost += lost
        self.strays += len(strays)
        if not fine or lost or strays:
            self.told.append(f"{what}: {lost} rows lost, {[str(s) for s in strays]}")

    def __str__(self):
        said = f"{self.part:<12} tried {self.tried:>3}, survived {self.survived:>3}, "
        said += f"rows lost {self.rows_lost}, strays left {self.strays}{self.note and f' ({self.note})'}"
        return "\n  ".join([said, *self.told])


def workshop(place, documents=30):
    """A root with the family `toy` of two random models and two corpora of its own."""
    from transformers.utils import logging

    from tests.smallmodels import save_model

    logging.disable_progress_bar()
    for name in ("families", "corpora"):
        (place / name).mkdir(parents=True)
    for i in (0, 1):
        save_model(place / "models" / f"m{i}", "gpt2", scale=1 + i, seed=i)
    (place / "families" / "toy.yml").write_text("context: 48\nmodels: [models/m0, models/m1]\n")
    for name, word in (("lines", "the quick brown fox "), ("more", "jumps over the lazy dog ")):
        texts = [f"{name} {i}: " + word * (2 + i % 7) + str(i * i) for i in range(documents)]
        (place / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        (place / "corpora" / f"{name}.yml").write_text(f"source: file\npath: {name}.jsonl\n")
    os.environ["RBP_ROOT"] = str(place)
    return place


def measuring(results, before=lambda: None):
    """Measure the toy family in a process of its own, as `rbp measure` does, and return its id; `before` runs in it."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    code, said = 1, Path(os.environ["RBP_ROOT"], f"{os.getpid()}.said").open("w")
    try:
        os.dup2(said.fileno(), 2)
        from rbplib import measuring as m
        from rbplib.cli import main

        m.PART_TOKENS = 200
        before()
        names = [f"--corpus={c}" for c in ("lines", "more")]
        sys.stdout = open(os.devnull, "w")
        code = main(["measure", "--family", "toy", *names, "--quiet", "--results", str(results)])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child):
    """(exit code or minus the signal, what it said on standard error) of such a process."""
    until, code = time.monotonic() + NEVER, None
    while code is None and time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if pid else time.sleep(0.01)
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return code, Path(os.environ["RBP_ROOT"], f"{child}.said").read_text()


def tables(results):
    """{place of a table: (digest of its columns, rows)} of those that are whole."""
    from rbplib.families import InputError
    from rbplib.stored import read_ranks

    found = {}
    for path in sorted(Path(results).glob("ranks/*/*/*.parquet")):
        with suppress(InputError):
            table = read_ranks(path)
            found[str(path.relative_to(results))] = table.record["columns_sha256"], len(table)
    return found


def strays(*folders):
    return [p for folder in folders for p in Path(folder).rglob("*") if p.name.startswith(".")]


def judged(count, what, results, whole, fine=True):
    """Run once more to the end; everything must then be as in `whole`, a table that nothing befell."""
    code, said = ended(measuring(results))
    now = tables(results)
    lost = sum(rows for name, (digest, rows) in whole.items() if now.get(name, ("", 0))[0] != digest)
    count.take(fine and code == 0, f"{what}: {code} {said[-300:]}", lost, strays(results))


def whole_tables(place):
    """The tables of the toy family as nothing disturbs them, and the seconds that takes."""
    began = time.monotonic()
    code, said = ended(measuring(place / "whole"))
    assert code == 0, said
    return tables(place / "whole"), time.monotonic() - began


WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "open to write", "fsync"}


def at_operation(folder, act):
    """Call act(kind, number of that kind so far) before each operation on files of a folder, in this process."""
    seen, fsync = Counter(), os.fsync

    def hook(event, args):
        kind = "open to write" if event == "open" and (args[2] or 0) & (os.O_WRONLY | os.O_RDWR) else event
        if kind in WRITES and str(args[0]).startswith(str(folder)):
            seen[kind] += 1
            act(kind, seen[kind])

    def synced(fd):
        hook("fsync", (folder,))
        fsync(fd)

    os.fsync = synced
    sys.addaudithook(hook)


def kills(place, tries=50, seed=0):
    """SIGKILL of a measurement: half at random instants, half at each kind of operation on files in turn."""
    count, draw = Count("kills"), random.Random(seed)
    whole, seconds = whole_tables(place)
    seen = place / "operations"

    def note():
        at_operation(place / "counted", lambda *operation: seen.open("a").write(json.dumps(operation) + "\n"))

    ended(measuring(place / "counted", note))
    operations = sorted({tuple(json.loads(line)) for line in seen.read_text().splitlines()})
    kinds = sorted({kind for kind, _ in operations})
    for i in range(tries):
        results, what = place / f"killed-{i}", "at a random instant"
        if i % 2:
            kind = kinds[i // 2 % len(kinds)]
            at = draw.choice([n for k, n in operations if k == kind])
            what = f"before {kind} {at}"

            def die(*now, at=(kind, at)):
                os.kill(os.getpid(), signal.SIGKILL) if now == at else None

            child = measuring(results, lambda results=results, die=die: at_operation(results, die))
        else:
            child = measuring(results)
            time.sleep(draw.uniform(0.05, 1) * seconds)
            os.kill(child, signal.SIGKILL)
        code, said = ended(child)
        fine = code == -signal.SIGKILL or (code == 0 and not i % 2)  # it may have been through already
        judged(count, f"{what} ({code}) {said[-200:]}", results, whole, fine)
    count.note = f"{len(kinds)} kinds of operations on files: {', '.join(kinds)}"
    return count


def together(place, rounds=5, sizes=(2, 4)):
    """Processes that measure the same tables at once: each is made once, and all of them have it."""
    count, (whole, _) = Count("together"), whole_tables(place)
    for size in sizes:
        for i in range(rounds):
            results, made = place / f"together-{size}-{i}", place / f"made-{size}-{i}"

            def note(made=made):
                from rbplib import measuring as m

                real = m._measure_table

                def noted(loaded, task, *rest):
                    with made.open("a") as f:
                        f.write(f"{task.path}\n")
                    return real(loaded, task, *rest)

                m._measure_table = noted

            found = [ended(child) for child in [measuring(results, note) for _ in range(size)]]
            times = Counter(made.read_text().splitlines())
            fine = all(code == 0 for code, _ in found) and set(times.values()) == {1} and len(times) == len(whole)
            judged(count, f"{size} at once, tables made {dict(times)}: {found}", results, whole, fine)
    return count


def papers(place):
    """Two runs of papermill at once on a new family: both end, each table is made once, and the pages say the same."""
    import nbformat
    from plantedfamily import write_backwards

    count = Count("papers")
    write_backwards(place)
    os.environ |= {"RBP_RESULTS": str(place / "results"), "PYTHONPATH": str(ROOT)}
    said = "family: backwards\ncorpora: [notes]\nn_bootstrap: 200\n"
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", str(ROOT / "notebooks/02_top1_law.ipynb")]
    runs = [
        subprocess.Popen([*command, f"{i}.ipynb", "-y", said], cwd=place, stderr=subprocess.PIPE, text=True)
        for i in (1, 2)
    ]
    for i, run in enumerate(runs, 1):
        heard = run.communicate(timeout=NEVER)[1]
        count.take(run.returncode == 0, f"run {i}: {heard[-500:]}")
    if count.survived == 2:
        pages = [nbformat.read(place / f"{i}.ipynb", 4).cells for i in (1, 2)]
        shown = [[o for c in cells for o in c.get("outputs", []) if o.get("name") != "stderr"] for cells in pages]
        for o in (o for outputs in shown for o in outputs):
            o.pop("execution_count", None)
        count.take(len(tables(place / "results")) == 3 and shown[0] == shown[1], "pages", 0, strays(place / "results"))
    return count


def flipped(path, draw, part=(0, 1)):
    """Flip one bit of a file, in a part of it; returns its bytes as they were."""
    data = path.read_bytes()
    at = draw.randrange(int(part[0] * len(data)), int(part[1] * len(data)))
    path.write_bytes(data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :])
    return data


def bits(place, tries=40, seed=0):
    """A flipped bit in a table, its record, a kept text or a page: it is found, and the next run mends it."""
    import nbformat
    from conftest import ROOT as CHECKOUT
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    from rbplib.families import load_corpus
    from rbplib.texts import kept_sample, read_sample, sample_path
    from workflow.html import check_pages
    from workflow.notebooks import run_notebook

    count, draw, unread = Count("bits"), random.Random(seed), 0
    whole, _ = whole_tables(place)
    results = place / "flipped"
    ended(measuring(results))
    (place / "corpora" / "kept.yml").write_text("source: embedded\nkind: licences\ndocuments: 20\n")
    (place / "notebooks").mkdir()
    cells = [new_markdown_cell("# T"), new_code_cell("n: int = 1", metadata={"tags": ["parameters"]})]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=[*cells, new_code_cell("n")], metadata=kernel), place / "notebooks/01_t.ipynb")
    os.environ["RBP_RESULTS"], kept = str(results), load_corpus("kept")
    held, page = kept_sample(kept), run_notebook("01_t")
    assert check_pages() == (1, []) and CHECKOUT
    for i in range(tries):
        what = ("table", "record", "text", "page")[i % 4]
        if what in ("table", "record"):
            path = draw.choice([results / name for name in whole])
            before = flipped(path, draw, (0.02, 0.4) if what == "table" else (0.6, 0.98))
            first = tables(results)
            fine = first == whole  # a bit that nobody reads, as of a name of the library that wrote the file
            unread += fine
            judged(count, f"{what} {path.name}", results, whole, fine or str(path.relative_to(results)) not in first)
            path.write_bytes(before)
        elif what == "text":
            before = flipped(
                sample_path(kept), draw, draw.choice([(0, 1), (0.9, 1)])
            )  # names of sources are at its end
            found = read_sample(sample_path(kept)) != held and read_sample(sample_path(kept)) is None
            count.take(found and kept_sample(kept) == held, what)
            sample_path(kept).write_bytes(before)
        else:
            before = flipped(page, draw)
            count.take(
                check_pages()[1], f"{what} at {next(k for k, b in enumerate(page.read_bytes()) if b != before[k])}"
            )
            page.write_bytes(before)
    count.note = f"{unread} of them where no reader looks" if unread else ""
    return count


@contextmanager
def small_disk(place, **limits):
    """A tmpfs of few bytes or files; yields a call that gives it room."""
    place.mkdir()
    said = ",".join(f"{k}={v}" for k, v in ({"size": "64m", "nr_inodes": 10_000} | limits).items())
    subprocess.run(["mount", "-t", "tmpfs", "-o", said, "tmpfs", place], check=True, capture_output=True)
    more = ["mount", "-o", "remount,size=64m,nr_inodes=10000", place]
    try:
        yield lambda: subprocess.run(more, check=True)
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def disks(place, tries=10, seed=0):
    """A disk that is full of bytes or of files: one sentence; with room, the next run makes what is missing."""
    count, draw = Count("disks"), random.Random(seed)
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        count.note = "skipped: mounting needs root"
        return count
    whole, _ = whole_tables(place)
    for i in range(tries):
        limits = {"nr_inodes": draw.randint(2, 14)} if i % 2 else {"size": f"{4 * draw.randint(1, 16)}k"}
        disk = place / f"disk-{i}"
        with small_disk(disk, **limits) as widen:
            code, said = ended(measuring(disk / "results"))
            fine = code == 0 or (code == 2 and said.startswith("rbp: ") and said.count("\n") == 1)
            widen()
            judged(count, f"{limits}: {code} {said}", disk / "results", whole, fine)
    return count


def reader(place, user=65534):
    """Another user may write nothing: reads what is there, and is told in one sentence that no more can be made."""
    count = Count("reader")
    if os.geteuid():
        count.note = "skipped: becoming another user needs root"
        return count
    whole, _ = whole_tables(place)
    results = place / "read"
    ended(measuring(results))
    (results / "ranks/toy/m0/.lines-0.parquet.01234567.tmp").touch()  # a crash of its owner's is no matter to a reader
    for folder in (place, *place.parents):
        folder.chmod(folder.stat().st_mode | 0o055)
    subprocess.run(["chmod", "-R", "a+rX", place], check=True)

    def other():
        from rbplib.measuring import measure

        measure("toy", corpora=["lines"], results=place / "loaded", progress=False)  # libraries that are root's own
        os.setgroups([])
        os.setuid(user)

    code, said = ended(measuring(results, other))
    count.take(code == 0 and tables(results) == whole, f"whole: {code} {said}")
    gone = results / min(whole)
    data = gone.read_bytes()
    gone.unlink()
    code, said = ended(measuring(results, other))
    fine = code == 2 and "could not be written" in said and said.count("\n") == 1
    gone.write_bytes(data)
    judged(count, f"one missing: {code} {said}", results, whole, fine)
    return count


def book(place, tries=10, seed=0, seconds=(5, 60)):
    """The whole small book, stopped again and again until it is made; nothing that was measured is measured again."""
    import psutil
    from conftest import SETTINGS, small_root

    from workflow.html import check_pages

    count, draw, reached = Count("book"), random.Random(seed), []
    place.mkdir(exist_ok=True)
    small_root(place)
    os.environ |= {"RBP_ROOT": str(place), "RBP_RESULTS": str(place / "results"), "PYTHONPATH": str(ROOT)}
    code = f"from workflow.book import make_book; make_book(settings={SETTINGS!r}, show=False)"

    def heard():  # a harness under nohup or in the background was started to ignore them, and so are its children
        for name in ENDS[1:]:
            signal.signal(getattr(signal, name), signal.SIG_DFL)

    def run():
        pipe = {"stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, preexec_fn=heard, **pipe)

    for i in range(tries):
        name, process, through = ENDS[i % len(ENDS)], run(), False
        with suppress(subprocess.TimeoutExpired):
            through = process.wait(draw.uniform(*seconds)) == 0
        before = tables(place / "results")
        steps = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.send_signal(getattr(signal, name))
        said = process.communicate(timeout=NEVER)[1]
        psutil.wait_procs(steps if name != "SIGKILL" else (), 10)  # a kernel looks for its parent once a second
        reached.append(f"{len(before)} and {check_pages()[0]}")
        lost = sum(
            rows for table, (digest, rows) in before.items() if tables(place / "results").get(table) != (digest, rows)
        )
        alive = [p for p in steps if p.is_running()] if name != "SIGKILL" else []  # it cannot end its steps
        stopped = -process.returncode in (getattr(signal, name), signal.SIGINT)  # all but SIGKILL end as Ctrl-C
        fine = (stopped or through) and not alive and "LockException" not in said
        count.take(fine, f"{name}: code {process.returncode}, left running {alive}, {said[-300:]}", lost)
    process = run()
    said = process.communicate()[1]
    pages, problems = check_pages()
    left = [p for p in strays(place / "results", place / "book", place / "logs") if p.name != ".ipynb_checkpoints"]
    count.take(process.returncode == 0 and pages and not problems, f"at last: {said[-500:]} {problems}", 0, left)
    reached.append(f"at last {len(tables(place / 'results'))} and {pages}")
    count.note = f"tables and pages made when stopped: {', '.join(reached)}"
    return count


def cluster(place):
    """A SLURM of this machine's own, with one job cancelled and one killed for memory."""
    from tests.stresscluster import cluster

    return cluster(place)


PARTS = {part.__name__: part for part in (kills, together, papers, bits, disks, reader, book, cluster)}
SMALL = {"kills": {"tries": 8}, "together": {"rounds": 1}, "bits": {"tries": 8}, "disks": {"tries": 2}, "reader": {}}


def main():
    import tempfile

    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all of them where none is named")
    parser.add_argument("--small", action="store_true", help="a few of each, in seconds")
    asked = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        for name in asked.parts or (SMALL if asked.small else PARTS):
            place = Path(folder) / name
            count = PARTS[name](place if name == "book" else workshop(place), **(SMALL[name] if asked.small else {}))
            bad += count.survived < count.tried
            print(count, flush=True)
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(main())
