"""Ranks against brute force in float64, for every kind of head and number, and what is refused."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rbplib import head_ranks, ranks, sequence_ranks, token_ranks
from rbplib.heads import Head
from tests.ranks.sorts import assert_brute

INF, NAN = math.inf, math.nan
BLOCK = ranks.BLOCK


def linear(weight, *bias):
    head = torch.nn.Linear(1, 1, bool(bias))
    for parameter, values in zip(head.parameters(), (weight, *bias), strict=True):
        parameter.data = values
    return head


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def planted(size, rows=300, width=48):
    pick = torch.Generator().manual_seed(0)
    hidden, weight = (
        torch.randn(rows, width, generator=pick),
        torch.randn(size, width, generator=pick),
    )
    return hidden, weight * 0.3, torch.randint(0, size, (rows,), generator=pick)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 200),
    st.integers(1, 3 * BLOCK),
    st.integers(1, 24),
    st.booleans(),
    st.integers(0, 99),
)
def test_head_foundequal_brute_force_on_exact_products(rows, size, width, biased, seed):
    """Small integers multiply exactly, so every order of summation gives these scores, ties
    included."""
    pick = torch.Generator().manual_seed(seed)
    shapes = (rows, width), (size, width), (size,)
    hidden, weight, bias = (torch.randint(-2, 3, shape, generator=pick).float() for shape in shapes)
    targets = torch.randint(0, size, (rows,), generator=pick)
    head = linear(weight, bias) if biased else linear(weight)
    assert_brute(head_ranks(hidden, head, targets), head(hidden), targets)
    assert same(head_ranks(hidden, head, targets)[:2], token_ranks(head(hidden), targets)[:2])


@pytest.mark.parametrize("width", [48, 128])
@pytest.mark.parametrize("size", [1, 17, BLOCK + 65, 5 * BLOCK, 5 * BLOCK + 1])
def test_results_do_not_depend_on_the_batch(size, width):
    """Of few candidates many own scores come out otherwise ahead of their block, and are counted
    again; some were once in one batch and not in another."""
    hidden, weight, targets = planted(rows=2500, size=size, width=width)
    whole = head_ranks(hidden, weight, targets)
    for some in (slice(0, 1), slice(7, 20), slice(33, 2300), torch.randperm(2500)):
        part = head_ranks(hidden[some], weight, targets[some])
        assert same([column[some] for column in whole], part)
    assert_brute(whole, hidden @ weight.T, targets)


class Shifted(Head):
    """Scores of chosen candidates come out otherwise than in their block."""

    def product(self, states, columns=slice(None), out=None):
        scores = super().product(states, columns, out)
        return scores + 1 if isinstance(columns, torch.Tensor) else scores


def test_a_row_whose_own_score_is_another_in_its_block_is_counted_again():
    hidden, weight, targets = planted(size=4000)
    assert_brute(head_ranks(hidden, Shifted(weight), targets), hidden @ weight.T, targets)


@pytest.mark.parametrize("marked", [[3], [70], [3999], [3, 70, 3999]])
def test_scores_that_overflow_or_are_infinite(marked):
    hidden, weight, targets = planted(size=4000)
    bias = torch.zeros(4000)
    bias[marked] = torch.tensor([{3: INF, 70: 200.0, 3999: -INF}[i] for i in marked])
    targets[:4] = torch.tensor([3, 70, 3999, 5])
    head = linear(weight, bias)
    assert_brute(head_ranks(hidden, head, targets), head(hidden), targets)


def test_weights_in_half_precision_are_compared_in_float32_unless_asked():
    hidden, weight, targets = planted(rows=70, size=3000)
    hidden, weight = hidden.bfloat16(), weight.bfloat16()
    found = head_ranks(hidden, weight, targets)
    assert same(found, head_ranks(hidden.float(), weight.float(), targets))
    # the coarse grid of scores has many ties, whatever the order of summation
    stored = head_ranks(hidden, weight, targets, dtype=None)
    assert stored.ties.sum() > found.ties.sum() + 20


def test_shapes_gradients_and_heads_of_any_kind():
    found = token_ranks(torch.full((2, 3, 7), -2.5), torch.zeros(2, 3, dtype=torch.int64))
    assert found.rank.tolist() == [[7] * 3] * 2 and found.logprob.shape == (2, 3)
    hidden, weight, targets = planted(rows=150, size=700)
    weight.requires_grad_()
    kept = hidden.clone()
    doubled = head_ranks(hidden, lambda rows: rows.mul_(2) @ weight.T, targets)
    assert_brute(doubled, 2 * kept @ weight.T, targets)
    assert torch.equal(hidden, kept), "a head that overwrites its argument overwrote the caller's"
    plain = head_ranks(hidden, weight, targets)
    assert not plain.logprob.requires_grad
    folded = head_ranks(hidden.view(10, 15, 48), linear(weight.data), targets.view(10, 15))
    assert same(plain, [column.flatten() for column in folded])


X, T = torch.zeros(4, 6), torch.zeros(4, dtype=torch.int64)
REFUSED = {  # inputs of token_ranks, and what is said of them
    "one target less": (X, T[:3], r"of shape \(4, 6\) need one target per row, not \(3,\)"),
    "an id too large": (
        X,
        T + torch.tensor([0, 1, 6, 9]),
        "token id 6 is outside the vocabulary of 6",
    ),
    "an id below 0": (X, T - 1, "token id -1 is outside"),
    "nothing": (X[:0], T[:0], "the window is empty"),
    "targets that are no ids": (X, T.float(), "targets torch.float32"),
    "a NaN": (
        torch.where(torch.eye(4, 6) > 0, NAN, X)[2:].view(1, 2, 6),
        T[:2].view(1, 2),
        r"\(0, 0\) hold a NaN",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("rank", [token_ranks, lambda x, t: head_ranks(x, torch.ones(6, 6), t)])
def test_bad_input_is_named(rank, name):
    scores, targets, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        rank(scores, targets)


def test_windows_that_cannot_be_scored_are_refused():
    class Model(torch.nn.Module):
        def get_input_embeddings(self):
            return torch.nn.Embedding(5, 2)

    model, ids = Model().eval(), torch.zeros(2, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match="hold no token to score"):
        sequence_ranks(model, ids[:, :1])
    with pytest.raises(ValueError, match="token id 5 is outside the vocabulary of 5"):
        sequence_ranks(model, torch.tensor([[0, 1, 2, 3], [0, 1, 2, 5]]))
    with pytest.raises(RuntimeError, match="expanded size"):
        sequence_ranks(model, ids, scored=torch.ones(2, 4))
    with pytest.raises(ValueError, match="training mode"):
        sequence_ranks(model.train(), ids)
