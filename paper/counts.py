"""Counts of measured families in small files: those trained again, and the grid.

A grid of 53 models is 2 MB of counts and would be some 100 MB of rank tables, so its weights stay
away and its counts are in the repository; those of models trained again spare every reader the
measuring of them. `rbplib.counts` reads and describes such a file, `python -m paper.counts`
writes those of models trained again.
"""

import json

import numpy as np
import yaml

from paper.probes import copyable
from rbplib.counts import Counts, counts_path, write_counts
from rbplib.doors import model_entry, public
from rbplib.families import InputError, default_corpora, list_families, load_family, write_text
from rbplib.measuring import measured
from rbplib.table import Ladder, distinct, family_tables

KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)
RUN_KS = (1, 10, 100)  # k of runs of hits, and of hits among tokens that could be copied
PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k


def k_grid(vocab_size, per_decade=8):
    """Whole numbers from 1 to V, about evenly spaced in log k, with 1, 10, 50, 100 and 1000."""
    grid = np.geomspace(1, vocab_size, 1 + round(per_decade * np.log10(vocab_size)))
    marks = {k for k in (1, 10, 50, 100, 1000) if k <= vocab_size}
    return sorted(marks.union(grid.round().astype(int).tolist()))


def same_share(k, V):
    """The k, at least 1, that is as large a share of V tokens as `k` is of
    the paper's vocabulary."""
    return max(1, round(k * V / PAPER_V))


def far_ks(V):
    """The paper's large k as the same shares of another vocabulary."""
    return sorted({same_share(k, V) for k in PAPER_FAR})


def exported_ks(V):
    """The ranks at which hits are counted for pages, in a vocabulary of V tokens."""
    ks = {*range(1, 21), *KS, *k_grid(V), *far_ks(V), same_share(1000, V)}
    return sorted(k for k in ks if k <= V)


# --- the file of a family


def counts_of(table, ks):
    """Counts of a rank table at rising ks: all that is asked of models trained again."""
    columns = {"tokens": table.totals, "nll": table.nll, "entropy": table.entropy}
    # tokens between neighbouring ks, runs of hits, and what could be copied
    between = np.diff(table.hits(ks), axis=1, prepend=0).T
    columns |= {f"ranks_{k}": tokens for k, tokens in zip(ks, between, strict=True)}
    rows = copyable(table)
    rank, document, every = table.rank()[rows], table.document[rows], table.documents
    columns |= {"runs": spread(table.scored), "copyable": np.bincount(document, minlength=every)}
    for k in (k for k in RUN_KS if k in ks):
        columns[f"runs_{k}"] = spread(table.runs(k))
        columns[f"copyable_{k}"] = np.bincount(document[rank <= k], minlength=every)
    units = table.record.get("units") or table.source.tolist()
    about = {"units": units, "text": table.text, "model_id": public(table)["model_id"]}
    return Counts(columns, table.record | about)


def spread(runs):
    """Runs (document, length, number) as (document, length), one by one."""
    return np.repeat(runs[:2], runs[2], axis=1)


def write_family(family, corpora=None, grid=None, entry=None):
    """Count a family's rank tables, measured where not there, and write its file: the path.

    grid: the ks at which hits are counted, as a function of the size of the vocabulary. entry: of
    the YAML file of a family that is here as counts alone; none is written without.
    """
    family = load_family(family)
    ladders = measured(family, corpora, counts=False, progress=False)
    tables = [table for ladder in ladders.values() for table in ladder]
    ks = (grid or exported_ks)(Ladder(tables).vocab_size)
    path = counts_path(family)
    write_counts(path, [counts_of(table, ks) for table in tables])
    if entry is not None:
        about = {"title": family.title, "note": family.note, "imported": True, **entry}
        about["corpora"] = list(ladders)
        about["models"] = [model_entry(table.record) for table in tables[: len(family.models)]]
        text = yaml.safe_dump(about, sort_keys=False, allow_unicode=True)
        write_text(path.with_suffix(".yml"), text)
    return path


# --- the file of a class


def counted(table, ks, run_ks):
    """{name: array} of one rank table, see book/data."""
    # tokens that reach each k, and all: the differences are those between neighbouring ks
    reached = np.column_stack([table.hits(ks), table.totals])
    hit_runs = [np.insert(table.runs(k), 0, k, axis=0) for k in run_ks]
    return {
        "ks": np.array(ks),
        "cells": np.diff(reached, axis=1, prepend=0).T,
        "nll": table.nll,
        "pairs": distinct(table.greater, table.ties),
        "scored": table.scored,
        "hit_runs": np.hstack(hit_runs),
    }


def write_class(family, path):
    """Write a measured family's counts for a class; the same tables give the same bytes.

    Raises InputError: a model without a table, or a family that may not be shared.
    """
    arrays, records = {}, []
    for corpus in default_corpora(family):
        tables, _ = family_tables(family, corpus, counts=False)
        ks = exported_ks(tables.vocab_size)
        for table in tables:
            if withheld := table.record.get("withheld"):
                raise InputError(f"{family.name} is not exported: {withheld}.")
            # whole numbers in the smallest type that holds them
            for name, array in counted(table, ks, [k for k in RUN_KS if k in ks]).items():
                if array.dtype.kind == "i":
                    array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
                arrays[f"{len(records)}/{name}"] = array
            records.append(public(table))
    with open(path, "wb") as file:
        np.savez_compressed(file, records=json.dumps(records, sort_keys=True), **arrays)


# --- those of the repository


def repeated():
    """{family of models trained again: corpora} of the embedded families."""
    families = [family for family in list_families() if family.embedded and family.repeats]
    return {family.repeats: default_corpora(family) for family in families}


if __name__ == "__main__":
    for name, texts in repeated().items():
        print(write_family(name, texts))
