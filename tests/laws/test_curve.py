"""Curves against a slow count in plain Python, and the shapes of bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbplib.curve import rbp_curve, sequence_success
from rbplib.families import InputError
from rbplib.stored import RankTable

V = 50


def table(rank, document, position=None, model="m", S=1.0, ties=None, documents=None, token=None):
    n = len(rank)
    ties = np.ones(n, int) if ties is None else np.asarray(ties)
    position = np.arange(1, n + 1) if position is None else position
    record = {
        "vocab_size": V,
        "documents": documents or int(max(document, default=0)) + 1,
        "model": model,
        "family": "f",
        "corpus": "c",
        "nonembedding_params": S,
    }
    token = np.zeros(n, int) if token is None else token
    greater = np.asarray(rank) - ties
    arrays = (np.asarray(a) for a in (document, position, token, greater, ties, -np.ones(n)))
    return RankTable(*arrays, record=record)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, V)), min_size=1, max_size=60), st.data())
@settings(max_examples=200, deadline=None)
def test_hits_equal_a_plain_count(rows, data):
    rows.sort(key=lambda r: r[0])
    document, rank = (np.array(c) for c in zip(*rows, strict=True))
    ks = sorted(data.draw(st.sets(st.integers(1, V), min_size=1, max_size=5)))
    curve = rbp_curve([table(rank, document)], ks)
    for d in range(curve.hits.shape[0]):
        assert curve.totals[d] == sum(document == d)
        for j, k in enumerate(ks):
            assert curve.hits[d, 0, j] == sum((document == d) & (rank <= k))
    assert curve.rbp[0, -1] == np.mean(rank <= ks[-1]) and (curve.misses[0] == [sum(rank > k) for k in ks]).all()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=40), st.integers(1, 5), st.data())
@settings(max_examples=300, deadline=None)
def test_sequence_success_equals_a_plain_scan(rows, N, data):
    rows.sort(key=lambda r: r[0])
    document, rank = (np.array(c) for c in zip(*rows, strict=True))
    gaps = np.array(data.draw(st.lists(st.integers(1, 2), min_size=len(rows), max_size=len(rows))))
    position = np.cumsum(gaps)
    success, windows = {}, {}
    for i in range(len(rows) - N + 1):
        part = slice(i, i + N)
        if len(set(document[part])) == 1 and position[part][-1] - position[part][0] == N - 1:
            d = int(document[i])
            windows[d] = windows.get(d, 0) + 1
            success[d] = success.get(d, 0) + bool((rank[part] <= 1).all())
    t = table(rank, document, position)
    if not windows:
        with pytest.raises(InputError, match="longer than any"):
            sequence_success(t, 1, N)
        return
    got, seen = sequence_success(t, 1, N)
    assert {d: n for d, n in enumerate(seen) if n} == windows
    assert {d: n for d, n in enumerate(got) if n} == {d: n for d, n in success.items() if n}


def test_models_are_sorted_by_size_and_keep_their_values():
    big = table([1, 1, 2], [0, 0, 1], model="big", S=100.0)
    small = table([2, 2, 2], [0, 0, 1], model="small", S=10.0)
    curve = rbp_curve([big, small], [1, 2])
    assert curve.models == ("small", "big") and list(curve.S) == [10, 100]
    assert curve.rbp[:, 0] == pytest.approx([0, 2 / 3])
    assert curve.keep(["big"]).rbp[0, 0] == pytest.approx(2 / 3)


def test_ties_follow_the_definition():
    t = table([3, 1], [0, 0], ties=[3, 1])
    assert rbp_curve(t, [1, 2]).rbp[0].tolist() == [0.5, 0.5]
    assert rbp_curve(t, [1, 2], "greater+1").rbp[0].tolist() == [1, 1]
    assert rbp_curve(t, [1, 2], "random").rbp[0].tolist() == [0.5, 1]


@pytest.mark.parametrize("k", [0, -1, V + 1, 1.5])
def test_k_outside_the_vocabulary(k):
    with pytest.raises(InputError, match="k "):
        rbp_curve(table([1], [0]), [k])


def test_other_tokens_and_twice_the_same_model():
    a, b = table([1, 2], [0, 0], model="a"), table([1, 2], [0, 0], model="b", token=np.array([0, 1]))
    with pytest.raises(InputError, match="same tokens"):
        rbp_curve([a, b], [1])
    with pytest.raises(InputError, match="twice"):
        rbp_curve([a, a], [1])
    with pytest.raises(InputError, match="no token"):
        rbp_curve(table([], []), [1])


def test_N_below_one():
    with pytest.raises(InputError, match="at least 1"):
        sequence_success(table([1], [0]), 1, 0)
