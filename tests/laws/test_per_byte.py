"""Bits per byte of models with two tokenizers: planted bits come back, on the same bytes, whatever
the tokens."""

import numpy as np
import pytest

from paper.per_byte import byte_loss, token_ends
from rbplib import InputError
from tests.ranktables import rank_table
from tests.smallmodels import tokenizer

NOTE = "The {}th note, naïve — 文章 {}\n\n    def f(x):  return x\n"
TEXTS = tuple(NOTE.format(i, "and so on " * (i % 7)) for i in range(60))
SPECIAL = ("<end> <end>",) * 60
SIZES = (1e4, 1e5, 1e6)


def bits_at(S):
    return 2.0 * (S / SIZES[0]) ** -0.1


def table(words, S, window, texts=TEXTS):
    """A model that spends the same number of bits on every byte, in windows of so many tokens."""
    columns = []
    for d, (ids, ends) in enumerate(token_ends(words, texts)):
        ids, length = ids[1:window], np.diff(ends[:window])
        position = np.arange(1, len(ids) + 1)
        columns.append([0 * length + d, position, ids, -bits_at(S) * np.log(2) * length])
    document, position, token, logprob = map(np.concatenate, zip(*columns, strict=True))
    about = {"nonembedding_params": S, "documents": len(texts), "logprob": logprob}
    return rank_table(0 * token + 1, document, position, token=token, **about)


@pytest.fixture(scope="module")
def words():
    return tokenizer(320), tokenizer(700)


def test_planted_bits_per_byte_come_back_whatever_the_tokens(words):
    ladder = [table(words[0], S, 24) for S in SIZES]  # tokens of a window
    loss = byte_loss(ladder, table(words[1], 1e8, 512), TEXTS, words)
    assert loss.values == pytest.approx([*map(bits_at, SIZES), bits_at(1e8)], rel=1e-6)


REFUSED = [
    (1e6, TEXTS, TEXTS, "no larger than the ladder"),
    (1e8, SPECIAL, SPECIAL, "no byte in common"),
    (1e8, TEXTS, TEXTS[::-1], "of other text, or of another tokenizer"),
]


@pytest.mark.parametrize("S, measured, texts, message", REFUSED)
def test_what_cannot_be_compared_is_one_sentence(words, S, measured, texts, message):
    ladder = [table(words[0], size, 512, measured) for size in SIZES]
    with pytest.raises(InputError, match=message):
        byte_loss(ladder, table(words[1], S, 512, measured), texts, words)
