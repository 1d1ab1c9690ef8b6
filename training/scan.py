"""Mamba's selective scan for training: the reference arithmetic with its gradient written out, states in one block.

The reference implementation of `transformers` makes a graph node per position; here a position costs one fused
multiply-add forwards and one backwards, and all else is done for all positions at once.
"""

import torch
import torch.nn.functional as F


class Scan(torch.autograd.Function):
    """y_t = C_t . h_t with h_t = exp(dt_t A) h_{t-1} + dt_t B_t u_t, all float32.

    u, dt: (T, b, D); A: (N, D), negative; B, C: (T, N, b). Returns y (T, b, D).
    """

    @staticmethod
    def forward(ctx, u, dt, A, B, C):
        decay = torch.exp(dt[:, None] * A[None, :, None])  # (T, N, b, D)
        states = (dt * u)[:, None] * B[..., None]  # (T, N, b, D)
        rows, steps = decay.unbind(0), states.unbind(0)
        for t in range(1, len(rows)):
            steps[t].addcmul_(rows[t], steps[t - 1])
        ctx.save_for_backward(u, dt, A, B, C, decay, states)
        return (states * C[..., None]).sum(1)

    @staticmethod
    def backward(ctx, to_y):
        u, dt, A, B, C, decay, states = ctx.saved_tensors
        g = to_y[:, None] * C[..., None]  # (T, N, b, D), gradient of the states
        rows, steps = decay.unbind(0), g.unbind(0)
        for t in range(len(rows) - 2, -1, -1):
            steps[t].addcmul_(rows[t + 1], steps[t + 1])
        to_C = (states * to_y[:, None]).sum(-1)
        to_B = (g * (dt * u)[:, None]).sum(-1)
        to_input = (g * B[..., None]).sum(1)  # of dt * u
        q = g
        q[1:] *= states[:-1]
        q[0] = 0
        q *= decay  # of the exponent dt * A
        to_A = (q * dt[:, None]).sum((0, 2))
        to_dt = (q * A[None, :, None]).sum(1) + to_input * u
        return to_input * dt, to_dt, to_A, to_B, to_C


def selective_scan(
    hidden_states, dt, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, return_last_state=False, **kwargs
):
    """Drop-in for `modeling_mamba.mamba_selective_scan`: hidden_states, dt, z (b, D, T); A (D, N); B, C (b, N, T)."""
    if return_last_state:
        raise NotImplementedError("training keeps no state between calls")
    dt = dt.float() if delta_bias is None else dt.float() + delta_bias.float()[:, None]
    dt = F.softplus(dt) if delta_softplus else dt
    u = hidden_states.float()
    first = (x.permute(2, 0, 1).contiguous() for x in (u, dt))
    inner = (x.float().permute(2, 1, 0).contiguous() for x in (B, C))
    y = Scan.apply(*first, A.float().T.contiguous(), *inner).permute(1, 2, 0)
    if D is not None:
        y = y + u * D.float()[:, None]
    return y if z is None else y * F.silu(z.float())


def use_in_training():
    """Put this scan in the place of the reference one, for this process."""
    from transformers.models.mamba import modeling_mamba

    modeling_mamba.mamba_selective_scan = selective_scan
