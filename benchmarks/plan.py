"""`rbp plan` beside what `rbp measure` then takes: seconds, memory, disk and tokens of each embedded family.

    python -m benchmarks plan [--family nano-pythia ...]

Each is a process of its own, with one thread, as the workflow runs them; tables go to a folder that is removed. Seconds
count only where nothing else runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.ranks import write_result
from benchmarks.report import fill
from rbplib.families import known
from rbplib.stored import read_ranks

KINDS = ("seconds", "memory_bytes", "disk_bytes", "tokens")


def rbp(results, *asked):
    """(what one command prints, seconds, peak bytes)."""
    start = time.perf_counter()
    command, alone = [sys.executable, "-m", "rbplib", *asked], {"RBP_RESULTS": results, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | alone)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"`rbp {' '.join(asked)}` ended with status {status}")
    return said, time.perf_counter() - start, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def planned_and_taken(family):
    """Two dicts of KINDS."""
    with tempfile.TemporaryDirectory() as results:
        plan = json.loads(rbp(results, "plan", "--family", family, "--json")[0])
        planned = plan["total"] | {"tokens": sum(m["tokens"] for m in plan["models"])}
        said, seconds, memory = rbp(results, "measure", "--family", family, "--quiet")
        tables = said.split()
        taken = {"seconds": seconds, "memory_bytes": memory, "disk_bytes": sum(map(os.path.getsize, tables))}
        taken["tokens"] = sum(read_ranks(path).record["read_tokens"] for path in tables)
    return {kind: planned[kind] for kind in KINDS}, taken


def table(rows):
    """Planned and taken, with their ratio, a line per family."""
    said = ["| family | seconds | memory, MB | disk, MB | tokens |", "|---|---|---|---|---|"]
    for row in rows:
        pairs = [(row["planned"][kind], row["taken"][kind], 1e6 if "bytes" in kind else 1) for kind in KINDS]
        cells = [f"{p / unit:,.0f}, {t / unit:,.0f}: {p / t:.2f}x" for p, t, unit in pairs]
        said.append(f"| {row['family']} | " + " | ".join(cells) + " |")
    return "\n".join(said)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks plan", description=__doc__.splitlines()[0])
    embedded = [f.name for f in known("family") if f.embedded]
    parser.add_argument("--family", action="append", choices=embedded, help="may be given several times")
    rows = []
    for family in parser.parse_args(argv).family or embedded:
        planned, taken = planned_and_taken(family)
        rows.append({"family": family, "planned": planned, "taken": taken})
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    write_result("plan", table(rows))
    fill("plan", table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
