"""Ranks against brute force in float64, for every kind of head and number, and what is refused."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rbplib import head_ranks, ranks, sequence_ranks, token_ranks
from rbplib.heads import Head
from tests.ranks.sorts import assert_brute

BLOCK = ranks.BLOCK


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def planted(size, rows=300, width=48):
    """States, an output embedding and targets."""
    pick = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, width, generator=pick)
    weight = torch.randn(size, width, generator=pick) * 0.3
    return hidden, weight, torch.randint(0, size, (rows,), generator=pick)


def linear(weight, bias):
    head = torch.nn.Linear(*weight.T.shape)
    head.weight.data, head.bias.data = weight, bias
    return head


rows, sizes, widths = st.integers(1, 200), st.integers(1, 3 * BLOCK), st.integers(1, 24)


@settings(max_examples=60, deadline=None)
@given(rows, sizes, widths, st.booleans(), st.integers(0, 99))
def test_ranks_of_a_head_equal_brute_force_on_exact_products(rows, size, width, biased, seed):
    """Small integers multiply exactly, so every order of summation gives these scores, ties
    included."""
    pick = torch.Generator().manual_seed(seed)
    shapes = (rows, width), (size, width), (size,)
    hidden, weight, bias = (torch.randint(-2, 3, shape, generator=pick).float() for shape in shapes)
    targets = torch.randint(0, size, (rows,), generator=pick)
    head = linear(weight, bias * biased)
    assert_brute(head_ranks(hidden, head, targets), head(hidden), targets)
    assert same(head_ranks(hidden, head, targets)[:2], token_ranks(head(hidden), targets)[:2])


@pytest.mark.parametrize("width", [48, 128])
@pytest.mark.parametrize("size", [1, 17, BLOCK + 65, 5 * BLOCK + 1])
def test_results_do_not_depend_on_the_batch(size, width):
    """Of few candidates many own scores come out otherwise ahead of their block, and are counted
    again; some were once in one batch and not in another."""
    hidden, weight, targets = planted(size, 2500, width)
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
    hidden, weight, targets = planted(4000)
    assert_brute(head_ranks(hidden, Shifted(weight), targets), hidden @ weight.T, targets)


@pytest.mark.parametrize("marked", [[3], [70], [3999], [3, 70, 3999]])
def test_scores_that_overflow_or_are_infinite(marked):
    hidden, weight, targets = planted(4000)
    bias, values = torch.zeros(4000), {3: math.inf, 70: 200.0, 3999: -math.inf}
    bias[marked] = torch.tensor([values[i] for i in marked])
    targets[:4] = torch.tensor([3, 70, 3999, 5])
    head = linear(weight, bias)
    assert_brute(head_ranks(hidden, head, targets), head(hidden), targets)


def test_weights_in_half_precision_are_compared_in_it_where_that_is_asked():
    hidden, weight, targets = planted(3000, 70)
    inputs = hidden.bfloat16(), weight.bfloat16(), targets
    # the coarse grid of scores has many ties, whatever the order of summation
    wide, stored = head_ranks(*inputs), head_ranks(*inputs, dtype=None)
    assert stored.ties.sum() > wide.ties.sum() + 20


def test_shapes_gradients_and_heads_of_any_kind():
    hidden, weight, targets = planted(700, 150)
    weight.requires_grad_()
    kept = hidden.clone()
    doubled = head_ranks(hidden, lambda rows: rows.mul_(2) @ weight.T, targets)
    assert_brute(doubled, 2 * kept @ weight.T, targets)
    assert torch.equal(hidden, kept), "a head that overwrites its argument overwrote the caller's"
    plain = head_ranks(hidden, weight, targets)
    assert not plain.logprob.requires_grad
    folded = head_ranks(hidden.view(10, 15, 48), weight, targets.view(10, 15))
    assert same(plain, [column.flatten() for column in folded])


SCORES, IDS = torch.zeros(4, 6), torch.zeros(4, dtype=torch.int64)
UNKNOWN = SCORES.index_fill(0, IDS[:1] + 2, math.nan)
REFUSED = {  # what is said of scores and targets
    r"of shape \(4, 6\) need one target per row, not \(3,\)": (SCORES, IDS[:3]),
    "token id 9 is outside the vocabulary of 6": (SCORES, IDS + 9),
    "token id -1 is outside": (SCORES, IDS - 1),
    "the window is empty": (SCORES[:0], IDS[:0]),
    "targets torch.float32": (SCORES, IDS.float()),
    r"\(1, 0\) hold a NaN": (UNKNOWN.view(2, 2, 6), IDS.view(2, 2)),
}


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.parametrize("rank", [token_ranks, lambda x, ids: head_ranks(x, torch.eye(6), ids)])
def test_bad_input_is_named(rank, message):
    with pytest.raises(ValueError, match=message):
        rank(*REFUSED[message])


def test_windows_that_cannot_be_scored_are_refused():
    class Model(torch.nn.Module):
        def get_input_embeddings(self):
            return torch.nn.Embedding(5, 2)

    model, ids = Model().eval(), torch.zeros(2, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match="hold no token to score"):
        sequence_ranks(model, ids[:, :1])
    with pytest.raises(ValueError, match="token id 5 is outside the vocabulary of 5"):
        sequence_ranks(model, ids + 5)
    with pytest.raises(RuntimeError, match="expanded size"):
        sequence_ranks(model, ids, scored=torch.ones(2, 4))
    with pytest.raises(ValueError, match="training mode"):
        sequence_ranks(model.train(), ids)
