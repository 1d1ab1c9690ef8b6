"""Every kind of head against the model's own logits, handled naively."""

import warnings

import pytest
import torch
from architectures import made

from rbplib import sequence_ranks, token_ranks

V = 2305  # enough for four blocks of the vocabulary, and no round number
KNOWN = {  # what the head does: an architecture, and its settings beside those of `made`
    "plain": ("gpt_neox", {}),
    "tied": ("gpt2", {}),
    "untied": ("qwen2", {"tie_word_embeddings": False}),
    "many layers of norms": ("olmo2", {}),
    "a projection before it (OPT-350m)": ("opt", {}),
    "a bias": ("gptj", {}),
    "multiplied (Cohere)": ("cohere", {"logit_scale": 0.07}),
    "multiplied (Falcon-H1)": ("falcon_h1", {}),
    "divided (Granite)": ("granite", {"logits_scaling": 7.0}),
    "soft-capped (Gemma 2)": ("gemma2", {"final_logit_softcapping": 0.3}),
    "soft-capped (RecurrentGemma)": ("recurrent_gemma", {}),
    "no transformer": ("mamba", {}),
    "experts": ("mixtral", {}),
}


def tiny(name="plain"):
    kind, changes = KNOWN[name]
    model = made(kind, vocab_size=V, **changes)
    with torch.no_grad():  # scores spread as a trained model's, so that soft-capping saturates
        model.get_output_embeddings().weight.mul_(3)
    return model


def window():
    ids = torch.randint(3, V, (3, 50), generator=torch.Generator().manual_seed(1))
    scored = torch.rand(3, 49, generator=torch.Generator().manual_seed(2)) < 0.7
    return ids, scored


def assert_naive(found, model, ids, scored):
    """Ranks of the scored entries are those of the model's own logits."""
    with torch.inference_mode():
        logits = model(ids).logits
    truth = token_ranks(logits[:, :-1], ids[:, 1:])
    assert torch.equal(found.greater[scored], truth.greater[scored])
    assert torch.equal(found.ties[scored], truth.ties[scored])
    torch.testing.assert_close(found.logprob[scored], truth.logprob[scored], rtol=2e-6, atol=2e-6)
    assert (found.ties[~scored] == 0).all() and found.logprob[~scored].isnan().all()


@pytest.mark.parametrize("name", KNOWN)
def test_ranks_equal_those_of_the_models_own_logits(name):
    model, (ids, scored) = tiny(name), window()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # the head must be known
        found = sequence_ranks(model, ids, scored)
    assert_naive(found, model, ids, scored)
    assert found.rank[scored].unique().numel() > 30
    if "Gemma 2" in name:
        assert (found.ties > 1).any(), "the cap should make ties, or this test shows nothing"


def test_a_model_of_unknown_head_is_asked_for_its_logits_one_sequence_at_a_time():
    model, (ids, scored), asked = tiny(), window(), []
    forward = model.forward

    def odd(ids, **how):
        """The head looks at the neighbours too."""
        asked.append(len(ids))
        out = forward(ids, **how)
        out.logits = out.logits + out.logits.cumsum(1) / 100
        return out

    model.forward = odd
    with pytest.warns(RuntimeWarning, match="one sequence at a time") as warned:
        found = [sequence_ranks(model, ids, scored) for _ in range(2)]
    assert len(warned) == 1 and set(asked) == {1}
    for row in range(3):
        part = [column[row : row + 1] for column in found[1]]
        assert_naive(type(found[1])(*part), model, ids[row : row + 1], scored[row : row + 1])


def test_a_setting_that_the_forward_pass_ignores_is_not_believed():
    model, (ids, scored) = tiny(), window()
    model.config.logits_scaling = 5.0
    assert_naive(sequence_ranks(model, ids, scored), model, ids, scored)


def test_a_replaced_output_embedding_is_noticed():
    model, (ids, scored) = tiny(), window()
    sequence_ranks(model, ids, scored)
    model.set_output_embeddings(torch.nn.Linear(32, V))
    assert_naive(sequence_ranks(model, ids, scored), model, ids, scored)


def test_the_pass_ends_before_the_head_and_leaves_no_hook():
    model, (ids, _) = tiny(), window()
    sequence_ranks(model, ids)  # by which its head is known
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    used = []
    model.get_output_embeddings().register_forward_hook(lambda *args: used.append(1))
    sequence_ranks(model, ids)
    assert not used
