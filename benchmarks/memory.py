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


CONTENDERS = {"measuring": measure, common.OURS: rbplib, "pandas": pandas}


def run_child(name, folder, small):
    """Peak memory in MB, seconds and result of one contender."""
    run = CONTENDERS[name]
    run(small)
    seconds = []
    megabytes = common.peak_mb(lambda: seconds.append(common.seconds(run, folder)))
    loss = None if name == "measuring" else float(run(folder))
    return megabytes, seconds[0], loss


def main(argv=None):
    options = common.parser("memory", __doc__)
    options.add_argument("--times", type=int, nargs="+", default=[1, 10, 50])
    options = options.parse_args(argv)
    if options.child:
        name, *folders = options.child
        print(json.dumps(run_child(name, *map(Path, folders))))
        return 0
    # Texts that grow, the contenders in turn on each.
    words = 4_000 if options.quick else WORDS
    times = [1, 2] if options.quick else options.times
    lines = {name: [name] for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OMP_NUM_THREADS"] = "1"
        for factor in times:
            place, small = Path(folder, str(factor)), Path(folder, f"small-{factor}")
            write_text(place, factor * words)
            write_text(small, SMALL)
            losses = {}
            for name in CONTENDERS:
                megabytes, taken, losses[name] = common.child("memory", name, place, small)
                lines[name].append(f"{megabytes:,.0f} MB, {taken:.2f} s")
            # Nothing is told of contenders that do not agree.
            if not np.isclose(losses[common.OURS], losses["pandas"]):
                print(f"the losses differ: {losses}", file=sys.stderr)
                return 1
    lines["measuring"][0] = "measuring the smallest model"
    lines[common.OURS][0] = "its loss at k = 1, rbplib"
    lines["pandas"][0] = "its loss at k = 1, pandas"
    head = ["", *(f"{factor * words:,} words" for factor in times)]
    text = common.table(head, lines.values())
    common.report(options, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
