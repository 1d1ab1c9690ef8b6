"""Bits per byte of models with two tokenizers: planted bits come back, on the same bytes, whatever the tokens."""

import numpy as np
import pytest

from paper.per_byte import byte_losses, token_ends
from rbplib.extrapolation import extrapolate
from rbplib.families import InputError
from rbplib.stored import RankTable
from tests.smallmodels import tokenizer

TEXTS = tuple(
    f"The {i}th note, naïve — 文章 {'and so on ' * (i % 7)}\n\n    def f(x):  return x ** {i}\n" for i in range(60)
)
SIZES = (1e4, 1e5, 1e6)


def bits_at(S):
    return 2.0 * (S / SIZES[0]) ** -0.1


def table(words, S, window, texts=TEXTS, rank=1, **record):
    """A model that spends the same number of bits on every byte of `texts`, read in windows of so many tokens."""
    found = [(ids[:window], np.diff(ends[:window])) for ids, ends in token_ends(words, texts)]
    document = np.concatenate([np.full(len(ids) - 1, d) for d, (ids, _) in enumerate(found)])
    position = np.concatenate([np.arange(1, len(ids)) for ids, _ in found])
    token = np.concatenate([ids[1:] for ids, _ in found])
    logprob = -bits_at(S) * np.log(2) * np.concatenate([length for _, length in found])
    greater = np.full(len(token), rank - 1)
    record = {
        "model": f"m{S:.0f}",
        "nonembedding_params": S,
        "documents": len(texts),
        "family": "f",
        "corpus": "c",
    } | record
    return RankTable(document, position, token, greater, np.ones_like(greater), logprob, record)


@pytest.fixture(scope="module")
def words():
    return tokenizer(320), tokenizer(700)


def test_a_document_ends_where_its_last_token_ends(words):
    for each in words:
        for text, (ids, ends) in zip(TEXTS, token_ends(each, TEXTS), strict=True):
            assert len(ids) == len(ends) and ends[-1] == len(text.encode())
            assert [each.decode(ids[: i + 1]).encode() for i in range(3)] == [
                text.encode()[: ends[i]] for i in range(3)
            ]


@pytest.mark.parametrize("windows", [(24, 512), (512, 16), (20, 20)])
def test_planted_bits_per_byte_come_back_whatever_the_tokens(words, windows):
    ladder = [table(words[0], S, windows[0]) for S in SIZES]
    found = byte_losses(ladder, table(words[1], 1e8, windows[1]), TEXTS, words)
    assert found["bits"].values == pytest.approx([*map(bits_at, SIZES), bits_at(1e8)], rel=1e-6)
    assert found["first"].values == pytest.approx(1)  # all tokens are ranked first
    assert found["tokens"].values[-1] < found["tokens"].values[0]  # the larger vocabulary takes fewer
    assert extrapolate(found["bits"]).error == pytest.approx(0, abs=1e-6)


def test_only_bytes_that_both_scored_count(words):
    short, long = (table(words[1], 1e8, window) for window in (12, 512))
    ladder = [table(words[0], S, 512) for S in SIZES]
    some, more = (byte_losses(ladder, other, TEXTS, words)["bits"].totals for other in (short, long))
    ends = [token_ends(each, TEXTS) for each in words]
    for d, text in enumerate(TEXTS):
        assert more[d] == len(text.encode()) - np.intersect1d(ends[0][d][1], ends[1][d][1])[0]
        assert 0 <= some[d] <= ends[1][d][1][:12][-1] and some[d] <= more[d]


def test_a_model_off_the_line_is_seen_to_be_off(words):
    other = table(words[1], 1e8, 512)
    other = RankTable(**{**vars(other), "logprob": other.logprob * 1.5})
    found = byte_losses([table(words[0], S, 512, rank=2) for S in SIZES], other, TEXTS, words)
    assert extrapolate(found["bits"]).error == pytest.approx(1 / 1.5 - 1, rel=1e-5)
    assert found["first"].values.tolist() == [0, 0, 0, 1]


def test_a_document_whose_bytes_the_tokens_do_not_give_is_left_out(words):
    texts = ("before <end> after, and more of it", *TEXTS)
    assert not token_ends(words[0], texts)[0][1].any()
    ladder = [table(words[0], S, 512, texts) for S in SIZES]
    found = byte_losses(ladder, table(words[1], 1e8, 512, texts), texts, words)["bits"]
    assert found.totals[0] == 0 and (found.totals[1:] > 0).all()
    assert found.values[-1] == pytest.approx(bits_at(1e8), rel=1e-6)


@pytest.mark.parametrize(
    ("of", "texts", "said"),
    [
        ({"S": 1e6}, TEXTS, "no larger than the ladder"),
        ({"S": 1e8, "texts": ("<end> <end>",) * 60}, ("<end> <end>",) * 60, "no byte in common"),
        ({"S": 1e8}, TEXTS[::-1], "of other text, or of another tokenizer"),
        ({"S": 1e8}, TEXTS[:-1], "of other text, or of another tokenizer"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(words, of, texts, said):
    other = table(words[1], window=512, **of)
    ladder = [table(words[0], S, 512, of.get("texts", TEXTS)) for S in SIZES]
    with pytest.raises(InputError, match=said):
        byte_losses(ladder, other, texts, words)
