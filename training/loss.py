"""Cross-entropy of a linear head: loss and gradients in one pass, the logits never held whole."""

import torch

CHUNK = 256  # rows: 2 MB of bf16 scores for 4,096 tokens stay in the cache (128 to 512 are alike)


class HeadLoss(torch.autograd.Function):
    """Mean of -log softmax(hidden @ weight.T)[target]; gradients are made in the forward pass."""

    @staticmethod
    def forward(ctx, hidden, weight, targets, chunk):
        rows = hidden.shape[0]
        to_hidden = torch.empty_like(hidden)  # (N, d)
        to_weight = torch.zeros(weight.shape, dtype=torch.float32)  # (V, d)
        losses = torch.empty(rows, dtype=torch.float32)
        for start in range(0, rows, chunk):
            part = slice(start, min(start + chunk, rows))
            h, t = hidden[part], targets[part, None]
            p = torch.softmax(h @ weight.T, -1)  # (n, V)
            # The loss of these rows.
            hit = p.gather(1, t)
            losses[part] = -hit[:, 0].float().clamp_min(1e-38).log()
            # Gradients: p becomes that of the scores.
            p.scatter_(1, t, hit - 1)
            torch.mm(p, weight, out=to_hidden[part])
            to_weight += p.T @ h
        to_hidden.div_(rows)
        ctx.save_for_backward(to_hidden, to_weight.div_(rows).to(weight.dtype))
        return losses.mean()

    @staticmethod
    def backward(ctx, upstream):
        to_hidden, to_weight = ctx.saved_tensors
        return to_hidden.mul_(upstream), to_weight.mul_(upstream), None, None


def head_loss(hidden, weight, targets, chunk=CHUNK):
    """Mean cross-entropy in nats of a head without bias.

    Args:
        hidden: tensor (N, d), final hidden states.
        weight: tensor (V, d), the output embedding, same dtype.
        targets: int64 tensor (N,).
        chunk: rows worked on at a time.
    Returns:
        float32 scalar, differentiable once in `hidden` and `weight`.
    """
    return HeadLoss.apply(hidden, weight, targets, chunk)
