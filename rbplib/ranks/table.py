"""Rank tables: one Parquet file per (family, model, corpus, protocol), with its provenance and a checksum inside.

`measured` is the door from a notebook to them; the book's page on data says in words what a table holds.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rbplib.models.files import folder_digest, local_bytes
from rbplib.models.sizes import window_length
from rbplib.ranks.counts import Counting, rank_of
from rbplib.settings import (
    PROTOCOLS,
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

COLUMNS = dict.fromkeys(("document", "position", "token", "greater", "ties"), np.int32) | {"logprob": np.float32}
RECORD_KEY = b"rbplib"
MEASURING = 3  # raise it when the same model and text would give other rows: tables made before are measured again
QUICK = 1 << 30  # bytes of a model's folder whose digest is made in a few seconds


@dataclass(frozen=True)
class RankTable(Counting):
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
        return rank_of(self.greater, self.ties, definition)


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


def checked_columns(columns, vocab):
    """The columns in the contract's dtypes and order, or a ValueError that names the first broken rule."""
    if lacking := [name for name in COLUMNS if name not in columns]:
        raise ValueError(f"rank table lacks the column {lacking[0]!r}")
    out = {name: np.asarray(columns[name], dtype=dtype) for name, dtype in COLUMNS.items()}
    if len({a.shape for a in out.values()}) != 1 or out["document"].ndim != 1:
        raise ValueError("the columns of a rank table must be one-dimensional and of one length")
    key = out["document"].astype(np.int64) << 32 | out["position"]
    rules = {
        "rows are not sorted by (document, position), or repeat": np.diff(key) > 0,
        "a position is below 1": out["position"] >= 1,
        "a token id is outside the vocabulary": (out["token"] >= 0) & (out["token"] < vocab),
        "greater is negative": out["greater"] >= 0,
        "ties is below 1": out["ties"] >= 1,
        "a rank is above the vocabulary size": out["greater"].astype(np.int64) + out["ties"] <= vocab,
        "a logprob is above 0 or not a number": out["logprob"] <= 1e-4,
    }
    for broken, fine in rules.items():
        if not fine.all():
            raise ValueError(f"rank table: {broken}")
    return out


def write_ranks(path, columns, record):
    """Write one rank table atomically, with `record` and a checksum in the file's metadata.

    columns: mapping of COLUMNS names to arrays (n,). record: provenance, JSON-able, with vocab_size and documents.
    Raises ValueError: a column is missing or breaks the contract. InputError: the file cannot be written.
    """
    out = checked_columns(columns, int(record["vocab_size"]))
    record = {**record, "scored_tokens": len(out["document"]), "sha256": columns_digest(out)}
    table = pa.table(out).replace_schema_metadata({RECORD_KEY: json.dumps(record, sort_keys=True).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=1 << 20)


def read_record(path):
    """The provenance record alone, without reading the columns."""
    if not Path(path).is_file():
        raise InputError(f"there is no rank table {path}: run `rbp measure` for that family and corpus first.")
    try:
        return json.loads(pq.read_schema(path).metadata[RECORD_KEY])
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        raise unusable(path, "is damaged or no rank table") from None


def unusable(path, why):
    return InputError(f"{path} {why}: delete it and run `rbp measure` again.")


def read_ranks(path, expect=None):
    """Read and verify one rank table; `expect` are record entries that must match, e.g. {"corpus_digest": ...}.

    Raises InputError: no such file, truncated, its checksum fails, or its record differs from `expect`.
    """
    path, record = Path(path), read_record(path)
    if differ := [k for k, v in (expect or {}).items() if record.get(k) != v]:
        raise unusable(path, f"was measured with another {' and '.join(differ)}")
    try:
        table = pq.read_table(path)
        columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    except (OSError, pa.ArrowException, KeyError):
        raise unusable(path, "is damaged") from None
    if columns_digest(columns) != record.get("sha256"):
        raise unusable(path, "fails its checksum")
    return RankTable(**columns, record=record, path=path)


def asked(family, models=None, corpora=None, protocol="paper"):
    """(Family, its Models, Corpora) for names or paths; all models, and the default corpora, where none are given."""
    family = load_family(family)
    check_choice(protocol, PROTOCOLS, "protocol")
    models = [family.model(m) for m in models] if models else family.models
    corpora = [load_corpus(c) for c in (corpora or default_corpora(family))]
    if not corpora:
        raise InputError(f"{family.name} has no corpus to be measured on: name one with --corpus.")
    return family, models, corpora


def expected(family, models, corpora, protocol="paper", samples=None, dtype=None, head_dtype="float32"):
    """Record entries that make a table the one asked for: the one place that says so.

    Args:
        family, models, corpora: records of settings.
        samples: the corpora's Documents, where they are at hand. Without them it is what a page can tell in seconds:
            the digest on record for a corpus, that of a local model up to a gigabyte, and weights of any dtype.
        dtype, head_dtype: names, of the weights (None: the models' own) and of the head's product.
    Returns:
        {model name: list of dicts, one per corpus}.
    Cost: one hashing of a local model's files.
    """
    shared = {"family": family.name, "protocol": protocol, "window": window_length(family), "measuring": MEASURING}
    digests, found = [c.digest for c in samples or corpora], {}
    for model in models:
        entries = shared | {"model": model.name, "model_id": model.id}
        entries["experts"] = model.experts if model.experts == "active" else None  # None: all, as before
        if not model.local:
            entries["requested_revision"] = model.revision
        elif samples or local_bytes(model.local) <= QUICK:
            entries["model_digest"] = folder_digest(model.local)
        if samples:
            entries |= {"requested_dtype": dtype or model.dtype, "head_dtype": head_dtype}
        found[model.name] = [
            entries
            | {"corpus": c.name, "seed": c.seed, "group": c.group}
            | ({"corpus_digest": digest} if digest else {})
            for c, digest in zip(corpora, digests, strict=True)
        ]
    return found


def measured(family, corpora=None, protocol="paper"):
    """The rank tables of a family: the one door from a notebook to what was measured.

    Args:
        as `measure`.
    Returns:
        {corpus name: list of RankTable, smallest model first}. What is missing, damaged, or was measured with another
        model, window, seed, text or code is measured first, see `expected`.
    Cost: each table is read and hashed once. torch is imported only when something has to be measured.
    """
    family, models, corpora = asked(family, None, corpora, protocol)

    def path(model, corpus):
        return ranks_path(family.name, model.name, corpus.name, protocol)

    with suppress(InputError):
        expect = expected(family, models, corpora, protocol)
        return {
            c.name: by_size(read_ranks(path(m, c), expect[m.name][i]) for m in models) for i, c in enumerate(corpora)
        }
    from rbplib.ranks.measure import measure

    measure(family, corpora=corpora, protocol=protocol)
    return {c.name: by_size(read_ranks(path(m, c)) for m in models) for c in corpora}


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
    paths = {m.name: ranks_path(family.name, m.name, corpus, protocol, results) for m in family.models}
    tables = [read_ranks(path) for path in paths.values() if path.is_file()]
    if not tables:
        mend = f"run `rbp measure --family {family.name} --corpus {corpus}`."
        raise InputError(f"{family.name} has no rank table on {corpus}: {mend}")
    return tables, tuple(name for name, path in paths.items() if not path.is_file())
