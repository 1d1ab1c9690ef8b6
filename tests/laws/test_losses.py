"""Losses of rank tables against slow counts in plain Python; plain numbers, and the shapes of bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rbplib as rbp
from rbplib.table import COLUMNS, RankTable

V = 50
WHOLE = {"S": [1e6, 1e7, 1e8], "hits": [10, 20, 30], "totals": 100}


def table(rank, document, position=None, model="m", S=1.0, ties=1, token=0):
    """A RankTable of ranks (n,) in documents (n,), of V candidates."""
    rank, document = np.asarray(rank), np.asarray(document)
    position = np.arange(1, len(rank) + 1) if position is None else position
    record = {"vocab_size": V, "documents": int(document.max(initial=0)) + 1, "nonembedding_params": S}
    record |= {"model": model, "family": "f", "corpus": "c"}
    token, ties = (np.broadcast_to(of, rank.shape) for of in (token, ties))
    columns = (document, position, token, rank - ties, ties, -np.log(1.0 + rank))
    return RankTable(dict(zip(COLUMNS, columns, strict=True)), record)


def rows(documents, ranks):
    """Lists of (document, rank) in order of documents."""
    pairs = st.tuples(st.integers(0, documents - 1), st.integers(1, ranks))
    return st.lists(pairs, min_size=1, max_size=60).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@given(rows(4, V), st.integers(1, V))
@settings(max_examples=100, deadline=None)
def test_hits_and_nats_equal_a_plain_count(rows, k):
    document, rank = np.array(rows).T
    tables = [table(rank, document)]
    hits, nats = rbp.rbp_loss(tables, k), rbp.cross_entropy(tables)
    for d in range(len(hits.totals)):
        assert hits.totals[d] == nats.totals[d] == sum(document == d)
        assert hits.sums[d, 0] == sum((document == d) & (rank <= k))
        assert nats.sums[d, 0] == pytest.approx(np.log(1.0 + rank[document == d]).sum())
    assert hits.misses[0] == sum(rank > k) and nats.misses is None
    assert hits.values[0] == pytest.approx(-np.log(np.mean(rank <= k)) if (rank <= k).any() else np.inf)


@given(rows(3, 3), st.integers(1, 5), st.data())
@settings(max_examples=200, deadline=None)
def test_runs_equal_a_plain_scan(rows, N, data):
    document, rank = np.array(rows).T
    gaps = data.draw(st.lists(st.integers(1, 2), min_size=len(rows), max_size=len(rows)))
    position = np.cumsum(gaps)
    success, windows = np.zeros((2, document.max() + 1), int)
    for i in range(len(rows) - N + 1):
        inside = slice(i, i + N)
        if len(set(document[inside])) == 1 and np.ptp(position[inside]) == N - 1:
            windows[document[i]] += 1
            success[document[i]] += (rank[inside] <= 1).all()
    tables = [table(rank, document, position)]
    if not windows.any():
        with pytest.raises(rbp.InputError, match="longest run"):
            rbp.run_loss(tables, 1, N)
        return
    loss = rbp.run_loss(tables, 1, N)
    assert loss.sums[:, 0].tolist() == success.tolist() and loss.totals.tolist() == windows.tolist()


def test_models_are_sorted_by_size_and_keep_their_values():
    tables = [table([1, 1, 2], [0, 0, 1], model="big", S=100.0), table([2, 2, 1], [0, 0, 1], model="small", S=10.0)]
    loss = rbp.rbp_loss(tables, 1)
    assert loss.models == ("small", "big") and list(loss.S) == [10, 100]
    assert np.exp(-loss.values) == pytest.approx([1 / 3, 2 / 3])
    assert np.exp(-loss.keep([1]).values) == pytest.approx([2 / 3])


def test_ties_follow_the_definition():
    tied = [table([3, 1], [0, 0], ties=[3, 1])]
    shares = {"greater+ties": [0.5, 0.5], "greater+1": [1, 1], "random": [0.5, 1]}
    for definition, share in shares.items():
        losses = [rbp.rbp_loss(tied, k, definition) for k in (1, 2)]
        assert [np.exp(-loss.values[0]) for loss in losses] == pytest.approx(share)


def test_repeats_come_along_where_they_can_be_counted():
    again = [table([1, 1, 2], [0, 0, 1], model=f"seed {i}") for i in range(3)]
    loss = rbp.run_loss([table([1, 1, 2], [0, 0, 1])], 1, 2, repeats=again)
    assert loss.repeats.models == ("seed 0", "seed 1", "seed 2") and loss.repeats.sums.sum() == 3
    short = [table([1, 1], [0, 1])]
    assert rbp.run_loss([table([1, 1], [0, 0])], 1, 2, repeats=short).repeats is None


@pytest.mark.parametrize(
    "tables, k, message",
    [
        ([], 1, "no rank table"),
        ([table([1], [0])], 0, "outside 1 to 50"),
        ([table([1], [0])], V + 1, "outside 1 to 50"),
        ([table([1], [0])], 1.5, "whole number"),
        ([table([1, 2], [0, 0]), table([1, 2], [0, 0], token=1)], 1, "same tokens"),
        ([table(np.empty(0, int), np.empty(0, int))], 1, "no token"),
    ],
)
def test_bad_tables_are_told(tables, k, message):
    with pytest.raises(rbp.InputError, match=message):
        rbp.rbp_loss(tables, k)


def test_plain_numbers_are_a_loss_in_order_of_size():
    law = rbp.fit(S=[1e8, 1e6, 1e7], hits=[300, 100, 200], totals=1000)
    assert np.exp(-law.loss.values) == pytest.approx([0.1, 0.2, 0.3]) and list(law.S) == [1e6, 1e7, 1e8]
    assert law.models == ("model 2", "model 3", "model 1")
    nats = rbp.fit(-np.log([0.1, 0.2, 0.3]), S=WHOLE["S"])
    assert nats.parameters == pytest.approx(law.parameters)
    assert nats.intervals["models"]["alpha"] == pytest.approx(law.intervals["models"]["alpha"])
    assert law.status == "too few documents" and np.isnan(law.intervals["text"]["alpha"]).all()


def test_plain_numbers_of_documents_have_an_interval_of_other_text():
    rng = np.random.default_rng(0)
    hits, totals = rng.binomial(200, [0.5, 0.6, 0.7], (40, 3)), np.full(40, 200)
    law = rbp.fit(S=WHOLE["S"], hits=hits, totals=totals, n_bootstrap=500)
    low, high = law.intervals["text"]["alpha"]
    assert law.status == "ok" and low < law.alpha < high


@pytest.mark.parametrize(
    "change, message",
    [
        ({"hits": [10, 20]}, "do not fit together"),
        ({"totals": [100, 100, 100]}, "do not fit together"),
        ({"hits": [10, 20, 101]}, "above its total"),
        ({"hits": [-1, 20, 30]}, "below 0"),
        ({"hits": [10, np.nan, 30]}, "no number"),
        ({"hits": ["ten", 20, 30]}, "are numbers"),
        ({"S": [1e6, 1e6, 1e6]}, "two sizes"),
        ({"S": [0, 1e7, 1e8]}, "above 0"),
        ({"loss": [3, 2, 1]}, "one pair"),
        ({"totals": None}, "one pair"),
        ({"hits": None, "totals": None}, "one pair"),
    ],
)
def test_bad_plain_numbers_are_told(change, message):
    with pytest.raises(rbp.InputError, match=message):
        rbp.fit(**WHOLE | change)
