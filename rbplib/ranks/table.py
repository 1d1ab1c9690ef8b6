"""Rank tables: one Parquet file per (family, model, corpus, protocol), with its provenance and a checksum inside.

`measured` is the door from a notebook to them; the book's page on data says in words what a table holds.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rbplib.models.files import folder_digest
from rbplib.models.sizes import window_length
from rbplib.ranks.columns import COLUMNS, checked_columns, columns_digest
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
    if differ := [k for k, v in (expect or {}).items() if record.get(k) != v]:
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

    with suppress(InputError):
        expect = expected(family, family.models, corpora, protocol)
        return {
            c.name: by_size(
                read_ranks(ranks_path(family.name, name, c.name, protocol), entries[i])
                for name, entries in expect.items()
            )
            for i, c in enumerate(corpora)
        }
    from rbplib.ranks.measure import measure

    measure(family, corpora=corpora, protocol=protocol)
    return {c.name: by_size(family_tables(family, c.name, protocol)[0]) for c in corpora}


def measured_families(families=(), corpora=(), protocol="paper"):
    """{(family name, corpus name): list of RankTable, smallest model first}; empty families: the embedded ones."""
    families = [load_family(f) for f in families] or [f for f in map(load_family, family_names()) if f.embedded]
    return {(f.name, name): tables for f in families for name, tables in measured(f, corpora, protocol).items()}


def by_size(tables):
    """Tables of one family, smallest model first."""
    return sorted(tables, key=lambda t: (float(t.record["nonembedding_params"]), str(t.record.get("model"))))


def family_tables(family, corpus, protocol="paper", results=None):
    """(tables, names of the models without one) of a family on one corpus, in its order; nothing is measured."""
    family = load_family(family)
    tables, missing = [], []
    for m in family.models:
        try:
            tables.append(read_ranks(ranks_path(family.name, m.name, corpus, protocol, results)))
        except MissingTable:
            missing.append(m.name)
    if not tables:
        raise MissingTable(
            f"{family.name} has no rank table on {corpus}: run `rbp measure --family {family.name} --corpus {corpus}`."
        )
    return tables, tuple(missing)
