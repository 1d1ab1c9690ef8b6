"""Causal attention for training: two batched products and a softmax, faster than the fused kernel
at 256 tokens on a processor.

No mask is registered with it, so transformers makes none.
"""

import functools

import torch
from transformers import AttentionInterface


@functools.lru_cache
def _causal(length, dtype):
    return torch.full((length, length), float("-inf"), dtype=dtype).triu_(1)  # (T, T)


def causal_attention(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs
):
    """Attention of whole, unpadded sequences.

    Args:
        query: (B, H, T, c). key, value: (B, G, T, c), G dividing H.
    Returns:
        ((B, T, H, c), None), as transformers wants it.
    """
    batch, heads, length, width = query.shape
    # Heads that share keys and values get copies of them.
    if key.shape[1] != heads:
        key = key.repeat_interleave(heads // key.shape[1], 1)
        value = value.repeat_interleave(heads // value.shape[1], 1)
    scale = width**-0.5 if scaling is None else scaling
    q, k, v = (x.reshape(batch * heads, length, width) for x in (query, key, value))
    mask = _causal(length, q.dtype)
    scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=scale)  # (B H, T, T)
    mixed = torch.bmm(torch.softmax(scores, -1), v).view(batch, heads, length, width)
    return mixed.transpose(1, 2).contiguous(), None


AttentionInterface.register("training", causal_attention)
