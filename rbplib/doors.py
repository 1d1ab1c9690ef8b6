"""Doors: families that were measured elsewhere, as records that curves and laws are made from.

`rbp export` writes what pages need of a measured family to one file, NAME.counts: counts, no text
and no order of
tokens. `rbp import` makes it a family, which needs no model, no text and no torch. The file is a
zip of NumPy
arrays, each named by its SHA-256, and of `record.json`, whose own digest is in the member
`sha256`: damage is found, a
forger can lie anyway. book/data describes the format.
"""

import hashlib
import io
import json
import lzma
import re
import zipfile
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from rbplib.families import (
    REPO_ID,
    Corpus,
    InputError,
    atomic_path,
    check_name,
    load_family,
    results_dir,
    write_text,
    yaml_files,
)
from rbplib.table import DEFINITIONS, Documents, asked, family_tables, tables_here

FORMAT = {"format": "rbp counts", "version": 1}
KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
RUN_KS = (1, 10, 100)  # k of the runs of hits that pages show
PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k
FOLDERS = re.compile(r"(/|~|[A-Za-z]:\\).*[/\\]", re.DOTALL)  # those of a path of this machine
DAMAGE = (ValueError, TypeError, LookupError, OSError, EOFError, RuntimeError)
DAMAGE += (zipfile.BadZipFile, lzma.LZMAError)  # what readers of zip, JSON and .npy make of it


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

    def __len__(self):
        return int(self.cells.sum())

    @property
    def by_source(self):
        if not self.sourced.size:
            raise InputError(f"{self.about}, ranks by source are known of the largest model alone.")
        return self.sourced

    def rank_sums(self):
        return self.sums[1:]

    def hits(self, ks, definition="greater+ties"):
        if definition != DEFINITIONS[0]:
            raise InputError(f"{self.about}, documents are counted by the rank {DEFINITIONS[0]!r} alone.")
        return self.cells.cumsum(axis=0)[self.rows_of(ks, self.ks)].T

    def runs(self, k):
        self.rows_of([k], self.lags[0], "runs of hits")
        return self.hit_runs[1:, self.hit_runs[0] == k]

    def lagged(self, k):
        return self.lags[2:, self.rows_of([k], self.lags[0], "runs of hits")]

    @property
    def about(self):
        return f"Of {self.record['family']} on {self.record['corpus']}, which is imported"

    def rows_of(self, ks, counted, what="hits"):
        """Where ks are among those counted, int64; InputError for one that is not."""
        if lacking := sorted(set(map(int, ks)) - set(counted.tolist())):
            k = lacking[0]
            raise InputError(f"{self.about}, {what} at k = {k} are not known: export with --k {k}.")
        return np.flatnonzero(np.isin(counted, ks))


# --- The file


def counted(table, ks, run_ks, by_source):
    """{name: array} of one rank table, as `Counts` names them; by_source: whether `sourced` is
    among them."""
    ends = np.column_stack([np.zeros_like(table.totals), table.hits(ks), table.totals])
    runs, lags = [], []
    for k in run_ks:
        run, lagged = table.runs(k), table.lagged(k)
        runs.append(np.vstack([np.full(run.shape[1], k), run]))
        lags.append(np.vstack([np.full(lagged.shape[1], k), np.arange(lagged.shape[1]) + 1, lagged]))
    return {
        "ks": np.array(ks),
        "cells": np.diff(ends, axis=1).T,
        "sums": np.vstack([table.nll, table.rank_sums()]),
        "pairs": table.pairs,
        "scored": table.scored,
        "hit_runs": np.hstack(runs),
        "lags": np.hstack(lags),
        "sourced": table.by_source if by_source else np.zeros((3, 0), int),
    }


def packed(array):
    """An array as the bytes of a .npy file, whole numbers in the smallest type that holds them."""
    if array.dtype.kind != "f":
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def write_counts(path, record, tables):
    """Write a counts file atomically; the same counts and record give the same bytes.

    record: "family", "models" ({role: names}), "by", "exported". tables: (role, record, arrays)
    each.
    """
    members, entries = {}, []
    for role, about, arrays in tables:
        digests = {}
        for name, array in arrays.items():
            data = packed(array)
            digests[name] = hashlib.sha256(data).hexdigest()
            members[f"{digests[name]}.npy"] = data
        entries.append({"role": role, "record": about, "arrays": digests})
    text = json.dumps(FORMAT | record | {"tables": entries}, sort_keys=True, allow_nan=False).encode()
    members |= {"record.json": text, "sha256": hashlib.sha256(text).hexdigest().encode()}
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_LZMA)


def read_counts(path):
    """(record, {(role, corpus, protocol): list of Counts, smallest model first}) of a file that
    fits its checksums.

    Raises InputError: no such file, or it is damaged.
    """
    try:
        with zipfile.ZipFile(path) as file:
            members = {name: file.read(name) for name in file.namelist()}
        text, checksum = members.pop("record.json"), members.pop("sha256")
        record, arrays, tables = json.loads(text), {}, {}
        for name, data in members.items():
            arrays[name] = np.load(io.BytesIO(data), allow_pickle=False)
            if f"{hashlib.sha256(data).hexdigest()}.npy" != name:
                raise ValueError(name)
        if hashlib.sha256(text).hexdigest().encode() != checksum or record | FORMAT != record:
            raise ValueError(text)
        for entry in record["tables"]:
            columns = {name: arrays[f"{digest}.npy"] for name, digest in entry["arrays"].items()}
            columns = {n: a if a.dtype.kind == "f" else a.astype(np.int64) for n, a in columns.items()}
            place = entry["role"], entry["record"]["corpus"], entry["record"]["protocol"]
            tables.setdefault(place, []).append(Counts(entry["record"], **columns))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path.") from None
    except DAMAGE:
        raise InputError(
            f"{path} is damaged, or no counts file of version {FORMAT['version']}: get it again."
        ) from None
    for found in tables.values():
        found.sort(key=lambda t: (t.record["nonembedding_params"], t.record["model"]))
    return record, tables


# --- Export


def export_family(
    family, out, corpora=None, protocol="paper", ks=(), by="", anonymous=False, results=None, exported="", grid=None
):
    """Write the counts file of a measured family, and of the models that tell how its trainings
    differ where measured.

    ks: further ones at which hits and runs are counted. by: who measured. anonymous: number the
    sources of text in
    place of their names. exported: when; today. grid: the k at which hits are counted, as a
    function of the size of the
    vocabulary; `exported_ks`.
    Raises InputError: a model without a table, or the file cannot be written.
    """
    family, _, corpora = asked(family, None, corpora, protocol)
    measured = {"family": [family_tables(family, corpus, protocol, results)[0] for corpus in corpora]}
    models = {"family": [model.name for model in family.models]}
    if family.repeats:
        again, missing = tables_here(*asked(family.repeats, None, corpora, protocol), protocol, results)
        if not missing:
            measured["repeats"] = list(again.values())
            models["repeats"] = [model.name for model in load_family(family.repeats).models]
    smallest = min(int(t.record["vocab_size"]) for tables in measured["family"] for t in tables)
    entries = []
    for role, ladders in measured.items():
        for tables in ladders:
            V = min(smallest, *(int(t.record["vocab_size"]) for t in tables))
            hits = [k for k in sorted({*(grid or exported_ks)(smallest), *ks}) if k <= V]
            runs = [k for k in sorted({*RUN_KS, *ks}) if k <= V]
            for table in tables:
                arrays = counted(table, hits, runs, by_source=table is tables[-1])
                entries.append((role, public(table, anonymous), arrays))
    about = {"name": family.name, "title": family.title, "note": family.note}
    exported = exported or date.today().isoformat()
    write_counts(out, {"models": models, "family": about, "by": by, "exported": exported}, entries)
    return out


def k_grid(vocab_size, per_decade=8):
    """Whole numbers from 1 to V, about evenly spaced in log k; 1, 10, 50, 100 and 1000 are always
    among them."""
    grid = np.geomspace(1, vocab_size, 1 + round(per_decade * np.log10(vocab_size)))
    return sorted({int(k) for k in grid.round()} | {k for k in (1, 10, 50, 100, 1000) if k <= vocab_size})


def exported_ks(V):
    """The ranks at which hits are counted for pages, in a vocabulary of V tokens."""
    far = {max(1, round(k * V / PAPER_V)) for k in PAPER_FAR}  # the paper's large k, as the same shares of V
    return {k for k in {*range(1, 21), *KS, *k_grid(V), *far} if k <= V}


def public(table, anonymous):
    """The record of a table without folders of this machine; its sources are numbered if asked, in
    the same order."""
    units = table.record.get("units")
    if anonymous or not units or any(map(FOLDERS.match, units)):
        units = [f"source {i:07d}" for i in table.source.tolist()]
    return cleaned(table.record) | {"units": list(units), "text": table.text}


def cleaned(value):
    """What JSON holds, without paths of this machine but for their last part."""
    if isinstance(value, dict):
        return {k: cleaned(v) for k, v in value.items() if k not in ("path", "file", "units")}
    if isinstance(value, list):
        return [cleaned(v) for v in value]
    return FOLDERS.sub("", value, count=1) if isinstance(value, str) and FOLDERS.match(value) else value


# --- Import


def import_counts(path, name=None):
    """Keep a counts file under results/imported/ and make it a family: the path of the family's
    file.

    name: of the family, by default as it was where it was measured. Its repeats are the family
    NAME.repeats.
    Raises InputError: the file is damaged, or the name is in use.
    """
    record, tables = read_counts(path)
    name, data = check_name(name or record["family"]["name"], "family name"), Path(path).read_bytes()
    folder = results_dir() / "imported"
    counts, own = folder / f"{name}.counts", (folder / f"{name}.yml").resolve()
    other = counts.is_file() and counts.read_bytes() != data
    if other or yaml_files("family").get(name, own) != own or role_of(name) != "family":
        raise InputError(f"the name {name!r} is in use for another family: choose one, as in --as {name}-2.")
    with atomic_path(counts) as temporary:
        temporary.write_bytes(data)
    about = {key: str(record["family"].get(key) or "") for key in ("title", "note")} | {"counts": counts.name}
    for role in sorted({role for role, *_ in tables}, reverse=True):  # the repeats first: the family names them
        corpora = {corpus: found for (of, corpus, _), found in tables.items() if of == role}
        entry = {"name": name if role == "family" else f"{name}.{role}"} | about
        entry["corpora"] = [check_name(corpus, "corpus name") for corpus in corpora]
        if role == "family" and "repeats" in record["models"]:
            entry["repeats"] = f"{name}.repeats"
        entry["models"] = [model_entry(t.record) for t in next(iter(corpora.values()))]
        write_text(folder / f"{entry['name']}.yml", yaml.safe_dump(entry, sort_keys=False, allow_unicode=True))
    return own


def model_entry(record):
    """How a family's file names a model that is not here."""
    ident = record["model_id"] if REPO_ID.match(record["model_id"]) else record["model"]
    entry = {"name": record["model"], "id": ident, "nonembedding_params": record["nonembedding_params"]}
    if isinstance(record.get("requested_revision"), str):
        entry["revision"] = record["requested_revision"]
    return entry


def role_of(name):
    """The part of a counts file that an imported family of that name shows, see `import_counts`."""
    return "repeats" if name.endswith(".repeats") else "family"


def imported_tables(family, corpora, protocol="paper"):
    """{corpus name: list of Counts, smallest model first} of an imported family, which their
    records then name.

    protocol: None for whichever there is.
    """
    path = family.path.parent / family.counts
    record, found = read_counts(path)
    origin = {"by": record["by"], "exported": record["exported"], "was": record["family"]["name"]}
    origin |= {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    tables = {}
    for name in (corpus.name for corpus in corpora):
        protocols = {how: t for (role, of, how), t in found.items() if (role, of) == (role_of(family.name), name)}
        if protocol not in (None, *protocols) or not protocols:
            raise InputError(f"{family.name} is imported, without counts on {name} by the protocol {protocol!r}.")
        counts = protocols[protocol or next(iter(protocols))]
        tables[name] = [replace(t, record=t.record | {"family": family.name, "imported": origin}) for t in counts]
    return tables


def imported_sizes(family):
    """Rows of `rbp families` for an imported family, as `family_sizes` gives them of others."""
    (tables,) = imported_tables(family, [Corpus(family.corpora[0])], None).values()
    rows = []
    for record in (table.record for table in tables):
        row = {name: record[name] for name in ("family", "model", "nonembedding_params", "total_params", "vocab_size")}
        rows.append(row | {"id": record["model_id"], "imported": True})
    return rows
