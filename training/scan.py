"""Mamba's selective scan for training: the reference arithmetic with its gradient written out.

The reference implementation of `transformers` makes a graph node per position; here a position
costs one fused multiply-add forwards and one backwards, and all else is done for all at once.
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
        # One position after the other, in place.
        decay_at, state_at = decay.unbind(0), states.unbind(0)
        for t in range(1, len(state_at)):
            state_at[t].addcmul_(decay_at[t], state_at[t - 1])
        ctx.save_for_backward(u, dt, A, B, C, decay, states)
        return (states * C[..., None]).sum(1)

    @staticmethod
    def backward(ctx, to_y):
        u, dt, A, B, C, decay, states = ctx.saved_tensors
        # The gradient of the states, from the last position to the first.
        to_states = to_y[:, None] * C[..., None]  # (T, N, b, D)
        decay_at, to_state_at = decay.unbind(0), to_states.unbind(0)
        for t in range(len(to_state_at) - 2, -1, -1):
            to_state_at[t].addcmul_(decay_at[t + 1], to_state_at[t + 1])
        to_C = (states * to_y[:, None]).sum(-1)
        to_B = (to_states * (dt * u)[:, None]).sum(-1)
        to_input = (to_states * B[..., None]).sum(1)  # of dt * u
        # The gradient of the exponents dt * A, in the same memory.
        to_exponent = to_states
        to_exponent[1:] *= states[:-1]
        to_exponent[0] = 0
        to_exponent *= decay
        to_A = (to_exponent * dt[:, None]).sum((0, 2))
        to_dt = (to_exponent * A[None, :, None]).sum(1) + to_input * u
        return to_input * dt, to_dt, to_A, to_B, to_C


def selective_scan(
    hidden_states,
    dt,
    A,
    B,
    C,
    D=None,
    z=None,
    delta_bias=None,
    delta_softplus=False,
    return_last_state=False,
    **kwargs,
):
    """Drop-in for `modeling_mamba.mamba_selective_scan`.

    hidden_states, dt, z: (b, D, T); A: (D, N); B, C: (b, N, T); D, delta_bias: (D,).
    """
    if return_last_state:
        raise NotImplementedError("training keeps no state between calls")
    dt = dt.float()
    if delta_bias is not None:
        dt = dt + delta_bias.float()[:, None]
    if delta_softplus:
        dt = F.softplus(dt)
    u = hidden_states.float()
    # Positions first, as the scan wants them.
    inputs = [x.permute(2, 0, 1).contiguous() for x in (u, dt)]
    ways = [x.float().permute(2, 1, 0).contiguous() for x in (B, C)]
    y = Scan.apply(*inputs, A.float().T.contiguous(), *ways).permute(1, 2, 0)  # (b, D, T)
    if D is not None:
        y = y + u * D.float()[:, None]
    if z is not None:
        y = y * F.silu(z.float())
    return y


def use_in_training():
    """Put this scan in the place of the reference one, for this process."""
    from transformers.models.mamba import modeling_mamba

    modeling_mamba.mamba_selective_scan = selective_scan
