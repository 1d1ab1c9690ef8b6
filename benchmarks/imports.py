"""What was measured elsewhere: CPU-seconds and peak memory of whole commands.

    python -m benchmarks imports

Tables of numbers have a million rows; an export has eight rank tables of 27 million rows, 1 GB.
Each command is a process of one thread.
"""

import json
import os
import tempfile
import zipfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import common
from rbplib.cli import main as rbp_main
from rbplib.table import COLUMNS, write_table

TABLES, ROWS, WINDOW = 8, 27_000_000, 511  # of an export, of a table; scored tokens of a document
NUMBERS = [(100, 10_000, 1), (10, 1_000, 100), (10, 100_000, 1)]  # sizes, sources, values of k


def write_numbers(path, shape):
    """A CSV of the hits of sizes, sources and values of k, all under one law."""
    import pandas as pd

    ends = np.geomspace(1, shape[0], shape[0]).round(3), np.arange(shape[1]), np.arange(shape[2])
    size, source, k = map(np.ravel, np.meshgrid(*ends))
    hits = 500 * np.exp(-(size**-0.1) * (k + 1.0) ** -0.2 * (1 + source % 7 / 10))
    columns = {"S": 1e6 * size, "source": source, "k": k + 1, "hits": hits.astype(int)}
    pd.DataFrame(columns | {"tokens": 500}).to_csv(path, index=False)


def write_export(path, rows):
    """An export of tables with ranks that fall as a power, of one text."""
    number, rng = np.arange(rows), np.random.default_rng(0)
    greater = np.minimum(rng.pareto(0.6, rows), 50_000).astype(np.int32)
    ones, nats = np.ones_like(number), -np.log1p(greater) - rng.random(rows)
    values = number // WINDOW, number % WINDOW + 1, 0 * ones, greater, ones, nats
    columns = dict(zip(COLUMNS, values, strict=True))
    units = list(range(rows // WINDOW + 1))
    record = {"family": "elsewhere", "corpus": "text", "protocol": "paper", "vocab_size": 50_304}
    record |= {"documents": len(units), "units": units, "lacks": ["token"]}
    names, table = [], path.with_suffix(".parquet")
    with zipfile.ZipFile(path, "w") as file:
        for i in range(1, TABLES + 1):
            model = {"model": f"m{i}", "model_id": f"m{i}", "nonembedding_params": i * 10**6}
            write_table(table, columns, record | model)
            names.append(f"family/m{i}/text.parquet")
            file.write(table, names[-1])
        about = {"name": "elsewhere", "title": "", "note": "", "format": "rbp ranks"}
        file.writestr("family.json", json.dumps(about | {"exported": "", "tables": names}))


def child(*words):
    """[CPU-seconds, peak memory in MB] of the whole process of one command."""
    code, used = rbp_main(list(words)), os.times()
    if not code:
        return [used.user + used.system, common.status_kb("VmHWM") / 1024]
    raise SystemExit(code)


def run(options):
    small = 1000 if options.quick else 1
    # what writes what a command reads
    cases = {"eight tables of ranks": ("import", partial(write_export, rows=ROWS // small))}
    for a, b, c in NUMBERS:
        name = f"{a} sizes, {b:,} sources, {c} values of k"
        cases[name] = "fit", partial(write_numbers, shape=(a, max(30, b // small), c))
    lines, raw = [], {}
    for name, (command, write) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "file.csv")
            write(path)
            where = {"RBP_RESULTS": folder, "OMP_NUM_THREADS": "1"}
            raw[name] = seconds, peak = common.child("imports", command, path, **where)
            size = path.stat().st_size / 1e6
        lines.append([f"`rbp {command}`, {name}", f"{size:.0f}", f"{seconds:.1f}", f"{peak:,.0f}"])
    return common.table(["", "MB read", "CPU-seconds", "memory, MB"], lines), {"used": raw}


main = common.program("imports", __doc__, run, child)
