"""Ranks against brute force in NumPy float64, in every chunking, and what is refused."""

import doctest
import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rbplib import ranks as engine
from rbplib import tiles
from rbplib.heads import Head
from rbplib.ranks import head_ranks, sequence_ranks, token_ranks

INF = float("inf")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 1e30, -1e30, 3.4e38, -3.4e38, 1e-38, 1e-45, -1e-45, 88.0, -88.0, INF, -INF]


def brute(scores, target):
    """Rank counts by comparing every pair, and the log-probability, in float64."""
    scores = np.asarray(scores, dtype=np.float64)
    own, top = scores[target], scores.max()
    greater, ties = int((scores > own).sum()), int((scores == own).sum())
    if math.isinf(top):
        logprob = -math.log(ties) if own == top else -INF
    else:
        with np.errstate(over="ignore", under="ignore"):
            logprob = (own - top) - math.log(np.exp(scores - top).sum())
    return greater, ties, logprob


def assert_brute(found, logits, targets, tolerance=3e-6):
    for row, (scores, target) in enumerate(zip(logits.double().tolist(), targets.tolist(), strict=True)):
        greater, ties, logprob = brute(scores, target)
        assert (found.greater[row].item(), found.ties[row].item()) == (greater, ties)
        got = found.logprob[row].item()
        if math.isinf(logprob) or abs(logprob) > 3e38:
            assert got == -INF or got == pytest.approx(logprob)
        else:
            assert abs(got - logprob) <= tolerance * max(1.0, abs(logprob))


def scores_of(kind):
    """Scores exact in the storage dtype, with many ties and extremes."""
    width = {torch.float16: 16, torch.bfloat16: 32, torch.float32: 32, torch.float64: 64}[kind]
    few = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 3.0])
    wide = st.floats(-60, 60, width=width)
    return st.one_of(few, wide, st.sampled_from(SPECIAL))


@st.composite
def problems(draw):
    kind = draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]))
    size = draw(st.one_of(st.integers(1, 12), st.sampled_from([63, 64, 65, 130])))
    rows = draw(st.integers(1, 4))
    elements = draw(st.sampled_from([scores_of(kind), st.sampled_from(SPECIAL), st.sampled_from([0.0, 1.0])]))
    few = draw(st.lists(elements, min_size=1, max_size=24))
    pick = np.random.default_rng(draw(st.integers(0, 2**31)))
    logits = torch.tensor(pick.choice(few, (rows, size)), dtype=torch.float64).to(kind)
    targets = torch.tensor(pick.integers(0, size, rows))
    return logits, targets


@settings(max_examples=1000, deadline=None)
@given(problems())
@example((torch.full((2, 5), -INF), torch.tensor([0, 4])))
@example((torch.tensor([[INF, INF, 0.0]]), torch.tensor([1])))
@example((torch.tensor([[0.0, 100.0, 3.4e38]]), torch.tensor([0])))
def test_ranks_equal_brute_force(problem):
    logits, targets = problem
    assert_brute(token_ranks(logits, targets), logits, targets)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 200), st.integers(1, 300), st.integers(1, 24), st.integers(1, 300), st.booleans(), st.integers(0, 99)
)
def test_head_ranks_equal_brute_force_on_exact_products(rows, size, width, chunk, biased, seed):
    """Small integers multiply exactly, so every order of summation gives these scores, ties included.

    Log-probabilities of the two routines may differ in the last bits: their tiles have other shapes, and some
    processors' exponential is another one at a tile's last elements.
    """
    pick = torch.Generator().manual_seed(seed)
    hidden = torch.randint(-2, 3, (rows, width), generator=pick).float()
    weight = torch.randint(-2, 3, (size, width), generator=pick).float()
    bias = torch.randint(-2, 3, (size,), generator=pick).float() if biased else None
    targets = torch.randint(0, size, (rows,), generator=pick)
    logits = hidden @ weight.T + (0 if bias is None else bias)
    found = head_ranks(hidden, Head(weight, bias), targets, chunk=chunk)
    assert_brute(found, logits[:20], targets[:20])
    *ranks, logprob = token_ranks(logits, targets)
    assert all(torch.equal(a, b) for a, b in zip(found[:2], ranks, strict=True))
    torch.testing.assert_close(found[2], logprob, rtol=2e-7, atol=1e-6)


def planted(rows=300, size=5000, width=48, seed=0):
    pick = torch.Generator().manual_seed(seed)
    return (
        torch.randn(rows, width, generator=pick),
        torch.randn(size, width, generator=pick) * 0.3,
        torch.randint(0, size, (rows,), generator=pick),
    )


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("size", [3000, 5 * tiles.BLOCK, 5 * tiles.BLOCK + 1, 5 * tiles.BLOCK + tiles.GRAIN + 1])
def test_results_are_bit_equal_for_every_chunk_memory_and_batch(size):
    hidden, weight, targets = planted(size=size)
    whole = head_ranks(hidden, weight, targets)
    least = tiles.least_memory(size, hidden.device)
    for chunk in (1, 64, 100, 128, 299, 300, 4096):
        assert same(whole, head_ranks(hidden, weight, targets, chunk=chunk))
    for memory in (least, 2 * least, 2**30):
        assert same(whole, head_ranks(hidden, weight, targets, memory=memory))
    for some in (slice(0, 1), slice(7, 20), slice(33, 300), torch.randperm(300)):
        assert same([c[some] for c in whole], head_ranks(hidden[some], weight, targets[some]))
    naive = token_ranks(hidden @ weight.T, targets)
    assert same(whole, naive)
    assert_brute(whole, (hidden @ weight.T)[:10], targets[:10])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_storage_dtypes_are_compared_in_float32_unless_asked(dtype):
    hidden, weight, targets = (t.to(dtype) if t.is_floating_point() else t for t in planted(rows=70, size=3000))
    found = head_ranks(hidden, weight, targets)
    assert same(found, head_ranks(hidden.float(), weight.float(), targets))
    own = head_ranks(hidden, weight, targets, dtype=None)
    naive = token_ranks(hidden @ weight.T, targets)
    if dtype == torch.float64:
        assert same(own, naive)
    else:  # the same coarse grid of scores, so many ties, whatever the order of summation
        assert own.ties.sum() > found.ties.sum() + 20
        assert (own.greater - naive.greater).abs().float().mean() < 2


def test_doubtful_rows_are_done_again_whole(monkeypatch):
    """Scores that overflow, are infinite, or whose early product differs from the tile's, come out the same."""
    hidden, weight, targets = planted(size=4000)
    whole = head_ranks(hidden, weight, targets)
    early = tiles.Product.own
    monkeypatch.setattr(tiles.Product, "own", lambda self, h, t: early(self, h, t) + 1e-6)
    again = head_ranks(hidden, weight, targets)
    assert torch.equal(whole.greater, again.greater) and torch.equal(whole.ties, again.ties)
    assert torch.allclose(whole.logprob, again.logprob, atol=2e-6)
    monkeypatch.undo()
    bias = torch.zeros(4000)
    bias[[3, 70, 3999]] = torch.tensor([INF, 200.0, -INF])
    for marked in ([], [3], [70], [3999], [3, 70], [70, 3999], [3, 70, 3999]):
        head = Head(weight, torch.where(torch.isin(torch.arange(4000), torch.tensor(marked)), bias, 0.0))
        targets[:4] = torch.tensor([3, 70, 3999, 5])
        found = head_ranks(hidden, head, targets)
        assert_brute(found, head(hidden)[:6], targets[:6])
        assert torch.equal(found.greater, token_ranks(head(hidden), targets).greater)


def test_a_vocabulary_of_one_and_all_equal_scores():
    assert token_ranks(torch.tensor([[5.0]]), torch.tensor([0])) == (
        torch.tensor([0]),
        torch.tensor([1]),
        torch.tensor([0.0]),
    )
    found = token_ranks(torch.full((2, 3, 7), -2.5), torch.zeros(2, 3, dtype=torch.int64))
    assert found.ties.shape == (2, 3) and (found.ties == 7).all() and (found.greater == 0).all()
    assert torch.allclose(found.logprob, torch.tensor(-math.log(7)))


def test_scores_that_carry_gradients_are_ranked_without_them():
    hidden, weight, targets = planted(rows=70, size=2000)
    plain = head_ranks(hidden, weight, targets)
    weight.requires_grad_()
    for found in (head_ranks(hidden, weight, targets), token_ranks(hidden @ weight.T, targets)):
        assert same(plain, found) and not found.logprob.requires_grad
    assert weight.grad is None


def test_a_function_is_a_head_too():
    hidden, weight, targets = planted(rows=150, size=700)
    calls = []

    def head(rows):
        calls.append(len(rows))
        return torch.tanh(rows @ weight.T) * 30

    found = head_ranks(hidden, head, targets, memory=700 * 12 * 70)
    assert max(calls) <= 70
    assert_brute(found, (torch.tanh(hidden @ weight.T) * 30)[:20], targets[:20])
    linear = torch.nn.Linear(48, 700).requires_grad_(False)
    assert same(head_ranks(hidden, linear, targets), token_ranks(linear(hidden), targets))


def test_nan_is_refused_with_its_position():
    logits = torch.zeros(3, 9)
    logits[1, 4] = float("nan")
    with pytest.raises(ValueError, match="position 1 hold a NaN"):
        token_ranks(logits, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="position 1 of sequence 2 hold a NaN"):
        token_ranks(torch.stack([torch.zeros(3, 9), torch.ones(3, 9), logits]), torch.zeros(3, 3, dtype=torch.int64))
    hidden, weight, targets = planted(size=3000)
    hidden[77, 3] = float("nan")
    with pytest.raises(ValueError, match="position 77 hold a NaN"):
        head_ranks(hidden, weight, targets)


@pytest.mark.parametrize("rank", [token_ranks, lambda x, t: head_ranks(x, torch.ones(6, 6), t)])
def test_bad_input_is_named(rank):
    x, t = torch.zeros(4, 6), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"targets of shape \(3,\) do not match .* of shape \(4, 6\)"):
        rank(x, t[:3])
    with pytest.raises(ValueError, match="token id 6 at position 2 is outside the vocabulary of 6"):
        rank(x, torch.tensor([0, 1, 6, 9]))
    with pytest.raises(ValueError, match="token id -1 at position 0"):
        rank(x, torch.tensor([-1, 1, 2, 3]))
    with pytest.raises(ValueError, match="the window is empty"):
        rank(x[:0], t[:0])
    with pytest.raises(ValueError, match="targets are on meta but .* are on cpu"):
        rank(x, t.to("meta"))
    with pytest.raises(ValueError, match=r"targets are torch.float32: give token ids as torch.int64"):
        rank(x, t.float())
    with pytest.raises(ValueError, match=r"are torch.int64: give a floating-point tensor"):
        rank(x.long(), t)


def test_a_budget_too_small_for_one_row_of_the_vocabulary_is_refused():
    hidden, weight, targets = planted(size=3000)
    with pytest.raises(ValueError, match="9000 bytes is too small for one row of a vocabulary of 3000: give at least"):
        head_ranks(hidden, weight, targets, memory=9000)
    with pytest.raises(ValueError, match="too small for one row of a vocabulary of 3000"):
        head_ranks(hidden, lambda rows: rows @ weight.T, targets, memory=9000)
    with pytest.raises(ValueError, match="width 48 on cpu do not fit a head of width 47"):
        head_ranks(hidden, weight[:, :47], targets)


def test_windows_that_cannot_be_scored_are_refused():
    class Model(torch.nn.Module):
        def get_input_embeddings(self):
            return torch.nn.Embedding(5, 2)

    model, ids = Model().eval(), torch.zeros(2, 4, dtype=torch.int64)
    for empty in (ids[:0], ids[:, :0], ids[:, :1], ids[0]):
        with pytest.raises(ValueError, match="hold no token to score"):
            sequence_ranks(model, empty)
    with pytest.raises(ValueError, match="token id 5 at position 3 of sequence 1 is outside the vocabulary of 5"):
        sequence_ranks(model, torch.tensor([[0, 1, 2, 3], [0, 1, 2, 5]]))
    with pytest.raises(ValueError, match=r"`scored` of shape \(2, 4\)"):
        sequence_ranks(model, ids, scored=torch.ones(2, 4))
    with pytest.raises(ValueError, match="training mode"):
        sequence_ranks(model.train(), ids)


def test_the_example_of_the_docstring_holds():
    found = doctest.testmod(engine)
    assert found.attempted and not found.failed
