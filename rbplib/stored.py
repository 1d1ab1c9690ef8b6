"""The file of a rank table: Parquet, with its provenance inside and a checksum over both; read as a whole or counted.

The book's page on data says in words what it holds. pyarrow is imported where a file is: tables in memory need none.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from rbplib.counts import Counting, distinct, rank_of
from rbplib.families import InputError, atomic_path
from rbplib.inputs import digest
from rbplib.model_files import remembered

COLUMNS = dict.fromkeys(("document", "position", "token", "greater", "ties"), np.int32) | {"logprob": np.float32}
NOTHING = {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}
RECORD_KEY = b"rbplib"
GROUP, BATCH = 1 << 17, 1 << 18  # rows of a group of a file, and rows that are read at once
# What every record has.
FIELDS = dict.fromkeys(("family", "model", "corpus", "protocol", "columns_sha256"), str) | {"sample": dict}
FIELDS |= dict.fromkeys(("documents", "vocab_size", "nonembedding_params", "scored_tokens"), int)


@dataclass(frozen=True)
class RankTable(Counting):
    """One row per scored token, sorted by (document, position), in memory.

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
        """Rank of the true token, 1 is best, int64 (n,): "greater+ties" is the paper's Eq. 3, "greater+1" its authors'
        code, "random" the expected rank when ties are broken at random (float64)."""
        return rank_of(self.greater, self.ties, definition)

    @cached_property
    def text(self):
        """SHA-256 of which tokens were scored: equal for models on the same tokens."""
        return digests(lambda name: [vars(self)])[0]

    @cached_property
    def joined(self):
        """Whether a row continues the one before: the same document, the next position; bool (n,)."""
        joined = (np.diff(self.document) == 0) & (np.diff(self.position) == 1)
        return np.append(np.zeros(len(self) - len(joined), bool), joined)

    def runs_of(self, hits):
        """Distinct (document, length) of the runs of rows where hits, bool (n,), and their number, int64 (3, R)."""
        starts = hits & ~(np.append(False, hits[:-1])[: len(self)] & self.joined)
        return distinct(self.document[starts], np.bincount(starts.cumsum()[hits] - 1, minlength=starts.sum()))

    def parts(self, *names):
        return [self]


@dataclass(frozen=True)
class StoredRanks(Counting):
    """A rank table in its file: what is counted is read for the moment of a count, a few rows at a time."""

    record: dict
    path: Path
    text: str = ""  # SHA-256 of which tokens were scored

    def __len__(self):
        return self.record["scored_tokens"]

    def batches(self, *names):
        """{column name: array} of the next BATCH rows, in order. Raises InputError: the file cannot be read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path, pre_buffer=False) as file:  # else what is read of it is held to the end
                for batch in filter(len, file.iter_batches(BATCH, columns=names)):
                    yield {name: batch.column(name).to_numpy() for name in names}
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            raise unusable(self.path, "is damaged") from None

    def parts(self, *names):
        """RankTables of these columns and the documents, each of whole documents, in order; at least one."""
        rest, other = {name: NOTHING[name] for name in ("document", *names)}, dict.fromkeys(COLUMNS)
        for rows in self.batches(*rest):
            rows = {name: np.append(rest[name], rows[name]) for name in rest}
            if not 0 <= rows["document"][0] <= rows["document"][-1] < self.documents:
                raise unusable(self.path, "has rows of documents that its record does not know")
            last = np.searchsorted(rows["document"], rows["document"][-1])  # a document that may go on
            yield RankTable(
                **other | {name: values[:last] for name, values in rows.items()}, record=self.record, path=self.path
            )
            rest = {name: values[last:] for name, values in rows.items()}
        yield RankTable(**other | rest, record=self.record, path=self.path)

    def read(self, most=None):
        """RankTable of all rows, with the checksum compared, or of the first so many batches. Raises InputError."""
        found = {n: np.concatenate([NOTHING[n], *(rows[n] for rows in islice(self.batches(n), most))]) for n in COLUMNS}
        if most is None and digests(lambda _: [found])[1] != self.record["columns_sha256"]:
            raise unusable(self.path, "fails its checksum")
        return RankTable(**found, record=self.record, path=self.path)


def digests(batches):
    """(SHA-256 of which tokens were scored, of all columns), in the contract's order and byte layout.

    batches: mappings that hold a column, in the order of their rows, as a function of its name.
    """
    h, found = hashlib.sha256(), []
    for name, dtype in COLUMNS.items():
        for rows in batches(name):
            h.update(np.ascontiguousarray(rows[name], dtype=np.dtype(dtype).newbyteorder("<")))
        found.append(h.hexdigest())
    return found[2], found[-1]


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
    _write(path, record, len(out["document"]), digests(lambda _: [out])[1], [out])


def join_ranks(path, parts, record):
    """The same of the rows in other tables' files, one after the other; a batch of them is held at a time."""
    parts = [StoredRanks(read_record(part), part) for part in parts]

    def rows(*names):
        return (rows for part in parts for rows in part.batches(*names))

    _write(path, record, sum(map(len, parts)), digests(rows)[1], rows(*COLUMNS))


def _write(path, record, n, sha, pieces):
    import pyarrow as pa
    import pyarrow.parquet as pq

    record = {k: v for k, v in record.items() if k != "sha256"} | {"scored_tokens": n, "columns_sha256": sha}
    record |= {"sha256": digest(record)}
    said = {RECORD_KEY: json.dumps(record, sort_keys=True).encode()}
    schema = pa.schema([(name, pa.from_numpy_dtype(dtype)) for name, dtype in COLUMNS.items()], said)
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        held = schema.empty_table()
        for columns in pieces:
            held = pa.concat_tables([held, pa.table(columns, schema)])
            if whole := len(held) // GROUP * GROUP:
                writer.write_table(held[:whole], GROUP)
                held = held[whole:]
        if len(held):
            writer.write_table(held)


def read_record(path, expect=None):
    """The provenance record alone, checked as in `read_ranks`, without reading the columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    units, S = record.get("units") or range(record["documents"]), record["nonembedding_params"]
    all_of_it, listed = record.get("total_params", S), isinstance(units, list | range)
    if not listed or len(units) != record["documents"] or not isinstance(all_of_it, int) or not 0 < S <= all_of_it:
        raise unusable(path, "has a record that contradicts itself in its documents or parameters")
    if differ := [k for k, v in (expect or {}).items() if record.get(k) != v]:
        raise unusable(path, f"was measured with another {' and '.join(differ)}")
    return record


def unusable(path, why):
    return InputError(f"{path} {why}: delete it and run `rbp measure` again.")


def read_ranks(path, expect=None):
    """Read and verify one rank table; `expect` are record entries that must match, see `identity.expected`.

    Raises InputError: no such file, truncated, a checksum fails, an entry is missing, or differs from `expect`.
    """
    return StoredRanks(read_record(path, expect), Path(path)).read()


def open_ranks(path, expect=None, again=False):
    """A StoredRanks, verified as by `read_ranks`; its checksum once for as long as the file's size and times stay.

    again: compute the checksum now.
    """
    table = StoredRanks(read_record(path, expect), Path(path))
    text, sha = digests(table.batches) if again else remembered(table.path, lambda _: digests(table.batches))
    if sha != table.record["columns_sha256"]:
        raise unusable(path, "fails its checksum")
    return replace(table, text=text)


def taken_over(path, expect, model_id):
    """Whether another family holds this model's table of this text: then it is here too, under this one's labels."""
    labels = {name: expect[name] for name in ("family", "model")} | {"model_id": model_id}
    for other in sorted(path.parents[2].glob(f"*/*/{path.name}")):
        with suppress(InputError):  # one that is damaged
            table = open_ranks(other, {k: v for k, v in expect.items() if k not in labels}, again=True)
            join_ranks(path, [other], table.record | labels)
            return True
    return False
