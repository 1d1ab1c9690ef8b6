"""Rank tables: one Parquet file per model and text, with its provenance inside and a checksum over both.

`measured` is the door from a notebook to them; the book's page on data says in words what a table holds.
"""

import hashlib
import json
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rbplib.models.files import folder_digest
from rbplib.models.quantised import is_model_place
from rbplib.models.sizes import sizes_of
from rbplib.ranks.counts import Counting, rank_of
from rbplib.ranks.exchange import imported_tables
from rbplib.ranks.identity import asked, digest, expected, ranks_path
from rbplib.settings import InputError, Model, argument, atomic_path, known, load_family, one_each, results_dir, root
from rbplib.text.corpora import text_known

COLUMNS = dict.fromkeys(("document", "position", "token", "greater", "ties"), np.int32) | {"logprob": np.float32}
RECORD_KEY = b"rbplib"
# What every record has.
FIELDS = dict.fromkeys(("family", "model", "corpus", "protocol", "columns_sha256"), str) | {"sample": dict}
FIELDS |= dict.fromkeys(("documents", "vocab_size", "nonembedding_params", "scored_tokens"), int)


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
    """Write one rank table atomically, with `record` in the file's metadata and a checksum over both.

    columns: mapping of COLUMNS names to arrays (n,). record: provenance, JSON-able, with what FIELDS names.
    Raises ValueError: a column is missing or breaks the contract. InputError: the file cannot be written.
    """
    out = checked_columns(columns, int(record["vocab_size"]))
    record = {k: v for k, v in record.items() if k != "sha256"} | {"scored_tokens": len(out["document"])}
    record |= {"columns_sha256": columns_digest(out)}
    record |= {"sha256": digest(record)}
    table = pa.table(out).replace_schema_metadata({RECORD_KEY: json.dumps(record, sort_keys=True).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=1 << 20)


def read_record(path, expect=None):
    """The provenance record alone, checked as in `read_ranks`, without reading the columns."""
    if not Path(path).is_file():
        raise InputError(f"there is no rank table {path}: run `rbp measure` for that family and corpus first.")
    try:
        record = dict(json.loads(pq.read_schema(path).metadata[RECORD_KEY]))
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        raise unusable(path, "is damaged or no rank table") from None
    if lacking := [name for name, kind in FIELDS.items() if not isinstance(record.get(name), kind)]:
        raise unusable(path, f"has no {lacking[0]!r} in its record")
    if digest({k: v for k, v in record.items() if k != "sha256"}) != record.get("sha256"):
        raise unusable(path, "fails the checksum of its record")
    if differ := [k for k, v in (expect or {}).items() if record.get(k) != v]:
        raise unusable(path, f"was measured with another {' and '.join(differ)}")
    return record


def corpus_records(corpus, results=None):
    """Records of the rank tables of a corpus as it is now, of every family and protocol; damaged ones are left out."""
    now, found = text_known(corpus), []
    for path in sorted((Path(results or results_dir()) / "ranks").glob(f"*/*/{corpus.name}[-.]*.parquet")):
        with suppress(InputError):
            found.append(read_record(path, {k: v for k, v in now.items() if k != "units"} | {"corpus": corpus.name}))
    return found


def unusable(path, why):
    return InputError(f"{path} {why}: delete it and run `rbp measure` again.")


def read_ranks(path, expect=None):
    """Read and verify one rank table; `expect` are record entries that must match, see `identity.expected`.

    Raises InputError: no such file, truncated, a checksum fails, an entry is missing, or differs from `expect`.
    """
    path, record = Path(path), read_record(path, expect)
    try:
        table = pq.read_table(path)
        columns = {name: table.column(name).to_numpy() for name in COLUMNS}
        fine = columns_digest(columns) == record["columns_sha256"]
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        raise unusable(path, "is damaged") from None
    if not fine:
        raise unusable(path, "fails its checksum")
    return RankTable(**columns, record=record, path=path)


def measured(family, corpora=None, protocol="paper"):
    """The rank tables of a family: the one door from a notebook to what was measured.

    Args:
        as `measure`.
    Returns:
        {corpus name: list of RankTable, smallest model first}. What is missing, damaged, or was measured with another
        model, window, seed, text or code is measured first, see `expected`. Of an imported family: list of Counts.
    Cost: each table is read and hashed once. torch is imported only when something has to be measured.
    """
    family, models, corpora = asked(family, None, corpora, protocol)
    if family.counts:
        return imported_tables(family, corpora, protocol)
    with suppress(InputError):
        expect = [entries for of_model in expected(family, models, corpora, protocol).values() for entries in of_model]
        return by_corpus(corpora, [read_ranks(ranks_path(entries), entries) for entries in expect])
    from rbplib.ranks.measure import measure

    return by_corpus(corpora, list(map(read_ranks, measure(family, corpora=corpora, protocol=protocol))))


def by_corpus(corpora, tables):
    """{corpus name: its tables, smallest model first} of tables given model by model."""
    return {c.name: by_size(tables[i :: len(corpora)]) for i, c in enumerate(corpora)}


def measured_families(families=(), corpora=(), protocol="paper"):
    """{(family name, corpus name): list of RankTable, smallest model first}; empty families: the embedded ones.

    Raises InputError: two families of one name, or texts that differ under one name.
    """
    families = one_each(map(load_family, families), "families") or [f for f in known("family") if f.embedded]
    found = {(f.name, name): tables for f in families for name, tables in measured(f, corpora, protocol).items()}
    first = {corpus: (family, tables[0]) for (family, corpus), tables in reversed(found.items())}
    for (family, corpus), (table, *_) in found.items():
        other, theirs = first[corpus]
        if table.record.get("corpus_digest") != theirs.record.get("corpus_digest"):
            raise InputError(f"{corpus} of {family} is another text than that of {other}: show them apart.")
    return found


def by_size(tables):
    """Tables of one family, smallest model first."""
    return sorted(tables, key=lambda t: (float(t.record["nonembedding_params"]), str(t.record.get("model"))))


def family_tables(family, corpus, protocol="paper", results=None, partial=False):
    """(tables, names of the models without one) of a family on one corpus, in its order; nothing is measured.

    Raises InputError: no table at all; one that is damaged or another's; or, unless `partial`, a model without one.
    """
    family, models, corpora = asked(family, None, [corpus], protocol)
    tables, missing = tables_here(family, models, corpora, protocol, results)
    corpus = corpora[0]
    names = " ".join(shlex.quote(x) for x in ("--family", argument(family), "--corpus", argument(corpus)))
    mend = f"run `rbp measure {names}{'' if protocol == 'paper' else f' --protocol {protocol}'}`"
    if not tables:
        raise InputError(f"{family.name} has no rank table on {corpus.name} as it is now: {mend}.")
    if missing and not partial:
        raise InputError(
            f"{family.name} has no rank table on {corpus.name} as it is now of {', '.join(missing)}: {mend}, or go on "
            "without with --partial."
        )
    return tables, missing


def tables_here(family, models, corpora, protocol="paper", results=None):
    """(tables of those models that have one on the one corpus, names of the others); sizes are compared."""
    if family.counts:
        return imported_tables(family, corpora, protocol)[corpora[0].name], ()
    expect = {name: entries for name, (entries,) in expected(family, models, corpora, protocol).items()}
    paths = {m: ranks_path(expect[m.name], results) for m in models}
    tables = [sized(read_ranks(path, expect[m.name]), m) for m, path in paths.items() if path.is_file()]
    return tables, tuple(m.name for m, path in paths.items() if not path.is_file())


def sized(table, model):
    """The table; refused where its record gives its model, which is on this machine, another size or vocabulary."""
    sizes, record = None, table.record
    with suppress(InputError):  # where a model brings its own code, its size cannot be told before it runs
        sizes = sizes_of(model) if model.local else None
    if sizes and (sizes.nonembedding, sizes.vocab) != (record["nonembedding_params"], record["vocab_size"]):
        said = f"S = {record['nonembedding_params']:,} and {record['vocab_size']:,} tokens"
        raise unusable(table.path, f"gives its model {said}, which has {sizes.nonembedding:,} and {sizes.vocab:,}")
    return table


def check_table(path):
    """Read one table, and compare it with its place and, where the folder of its model is here, with that."""
    table = read_ranks(path)
    record, ident = table.record, str(table.record.get("model_id"))
    if ranks_path(record).parts[-3:] != path.parts[-3:]:
        belongs = f"{record['family']}/{record['model']} on {record['corpus']}"
        raise unusable(path, f"is not the table of that place, but one of {belongs}")
    for folder in (Path(ident), root() / ident):
        if is_model_place(folder) and folder_digest(folder) == record.get("model_digest"):
            sized(table, Model(record["model"], ident, experts=record.get("experts"), local=folder))
