"""Mamba's selective scan on a processor, for models whose kernels are for CUDA alone.

transformers goes through a sequence token by token over slices of arrays (batch, channels, tokens,
states), a state's numbers in a row at a time. Here tokens come first, so that a step is over all
numbers in a row, and a few tokens at a time are made, so that they stay in the cache. Each state is
the same product and sum of the same numbers; only the sum over a token's states is taken in another
order, and exponentials are powers of two.
"""

import sys

import torch
from torch.nn import functional as F

from rbplib.ranks import LOG2_E

STEPS = 8  # tokens at once
NAME = "mamba_selective_scan"  # of the function in transformers' modules


def speed_up(model):
    """Let a Mamba model on a processor go through its tokens by `selective_scan`.

    The function is replaced in transformers' module, for every model of that kind. Where none has
    its name nothing is, and measuring is as slow as it was.
    """
    for name in {type(module).__module__ for module in model.modules()}:
        theirs = getattr(sys.modules[name], NAME, None)
        if theirs and not hasattr(theirs, "theirs"):
            setattr(sys.modules[name], NAME, chosen(theirs))


def chosen(theirs):
    """Ours where it is made for the numbers, theirs elsewhere: on other devices, in half precision,
    under gradients, and where the last state is wanted."""

    def scan(hidden_states, dt, A, B, C, **options):
        fits = hidden_states.device.type == "cpu" and hidden_states.dtype == torch.float32
        fits = fits and not torch.is_grad_enabled() and not options.get("return_last_state")
        return (selective_scan if fits else theirs)(hidden_states, dt, A, B, C, **options)

    scan.theirs = theirs
    return scan


def selective_scan(
    hidden_states, dt, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, **_
):
    """y_t = C_t h_t + D x_t, gated by z, of h_t = exp(dt_t A) h_(t-1) + dt_t B_t x_t.

    Gu and Dao, arXiv:2312.00752, Eq. 2 with its discretisation.

    Args:
        hidden_states, dt, z: float32 (batch, channels, tokens), x, the steps and the gate.
        A: (channels, states). B, C: (batch, states, tokens). D, delta_bias: (channels,).
        delta_softplus: whether a step is the softplus of dt.
    Returns:
        y, (batch, channels, tokens).
    Cost: three products and an exponential for each state of each token.
    """
    # the steps
    if delta_bias is not None:
        dt = dt + delta_bias[:, None]
    if delta_softplus:
        dt = F.softplus(dt)
    batch, channels, tokens = hidden_states.shape
    states = A.shape[1]

    # tokens first: (tokens, states, batch, channels)
    x = hidden_states.permute(2, 0, 1).contiguous()
    dt = dt.permute(2, 0, 1).contiguous()
    B, C = (values.permute(2, 1, 0).contiguous()[..., None] for values in (B, C))
    A = (A.T * LOG2_E)[:, None]

    # room for STEPS tokens, which is used again
    y = torch.empty_like(x)
    factors = torch.empty(STEPS, states, batch, channels)
    sums = torch.empty_like(factors)
    state = torch.zeros_like(sums[0])
    for start in range(0, tokens, STEPS):
        some = slice(start, min(start + STEPS, tokens))
        step = dt[some, None]
        count = len(step)
        torch.mul(A, step, out=factors[:count]).exp2_()
        torch.mul(step, B[some], out=sums[:count]).mul_(x[some, None])
        # each state by the one before it
        before = state
        for factor, total in zip(factors[:count], sums[:count], strict=True):
            total.add_(factor.mul_(before))
            before = total
        state.copy_(before)
        torch.mul(sums[:count], C[some], out=factors[:count])
        torch.sum(factors[:count], 1, out=y[some])
    if D is not None:
        y.add_(x * D)
    y = y.permute(1, 2, 0)
    return y if z is None else y * F.silu(z)
