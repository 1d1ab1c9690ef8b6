"""Counts files: what pages need of a measured family in one file, read where there is no model, no text and no torch.

A zip of NumPy arrays, each named by its SHA-256, and `record.json`, whose own digest is in the member `sha256`: a
checksum over everything. book/data describes the format. A file is believed when it passes every test.
"""

import hashlib
import io
import json
import lzma
import zipfile
from dataclasses import replace

import numpy as np

from rbplib.counts import Counts
from rbplib.families import Corpus, InputError, atomic_path, known, results_dir, root
from rbplib.rules import count_rules, family_rules, hold, record_rules, typed, whole

FORMAT, VERSION = "rbp counts", 1
LARGEST = 1 << 28  # bytes that a file may hold unpacked
PARTS = {"family": dict, "models": dict, "tables": list, "exported": str, "by": str}
TABLE = {"role": str, "record": dict, "arrays": dict}
RECORD = dict.fromkeys(("family", "model", "model_id", "corpus", "protocol", "text", "sha256"), str) | {"units": list}
RECORD |= dict.fromkeys(("documents", "vocab_size", "nonembedding_params", "total_params", "scored_tokens"), int)
BROKEN = (ValueError, TypeError, LookupError, OSError, EOFError, MemoryError, RecursionError, RuntimeError)
BROKEN += (zipfile.BadZipFile, lzma.LZMAError)  # all that readers of zip, JSON and .npy make of damage


def counted(table, ks, run_ks, by_source):
    """Arrays of one rank table, as `Counts` names them; by_source: whether its ranks of each source are among them."""
    ends = np.column_stack([np.zeros_like(table.totals), table.hits(ks), table.totals])
    runs, lags = [], []
    for k in run_ks:
        run, lagged = table.runs(k), table.lagged(k)
        runs.append(np.vstack([np.full(run.shape[1], k), run]))
        lags.append(np.vstack([np.full(lagged.shape[1], k), np.arange(lagged.shape[1]) + 1, lagged]))
    found = {"ks": np.array(ks), "cells": np.diff(ends, axis=1).T, "sums": np.vstack([table.nll, table.rank_sums()])}
    found |= {"pairs": table.pairs, "scored": table.scored, "hit_runs": np.hstack(runs), "lags": np.hstack(lags)}
    return found | {"sourced": table.by_source if by_source else np.zeros((3, 0), int)}


def packed(array):
    """An array as the bytes of a .npy file, in the smallest type that holds its whole numbers."""
    if array.dtype.kind != "f":
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    np.save(file := io.BytesIO(), np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def write_counts(path, record, tables):
    """Write a counts file atomically; the same counts and record give the same bytes.

    record: what PARTS names, but the tables: those are (role, record, arrays) each.
    """
    members, listed = {}, []
    for role, about, arrays in tables:
        data = {name: packed(array) for name, array in arrays.items()}
        digests = {name: hashlib.sha256(x).hexdigest() for name, x in data.items()}
        members |= {f"{digests[name]}.npy": x for name, x in data.items()}
        listed.append({"role": role, "record": about, "arrays": digests})
    said = {"format": FORMAT, "version": VERSION, **record, "tables": listed}
    said = json.dumps(said, sort_keys=True, allow_nan=False).encode()
    members |= {"record.json": said, "sha256": hashlib.sha256(said).hexdigest().encode()}
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as z:
        for name, x in members.items():
            z.writestr(zipfile.ZipInfo(name), x, zipfile.ZIP_LZMA)


def unpacked(path):
    """(record, {digest: array}) of a file whose checksums hold; ValueError with what is wrong."""
    with zipfile.ZipFile(path) as z:
        names, size = z.namelist(), sum(i.file_size for i in z.infolist())
        if size > LARGEST:
            raise ValueError(f"it would unpack to {size:,} bytes, and {LARGEST:,} are the most")
        if any(i.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_LZMA) for i in z.infolist()):
            raise ValueError("it is compressed in another way than such files are")
        data = {name: z.read(name) for name in names}
    if len(data) != len(names) or {"record.json", "sha256"} - set(data):
        raise ValueError("a part of it is missing, or there twice")
    said, digest = data.pop("record.json"), data.pop("sha256")
    record = json.loads(said)
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError("it is no counts file")
    if record.get("version") != VERSION:
        raise ValueError(f"it is of version {record.get('version')!r}, and this code reads {VERSION}")
    if hashlib.sha256(said).hexdigest().encode() != digest:
        raise ValueError("its record fails the checksum")
    if odd := [name for name, x in data.items() if f"{hashlib.sha256(x).hexdigest()}.npy" != name]:
        raise ValueError(f"its part {odd[0]!r} fails its checksum, or is no part of such a file")
    return record, {name[:-4]: np.load(io.BytesIO(x), allow_pickle=False) for name, x in data.items()}


def read_counts(path):
    """(record, {(role, corpus, protocol): list of Counts, smallest model first}) of a file that passes every test.

    Raises InputError: no such file, or the first test that failed.
    """
    try:
        record, arrays = unpacked(path)
        found = {}
        for entry in typed(record, PARTS, "its record")["tables"]:
            about = typed(typed(entry, TABLE, "its list of tables")["record"], RECORD, "the record of a table")
            hold(record_rules(about, entry["role"]), about["model"])
            table = Counts(about, **whole({n: arrays[d] for n, d in entry["arrays"].items()}, about))
            hold(count_rules(table), f"{about['model']} on {about['corpus']}")
            found.setdefault((entry["role"], about["corpus"], about["protocol"]), []).append(table)
        sizes = {m.id: m.nonembedding_params for f in known("family") if not f.counts for m in f.models}
        for (role, corpus, _), tables in found.items():
            tables.sort(key=lambda t: (t.record["nonembedding_params"], t.record["model"]))
            hold(family_rules(tables, record["models"].get(role, []), sizes), f"{role} on {corpus}")
        texts = {(corpus, str(t[0].record.get("corpus_digest"))) for (_, corpus, _), t in found.items()}
        if len(texts) > len(dict(texts)):
            raise ValueError("the family and its repeats were measured on different texts")
        if not any(role == "family" for role, *_ in found):
            raise ValueError("it holds no table")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path.") from None
    except BROKEN as error:
        said = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or type(error).__name__
        raise InputError(f"{path} is not to be believed: {said}. Get it again, or ask for a new export.") from None
    return record, found


def imported_tables(family, corpora, protocol="paper"):
    """{corpus name: list of Counts, smallest model first} of an imported family, which their records then name.

    protocol: None for whichever there is.
    """
    path = family.path.parent / family.counts
    record, found = read_counts(path)
    told = {"by": record["by"], "exported": record["exported"], "was": record["family"].get("name")}
    told |= {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    tables = {}
    for name in (c.name for c in corpora):
        kept = {how: t for (role, corpus, how), t in found.items() if (role, corpus) == (role_of(family.name), name)}
        if protocol not in (None, *kept) or not kept:
            raise InputError(f"{family.name} is imported, without counts on {name} by the protocol {protocol!r}.")
        of_role = kept[protocol or next(iter(kept))]
        tables[name] = [replace(t, record=t.record | {"family": family.name, "imported": told}) for t in of_role]
    return tables


def broken_files():
    """What is wrong with counts files that families are made of, published and imported ones: list of sentences."""
    found = []
    for path in (p for f in (root() / "published" / "ranks", results_dir() / "imported") for p in f.glob("*.counts")):
        try:
            read_counts(path)
        except InputError as error:
            found.append(str(error))
    return found


def imported_sizes(family):
    """Rows of `rbp families` for an imported family, as `models.sizes.family_sizes` gives them of others."""
    tables = next(iter(imported_tables(family, [Corpus(family.corpora[0])], None).values()))
    names = ("family", "model", "model_id", "nonembedding_params", "total_params", "vocab_size")
    rows = [{name.replace("model_id", "id"): t.record[name] for name in names} for t in tables]
    return [row | {"imported": True} for row in rows]


def role_of(name):
    """The part of a counts file that an imported family of that name shows, see `sharing.import_counts`."""
    return "repeats" if name.endswith(".repeats") else "family"
