"""Windows: every scored token once, with the context promised, against a slow re-count."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rbplib.windows import batches, make_windows, spans


@given(st.integers(0, 60), st.integers(2, 17))
@settings(max_examples=300, deadline=None)
def test_full_scores_every_token_but_the_first_once(n, length):
    scored = [
        t for start, stop, first in spans(n, length, "full") for t in range(start + first, stop)
    ]
    assert scored == list(range(1, n)) if n > 1 else scored == []
    for start, stop, first in spans(n, length, "full"):
        assert stop - start <= length and first >= 1
        if start:
            assert first >= length - max(1, length // 2)


def test_paper_takes_the_first_tokens():
    assert (
        spans(7, 4, "paper") == [(0, 4, 1)]
        and spans(3, 4, "paper") == [(0, 3, 1)]
        and spans(1, 4, "paper") == []
    )
    assert spans(7, 4, "full") == [(0, 4, 1), (2, 6, 2), (3, 7, 3)]


def test_special_tokens_are_context_but_never_scored():
    w = make_windows([np.array([9, 1, 2, 9, 3])], special=[9], length=8)
    assert list(w.windows[0].scored) == [1, 2, 4]


def test_documents_without_a_window_are_counted():
    w = make_windows([np.array([], int), np.array([4]), np.array([1, 2])], special=[9], length=4)
    assert w.documents == 3 and [window.document for window in w.windows] == [2] and w.tokens == 2


@given(st.lists(st.integers(2, 30), max_size=40), st.integers(2, 90))
@settings(max_examples=200, deadline=None)
def test_batches_hold_every_window_once_within_budget(lengths, budget):
    ws = make_windows([np.zeros(n, int) for n in lengths], length=30).windows
    groups = list(batches(ws, budget))
    assert sorted(w.document for g in groups for w in g) == list(range(len(ws)))
    for g in groups:
        assert len(g) == 1 or max(len(w.ids) for w in g) * len(g) <= budget
