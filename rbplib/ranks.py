"""The rank engine: where each observed token stands among all candidates, without ever holding the full logits."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rbplib.heads import Head, hidden_of, known_head, own_logits, run_body, say_once

MEMORY = 96 * 2**20  # bytes of scratch memory a call may use beside its inputs and results
CHUNK = 128  # rows whose scores are held at once; fewer fit no kernel well, more fall out of the cache


class Ranks(NamedTuple):
    """Three tensors of the targets' shape; rank by the paper's Eq. 3 is greater + ties.

    greater: int64, candidates scored strictly above the target; unit: tokens.
    ties: int64, candidates scored equal to it, itself included; 0 marks a position that was not scored.
    logprob: float32, log-softmax of the target; unit: nats.
    """

    greater: Tensor
    ties: Tensor
    logprob: Tensor


def token_ranks(logits: Tensor, targets: Tensor) -> Ranks:
    """Rank of each observed token among all candidates; 1 is the model's first choice.

    Paper Eq. 3; derived in book/derivations, label eq-rank.

    Args:
        logits: float tensor (..., V). A constant added per row changes nothing but rounding.
            +inf and -inf are scores like any other; -inf marks a masked candidate.
        targets: int64 tensor (...), ids in [0, V).
    Returns:
        Ranks of the targets' shape. Where a row's highest score is infinite its probability is shared equally
        by the candidates at that score, which is the limit of finite scores.
    Raises:
        ValueError: shapes disagree, an id is outside the vocabulary, nothing is given, or a row holds a NaN.
    Cost: one comparison and one exponential per candidate, no sort.

    >>> token_ranks(torch.tensor([[0.0, 2.0, 1.0, 1.0]]), torch.tensor([2])).greater
    tensor([1])
    """
    _check(logits, targets, logits.shape[:-1], logits.shape[-1] if logits.dim() else 0)
    rows = logits.reshape(-1, logits.shape[-1]).float()
    greater, ties, logprob = _row_ranks(rows, targets.reshape(-1), 0)
    return Ranks(greater.view_as(targets), ties.view_as(targets), logprob.view_as(targets))


def head_ranks(
    hidden: Tensor,
    head: Head | nn.Module | Tensor | Callable[[Tensor], Tensor],
    targets: Tensor,
    *,
    memory: int = MEMORY,
    chunk: int | None = None,
    dtype: torch.dtype | None = torch.float32,
) -> Ranks:
    """`token_ranks(head(hidden), targets)` in chunks of rows that fit the memory given.

    Args:
        hidden: float tensor (..., d), final hidden states.
        head: the model's output module (a linear layer), its weight (V, d), a `Head`, or any function of (n, d) rows.
        targets: int64 tensor (...), ids in [0, V).
        memory: bytes of scratch memory.
        chunk: rows at once; by default what suits the cache and the memory.
        dtype: of the product and the comparisons; None keeps the storage dtype of the head.
    Returns:
        Ranks of the targets' shape.
    Raises:
        ValueError: as `token_ranks`; targets on another device; memory too small for one row of the vocabulary.
    """
    if isinstance(head, Tensor):
        head = Head(head)
    elif isinstance(head, nn.Linear):
        head = Head(head.weight, head.bias)
    size = head.weight.shape[0] if isinstance(head, Head) else None
    _check(hidden, targets, hidden.shape[:-1], size)
    rows, wanted = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    if isinstance(head, Head):
        kind = dtype or head.weight.dtype
        weight, bias = head.weight.to(kind), None if head.bias is None else head.bias.to(kind)
        plain = head

        def head(x):
            return plain.after(F.linear(x.to(kind), weight, bias))

    step = chunk or CHUNK
    if size is not None:
        step = min(step, memory // (8 * size))
        if step < 1:
            raise ValueError(
                f"a memory budget of {memory} bytes is too small for one row of {size} candidates; "
                f"give at least {8 * size}"
            )
    parts = [_row_ranks(head(rows[i : i + step]).float(), wanted[i : i + step], i) for i in range(0, len(rows), step)]
    return Ranks(*(torch.cat(column).view_as(targets) for column in zip(*parts, strict=True)))


def sequence_ranks(
    model: nn.Module,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    memory: int = MEMORY,
    chunk: int | None = None,
    dtype: torch.dtype | None = torch.float32,
) -> Ranks:
    """Ranks of every token of a batch but the first of each sequence, which has no context.

        position   0   1   2   3        entry t-1 of a row is the rank of token t
        token      w0  w1  w2  w3       given tokens 0..t-1
        entry          0   1   2

    Args:
        model: a causal language model in evaluation mode.
        input_ids: int64 (B, T), T >= 2.
        attention_mask: (B, T), 0 at padding. A token is scored where it and the one before it are real;
            elsewhere greater and ties are 0 and logprob is NaN.
        memory, chunk, dtype: as in `head_ranks`.
    Returns:
        Ranks of shape (B, T - 1).
    Raises:
        ValueError: as `head_ranks`; the model is in training mode; a window holds no token to score.
    """
    if model.training:
        raise ValueError("the model is in training mode, where dropout changes ranks: call model.eval() first")
    if input_ids.dim() != 2 or 0 in input_ids.shape or input_ids.shape[1] < 2:
        raise ValueError(f"windows of shape {tuple(input_ids.shape)} hold no token to score: give (B, T) with T >= 2")
    targets = input_ids[:, 1:]  # (B, T-1)
    inputs = {} if attention_mask is None else {"attention_mask": attention_mask}
    scored = torch.ones_like(targets, dtype=torch.bool)
    if attention_mask is not None:
        real = attention_mask.bool()
        scored = real[:, 1:] & real[:, :-1]
    greater = torch.zeros_like(targets)
    ties = torch.zeros_like(targets)
    logprob = torch.full(targets.shape, float("nan"), device=targets.device)
    with torch.inference_mode():
        body, output = run_body(model, input_ids, **inputs)
        hidden = hidden_of(output)[:, :-1][scored]  # (n, d)
        head = known_head(model, body, output, input_ids)
        if head is None:
            say_once(model, "its head is unknown, so the model's own logits are taken, a slice of positions at a time")

            def head(rows):
                return own_logits(model, body, output, rows, input_ids[:1, :1])

        found = head_ranks(hidden, head, targets[scored], memory=memory, chunk=chunk, dtype=dtype)
    greater[scored], ties[scored], logprob[scored] = found
    return Ranks(greater, ties, logprob)


class TopK(NamedTuple):
    """The best k candidates per row, best first; among equals the lower id comes first."""

    ids: Tensor
    logprob: Tensor


def topk(logits: Tensor, k: int) -> TopK:
    """The k best candidates of each row, for pages that show them.

    Args:
        logits: float tensor (..., V).
        k: how many, 1 to V.
    Returns:
        ids int64 (..., k) and logprob float32 (..., k) in nats.
    """
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError(f"k = {k} is outside 1..{logits.shape[-1]}, the size of the vocabulary")
    scores = F.log_softmax(logits.float(), dim=-1)
    order = torch.sort(scores, dim=-1, descending=True, stable=True)
    return TopK(order.indices[..., :k], order.values[..., :k])


def _check(values: Tensor, targets: Tensor, shape: torch.Size, size: int | None) -> None:
    """Refuse inputs that would give a wrong rank or a message about something else."""
    if targets.shape != shape or values.dim() < 1:
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} do not match {tuple(values.shape)}: want {tuple(shape)}"
        )
    if targets.dtype != torch.int64:
        raise ValueError(f"targets are {targets.dtype}: give token ids as int64")
    if values.device != targets.device:
        raise ValueError(f"targets are on {targets.device} but the scores are on {values.device}: move one of them")
    if targets.numel() == 0:
        raise ValueError("there is no token to rank: the window is empty")
    if size is not None:
        outside = (targets < 0) | (targets >= size)
        if outside.any():
            place = tuple(outside.nonzero()[0].tolist())
            raise ValueError(
                f"token id {targets[place].item()} at position {place[0] if len(place) == 1 else place} "
                f"is outside the vocabulary of {size}"
            )


def _row_ranks(scores: Tensor, targets: Tensor, first: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ranks of (n, V) float scores; `first` is the number of the first row, for messages."""
    bad = scores.isnan().any(dim=1)
    if bad.any():
        raise ValueError(f"the scores at position {first + int(bad.nonzero()[0])} hold a NaN")
    own = scores.gather(1, targets[:, None])  # (n, 1)
    greater = (scores > own).sum(1)
    ties = (scores == own).sum(1)
    top = scores.amax(1, keepdim=True)
    logprob = F.log_softmax(scores, dim=1).gather(1, targets[:, None])
    share = torch.where(own == top, -ties[:, None].to(scores.dtype).log(), float("-inf"))
    logprob = torch.where(top.isinf(), share, logprob)
    return greater, ties, logprob[:, 0].float()
