"""Counts of measured families in one small file, for the grid and for classes: no order of tokens,
no text.

A grid of 53 models is 5 MB of counts and would be some 100 MB of rank tables, so its weights stay
away and its counts are in the repository. A zip of NumPy arrays, each named by its SHA-256, and of
`record.json`; book/data describes it. The checksum that a zip has of each part finds damage, a
forger can lie anyway. A family whose text may be shared goes from one machine
to another by `rbp export`.
"""

import hashlib
import io
import json
import lzma
import zipfile
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from rbplib import table as tables_of_ranks
from rbplib.doors import DAMAGE, model_entry, public
from rbplib.families import InputError, atomic_path, load_family, write_text
from rbplib.losses import measured_tables, vocabulary
from rbplib.table import RankTable, asked, by_size, distinct

FORMAT = {"format": "rbp counts", "version": 1}
KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)
RUN_KS = (1, 10, 100)  # k of the runs of hits that labs show
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


# --- reading


class Counts(RankTable):
    """Counts of one model on one corpus, of which losses are made as of the
    RankTable that they were made of.

    `columns` are the arrays of the file: ks, int64 (K,), where hits were counted, rising; cells,
    int64 (K + 1, D), tokens of each document with ranks between neighbouring ks; sums,
    float64 (1, D), nll.
    """

    totals = property(lambda self: self.columns["cells"].sum(axis=0))
    nll = property(lambda self: self.columns["sums"][0])

    def __len__(self):
        return int(self.totals.sum())

    def hits(self, ks, definition="greater+ties"):
        if missing := sorted(set(ks) - set(self.columns["ks"].tolist())):
            message = "{family} is here as counts, without {corpus}".format(**self.record)
            raise InputError(f"{message} at k = {missing[0]}: choose another.")
        places = np.flatnonzero(np.isin(self.columns["ks"], ks))
        return self.columns["cells"].cumsum(axis=0)[places].T


def read_counts(path):
    """(record, {(role, corpus): list of Counts, smallest model first}) of a counts file.

    Raises InputError: no such file, or it is damaged.
    """
    tables = {}
    try:
        with np.load(path) as file:
            record = json.loads(file["record.json"])
            for entry in record["tables"]:
                # its arrays, each under its digest
                arrays = {name: file[digest] for name, digest in entry["arrays"].items()}
                for name in ("ks", "cells"):  # kept in small types
                    arrays[name] = arrays[name].astype(np.int64)
                place = entry["role"], entry["record"]["corpus"]
                tables.setdefault(place, []).append(Counts(arrays, entry["record"]))
        if record | FORMAT != record:
            raise ValueError("another format")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path.") from None
    except (*DAMAGE, lzma.LZMAError):
        raise InputError(
            f"{path} is damaged, or no counts file of version {FORMAT['version']}: get it again."
        ) from None
    return record, {place: by_size(counts) for place, counts in tables.items()}


def counts_file(family):
    """The path of the counts that lie beside a family's file; None where there are none."""
    path = family.path and family.path.with_name(f"{family.name.removesuffix('.repeats')}.counts")
    return path if path and path.is_file() else None


def family_tables(family, corpus):
    """(tables of a family on one corpus, smallest model first, names of models without one),
    or Counts of it.

    InputError: as of `rbplib.table.family_tables`, or nothing of that corpus was counted.
    """
    family = load_family(family)
    path = counts_file(family)
    if not path:
        return tables_of_ranks.family_tables(family, corpus)
    # those of its part of the file
    role = "repeats" if family.name.endswith(".repeats") else "family"
    name = getattr(corpus, "name", corpus)
    tables = read_counts(path)[1].get((role, name))
    if not tables:
        raise InputError(f"{family.name} is here as counts, without {name}: choose another corpus.")
    about = {"family": family.name}
    return [Counts(table.columns, table.record | about) for table in tables], ()


# --- writing


def pairs(table):
    """Distinct (greater, ties) of the whole corpus and their tokens, int64 (3, R)."""
    return distinct(table.greater, table.ties)


def counted(table, ks, run_ks):
    """{name: array} of one rank table, see book/data."""
    # tokens that reach each k, and all: the differences are those between neighbouring ks
    reached = np.column_stack([table.hits(ks), table.totals])
    hit_runs = []
    for k in run_ks:
        runs = table.runs(k)
        hit_runs.append(np.vstack([np.full_like(runs[0], k), runs]))
    return {
        "ks": np.array(ks),
        "cells": np.diff(reached, axis=1, prepend=0).T,
        "sums": table.nll[None],
        "pairs": pairs(table),
        "scored": table.scored,
        "hit_runs": np.hstack(hit_runs),
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
    return sorted(k for k in {*range(1, 21), *KS, *k_grid(V), *far_ks(V)} if k <= V)


def write_counts(family, out, corpora=None, exported="", grid=exported_ks):
    """Write the counts file of a measured family, with the models that it names as its repeats.

    The same counts on one day give the same bytes.

    Args:
        family, corpora: as of `measuring.measured`. out: path of the file. exported: when; today.
        grid: the ks at which hits are counted, as a function of the size of the vocabulary.
    Raises:
        InputError: a model without a table, a family that may not be shared,
            or no room for the file.
    """
    family, _, corpora = asked(family, None, corpora, "paper")
    ladders = []
    for corpus in corpora:
        tables, repeats, _ = measured_tables(family, corpus)
        ladders += [("family", table) for table in tables]
        ladders += [("repeats", table) for table in repeats]
    tables = [table for _, table in ladders]
    if withheld := tables[0].record.get("withheld"):
        raise InputError(f"{family.name} is not exported: {withheld}.")

    # count at the same k in every table; arrays under their digests:
    # what tables share is there once
    V, members, entries = vocabulary(tables), {}, []
    run_ks = [k for k in RUN_KS if k <= V]
    for role, table in ladders:
        digests = {}
        for name, array in counted(table, grid(V), run_ks).items():
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
    """Write the files that make a counts file a family beside it, its repeats NAME.repeats:
    their paths.

    record, tables: as `read_counts` gives them. extra: more entries of each file.
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
