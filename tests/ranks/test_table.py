"""The rank table: counts equal brute force, a file is whole or refused, and its record alone
decides its use."""

import numpy as np
import pytest

from rbplib import InputError
from rbplib.table import (
    RankTable,
    columns_digest,
    distinct,
    ranks_path,
    read_record,
    read_table,
    write_table,
)
from tests.ranktables import COLUMNS

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
    "nonembedding_params": 7,
    "model_digest": "a",
    "corpus_digest": "b",
    "weights_dtype": "float32",
    "engine": 3,
}


def columns():
    """Rows of nine documents, of which one is empty and each has gaps."""
    rng = np.random.default_rng(0)
    rows = [(d, p) for d in range(9) if d != 4 for p in range(1, 40) if rng.random() < 0.9]
    document, position = np.array(rows).T
    ties = rng.integers(1, 3, len(rows))
    greater = (rng.exponential(3, len(rows)).astype(int)).clip(0, V - 3)
    token, logprob = rng.integers(0, V, len(rows)), -rng.exponential(1, len(rows))
    return dict(zip(COLUMNS, (document, position, token, greater, ties, logprob), strict=True))


def typed():
    types = 5 * [np.int32] + [np.float32]
    return {name: of.astype(t) for (name, of), t in zip(columns().items(), types, strict=True)}


@pytest.fixture
def path(tmp_path):
    path = ranks_path(RECORD, tmp_path)
    write_table(path, columns(), RECORD)
    return path


@pytest.mark.parametrize("definition", ["greater+ties", "greater+1", "random"])
def test_counts_are_those_of_brute_force(path, definition):
    table, ks = read_table(path), [1, 2, 5, V]
    rank, document = table.rank(definition), table.document
    for d in range(9):
        mine = rank[document == d]
        assert table.hits(ks, definition)[d].tolist() == [(mine <= k).sum() for k in ks]
        assert table.totals[d] == len(mine)
        assert table.nll[d] == pytest.approx(-table.logprob[document == d].sum())
    assert table.source.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4] and table.documents == 9


def test_pairs_are_those_of_brute_force(path):
    table = read_table(path)
    greater, ties, tokens = distinct(table.greater, table.ties)
    counts = np.bincount(greater + ties, tokens)
    assert tokens.sum() == len(table) and counts.tolist() == np.bincount(table.rank()).tolist()


def test_a_file_gives_back_what_was_written_and_holds_its_record_once(path):
    table, own = read_table(path), typed()
    for name, values in own.items():
        assert table.columns[name].dtype == values.dtype
        assert np.array_equal(table.columns[name], values)
    assert read_record(path, RECORD)["scored_tokens"] == len(table)
    assert path.read_bytes().count(b"model_digest") == 1
    assert table.text == RankTable(own, RECORD).text
    digests = {columns_digest(own | {name: own[name] + 1}) for name in own}
    assert len(digests | {columns_digest(own)}) == 1 + len(COLUMNS)
    before = path.read_bytes()
    write_table(path, columns(), RECORD)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["c.parquet"]


def test_a_bit_changed_anywhere_is_found_and_measured_over(path):
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    # of the pages, the footer with its names, the record, and the marks at both ends
    places = [*rng.integers(0, len(whole), 200), *rng.integers(len(whole) // 2, len(whole), 200)]
    for place in [*places, *range(5), *range(len(whole) - 60, len(whole))]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"{path} is damaged.*--replace"):
            read_table(path)
    for cut in (0, 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="damaged"):
            read_table(path)


BROKEN = {
    "expected length": lambda c: c.update(token=c["token"][:-1]),
    "not sorted": lambda c: c.update(document=c["document"][::-1]),
    "position is below 1": lambda c: c.update(position=c["position"] - 1),
    "outside the vocabulary": lambda c: c.update(token=c["token"] + V),
    "greater is negative": lambda c: c.update(greater=c["greater"] - 99),
    "ties is below 1": lambda c: c.update(ties=c["ties"] * 0),
    "above the vocabulary size": lambda c: c.update(greater=V + 1 - c["ties"]),
    "not a number": lambda c: c.update(logprob=c["logprob"] * np.nan),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_rows_that_no_measurement_gives_are_not_written(tmp_path, rule):
    rows = columns()
    BROKEN[rule](rows)
    with pytest.raises(ValueError, match=rule):
        write_table(tmp_path / "t.parquet", rows, RECORD)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted({*RECORD} - {"units"}))  # worked out from the text
def test_a_table_of_something_else_is_refused_and_named(path, name):
    with pytest.raises(InputError, match=f"another {name}"):
        read_table(path, RECORD | {name: "else"})
