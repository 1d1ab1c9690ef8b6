"""A model's own head: proven by its logits, asked where it is unknown, never run on all of them."""

import pytest
import torch
from architectures import V, made

from rbplib import Ranks, sequence_ranks, token_ranks

IDS = torch.randint(3, V, (3, 50), generator=torch.Generator().manual_seed(1))
SCORED = torch.rand(3, 49, generator=torch.Generator().manual_seed(2)) < 0.7


def assert_naive(ranks, model, ids=IDS, scored=SCORED):
    """Ranks of the scored entries are those of the model's own logits."""
    with torch.inference_mode():
        logits = model(ids).logits
    truth = token_ranks(logits[:, :-1], ids[:, 1:])
    assert torch.equal(ranks.greater[scored], truth.greater[scored])
    assert torch.equal(ranks.ties[scored], truth.ties[scored])
    torch.testing.assert_close(ranks.logprob[scored], truth.logprob[scored], rtol=2e-6, atol=2e-6)
    assert (ranks.ties[~scored] == 0).all() and ranks.logprob[~scored].isnan().all()


def test_a_model_of_unknown_head_is_asked_for_its_logits_one_sequence_at_a_time():
    model, lengths = made("gpt_neox"), []
    forward = model.forward

    def odd(ids, **how):
        """The head looks at the neighbours too."""
        lengths.append(len(ids))
        out = forward(ids, **how)
        out.logits = out.logits + out.logits.cumsum(1) / 100
        return out

    model.forward = odd
    with pytest.warns(RuntimeWarning, match="one sequence at a time") as warned:
        _, ranks = (sequence_ranks(model, IDS, SCORED) for _ in range(2))
    assert len(warned) == 1 and {*lengths} == {1}
    for row in range(3):
        part = Ranks(*(column[row : row + 1] for column in ranks))
        assert_naive(part, model, IDS[row : row + 1], SCORED[row : row + 1])


def test_a_setting_that_the_forward_pass_ignores_is_not_believed():
    model = made("gpt_neox")
    model.config.logits_scaling = 5.0
    assert_naive(sequence_ranks(model, IDS, SCORED), model)


def test_a_replaced_output_embedding_is_noticed():
    model = made("gpt_neox")
    sequence_ranks(model, IDS, SCORED)
    model.set_output_embeddings(torch.nn.Linear(32, V))
    assert_naive(sequence_ranks(model, IDS, SCORED), model)


def test_the_pass_ends_before_the_head_and_leaves_no_hook():
    model, calls = made("gpt_neox"), []
    sequence_ranks(model, IDS)  # by which its head is known
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    model.get_output_embeddings().register_forward_hook(lambda *args: calls.append(1))
    sequence_ranks(model, IDS)
    assert not calls
