"""Windows: every scored token once, with the context promised, against a slow re-count."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rbplib.windows import spans


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
