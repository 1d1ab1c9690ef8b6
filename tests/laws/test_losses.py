"""Losses and curves of rank tables against slow counts; plain numbers, and the shapes of bad
input."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rbplib as rbp
from tests.ranktables import rank_table

V = 50
WHOLE = {"S": [1e6, 1e7, 1e8], "hits": [10, 20, 30], "totals": 100}


def table(rank, document, position=None, token=0):
    logprob = -np.log(1.0 + np.asarray(rank))
    return rank_table(rank, document, position, 1, token, logprob, vocab_size=V)


def rows(documents, ranks):
    """Lists of (document, rank) in order of documents."""
    pairs = st.tuples(st.integers(0, documents - 1), st.integers(1, ranks))
    return st.lists(pairs, min_size=1, max_size=60).map(
        lambda rows: sorted(rows, key=lambda row: row[0])
    )


@given(rows(4, V), st.integers(1, V))
@settings(max_examples=60, deadline=None)
def test_hits_and_nats_equal_a_plain_count(rows, k):
    document, rank = np.array(rows).T
    tables = [table(rank, document)]
    hits, nats = rbp.rbp_loss(tables, k), rbp.cross_entropy(tables)
    for d in range(len(hits.totals)):
        assert hits.totals[d] == nats.totals[d] == sum(document == d)
        assert hits.sums[d, 0] == sum((document == d) & (rank <= k))
        assert nats.sums[d, 0] == pytest.approx(np.log(1.0 + rank[document == d]).sum())
    assert hits.misses[0] == sum(rank > k) and nats.misses is None


@given(rows(3, 3), st.integers(1, 5), st.integers(1, 2), st.data())
@settings(max_examples=100, deadline=None)
def test_runs_equal_a_plain_scan(rows, N, k, data):
    document, rank = np.array(rows).T
    gaps = data.draw(st.lists(st.integers(1, 2), min_size=len(rows), max_size=len(rows)))
    position = np.cumsum(gaps)
    success, windows = np.zeros((2, document.max() + 1), int)
    for i in range(len(rows) - N + 1):
        inside = slice(i, i + N)
        if len(set(document[inside])) == 1 and np.ptp(position[inside]) == N - 1:
            windows[document[i]] += 1
            success[document[i]] += (rank[inside] <= k).all()
    ranks = table(rank, document, position)
    if not windows.any():
        with pytest.raises(rbp.InputError, match="longest run"):
            rbp.run_loss([ranks], k, N)
        return
    loss = rbp.run_loss([ranks], k, N)
    assert loss.sums[:, 0].tolist() == success.tolist() and loss.totals.tolist() == windows.tolist()


BAD_TABLES = [
    ([], 1, "no rank table"),
    ([table([1], [0])], 0, "outside 1 to 50"),
    ([table([1, 2], [0, 0]), table([1, 2], [0, 0], token=1)], 1, "same tokens"),
    ([table(np.empty(0, int), np.empty(0, int))], 1, "no token"),
]


@pytest.mark.parametrize("tables, k, message", BAD_TABLES)
def test_bad_tables_are_told(tables, k, message):
    with pytest.raises(rbp.InputError, match=message):
        rbp.rbp_loss(tables, k)


def test_repeats_are_those_of_a_ladder_unless_others_are_given():
    models = [table([rank, 2], [0, 0]) for rank in (3, 2, 1)]
    seeds = [rank_table([1, 2], [0, 0], vocab_size=9, nonembedding_params=S) for S in (1.0, 1.0)]
    ladder = rbp.Ladder(models, rbp.Ladder(seeds, seeds))
    for count in (rbp.rbp_loss, rbp.cross_entropy, lambda *a, **k: rbp.run_loss(a[0], 1, 2, **k)):
        loss = count(ladder)
        assert len(loss.repeats.S) == 2 and loss.repeats.repeats is None
        assert count(ladder, repeats=[]).repeats is count(models).repeats is None
        assert len(count(models, repeats=seeds[:1]).repeats.S) == 1


def test_plain_numbers_are_a_loss_in_order_of_size():
    hits = list(map(torch.tensor, [300, 100, 200]))
    law = rbp.fit(S=["100M", "1e6", 1e7], hits=hits, totals=1000)
    assert np.exp(-law.loss.values) == pytest.approx([0.1, 0.2, 0.3])
    assert law.models == ("model 2", "model 3", "model 1")
    nats = rbp.fit(-np.log([0.1, 0.2, 0.3]), S=WHOLE["S"])
    assert nats.parameters == pytest.approx(law.parameters)
    assert law.status == "too few documents" and np.isnan(law.intervals["text"]["alpha"]).all()


NATS = {"sums": [[3, 2, 1]], "totals": 1, "S": WHOLE["S"], "hits": False}
LOSS = {"sums": [9, 30, 50], "totals": 100, "S": [1, 2, 3], "corpus": "text"}
REFUSED = [
    (lambda: rbp.fit(**WHOLE | {"hits": [10, 20]}), "do not fit together"),
    (lambda: rbp.fit(**WHOLE | {"totals": None}), "hits= and totals="),
    (lambda: rbp.fit(**WHOLE | {"S": None}), "give S="),
    (lambda: rbp.fit([3, 2, 1], **WHOLE | {"hits": None}), "S= and loss=,"),
    (lambda: rbp.fit(), "nothing to fit"),
    (lambda: rbp.fit(**WHOLE, seed=-1), "a seed cannot be -1"),
    (lambda: rbp.fit(**WHOLE, n_bootstrap=99), "resamples cannot be 99"),
    (lambda: rbp.fit(**WHOLE, n_bootstrap=1e4), "resamples cannot be"),
    (lambda: rbp.Loss(), "give them"),
    (lambda: rbp.Loss(**LOSS | {"sums": [9, 30, 101]}), "'3' of text cannot be"),
    (lambda: rbp.Loss(**LOSS | {"S": [1, 2, np.inf]}), "'3' of text cannot be"),
    (lambda: rbp.Loss(**LOSS | {"models": ["a"]}), "do not fit together"),
    (lambda: rbp.forecast(None, 1e9), "a forecast takes a Loss"),
    (lambda: rbp.fit(rbp.Loss(**NATS), "binomial"), "counts nothing"),
]


@pytest.mark.parametrize("call, message", REFUSED)
def test_what_is_no_loss_is_one_sentence(call, message):
    with pytest.raises(rbp.InputError, match=message):
        call()


def test_hits_that_fall_with_k_are_told():
    rows = {"model": list("abc") * 2, "S": WHOLE["S"] * 2, "k": [1] * 3 + [5] * 3}
    falling = pd.DataFrame(rows | {"accuracy": [0.3, 0.4, 0.5, 0.3, 0.3, 0.6]})
    with pytest.raises(rbp.InputError, match="'b' of a family.* is worse in accuracy at k = 5"):
        rbp.table_losses(falling)
    assert len(rbp.table_losses(falling.assign(accuracy=[0.3, 0.4, 0.5, 0.4, 0.5, 0.6]))) == 2


@pytest.mark.parametrize("its", ["float16", "Q4_1"])
def test_repeats_in_another_precision_are_told(its, capsys):
    tables = [rbp.plain_table(([[1, 0]], [[1, 1]], [[-1, 0]]), 1e6, 9) for _ in range(2)]
    for table in tables:
        table.record["weights_dtype"] = "float32"
    rbp.rbp_loss(tables[:1], repeats=tables[1:])
    assert not capsys.readouterr().err
    packed = {"quantisation": {"file_type": its}}
    tables[1].record.update({"weights_dtype": its} if its == "float16" else packed)
    rbp.cross_entropy(tables[:1], repeats=tables[1:])
    assert f"in float32, its repeats in {its}" in capsys.readouterr().err
