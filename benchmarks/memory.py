"""Peak memory and time as the text grows: measuring a small model, and counting its hits.

    python -m benchmarks memory [--times 1 10 50]

The text is so many times 200,000 shuffled words of one token. Counting is put beside pandas, which
reads the three columns that it needs. Each is a process of its own with one thread, in which the
same was done for a small text before.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import rbplib as rbp
from benchmarks import common

WORDS, LENGTH, SMALL = 200_000, 260, 10_000  # of a text; of a document; of the text done before
MODEL, K = "nano-pythia", 1


def write_text(folder, words):
    """A corpus of shuffled words that are one token each, as a YAML file."""
    vocabulary = ["the", "of", "and", "to", "in", "is", "that", "it", "for", "on", "with", "as"]
    rng = np.random.default_rng(0)
    folder.mkdir()
    with (folder / "words.jsonl").open("w") as file:
        for _ in range(words // LENGTH):
            text = " ".join(rng.choice(vocabulary, LENGTH))
            file.write(json.dumps({"text": text}) + "\n")
    (folder / "words.yml").write_text(
        f"title: Words\nsource: file\npath: {folder / 'words.jsonl'}\ntemplate: '{{text}}'\n"
        f"documents: {words // LENGTH}\n"
    )


def measure(folder):
    """The rank table of the smallest model."""
    os.environ["RBP_RESULTS"] = str(folder / "results")
    size = rbp.load_family(MODEL).models[0].name
    return rbp.measure(MODEL, folder / "words.yml", models=[size], progress=False)


def rbplib(folder):
    """Loss at k = 1 from the table, by the library."""
    return rbp.rbp_loss(measure(folder), k=K).values[0]


def pandas(folder):
    """The same number from the file, by pandas."""
    from pandas import read_parquet

    (path,) = folder.rglob("words*.parquet")
    table = read_parquet(path, columns=["document", "greater", "ties"])
    hits = (table.greater + table.ties <= K).groupby(table.document).agg(["sum", "size"])
    return -np.log(hits["sum"].sum() / hits["size"].sum())


MEASURING = "measuring the smallest model"
CONTENDERS = {MEASURING: measure, "its loss at k = 1, rbplib": rbplib, "by pandas": pandas}


def child(name, folder, small):
    """Peak memory in MB, seconds and result of one contender."""
    way, folder = CONTENDERS[name], Path(folder)
    way(Path(small))
    seconds = []
    megabytes = common.peak_mb(lambda: seconds.append(common.seconds(way, folder)))
    loss = None if name == MEASURING else float(way(folder))
    return megabytes, seconds[0], loss


def run(options):
    """Texts that grow, the contenders in turn on each."""
    words = 4_000 if options.quick else WORDS
    times = [1, 2] if options.quick else options.times
    columns = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OMP_NUM_THREADS"] = "1"
        for factor in times:
            text, small = Path(folder, str(factor)), Path(folder, f"small-{factor}")
            write_text(text, factor * words)
            write_text(small, SMALL)
            losses, cells = {}, []
            for name in CONTENDERS:
                megabytes, taken, losses[name] = common.child("memory", name, text, small)
                cells.append(f"{megabytes:,.0f} MB, {taken:.2f} s")
            # nothing is told of contenders that do not agree
            if not np.isclose(*list(losses.values())[1:]):
                return print(f"the losses differ: {losses}", file=sys.stderr)
            columns[f"{factor * words:,} words"] = cells
    lines = zip(CONTENDERS, *columns.values(), strict=True)
    return common.table(["", *columns], lines), {}


growth = {"type": int, "nargs": "+", "default": [1, 10, 50]}
main = common.program("memory", __doc__, run, child, times=growth)
