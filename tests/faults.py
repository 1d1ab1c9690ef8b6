"""Faults planted one by one: `python -m tests.faults [names] [--area rbplib/doors.py] [-n 2]`.

tests/faults.yml lists them: in a copy of the checkout one text is replaced by another, and the
tests that are named must fail. What they find, and what not, is told a line each; a fault that is
missed, or whose tests fail without it (`--clean` looks), is an exit code of 1.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import yaml

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 900  # seconds of a fault's tests; a program that hangs has been found out


def faults(area="", names=()):
    """The faults of a file or folder, and of some names: {name: entry}."""
    listed = {f["name"]: f for f in yaml.safe_load((ROOT / "tests/faults.yml").read_text())}
    if unknown := {*names} - {*listed}:
        raise SystemExit(f"tests/faults.yml has no {', '.join(sorted(unknown))}")
    return {name: listed[name] for name in names or listed if listed[name]["file"].startswith(area)}


def copy(folder):
    """The files of the checkout that git does not ignore, and the text that its tests read."""
    words = "git -c safe.directory=* ls-files -z --cached --others --exclude-standard".split()
    names = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = {ROOT / name for name in names.split("\0") if name}
    for path in filter(os.path.lexists, paths | {*(ROOT / "results/text").glob("*.json*")}):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)
    return folder


def failing(folder, tests):
    """(exit code of pytest in a copy, its first line about a failure)."""
    how = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests.split()]
    # no bytecode, whose time and size a fault may share with what it replaces
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    run = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    try:
        done = subprocess.run([sys.executable, *how], timeout=LONGEST, **run)
    except subprocess.TimeoutExpired:
        return 1, "it never ends"
    words = done.stdout.splitlines() + done.stderr.splitlines()
    lines = [line for line in words if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, (lines or words[-1:] or [""])[0][:150]


def planted(folder, fault):
    """As `failing`, with one fault in the copy; the copy is whole again after."""
    path = folder / fault["file"]
    text = path.read_text()
    assert text.count(fault["old"]) == 1, f"{fault['name']}: {fault['file']} has not this once"
    path.write_text(text.replace(fault["old"], fault["new"]))
    try:
        return failing(folder, fault["tests"])
    finally:
        path.write_text(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--area", default="", help="how the names of their files begin")
    parser.add_argument("-n", type=int, default=1, help="how many at once")
    parser.add_argument("--clean", action="store_true", help="their tests without a fault")
    options = parser.parse_args(arguments)
    wanted, copies = faults(options.area, options.names), Queue()
    if options.clean:
        wanted = {fault["tests"]: None for fault in wanted.values()}

    def judge(name):
        folder, fault = copies.get(), wanted[name]
        code, line = planted(folder, fault) if fault else failing(folder, name)
        copies.put(folder)
        said = ("missed", "found ") if fault else ("passed", "FAILS ")
        print({0: said[0], 1: said[1]}.get(code, "broken"), name, line, flush=True)
        return code == bool(fault)

    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        for number in range(options.n):
            copies.put(copy(Path(folder) / str(number)))
        with ThreadPoolExecutor(options.n) as pool:
            fine = list(pool.map(judge, wanted))
    print(f"{sum(fine)} of {len(fine)}")
    return int(not all(fine))


if __name__ == "__main__":
    raise SystemExit(main())
