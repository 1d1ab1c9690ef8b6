"""Mamba's scan beside transformers' own."""

import sys

import pytest
import torch
from architectures import made

from rbplib import scan

KINDS = ("mamba", "falcon_mamba")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [2, 61])
def test_scores_are_those_of_transformers_own_scan(kind, tokens, monkeypatch):
    model, calls = made(kind), []
    module = sys.modules[type(model).__module__]
    monkeypatch.setattr(module, scan.NAME, theirs_of(module))
    ids = torch.randint(331, (3, tokens), generator=torch.Generator().manual_seed(tokens))
    with torch.inference_mode():
        theirs = model(ids, use_cache=False).logits
        monkeypatch.setattr(scan, "selective_scan", count_calls(scan.selective_scan, calls))
        scan.speed_up(model)
        ours = model(ids, use_cache=False).logits
        assert len(calls) == model.config.num_hidden_layers
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * theirs.std().item())
        # where it is not made for that, the model's own is taken
        model(ids)
        model.bfloat16()(ids, use_cache=False)
    model.float()(ids, use_cache=False)
    assert len(calls) == model.config.num_hidden_layers


def theirs_of(module):
    """The function of transformers, whether it was replaced or not."""
    function = getattr(module, scan.NAME)
    return getattr(function, "theirs", function)


def count_calls(function, calls):
    """A function that is noted each time."""
    return lambda *values, **options: calls.append(1) or function(*values, **options)
