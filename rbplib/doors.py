"""Doors: families that were measured elsewhere, as records that curves and laws are made from.

`rbp export` writes what pages need of a measured family to one file, NAME.counts: counts, no text
and no order of tokens. `rbp import` makes it a family, which needs no model, no text and no torch.
The file is a zip of NumPy arrays, each named by its SHA-256, and of `record.json`; the checksum
that a zip has of each part finds damage, a forger can lie anyway. book/data describes the format.
"""

import hashlib
import io
import json
import lzma
import zipfile
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from rbplib.families import (
    REPO_ID,
    InputError,
    atomic_path,
    check_name,
    results_dir,
    write_text,
    yaml_files,
)
from rbplib.table import DEFINITIONS, Documents, asked, by_size, family_tables, tables_here

FORMAT = {"format": "rbp counts", "version": 1}
KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
RUN_KS = (1, 10, 100)  # k of the runs of hits that pages show
PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k
# what readers of zip, JSON and .npy make of damage
DAMAGE = (ValueError, TypeError, LookupError, OSError, EOFError, RuntimeError)
DAMAGE += (zipfile.BadZipFile, lzma.LZMAError)


@dataclass(frozen=True)
class Counts(Documents):
    """Counts of one model on one corpus, which answer as the RankTable that they were made of
    would.

    Attributes, int64 all but the float64 `sums`:
        ks: (K,). cells: (K + 1, D), tokens of each document with ranks between neighbouring ks.
        sums: (3, D), nll and rank_sums. pairs, scored: (3, R).
        sourced: (3, R), `by_source`, empty but for the largest model.
        hit_runs: (4, R), `runs` under their k. lags: (6, R), `lagged` under k and lag.
    """

    record: dict
    ks: np.ndarray
    cells: np.ndarray
    sums: np.ndarray
    pairs: np.ndarray
    scored: np.ndarray
    sourced: np.ndarray
    hit_runs: np.ndarray
    lags: np.ndarray

    text = property(lambda self: self.record["text"])
    totals = property(lambda self: self.cells.sum(axis=0))
    nll = property(lambda self: self.sums[0])
    by_source = property(lambda self: self.sourced)

    def __len__(self):
        return int(self.cells.sum())

    def rank_sums(self):
        return self.sums[1:]

    def hits(self, ks, definition=DEFINITIONS[0]):
        if definition != DEFINITIONS[0]:
            raise self.unknown(f"by the rank {definition!r}")
        return self.cells.cumsum(axis=0)[self.columns_of(ks, self.ks)].T

    def runs(self, k):
        self.columns_of([k], self.lags[0])  # a model may have no hit at a k that was counted
        return self.hit_runs[1:, self.hit_runs[0] == k]

    def lagged(self, k):
        return self.lags[2:, self.columns_of([k], self.lags[0])]

    def columns_of(self, ks, counted):
        """Where the k counted, int (n,), are among ks; InputError for one that was not counted."""
        if missing := sorted(set(ks) - set(counted.tolist())):
            raise self.unknown(f"at k = {missing[0]}")
        return np.flatnonzero(np.isin(counted, ks))

    def unknown(self, what):
        family, corpus = self.record["family"], self.record["corpus"]
        return InputError(
            f"{family} is imported, without counts on {corpus} {what}: choose another."
        )


# --- The file


def counted(table, ks, run_ks, sourced):
    """{name: array} of one rank table, as `Counts` names them; sourced: whether `sourced` is among
    them."""
    # tokens that reach each k, and all: the differences are those between neighbouring ks
    reached = np.column_stack([table.hits(ks), table.totals])
    hit_runs, lags = [], []
    for k in run_ks:
        runs, lagged = table.runs(k), table.lagged(k)
        lag = np.arange(lagged.shape[1]) + 1
        hit_runs.append(np.vstack([np.full_like(runs[0], k), runs]))
        lags.append(np.vstack([np.full_like(lag, k), lag, lagged]))
    return {
        "ks": np.array(ks),
        "cells": np.diff(reached, axis=1, prepend=0).T,
        "sums": np.vstack([table.nll, table.rank_sums()]),
        "pairs": table.pairs,
        "scored": table.scored,
        "hit_runs": np.hstack(hit_runs),
        "lags": np.hstack(lags),
        "sourced": table.by_source if sourced else np.zeros((3, 0), int),
    }


def packed(array):
    """An array as the bytes of a .npy file, whole numbers in the smallest type that holds them."""
    if array.dtype.kind != "f":
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def unpacked(data):
    """The array of `packed`; whole numbers are int64 again."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array if array.dtype.kind == "f" else array.astype(np.int64)


def write_counts(path, record, tables):
    """Write a counts file atomically; the same counts and record give the same bytes.

    record: "family", "exported". tables: (role, record, arrays) each; the role is "family", or
    "repeats" for models trained again.
    """
    members, entries = {}, []
    for role, about, arrays in tables:
        digests = {}
        for name, array in arrays.items():
            data = packed(array)
            digests[name] = hashlib.sha256(data).hexdigest()
            members[f"{digests[name]}.npy"] = data
        entries.append({"role": role, "record": about, "arrays": digests})
    record = FORMAT | record | {"tables": entries}
    members["record.json"] = json.dumps(record, sort_keys=True, allow_nan=False)
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_LZMA)  # bears no date


def read_counts(path):
    """(record, {(role, corpus): list of Counts, smallest model first}) of a counts file.

    Raises InputError: no such file, or it is damaged.
    """
    tables = {}
    try:
        with zipfile.ZipFile(path) as file:
            names = [name for name in file.namelist() if name.endswith(".npy")]
            arrays = {name: unpacked(file.read(name)) for name in names}
            record = json.loads(file.read("record.json"))
        if record | FORMAT != record:
            raise ValueError("another format")
        for entry in record["tables"]:
            columns = {name: arrays[f"{digest}.npy"] for name, digest in entry["arrays"].items()}
            place = entry["role"], entry["record"]["corpus"]
            tables.setdefault(place, []).append(Counts(entry["record"], **columns))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path.") from None
    except DAMAGE:
        raise InputError(
            f"{path} is damaged, or no counts file of version {FORMAT['version']}: get it again."
        ) from None
    return record, {place: by_size(counts) for place, counts in tables.items()}


# --- Export


def k_grid(vocab_size, per_decade=8):
    """Whole numbers from 1 to V, about evenly spaced in log k; 1, 10, 50, 100 and 1000 are always
    among them."""
    grid = np.geomspace(1, vocab_size, 1 + round(per_decade * np.log10(vocab_size)))
    marks = {k for k in (1, 10, 50, 100, 1000) if k <= vocab_size}
    return sorted(marks.union(grid.round().astype(int).tolist()))


def exported_ks(V):
    """The ranks at which hits are counted for pages, in a vocabulary of V tokens."""
    far = [max(1, round(k * V / PAPER_V)) for k in PAPER_FAR]  # as the same shares of V
    return sorted(k for k in {*range(1, 21), *KS, *k_grid(V), *far} if k <= V)


def export_family(
    family, out, corpora=None, protocol="paper", results=None, exported="", grid=exported_ks
):
    """Write the counts file of a measured family, and of the models that tell how its trainings
    differ where measured.

    exported: when; today. grid: the k at which hits are counted, as a function of the size of the
    vocabulary.
    Raises InputError: a model without a table, or the file cannot be written.
    """
    family, _, corpora = asked(family, None, corpora, protocol)
    ladders = [
        ("family", family_tables(family, corpus, protocol, results)[0]) for corpus in corpora
    ]
    if family.repeats:
        repeats = asked(family.repeats, None, corpora, protocol)
        again, missing = tables_here(*repeats, protocol, results)
        if not missing:
            ladders += [("repeats", tables) for tables in again.values()]
    # count at the same k in every table
    V = min(int(table.record["vocab_size"]) for _, tables in ladders for table in tables)
    run_ks = [k for k in RUN_KS if k <= V]
    entries = []
    for role, tables in ladders:
        for table in tables:
            arrays = counted(table, grid(V), run_ks, sourced=table is tables[-1])
            entries.append((role, public(table), arrays))
    about = {"name": family.name, "title": family.title, "note": family.note}
    exported = exported or date.today().isoformat()
    write_counts(out, {"family": about, "exported": exported}, entries)
    return out


def public(table):
    """The record of a table without folders of this machine and names of sources: these are
    numbered, in the same order."""
    record = table.record | {"units": table.source.tolist(), "text": table.text}
    if not REPO_ID.match(record["model_id"]):
        record["model_id"] = record["model"]
    return record


# --- Import


def import_counts(path, name=None):
    """Keep a counts file under results/imported/ and make it a family: the path of the family's
    file.

    name: of the family, by default as it was where it was measured. Its repeats are the family
    NAME.repeats.
    Raises InputError: the file is damaged, or the name is in use.
    """
    record, tables = read_counts(path)
    name = check_name(name or record["family"]["name"], "family name")
    folder, data = results_dir() / "imported", Path(path).read_bytes()
    counts, own = folder / f"{name}.counts", (folder / f"{name}.yml").resolve()
    # the same file may come again
    other = counts.is_file() and counts.read_bytes() != data
    if other or yaml_files("family").get(name, own) != own or role_of(name) != "family":
        message = f"the name {name!r} is in use for another family"
        raise InputError(f"{message}: choose one, as in --as {name}-2.")
    with atomic_path(counts) as temporary:
        temporary.write_bytes(data)
    # the repeats first: the family names them
    roles = sorted({role for role, _ in tables}, reverse=True)
    for role in roles:
        corpora = {corpus: found for (of, corpus), found in tables.items() if of == role}
        entry = {"name": name if role == "family" else f"{name}.{role}", "counts": counts.name}
        for key in ("title", "note"):
            entry[key] = str(record["family"].get(key) or "")
        entry["corpora"] = [check_name(corpus, "corpus name") for corpus in corpora]
        if role == "family" and "repeats" in roles:
            entry["repeats"] = f"{name}.repeats"
        entry["models"] = [model_entry(t.record) for t in next(iter(corpora.values()))]
        text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)
        write_text(folder / f"{entry['name']}.yml", text)
    return own


def model_entry(record):
    """How a family's file names a model that is not here."""
    entry = {"name": record["model"], "id": record["model_id"]}
    entry["nonembedding_params"] = record["nonembedding_params"]
    if isinstance(record.get("requested_revision"), str):
        entry["revision"] = record["requested_revision"]
    return entry


def role_of(name):
    """The part of a counts file that an imported family of that name shows, see `import_counts`."""
    return "repeats" if name.endswith(".repeats") else "family"


def imported_tables(family, corpora, protocol=None):
    """{corpus name: list of Counts, smallest model first} of an imported family, which their
    records then name.

    protocol: None for whichever there is.
    """
    path = family.path.parent / family.counts
    record, ladders = read_counts(path)
    origin = {"exported": record["exported"], "was": record["family"]["name"], "file": path.name}
    origin["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    tables = {}
    for corpus in corpora:
        counts = ladders.get((role_of(family.name), corpus.name))
        if not counts or protocol not in (None, counts[0].record["protocol"]):
            missing = f"{corpus.name} by the protocol {protocol!r}"
            raise InputError(f"{family.name} is imported, without counts on {missing}.")
        here = {"family": family.name, "imported": origin}
        tables[corpus.name] = [replace(table, record=table.record | here) for table in counts]
    return tables
