"""Every kind of head against the model's own logits, handled naively."""

import warnings

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, logging

from rbplib import heads
from rbplib.ranks import sequence_ranks, token_ranks

V = 2305  # enough for two blocks of the vocabulary, and no round number
SHAPE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
GROUPED = SHAPE | {"num_key_value_heads": 2}
GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4}
OPT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 96}

ARCHITECTURES = {
    "plain": ("gpt_neox", SHAPE),
    "tied": ("gpt2", GPT),
    "untied qwen": ("qwen2", GROUPED | {"tie_word_embeddings": False}),
    "tied opt": ("opt", OPT | {"word_embed_proj_dim": 64}),
    "projection (OPT-350m)": ("opt", OPT | {"word_embed_proj_dim": 32, "do_layer_norm_before": False}),
    "biased": ("gptj", GPT | {"rotary_dim": 8}),
    "multiplied (Cohere)": ("cohere", GROUPED | {"logit_scale": 0.07}),
    "divided (Granite)": ("granite", GROUPED | {"logits_scaling": 7.0}),
    "soft-capped (Gemma 2)": ("gemma2", GROUPED | {"head_dim": 16, "final_logit_softcapping": 0.3}),
    "no transformer": ("mamba", {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 4}),
}


def tiny(kind, settings, dtype=torch.float32):
    logging.set_verbosity_error()
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, vocab_size=V, **settings, **ids)).eval()
    with torch.no_grad():  # scores spread as a trained model's, so that soft-capping saturates
        head = model.get_output_embeddings()
        head.weight.mul_(20)
        if head.bias is not None:
            head.bias.normal_()
    return model.to(dtype)


def window(batch=3, length=90):
    ids = torch.randint(3, V, (batch, length), generator=torch.Generator().manual_seed(1))
    scored = torch.ones_like(ids[:, 1:], dtype=torch.bool)
    scored[1, 79:] = False  # padding on the right
    return ids, scored


def naive(model, ids):
    with torch.inference_mode():
        logits = model(ids).logits
    return token_ranks(logits[:, :-1], ids[:, 1:])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_ranks_equal_those_of_the_models_own_logits(name):
    model, (ids, scored) = tiny(*ARCHITECTURES[name]), window()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the head must be known, not fallen back from
        found = sequence_ranks(model, ids, scored)
    truth = naive(model, ids)
    assert ((found.ties > 0) == scored).all() and found.logprob[~scored].isnan().all()
    for ours, own in zip(found, truth, strict=True):
        assert torch.equal(ours[scored], own[scored])
    if name.startswith("soft-capped"):
        assert (found.ties > 1).any(), "the cap should make ties, or this test shows nothing"


def test_scored_entries_are_those_asked_for():
    model, (ids, _) = tiny(*ARCHITECTURES["plain"]), window()
    truth, scored = sequence_ranks(model, ids), torch.rand(3, 89) < 0.3
    scored[2] = False
    found = sequence_ranks(model, ids, scored=scored)
    for ours, whole in zip(found, truth, strict=True):
        assert torch.equal(ours[scored], whole[scored])
    assert (found.ties[~scored] == 0).all() and found.logprob[~scored].isnan().all()


def test_half_precision_models_are_ranked_in_float32_unless_asked():
    model, (ids, scored) = tiny(*ARCHITECTURES["plain"], dtype=torch.bfloat16), window()
    own = sequence_ranks(model, ids, scored, dtype=None)
    truth = naive(model, ids)
    assert (own.greater - truth.greater)[scored].abs().float().mean() < 3  # summed in another order, then rounded
    fine = sequence_ranks(model, ids, scored)
    assert fine.ties[scored].sum() < own.ties[scored].sum()


@pytest.mark.parametrize("kind,settings", [("minicpm3", SHAPE | {"num_key_value_heads": 4, "dim_model_base": 24})])
def test_an_unknown_head_gives_the_models_own_logits_and_says_so_once(kind, settings):
    model, (ids, scored) = tiny(kind, settings), window()
    with pytest.warns(RuntimeWarning, match="head is unknown, so its own logits are taken whole, one") as said:
        found = [sequence_ranks(model, ids, scored) for _ in range(2)]
    assert len(said) == 1
    truth = naive(model, ids)
    for again in found:
        assert torch.equal(again.greater[scored], truth.greater[scored])
        assert torch.equal(again.ties[scored], truth.ties[scored])


class Odd(torch.nn.Module):
    """A model whose head looks at the neighbours too, and whose parts nobody can tell apart."""

    def __init__(self):
        super().__init__()
        self.inner = tiny(*ARCHITECTURES["plain"])
        self.calls = []

    def get_input_embeddings(self):
        return self.inner.get_input_embeddings()

    def forward(self, ids, use_cache=False, **inputs):
        self.calls.append(len(ids))
        out = self.inner(ids, **inputs)
        out.logits = out.logits + out.logits.cumsum(1) / 100
        return out


def test_a_model_without_a_separate_head_is_asked_one_sequence_at_a_time():
    model, (ids, scored) = Odd().eval(), window()
    with pytest.warns(RuntimeWarning, match="one sequence at a time"):
        found = sequence_ranks(model, ids, scored)
    assert set(model.calls) == {1}
    with torch.inference_mode():
        alone = [token_ranks(model(i[None]).logits[:, :-1], i[None, 1:]) for i in ids]
    assert torch.equal(found.greater[scored], torch.cat([a.greater for a in alone])[scored])


def test_a_setting_that_the_forward_pass_ignores_is_not_believed():
    model, (ids, scored) = tiny(*ARCHITECTURES["plain"]), window()
    model.config.logits_scaling = 5.0
    found, truth = sequence_ranks(model, ids, scored), naive(model, ids)
    assert torch.equal(found.logprob[0], truth.logprob[0])


def test_a_replaced_output_embedding_is_noticed():
    model, (ids, scored) = tiny(*ARCHITECTURES["plain"]), window()
    sequence_ranks(model, ids, scored)
    model.set_output_embeddings(torch.nn.Linear(64, V))
    found, truth = sequence_ranks(model, ids, scored), naive(model, ids)
    assert torch.equal(found.greater[0], truth.greater[0])


def test_the_body_runs_without_the_head_and_leaves_no_hook():
    model, (ids, _) = tiny(*ARCHITECTURES["projection (OPT-350m)"]), window()
    used = []
    handle = model.get_output_embeddings().register_forward_hook(lambda *a: used.append(1))
    with torch.inference_mode():
        states = heads.run_body(model, ids)
    handle.remove()
    assert not used and states.shape == (3, 90, 32)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("batch", [1, 2, 5, 16])
def test_what_the_batch_changes_is_bounded(batch):
    """The head never depends on the batch; the body's products may round otherwise for another number of rows."""
    model = tiny(*ARCHITECTURES["plain"])
    ids = torch.randint(3, V, (16, 90), generator=torch.Generator().manual_seed(2))
    whole = sequence_ranks(model, ids)
    parts = [sequence_ranks(model, some) for some in ids.split(batch)]
    logprob = torch.cat([p.logprob for p in parts])
    greater = torch.cat([p.greater for p in parts])
    assert (logprob - whole.logprob).abs().max() < 2e-5
    assert (greater != whole.greater).float().mean() < 0.02 and (greater - whole.greater).abs().max() <= 2
