"""Mamba's scan beside transformers' own."""

import sys
from unittest import mock

import pytest
import torch
from architectures import V, made

from rbplib import scan


@pytest.mark.parametrize("kind", ["mamba", "falcon_mamba"])
@pytest.mark.parametrize("tokens", [2, 61])
def test_scores_are_those_of_transformers_own_scan(kind, tokens, monkeypatch):
    model = made(kind)
    module = sys.modules[type(model).__module__]
    function = getattr(module, scan.NAME)
    # transformers' own, whether it was replaced or not
    monkeypatch.setattr(module, scan.NAME, getattr(function, "theirs", function))
    ids = torch.randint(V, (3, tokens), generator=torch.Generator().manual_seed(tokens))
    with torch.inference_mode():
        theirs = model(ids, use_cache=False).logits
        ours = mock.Mock(side_effect=scan.selective_scan)
        monkeypatch.setattr(scan, "selective_scan", ours)
        scan.speed_up(model)
        scores = model(ids, use_cache=False).logits
        assert ours.call_count == model.config.num_hidden_layers
        torch.testing.assert_close(scores, theirs, rtol=0, atol=1e-5 * theirs.std().item())
        # where it is not made for that, the model's own is taken
        model(ids)
        model.bfloat16()(ids, use_cache=False)
    model.float()(ids, use_cache=False)
    assert ours.call_count == model.config.num_hidden_layers
