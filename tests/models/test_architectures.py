"""The matrix: S, ranks and log-probabilities of many architectures, saved and loaded as any model,
counted naively."""

import pytest
import torch
from architectures import ARCHITECTURES, CONTEXT, V, made
from commands import answers
from smallmodels import hub_model, tokenizer
from transformers import AutoModelForCausalLM

from rbplib import Ranks, sequence_ranks
from rbplib.models import load_model
from tests.ranks.sorts import assert_brute

TABLES = (V, CONTEXT, CONTEXT + 2)  # first sides of tables of tokens and positions, and of a head


def counted(model):
    """S by the shapes of the tensors alone; BERT's two token types are a table too."""
    tables = [p for n, p in model.named_parameters() if p.shape[0] in TABLES or "token_type" in n]
    return sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in tables)


@pytest.mark.slow
@pytest.mark.filterwarnings("error:.*head is unknown:RuntimeWarning")
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_size_ranks_and_logprobs_are_the_naive_ones(kind, tmp_path):
    made(kind).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    (tmp_path / "one.yml").write_text(f"models: [{tmp_path}]\n")
    (sizes,) = answers(f"families {tmp_path}/one.yml")
    own = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    assert (sizes["nonembedding_params"], sizes["vocab_size"]) == (counted(own), V)
    assert sizes["total_params"] == own.num_parameters()
    # ranks among whole logits (3, 49, V)
    loaded = load_model(hub_model(tmp_path), device="cpu")
    assert loaded.record["nonembedding_params"] == counted(own)
    ids = torch.randint(3, V, (3, 50), generator=torch.Generator().manual_seed(1))
    ranks = sequence_ranks(loaded.model, ids)
    with torch.inference_mode():
        logits = own(ids, use_cache=False).logits[:, :-1]
    flat = Ranks(*map(torch.flatten, ranks))
    assert_brute(flat, logits.float().flatten(0, 1), ids[:, 1:].flatten(), 2e-5)
    assert ranks.rank.unique().numel() > 30, "degenerate ranks would show nothing"
