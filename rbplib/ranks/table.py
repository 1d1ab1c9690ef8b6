"""Rank tables: one Parquet file per (family, model, corpus, protocol), with its provenance and a checksum inside.

The contract of the columns stands in COLUMNS; the book's page on data says it in words.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rbplib.models.load import folder_digest
from rbplib.models.sizes import window_length
from rbplib.settings import (
    InputError,
    atomic_path,
    check_choice,
    check_name,
    default_corpora,
    family_names,
    load_corpus,
    load_family,
    results_dir,
)

COLUMNS = {
    "document": np.int32,
    "position": np.int32,
    "token": np.int32,
    "greater": np.int32,
    "ties": np.int32,
    "logprob": np.float32,
}
DEFINITIONS = ("greater+ties", "greater+1", "random")
RECORD_KEY = b"rbplib"
MEASURING = 2  # raise it when the same model and text would give other rows: tables made before are measured again
QUICK = 1 << 30  # bytes of a model's folder whose digest is made in a few seconds


class MissingTable(InputError):
    """There is no rank table where one was asked for."""


@dataclass(frozen=True)
class RankTable:
    """One row per scored token, sorted by (document, position).

    document, position, token, greater, ties: int32 (n,); logprob: float32 (n,), nats. record: the provenance.
    """

    document: np.ndarray
    position: np.ndarray
    token: np.ndarray
    greater: np.ndarray
    ties: np.ndarray
    logprob: np.ndarray
    record: dict
    path: Path | None = None

    def __len__(self):
        return len(self.document)

    def rank(self, definition="greater+ties"):
        """Rank of the true token, int64 (n,), 1 is best.

        "greater+ties" is the paper's Eq. 3, "greater+1" its authors' code, "random" the expected rank when ties are
        broken at random (float64).
        """
        check_choice(definition, DEFINITIONS, "rank definition")
        greater, ties = self.greater.astype(np.int64), self.ties.astype(np.int64)
        if definition == "greater+ties":
            return greater + ties
        if definition == "greater+1":
            return greater + 1
        return greater + (ties + 1) / 2

    @cached_property
    def documents(self):
        """Number of documents in the sample, also those without a scored token."""
        return int(self.record["documents"])


def ranks_path(family, model, corpus, protocol="paper", results=None):
    """results/ranks/FAMILY/MODEL/CORPUS.parquet; another protocol is part of the file's name."""
    for value, what in ((family, "family name"), (model, "model name"), (corpus, "corpus name")):
        check_name(value, what)
    suffix = "" if protocol == "paper" else f".{protocol}"
    return Path(results or results_dir()) / "ranks" / family / model / f"{corpus}{suffix}.parquet"


def columns_digest(columns):
    """SHA-256 over the data columns in the contract's order and byte layout: what 'the same bytes' means."""
    h = hashlib.sha256()
    for name, dtype in COLUMNS.items():
        h.update(np.ascontiguousarray(columns[name], dtype=np.dtype(dtype).newbyteorder("<")).tobytes())
    return h.hexdigest()


def checked_columns(columns, record):
    """The columns in the contract's dtypes and order, or a ValueError that names the first broken rule."""
    out = {}
    for name, dtype in COLUMNS.items():
        if name not in columns:
            raise ValueError(f"rank table lacks the column {name!r}")
        out[name] = np.asarray(columns[name], dtype=dtype)
    if len({a.shape for a in out.values()}) != 1 or out["document"].ndim != 1:
        raise ValueError("the columns of a rank table must be one-dimensional and of one length")
    vocab = int(record["vocab_size"])
    if len(out["document"]):
        key = out["document"].astype(np.int64) << 32 | out["position"]
        rank = out["greater"].astype(np.int64) + out["ties"]
        rules = {
            "rows are not sorted by (document, position), or repeat": (np.diff(key) > 0).all(),
            "a position is below 1": out["position"].min() >= 1,
            "a token id is outside the vocabulary": 0 <= out["token"].min() and out["token"].max() < vocab,
            "greater is negative": out["greater"].min() >= 0,
            "ties is below 1": out["ties"].min() >= 1,
            "a rank is above the vocabulary size": rank.max() <= vocab,
            "a logprob is above 0 or not a number": (out["logprob"] <= 1e-4).all(),
        }
        for broken, fine in rules.items():
            if not fine:
                raise ValueError(f"rank table: {broken}")
    return out


def write_ranks(path, columns, record):
    """Write one rank table atomically, with `record` and a checksum in the file's metadata.

    Args:
        columns: mapping of COLUMNS names to arrays (n,).
        record: provenance, JSON-able; needs at least vocab_size and documents.
    Raises:
        ValueError: a column is missing or breaks the contract. InputError: the file cannot be written.
    """
    out = checked_columns(columns, record)
    record = {**record, "scored_tokens": len(out["document"]), "sha256": columns_digest(out)}
    table = pa.table(out).replace_schema_metadata({RECORD_KEY: json.dumps(record, sort_keys=True).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=1 << 20)
    return record


def read_record(path):
    """The provenance record alone, without reading the columns."""
    path = Path(path)
    if not path.is_file():
        raise MissingTable(f"there is no rank table {path}: run `rbp measure` for that family and corpus first.")
    try:
        metadata = pq.read_schema(path).metadata or {}
        return json.loads(metadata[RECORD_KEY])
    except (OSError, pa.ArrowException, KeyError, ValueError):
        raise InputError(f"{path} is damaged or no rank table: delete it and run `rbp measure` again.") from None


def mismatches(record, expect):
    """Names of the keys of `expect` whose values in `record` differ."""
    return [k for k, v in expect.items() if record.get(k) != v]


def read_ranks(path, expect=None):
    """Read and verify one rank table.

    Args:
        path: the Parquet file.
        expect: record entries that must match, e.g. {"corpus_digest": ...}.
    Raises:
        MissingTable: no such file. InputError: truncated, its checksum fails, or its record differs from `expect`.
    """
    path = Path(path)
    record = read_record(path)
    if differ := mismatches(record, expect or {}):
        raise InputError(
            f"{path} was measured with another {' and '.join(differ)}: delete it and run `rbp measure` again."
        )
    try:
        table = pq.read_table(path)
        columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    except (OSError, pa.ArrowException, KeyError):
        raise InputError(f"{path} is damaged: delete it and run `rbp measure` again.") from None
    if columns_digest(columns) != record.get("sha256"):
        raise InputError(f"{path} fails its checksum: delete it and run `rbp measure` again.")
    return RankTable(**columns, record=record, path=path)


def expected(family, models, corpora, protocol="paper", samples=None, dtype=None):
    """Record entries that make a table the one asked for: the one place that says so.

    Args:
        family, models, corpora: records of settings.
        samples: the corpora's Documents, where they are at hand. Without them it is what a page can tell in seconds:
            the digest on record for a corpus, that of a local model up to a gigabyte, and weights of any dtype.
        dtype: of the weights, in place of the models' own.
    Returns:
        {model name: list of dicts, one per corpus}.
    Cost: one hashing of a local model's files.
    """
    window, found = window_length(family), {}
    digests = [s.digest for s in samples] if samples else [c.digest for c in corpora]
    for model in models:
        entries = {
            "family": check_name(family.name, "family name"),
            "model": model.name,
            "model_id": model.id,
            "protocol": protocol,
            "window": window,
            "measuring": MEASURING,
        }
        if not model.local:
            entries["requested_revision"] = model.revision
        elif samples or sum(p.stat().st_size for p in model.local.iterdir() if p.is_file()) <= QUICK:
            entries["model_digest"] = folder_digest(model.local)
        if samples:
            entries["requested_dtype"] = str(dtype or model.dtype).removeprefix("torch.")
        found[model.name] = [
            {**entries, "corpus": c.name, "seed": c.seed, **({"corpus_digest": digest} if digest else {})}
            for c, digest in zip(corpora, digests, strict=True)
        ]
    return found


def measured(family, corpora=None, protocol="paper"):
    """The rank tables of a family: the one door from a notebook to what was measured.

    Args:
        family: a name, a YAML path, or a settings.Family.
        corpora: names or paths; the family's default ones when empty.
        protocol: "paper" or "full", see text.windows.
    Returns:
        {corpus name: list of RankTable, smallest model first}. What is missing, damaged, or was measured with another
        model, window, seed, text or code is measured first, see `expected`.
    Raises:
        InputError: as `measure`.
    Cost: each table is read and hashed once. torch is imported only when something has to be measured.
    """
    family = load_family(family)
    corpora = [load_corpus(c) for c in (corpora or default_corpora(family))]

    def read(expect):
        found = {}
        for i, c in enumerate(corpora):
            paths = {m.name: ranks_path(family.name, m.name, c.name, protocol) for m in family.models}
            found[c.name] = by_size(read_ranks(p, expect and expect[name][i]) for name, p in paths.items())
        return found

    with suppress(InputError):
        return read(expected(family, family.models, corpora, protocol))
    from rbplib.ranks.measure import measure

    measure(family, corpora=corpora, protocol=protocol)
    return read(None)


def measured_families(families=(), corpora=(), protocol="paper"):
    """{(family name, corpus name): list of RankTable, smallest model first}; empty families: the embedded ones."""
    families = [load_family(f) for f in families] or [f for f in map(load_family, family_names()) if f.embedded]
    return {(f.name, name): tables for f in families for name, tables in measured(f, corpora, protocol).items()}


def by_size(tables):
    """Tables of one family, smallest model first."""
    return sorted(tables, key=lambda t: (float(t.record["nonembedding_params"]), str(t.record.get("model"))))


def family_tables(family, corpus, protocol="paper", results=None, models=None):
    """(tables, names of the models without one) of a family on one corpus, in its order; nothing is measured."""
    family = load_family(family)
    tables, missing = [], []
    for m in family.models:
        if models is not None and m.name not in models:
            continue
        try:
            tables.append(read_ranks(ranks_path(family.name, m.name, corpus, protocol, results)))
        except MissingTable:
            missing.append(m.name)
    if not tables:
        raise MissingTable(
            f"{family.name} has no rank table on {corpus}: run `rbp measure --family {family.name} --corpus {corpus}`."
        )
    return tables, tuple(missing)
