"""What the authors published of GPT-2: numbers that pages quote from histogram and counts."""

import pytest

from paper import gpt2

RANKS = gpt2.gpt2_ranks()


def test_the_digitised_histogram_begins_as_counted():
    assert RANKS.share[0] == pytest.approx(132_065 / 317_414, abs=2e-3)
