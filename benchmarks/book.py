"""Core-seconds of a book in a copy of this checkout: user and system times of all its processes.

    python -m benchmarks book [--family nano-pythia --only]

The copy is what git knows: it installs the environment, draws the text, measures every model, runs
every page, builds the HTML; then the same again unchanged, one page again, one with its HTML. Times
of processors do not count what else the machine does.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks import common

ROOT = Path(__file__).resolve().parents[1]
PAGE = "02_top1_law"
KINDS = {
    "text": "text",
    "table": "measuring",
    "page": "pages",
    "html": "HTML",
    "rest": "planning, starting, Snakemake",
}
QUICK = ["--family", "nano-pythia", "--corpus", "licences", "--only"]


def copy_checkout(checkout):
    """What git knows of this checkout, in another folder."""
    command = ["git", "-C", ROOT, "ls-files", "-z"]
    files = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    for name in files.decode().rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, checkout / name)


def spent(command, checkout):
    """(core-seconds of a program with its children, seconds)."""
    names = "RBP_ROOT RBP_RESULTS VIRTUAL_ENV PYTHONDONTWRITEBYTECODE".split()  # as of the Makefile
    environment = {key: value for key, value in os.environ.items() if key not in names}
    environment["PYTHONPATH"] = str(checkout)  # pages import the copy, too
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=checkout, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - start


def by_kind(checkout, cpu):
    """{kind of step: core-seconds} of the last book, which took `cpu` in all."""
    kinds = Counter()
    for line in (checkout / "logs/steps.jsonl").read_text(encoding="utf-8").splitlines():
        step = json.loads(line)
        kinds[step["kind"]] += step["cpu"]
    kinds["rest"] = cpu - kinds.total()
    return kinds


def change_page(checkout):
    """Another comment in the last cell of code of one page."""
    path = checkout / f"notebooks/{PAGE}.ipynb"
    page = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in page["cells"] if cell["cell_type"] == "code"]
    cells[-1]["source"] += ["\n# changed"]
    path.write_text(json.dumps(page), encoding="utf-8")


def run(options):
    words = [f"--family={family}" for family in options.family] + ["--only"] * options.only
    words = QUICK if options.quick else words
    took = {}
    with tempfile.TemporaryDirectory() as folder:
        checkout, python = Path(folder), sys.executable
        copy_checkout(checkout)
        if not (options.here or options.quick):
            took["environment"] = spent(["make", "env"], checkout)
            python = checkout / ".venv/bin/python"
        book = [python, "-m", "rbplib", "book", *words]
        whole = spent(book, checkout)
        kinds = by_kind(checkout, whole[0])
        took |= {name: (kinds[kind], None) for kind, name in KINDS.items()}
        took["a bare clone, in all"] = tuple(
            map(sum, zip(whole, took.get("environment", (0, 0)), strict=True))
        )
        took["an unchanged book"] = spent(book, checkout)
        change_page(checkout)
        page = [python, "-m", "workflow.pages", "--page", PAGE]
        took["one page again"] = spent(page, checkout)
        html = spent(book, checkout)
        took["the pages that read it, and the HTML"] = html
    lines = []
    for name, (cpu, seconds) in took.items():
        lines.append([name, f"{cpu:.0f}", "" if seconds is None else f"{seconds:.0f}"])
    text = common.table(["", "core-seconds", "seconds, beside other work"], lines)
    return text, {"families": options.family, "took": took}


chosen = {"action": "append", "default": [], "help": "by default the embedded"}
only = {"action": "store_true", "help": "these families without the embedded"}
here = {"action": "store_true", "help": "in this environment: none installed"}
main = common.program("book", __doc__, run, family=chosen, only=only, here=here)
