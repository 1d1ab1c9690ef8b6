"""Make `tables.npz` beside this file: parts of measured rank tables, small enough to be committed.

    python -m tests.golden.make_tables RESULTS

Four sizes of nano-pythia and two further trainings of two of these, on 60 documents of `docs`, the
first 50 scored tokens of each; no token is in it, so no text can be read from it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

LADDER, AGAIN = ("6.6k", "22k", "79k", "656k"), ("6.6k-43", "6.6k-44", "656k-43", "656k-44")
DOCUMENTS, POSITIONS = 60, 50


def small_table(path):
    """The rows and sources of some documents of one rank table, and the size of its model."""
    # the record, and every so many documents numbered anew
    table = pq.read_table(path)
    record = json.loads(table.schema.metadata[b"rbplib"])
    document = table["document"].to_numpy()
    chosen = np.linspace(0, record["documents"] - 1, DOCUMENTS).astype(int)
    rows = np.isin(document, chosen) & (table["position"].to_numpy() <= POSITIONS)
    # which were drawn as one
    source = np.unique(np.array(record["units"])[chosen], return_inverse=True)[1]
    columns = {name: table[name].to_numpy()[rows] for name in ("position", "greater", "ties")}
    columns["document"] = np.searchsorted(chosen, document[rows])
    columns = {name: column.astype(np.int16) for name, column in columns.items()}
    columns["logprob"] = table["logprob"].to_numpy()[rows]
    return columns, source, record["nonembedding_params"]


def main(results):
    families = dict.fromkeys(LADDER, "nano-pythia") | dict.fromkeys(AGAIN, "nano-pythia-seeds")
    paths = [next(Path(results, "ranks", families[m], m).glob("docs*.parquet")) for m in families]
    columns, sources, sizes = zip(*map(small_table, paths), strict=True)
    # every model has the same documents and positions; ranks and logprobs have a row a model
    shared = {name: columns[0][name] for name in ("document", "position")}
    each = {name: np.stack([c[name] for c in columns]) for name in ("greater", "ties", "logprob")}
    arrays = {**shared, **each, "source": sources[0], "S": np.array(sizes, float)}
    np.savez_compressed(Path(__file__).with_name("tables.npz"), model=list(families), **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
