"""Losses of rank tables against slow counts; plain numbers, and the shapes of bad input."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rbplib as rbp
from tests.paper.plantedranks import TABLES
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


def test_the_interval_of_rank_entropy_is_that_of_a_full_resample():
    def by_hand(ranks):
        """In nats, with the Miller-Madow correction."""
        p = np.unique(ranks, return_counts=True)[1] / len(ranks)
        return (len(p) - 1) / (2 * len(ranks)) - p @ np.log(p)

    entropy = rbp.rank_entropy(TABLES)
    assert entropy.values == pytest.approx([by_hand(t.rank()) for t in TABLES], rel=1e-12)
    rng, ranks = np.random.default_rng(1), TABLES[0].rank().reshape(120, 150)
    full = [by_hand(ranks[rng.integers(0, 120, 120)].ravel()) for _ in range(400)]
    assert entropy.resampled(800, 42).loss[:, 0].std() == pytest.approx(np.std(full), rel=0.15)


def test_repeats_are_those_of_a_ladder_unless_others_are_given():
    models = [table([rank, 2], [0, 0]) for rank in (3, 2, 1)]
    seeds = [table([1, 2], [0, 0])] * 2
    ladder = rbp.Ladder(models, rbp.Ladder(seeds, seeds))
    for count in (rbp.rbp_loss, rbp.cross_entropy, lambda *a, **k: rbp.run_loss(a[0], 1, 2, **k)):
        loss = count(ladder)
        assert len(loss.repeats.S) == 2 and loss.repeats.repeats is None
        assert count(ladder, repeats=[]).repeats is count(models).repeats is None


def test_plain_numbers_are_a_loss_in_order_of_size():
    law = rbp.fit(S=["100M", "1e6", 1e7], hits=[300, 100, 200], totals=1000)
    assert np.exp(-law.loss.values) == pytest.approx([0.1, 0.2, 0.3])
    assert law.models == ("model 2", "model 3", "model 1")
    nats = rbp.fit(-np.log([0.1, 0.2, 0.3]), S=WHOLE["S"])
    assert nats.parameters == pytest.approx(law.parameters)
    assert law.status == "too few documents" and np.isnan(law.ci_tokens).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hits": [10, 20]}, "do not fit together"),
        ({"totals": None}, "hits= and totals="),
        ({"S": None}, "give S="),
        ({"hits": None, "loss": [3, 2, 1]}, "S= and loss=,"),
        (dict.fromkeys(WHOLE), "nothing to fit"),
        ({"seed": -1}, "a seed cannot be -1"),
        ({"n_bootstrap": 99}, "resamples cannot be 99"),
        ({"estimator": "least_square"}, "least_squares"),
    ],
)
def test_numbers_that_cannot_be_fitted_are_one_sentence(change, message):
    with pytest.raises(rbp.InputError, match=message):
        rbp.fit(**WHOLE | change)


LOSS = {"sums": [9, 30, 50], "totals": 100, "S": [1, 2, 3], "corpus": "text"}


@pytest.mark.parametrize(
    ("about", "how", "message"),
    [
        ({"sums": None}, {}, "give them"),
        ({"sums": [9, 30, 101]}, {}, "'3' of text cannot be"),
        ({"S": [1, 2, np.inf]}, {}, "'3' of text cannot be"),
        ({"models": ["a"]}, {}, "do not fit together"),
        ({"models": list("aab")}, {}, "twice"),
        ({"hits": False}, {"estimator": "binomial"}, "counts nothing"),
        ({}, {"totals": 9}, "a Loss without"),
    ],
)
def test_what_is_no_loss_that_can_be_fitted_is_one_sentence(about, how, message):
    with pytest.raises(rbp.InputError, match=message):
        rbp.fit(rbp.Loss(**LOSS | about), **how)


@pytest.mark.parametrize(
    ("tables", "k", "message"),
    [
        ([], 1, "no rank table"),
        ([table([1], [0])], 0, "outside 1 to 50"),
        ([table([1], [0]), table([1], [0], token=1)], 1, "same tokens"),
        ([table([], np.empty(0, int))], 1, "no token"),
    ],
)
def test_tables_without_a_loss_are_one_sentence(tables, k, message):
    with pytest.raises(rbp.InputError, match=message):
        rbp.rbp_loss(tables, k)


@pytest.mark.parametrize(
    "record", [{"weights_dtype": "float16"}, {"quantisation": {"file_type": "Q4_1"}}]
)
def test_repeats_in_another_precision_are_reported(record, capsys):
    about = {"weights_dtype": "float32"}
    model, alike, other = (rank_table([2, 3], [0, 0], **about | its) for its in ({}, {}, record))
    rbp.rbp_loss([model], repeats=[alike])
    assert not capsys.readouterr().err
    rbp.cross_entropy([model], repeats=[other])
    assert re.search("in float32, its repeats in (float16|Q4_1)", capsys.readouterr().err)
