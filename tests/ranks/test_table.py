"""The rank table: counts equal brute force, and a file is whole or refused."""

import numpy as np
import pytest

from rbplib import InputError
from rbplib.table import (
    COLUMNS,
    RankTable,
    columns_digest,
    kept_columns,
    ranks_path,
    read_record,
    read_table,
    write_table,
)

V = 50
RECORD = {
    "family": "f",
    "model": "m",
    "corpus": "c",
    "protocol": "paper",
    "sample": {"source": "file"},
    "documents": 9,
    "units": [f"u{d // 2}" for d in range(9)],
    "vocab_size": V,
    "corpus_digest": "b",
}


@pytest.fixture
def rows():
    """Columns of nine documents, of which one is empty and each has gaps."""
    rng = np.random.default_rng(0)
    document, position = np.nonzero(rng.random((9, 39)) < 0.9)
    document, position = document[document != 4], position[document != 4] + 1
    n = len(document)
    token, ties = rng.integers(0, V, n), rng.integers(1, 3, n)
    greater = rng.exponential(3, n).astype(int).clip(0, V - 3)
    values = document, position, token, greater, ties, -rng.exponential(1, n)
    columns = zip(COLUMNS.items(), values, strict=True)
    return {name: column.astype(dtype) for (name, dtype), column in columns}


@pytest.fixture
def path(tmp_path, rows):
    path = ranks_path(RECORD, tmp_path)
    write_table(path, rows, RECORD)
    return path


def test_ranks_by_each_rule_and_their_hits_are_those_of_brute_force(path):
    table, ks = read_table(path), [1, 2, 5, V]
    above, ties = table.greater, table.ties
    ranks = {"greater+ties": above + ties, "greater+1": above + 1, "random": above + (ties + 1) / 2}
    for definition, rank in ranks.items():
        assert np.array_equal(table.rank(definition), rank)
        for d, hits in enumerate(table.hits(ks, definition)):
            assert hits.tolist() == [(rank[table.document == d] <= k).sum() for k in ks]
    assert table.source.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]


def test_a_file_gives_back_what_was_written_and_holds_its_record_once(path, rows):
    table, whole = read_table(path), path.read_bytes()
    for name, column in rows.items():
        assert table.columns[name].dtype == column.dtype
        assert np.array_equal(table.columns[name], column)
    assert table.text == RankTable(rows, RECORD).text
    assert read_record(path, RECORD)["scored_tokens"] == len(table)
    assert whole.count(b"corpus_digest") == 1
    # again the same bytes, and nothing beside them
    write_table(path, rows, RECORD)
    assert path.read_bytes() == whole and [*path.parent.iterdir()] == [path]


def test_each_column_counts_in_the_digest(rows):
    digests = {columns_digest(rows | {name: rows[name] + 1}) for name in rows}
    assert len(digests | {columns_digest(rows)}) == 1 + len(rows)


@pytest.mark.parametrize(("room", "same"), [(10**6, [True, True]), (15_000, [True, False])])
def test_columns_are_kept_once_for_each_file_within_their_room(path, rows, room, same):
    other = path.with_name("d.parquet")
    write_table(other, rows, RECORD | {"corpus": "d"})
    with kept_columns(room):
        assert same == [read_table(p).columns is read_table(p).columns for p in (path, other)]
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(InputError, match="damaged"):
            read_table(path)
    assert read_table(other).columns is not read_table(other).columns


def test_a_bit_changed_anywhere_is_found(path):
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    # of the pages, the footer with the record, and the marks at both ends
    footer = np.arange(len(whole) - 60, len(whole))
    for at in [*range(5), *rng.integers(0, len(whole), 150), *footer]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"{path} is damaged.*--replace"):
            read_table(path)
    for cut in (0, 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="damaged"):
            read_table(path)


BROKEN = {  # what is said: how the columns are changed
    "expected length": lambda rows: {"token": rows["token"][:-1]},
    "not sorted": lambda rows: {"document": rows["document"][::-1]},
    "position is below 1": lambda rows: {"position": rows["position"] - 1},
    "outside the vocabulary": lambda rows: {"token": rows["token"] + V},
    "greater is negative": lambda rows: {"greater": rows["greater"] - 99},
    "ties is below 1": lambda rows: {"ties": rows["ties"] * 0},
    "above the vocabulary size": lambda rows: {"greater": V + 1 - rows["ties"]},
    "greater is no whole number of": lambda rows: {"greater": rows["greater"] + np.int64(2**32)},
    "token is no whole number of 32 bits": lambda rows: {"token": rows["token"] + 0.5},
    "not a number": lambda rows: {"logprob": rows["logprob"] * np.nan},
}


@pytest.mark.parametrize("rule", BROKEN)
def test_rows_that_no_measurement_gives_are_not_written(tmp_path, rows, rule):
    with pytest.raises(ValueError, match=rule):
        write_table(tmp_path / "t.parquet", rows | BROKEN[rule](rows), RECORD)
    assert not list(tmp_path.iterdir())
