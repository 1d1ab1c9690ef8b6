"""The rank engine: where each observed token stands among all candidates, without ever holding the full logits."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rbplib.heads import Head, final_hidden, head_of
from rbplib.tiles import Given, Product, Ranks, least_memory, ranked

MEMORY = 48 * 2**20  # bytes of scratch memory a call may use beside its inputs and results, by default
DEVICE_MEMORY = 768 * 2**20  # the same on an accelerator, where whole rows are held and few, large products are best
BODY_TOKENS = 4096  # tokens the model's body reads at once on a CPU; more only takes memory


def token_ranks(logits: Tensor, targets: Tensor) -> Ranks:
    """Rank of each observed token among all candidates; 1 is the model's first choice.

    Paper Eq. 3; derived in book/derivations/metric, label eq-rank.

    Args:
        logits: float tensor (..., V). A constant added per row changes nothing but rounding.
            +inf and -inf are scores like any other; -inf marks a masked candidate.
        targets: int64 tensor (...), ids in [0, V).
    Returns:
        Ranks of the targets' shape. Where a row's highest score is infinite its probability is shared equally
        by the candidates at that score, which is the limit of finite scores.
    Raises:
        ValueError: shapes disagree, an id is outside the vocabulary, nothing is given, or a row holds a NaN.
    Cost: two comparisons and one exponential per candidate, no sort.

    >>> token_ranks(torch.tensor([[0.0, 2.0, 1.0, 1.0]]), torch.tensor([2]))[:2]
    (tensor([1]), tensor([2]))
    """
    _check(logits, targets, "logits")
    with torch.no_grad():
        return _all_ranks(Given(logits.reshape(-1, logits.shape[-1])), targets)


def head_ranks(
    hidden: Tensor,
    head: Head | nn.Module | Tensor | Callable[[Tensor], Tensor],
    targets: Tensor,
    *,
    memory: int | None = None,
    chunk: int | None = None,
    dtype: torch.dtype | None = torch.float32,
) -> Ranks:
    """`token_ranks(head(hidden), targets)`, a tile of scores at a time.

    Args:
        hidden: float tensor (..., d), final hidden states.
        head: the model's output module (a linear layer), its weight (V, d), a `Head`, or any function of (n, d) rows.
        targets: int64 tensor (...), ids in [0, V).
        memory: bytes of scratch memory; by default 48 MiB, or 768 on an accelerator, there at most those of the logits.
        chunk: at most so many rows at once, rounded up to a multiple of 64. Results depend on neither. On CUDA a head
            stored in the product's dtype, if that is float32 or float64, takes 256 whatever both say: 256 x V x 6 bytes
            of float32, 8 where V is no multiple of 16, 13 for rows done again with care. Last bits of others may
            depend on both there.
        dtype: of the product and the comparisons; None keeps the storage dtype of the head.
    Returns, Raises:
        as `token_ranks`; also ValueError for targets on another device, or memory too small for one row of scores.
    Cost: the matrix product, and about a fifth of it at d = 128 for everything else.
    """
    if isinstance(head, Tensor):
        head = Head(head)
    elif type(head) is nn.Linear:  # a subclass may store its weight in a form of its own
        head = Head(head.weight, head.bias)
    _check(hidden, targets, "hidden states")
    with torch.no_grad():
        return _all_ranks(_scores(hidden.reshape(-1, hidden.shape[-1]), head, dtype, memory, chunk), targets)


def _scores(rows, head, dtype, memory=None, chunk=None) -> Given | Product:
    """The scores of hidden states (n, d), by blocks of a known head or whole rows of another."""
    if memory is None:
        memory = MEMORY if rows.device.type == "cpu" else DEVICE_MEMORY
    if not isinstance(head, Head):
        scores = Given(rows, head, memory, chunk)
    elif rows.device == head.weight.device and rows.shape[1] == head.weight.shape[1]:
        scores = Product(rows, head, dtype or head.weight.dtype, memory, chunk)
    else:
        raise ValueError(
            f"hidden states of width {rows.shape[1]} on {rows.device} do not fit a head of width "
            f"{head.weight.shape[1]} on {head.weight.device}"
        )
    if memory < (least := least_memory(scores.size, rows.device)):
        raise ValueError(
            f"a memory budget of {memory} bytes is too small for one row of a vocabulary of {scores.size}: "
            f"give at least {least}"
        )
    return scores


def _all_ranks(scores: Given | Product, targets: Tensor) -> Ranks:
    """Ranks of the targets' shape, on their device."""
    _check_ids(targets, scores.size)
    found = Ranks(*(column.view_as(targets) for column in ranked(scores, targets.reshape(-1))))
    _refuse_nan(found.logprob)
    return Ranks(*(column.to(targets.device, non_blocking=True) for column in found))


def sequence_ranks(
    model: nn.Module,
    input_ids: Tensor,
    scored: Tensor | None = None,
    dtype: torch.dtype | None = torch.float32,
    device: torch.device | None = None,
) -> Ranks:
    """Ranks of every token of a batch but the first of each sequence, which has no context.

        position   0   1   2   3        entry t-1 of a row is the rank of token t
        token      w0  w1  w2  w3       given tokens 0..t-1
        entry          0   1   2

    Args:
        model: a causal language model in evaluation mode.
        input_ids: int64 (B, T), T >= 2. Padding stands on the right, where a causal model never sees it.
        scored: bool (B, T-1), the entries to score, all when None; elsewhere greater and ties are 0, logprob is NaN.
        dtype: as in `head_ranks`.
        device: where the model reads its ids, by default where they are. With ids and `scored` on a processor a GPU is
            waited for once, for the results.
    Returns:
        Ranks of shape (B, T - 1), where the ids were given.
    Raises:
        ValueError: as `head_ranks`; the model is in training mode; a window holds no token to score.
    """
    if model.training:
        raise ValueError("the model is in training mode, where dropout changes ranks: call model.eval() first")
    chosen, table = _chosen(model, input_ids, scored)
    ids = input_ids if device is None else input_ids.to(device, non_blocking=True)
    greater, ties = torch.zeros(2, *chosen.shape, dtype=torch.int64)
    logprob = torch.full(chosen.shape, float("nan"))
    with torch.inference_mode():
        few = max(1, BODY_TOKENS // ids.shape[1]) if ids.device.type == "cpu" else len(ids)
        few = 1 if head_of(model, ids) is None else few
        for part in (slice(i, i + few) for i in range(0, len(ids), few)):
            here = chosen[part].flatten().nonzero()[:, 0]
            if not len(here):
                continue
            places = (here + here // chosen.shape[1]).to(ids.device, non_blocking=True)  # without the last of each
            states, head = final_hidden(model, ids[part])
            wanted = ids[part].flatten()[places + 1].to(states.device)
            scores = _scores(states.flatten(0, 1)[places.to(states.device)], head, dtype)
            if table is None or table > scores.size:  # a GPU is waited for to look
                _check_ids(wanted, scores.size)
            for whole, values in zip((greater, ties, logprob), ranked(scores, wanted), strict=True):
                whole[part].view(-1)[here] = values
    _refuse_nan(logprob.masked_fill(~chosen, 0.0), offset=1)
    return Ranks(*(column.to(input_ids.device, non_blocking=True) for column in (greater, ties, logprob)))


def _chosen(model, input_ids, scored) -> tuple[Tensor, int | None]:
    """The entries to score, bool (B, T-1), on the processor, of windows that fit the model; what all ids are below."""
    if input_ids.dim() != 2 or 0 in input_ids.shape or input_ids.shape[1] < 2:
        raise ValueError(f"windows of shape {tuple(input_ids.shape)} hold no token to score: give (B, T) with T >= 2")
    if (table := getattr(model.get_input_embeddings(), "num_embeddings", None)) is not None:
        _check_ids(input_ids, table)
    entries = torch.ones_like(input_ids[:, 1:], dtype=torch.bool, device="cpu")
    if scored is not None and scored.shape != entries.shape:
        raise ValueError(f"`scored` of shape {tuple(scored.shape)} does not match windows: want {tuple(entries.shape)}")
    return entries if scored is None else scored.to("cpu", torch.bool), table


def _check(values: Tensor, targets: Tensor, name: str) -> None:
    """Refuse inputs that would give a wrong rank, or a message about something else."""
    if values.dim() < 1 or targets.shape != values.shape[:-1]:
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} do not match {name} of shape {tuple(values.shape)}: "
            f"give targets of shape {tuple(values.shape[:-1])}"
        )
    if targets.dtype != torch.int64:
        raise ValueError(f"targets are {targets.dtype}: give token ids as torch.int64")
    if not values.is_floating_point():
        raise ValueError(f"{name} are {values.dtype}: give a floating-point tensor")
    if values.device != targets.device:
        raise ValueError(f"targets are on {targets.device} but {name} are on {values.device}: move one of them")
    if targets.numel() == 0:
        raise ValueError("there is no token to rank: the window is empty")


def _check_ids(ids: Tensor, size: int) -> None:
    if (outside := (ids < 0) | (ids >= size)).any():
        wrong = ids[outside][0].item()
        raise ValueError(f"token id {wrong} at {_place(outside)} is outside the vocabulary of {size}")


def _refuse_nan(logprob: Tensor, offset: int = 0) -> None:
    if (bad := logprob.isnan()).any():
        raise ValueError(f"the scores for the token at {_place(bad, offset)} hold a NaN: no rank can be told")


def _place(flags: Tensor, offset: int = 0) -> str:
    """Where the first flag is up; `offset` is added along the last axis."""
    *sequence, position = flags.nonzero()[0].tolist()
    return f"position {position + offset}" + (f" of sequence {', '.join(map(str, sequence))}" if sequence else "")
