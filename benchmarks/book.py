"""Time of `rbp book` in a copy of this checkout: from nothing, unchanged, one page changed.

    python -m benchmarks book [--family nano-pythia]

The environment is the one that this runs in: installing it is not counted.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import common

ROOT = Path(__file__).resolve().parents[1]
PAGE = "notebooks/02_top1_law.ipynb"
QUICK = ["--family", "nano-pythia", "--corpus", "licences"]


def copy_checkout(place):
    """What git knows of this checkout, in another folder."""
    command = ["git", "-C", ROOT, "ls-files", "-z"]
    files = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    for name in files.decode().rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place / name)


def change_page(place):
    """Another comment in the last cell of code of one page."""
    page = json.loads((place / PAGE).read_text(encoding="utf-8"))
    cells = [cell for cell in page["cells"] if cell["cell_type"] == "code"]
    cells[-1]["source"] += ["\n# changed"]
    (place / PAGE).write_text(json.dumps(page), encoding="utf-8")


def build(place, options):
    """Seconds of one `rbp book`."""
    command = [sys.executable, "-m", "rbplib", "book"]
    for family in options.family:
        command += ["--family", family]
    if options.quick:
        command += QUICK
    environment = {**os.environ, "PYTHONPATH": str(place)}  # kernels import the copy, too
    start = time.perf_counter()
    subprocess.run(command, cwd=place, env=environment, check=True)
    return time.perf_counter() - start


def main(argv=None):
    options = common.parser("book", __doc__)
    options.add_argument("--family", action="append", default=[], help="by default the embedded")
    options = options.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        copy_checkout(place)
        times = {"from nothing": build(place, options), "unchanged": build(place, options)}
        change_page(place)
        times["one page changed"] = build(place, options)
    lines = []
    for name, taken in times.items():
        lines.append([name, f"{taken:.0f}", f"{taken / times['from nothing']:.3f}"])
    text = common.table(["", "seconds", "of the time from nothing"], lines)
    print(text)
    if not options.quick:
        common.record("book", text, families=options.family, seconds=times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
