"""Write the counts of a measured family to one small file, for the grid and for classes; no order of tokens.

`paper.counts` reads such a file, `book/data.md` describes it. A family whose text may be shared goes from one machine
to another by `rbp export`.
"""

import hashlib
import io
import json
import zipfile
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from paper.counts import FORMAT, KS, k_grid
from paper.curves import rank_entropy
from paper.runs import lagged
from rbplib.doors import model_entry, public
from rbplib.families import InputError, atomic_path, write_text
from rbplib.losses import measured_tables, vocabulary
from rbplib.table import asked, distinct

RUN_KS = (1, 10, 100)  # k of the runs of hits that pages show
PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k


def pairs(table):
    """Distinct (greater, ties) of the whole corpus and their tokens, int64 (3, R)."""
    return distinct(table.greater, table.ties)


def by_source(table):
    """Distinct (source, rank) and their tokens, int64 (3, R)."""
    return distinct(table.source[table.document], table.rank())


def rank_sums(table):
    """Sums over each document of a rank table, float64 (2, D): of -log p(R), and of ln R.

    p is the share of a rank among all tokens, with the entropy's correction for their number.
    """
    ranks = table.rank()
    _, correction, log_p = rank_entropy(ranks)
    return np.stack([table.per_document(correction - log_p), table.per_document(np.log(ranks))])


def counted(table, ks, run_ks, sourced):
    """{name: array} of one rank table, see book/data; sourced: whether with `sourced`."""
    # tokens that reach each k, and all: the differences are those between neighbouring ks
    reached = np.column_stack([table.hits(ks), table.totals])
    # runs under their k, and pairs of tokens under k and lag
    hit_runs, lags = [], []
    for k in run_ks:
        runs, apart = table.runs(k), lagged(table, k)
        lag = np.arange(apart.shape[1]) + 1
        hit_runs.append(np.vstack([np.full_like(runs[0], k), runs]))
        lags.append(np.vstack([np.full_like(lag, k), lag, apart]))
    return {
        "ks": np.array(ks),
        "cells": np.diff(reached, axis=1, prepend=0).T,
        "sums": np.vstack([table.nll, rank_sums(table)]),
        "pairs": pairs(table),
        "scored": table.scored,
        "hit_runs": np.hstack(hit_runs),
        "lags": np.hstack(lags),
        "sourced": by_source(table) if sourced else np.zeros((3, 0), int),
    }


def packed(array):
    """An array as the bytes of a .npy file, whole numbers in the smallest type that holds them."""
    if array.dtype.kind != "f":
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def exported_ks(V):
    """The ranks at which hits are counted for pages, in a vocabulary of V tokens."""
    far = [max(1, round(k * V / PAPER_V)) for k in PAPER_FAR]  # as the same shares of V
    return sorted(k for k in {*range(1, 21), *KS, *k_grid(V), *far} if k <= V)


def write_counts(family, out, corpora=None, protocol="paper", exported="", grid=exported_ks):
    """Write the counts file of a measured family, with the models that it names as its repeats.

    The same counts on one day give the same bytes.

    Args:
        family, corpora, protocol: as of `measuring.measured`. out: path of the file.
        exported: when; today.
        grid: the ks at which hits are counted, as a function of the size of the vocabulary.
    Raises:
        InputError: a model without a table, a family that may not be shared, or no room for the file.
    """
    family, _, corpora = asked(family, None, corpora, protocol)
    ladders = []
    for corpus in corpora:
        tables, repeats, _ = measured_tables(family, corpus, protocol)
        ladders += [("family", tables), ("repeats", repeats)]
    if withheld := ladders[0][1][0].record.get("withheld"):
        raise InputError(f"{family.name} is not exported: {withheld}.")

    # count at the same k in every table; arrays under their digests: what tables share is there once
    V = min(vocabulary(tables) for _, tables in ladders if tables)
    run_ks = [k for k in RUN_KS if k <= V]
    members, entries = {}, []
    for role, tables in ladders:
        for table in tables:
            digests = {}
            for name, array in counted(table, grid(V), run_ks, table is tables[-1]).items():
                data = packed(array)
                digests[name] = hashlib.sha256(data).hexdigest()
                members[f"{digests[name]}.npy"] = data
            entries.append({"role": role, "record": public(table), "arrays": digests})

    about = {"name": family.name, "title": family.title, "note": family.note}
    record = FORMAT | {"family": about, "exported": exported or date.today().isoformat()}
    record["tables"] = entries
    members["record.json"] = json.dumps(record, sort_keys=True, allow_nan=False)
    with atomic_path(out) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_LZMA)  # bears no date
    return out


def write_families(path, record, tables, extra=None):
    """Write the files that make a counts file a family beside it, its repeats NAME.repeats: their paths.

    record, tables: as `paper.counts.read_counts` gives them. extra: more entries of each file.
    """
    path, files = Path(path), []
    entry = {key: record["family"].get(key) for key in ("title", "note")} | {"imported": True}
    # the repeats first: the family names them
    for role in sorted({role for role, _ in tables}, reverse=True):
        ladders = {corpus: ladder for (of, corpus), ladder in tables.items() if of == role}
        entry |= {"corpora": list(ladders)} | (extra or {})
        entry["models"] = [model_entry(table.record) for table in next(iter(ladders.values()))]
        files.append(path.with_name(f"{path.stem}{'.repeats' if role == 'repeats' else ''}.yml"))
        write_text(files[-1], yaml.safe_dump(entry, sort_keys=False, allow_unicode=True))
        entry["repeats"] = files[-1].stem
    return files
