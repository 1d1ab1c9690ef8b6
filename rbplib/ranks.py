"""The rank of each observed token among all candidates, without ever holding the full logits.

Torch alone, without Triton, on a processor, CUDA and MPS. Scores are made, counted and thrown away.
Three numbers per row are what stays: candidates above the target, candidates equal to it, and its
log-probability. `_count` reads them off whole rows of the vocabulary, in about ten passes; on CUDA
a kernel does in one, where it proves itself (`kernel.counted`). `_by_blocks` takes 512 candidates
at a time, so that a processor counts a tile while it is in its cache. What is found of a row does
not depend on the rows beside it.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rbplib.heads import Head, final_hidden, head_of
from rbplib.kernel import counted, faults_named

BLOCK = 512  # candidates per tile; fixed, so that sums are always taken in the same order
GRAIN = 64  # rows come in multiples of this: kernels for fewer rows may add up in another order
TILE = 2**19  # logits at once on a processor: they stay in its cache
DEVICE_ROWS = 512  # rows at once on an accelerator: always so many, as GRAIN on a processor
LOG2_E = math.log2(math.e)


class Ranks(NamedTuple):
    """Three tensors of the targets' shape.

    greater: int64, candidates scored strictly above the target; unit: tokens.
    ties: int64, candidates scored equal to it, itself included; 0 marks a token not scored.
    logprob: float32, log-softmax of the target; unit: nats.
    """

    greater: Tensor
    ties: Tensor
    logprob: Tensor

    @property
    def rank(self):
        """The paper's rank, Eq. 3; 1 is the model's first choice."""
        return self.greater + self.ties


@faults_named
def token_ranks(logits, targets):
    """Rank of each observed token among all candidates; 1 is the model's first choice.

    Paper Eq. 3; derived in book/derivations/metric, label eq-rank.

    Args:
        logits: tensor (..., V), or an array or list. A constant added per row changes nothing
            but rounding. +inf and -inf are scores like any other; -inf marks a masked candidate.
        targets: int64 tensor (...), ids in [0, V).
    Returns:
        Ranks of the targets' shape. Where a row's highest score is infinite its probability is
        shared equally by the candidates at that score, which is the limit of finite scores.
    Raises:
        ValueError: shapes disagree, an id is outside the vocabulary, nothing is given, or a NaN.
    Cost: two comparisons and one exponential per candidate, no sort.

    >>> token_ranks(torch.tensor([[0.0, 2.0, 1.0, 1.0]]), torch.tensor([2]))[:2]
    (tensor([1]), tensor([2]))
    """
    logits, targets = _tensor(logits), _tensor(targets)
    logits = logits if logits.is_floating_point() else logits.double()
    _check(logits, targets, "logits")
    with torch.no_grad():
        rows = logits.reshape(-1, logits.shape[-1])
        most = TILE // rows.shape[1] if rows.device.type == "cpu" else DEVICE_ROWS
        count = max(1, min(most, len(rows)))
        ranks = _by_rows(rows, nn.Identity(), targets.reshape(-1), count)
    return _shaped(ranks, targets)


@faults_named
def head_ranks(hidden, head, targets, *, dtype=torch.float32):
    """`token_ranks(head(hidden), targets)`, a tile of scores at a time.

    Args:
        hidden: float tensor (..., d), final hidden states.
        head: the model's output module (a linear layer), its weight (V, d), a `Head`, or any
            function of (n, d) rows.
        targets: int64 tensor (...), ids in [0, V).
        dtype: of the product and the comparisons; None keeps the storage dtype of the head.
    Returns, Raises:
        as `token_ranks`.
    Cost: the matrix product, and on a processor half of it and more at d = 128 for everything else,
        a fifth at d = 512.
    """
    if isinstance(head, Tensor):
        head = Head(head)
    elif type(head) is nn.Linear:  # a subclass may store its weight in a form of its own
        head = Head(head.weight, head.bias)
    _check(hidden, targets, "hidden states")
    states = hidden.reshape(-1, hidden.shape[-1])
    wanted = targets.reshape(-1)
    on_processor = states.device.type == "cpu"

    # a head whose product is made here, or a function, which may overwrite its argument
    blocks, scores_of = False, head
    if not isinstance(head, Head | nn.Identity):
        scores_of = lambda rows: head(rows.clone())  # noqa: E731
    elif isinstance(head, Head):
        head = replace(head, dtype=dtype or head.weight.dtype)
        scores_of = head.product
        # of fewer candidates a target's score ahead of its block often comes out otherwise
        blocks = on_processor and len(head.weight) >= 2 * BLOCK
    with torch.no_grad():
        if blocks:
            ranks = _by_blocks(states, head, wanted)
        else:
            count = GRAIN if on_processor else DEVICE_ROWS
            ranks = _by_rows(states, scores_of, wanted, count)
    return _shaped(ranks, targets)


def sequence_ranks(model, input_ids, scored=None, dtype=torch.float32):
    """Ranks of every token of a batch but the first of each sequence, which has no context.

        position   0   1   2   3        entry t-1 of a row is the rank of token t
        token      w0  w1  w2  w3       given tokens 0..t-1
        entry          0   1   2

    Args:
        model: a causal language model in evaluation mode.
        input_ids: int64 (B, T), T >= 2. Padding stands on the right, where a causal model never
            sees it.
        scored: bool (B, T-1), the entries to score, all when None; elsewhere greater and ties are
            0, logprob is NaN.
        dtype: as in `head_ranks`.
    Returns:
        Ranks of shape (B, T - 1), on the device of the ids, which is that of the model's inputs.
    Raises:
        ValueError: as `head_ranks`; the model is in training mode.
        RuntimeError: the shape of `scored` is another.
    """
    # refuse what has no ranks
    if model.training:
        raise ValueError("the model is in training mode, where dropout moves ranks: call eval()")
    if input_ids.dim() != 2 or input_ids.shape[1] < 2:
        raise ValueError(f"windows of shape {tuple(input_ids.shape)} hold no token to score")
    targets = input_ids[:, 1:]  # (B, T-1)
    scored = torch.ones_like(targets) if scored is None else scored.expand_as(targets)
    _check_ids(input_ids, getattr(model.get_input_embeddings(), "num_embeddings", math.inf))

    ranks = Ranks(
        greater=torch.zeros_like(targets),
        ties=torch.zeros_like(targets),
        logprob=torch.full(targets.shape, math.nan, device=targets.device),
    )
    with torch.inference_mode():
        head = head_of(model, input_ids)
        scored = scored.to(targets.device).bool()
        # the whole batch at once, or a sequence at a time where logits are held
        at_once = 1 if head is None else len(targets)
        for first in range(0, len(targets), at_once):
            some = slice(first, first + at_once)
            mask = scored[some]
            if not mask.any():
                continue
            if head is None:
                states = model(input_ids[some], use_cache=False).logits
            else:
                states = final_hidden(model, input_ids[some])
            states = states[:, :-1][mask.to(states.device)]
            wanted = targets[some][mask].to(states.device)
            counted = head_ranks(states, head or nn.Identity(), wanted, dtype=dtype)
            for column, values in zip(ranks, counted, strict=True):
                column[some][mask] = values.to(column.device)
    return ranks


def _by_rows(inputs, scores_of, targets, count):
    """Ranks of targets (n,), some whole rows of the vocabulary at a time.

    inputs: (n, d). scores_of: from (count, d) to scores (count, V).
    """
    parts = []
    pairs = zip(inputs.split(count), targets.split(count), strict=True)
    for some, wanted in pairs:
        # the last rows are filled up: fewer might meet another kernel, in products and in sums
        missing = count - len(some)
        if missing:
            some, wanted = F.pad(some, (0, 0, 0, missing)), F.pad(wanted, (0, missing))
        scores = scores_of(some)
        if not parts:
            _check_ids(targets, scores.shape[1])
        columns = counted(scores, wanted, _count)
        parts.append([column[: count - missing] for column in columns])
    return Ranks(*map(torch.cat, zip(*parts, strict=True)))


def _count(scores, targets):
    """Ranks of targets (n,) among whole rows of scores (n, V), which are left as they are.

    Comparisons are added up as floats, which is ten times as fast as integers and exact: a count is
    below 2^24. On CUDA flags in bfloat16 need no copy first, and are added up in float32; a softmax
    is one kernel there. Elsewhere the scores are overwritten, in a copy.
    """
    # one flag a candidate
    scores = scores.to(_compared(scores.dtype), copy=not scores.is_cuda)
    own = scores.gather(1, targets[:, None])  # (n, 1)
    dtype = scores.dtype
    narrow = scores.is_cuda and dtype == torch.float32
    flags = torch.empty_like(scores, dtype=torch.bfloat16 if narrow else dtype)
    torch.gt(scores, own, out=flags)
    greater = flags.sum(1, dtype=dtype)
    torch.eq(scores, own, out=flags)
    ties = flags.sum(1, dtype=dtype)

    # log-softmax; where the highest score is infinite, the candidates at it share the probability
    own = own[:, 0]
    top = scores.amax(1)
    share = torch.where(own == top, -ties.log(), -math.inf)
    if scores.is_cuda:
        finite = scores.log_softmax(1).gather(1, targets[:, None])[:, 0]
    else:
        scores.sub_(top[:, None]).mul_(LOG2_E).exp2_()
        finite = own - top - scores.sum(1).log()
    return Ranks(greater.long(), ties.long(), torch.where(top.isinf(), share, finite).float())


def _by_blocks(states, head, targets):
    """Ranks of targets (n,) on a processor, a block of the vocabulary at a time.

    Each thread takes rows of its own, so that none waits at every tile for one whose core is busy
    with something else. A row is done again, whole, where its sum of exp(score - own score) is not
    finite, or its own score came out otherwise ahead of its block.
    """
    _check_ids(targets, len(head.weight))
    # runs of about equal length: many rows, since each tile reads its block of the weight anew
    threads = torch.get_num_threads()
    n, width = states.shape
    most = max(1024, min(2048, 4 * width))
    runs = math.ceil(n / most / threads) * threads
    count = math.ceil(n / runs / GRAIN) * GRAIN
    parts = states.split(count), repeat(head), targets.split(count)
    if threads == 1:
        sums = map(_block_sums, *parts)
    else:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            sums = pool.map(_block_sums, *parts)
        torch.set_num_threads(threads)  # a new thread takes what was set last, in whichever
    greater, ties, total = torch.cat(list(sums), 1)
    logprob = -total.log().float()
    ranks = Ranks(greater.long(), ties.long(), logprob)

    # again, whole, what was not sure
    doubtful = total.isfinite().logical_not()
    doubtful = doubtful.nonzero()[:, 0]
    if len(doubtful):
        exact = _by_rows(states[doubtful], head.product, targets[doubtful], GRAIN)
        for column, values in zip(ranks, exact, strict=True):
            column[doubtful] = values
    return ranks


@torch.no_grad()  # which is a thread's own
def _block_sums(states, head, targets):
    """Of each target the candidates above it, those equal to it, and the sum of
    exp(score - own score): float64 (3, n).

    That sum needs no maximum: it is at least 1, and one that overflows says so. It is set to
    infinity where the target's own score, which must be known before the first block, is not the
    one in its tile: counts never rest on two products that round differently.
    """
    # rows and targets filled up to whole grains
    size, n = len(head.weight), len(states)
    missing = -n % GRAIN
    rows = F.pad(states.to(head.dtype), (0, 0, 0, missing))
    wanted = F.pad(targets, (0, missing))

    # the targets' own scores (n, 1): the diagonals of small square products
    diagonals = []
    grains = zip(rows.split(GRAIN), wanted.split(GRAIN), strict=True)
    for some, ids in grains:
        square = head.product(some, ids)
        diagonals.append(square.diagonal())
    own = torch.cat(diagonals)[:n, None]
    own = own.to(_compared(head.dtype))
    seen = torch.empty_like(own)

    # blocks of candidates, the last of which is not narrow, and the targets in each
    starts = range(0, size - GRAIN, BLOCK)
    ends = [*starts[1:], size]
    block_of = (targets // BLOCK).clamp(max=len(starts) - 1)
    counts = block_of.bincount(minlength=len(starts))
    inside = block_of.argsort().split(counts.tolist())

    # block by block, a tile of scores and as many flags
    scratch = own.new_empty(2, len(rows) * (BLOCK + GRAIN))
    sums = own.new_empty(len(starts), 3, n)
    for start, end, those, sums_of in zip(starts, ends, inside, sums, strict=True):
        width = end - start
        used = scratch[:, : len(rows) * width]
        space, flags = used.view(2, len(rows), width)
        out = space if space.dtype == head.dtype else None
        tile = head.product(rows, slice(start, end), out)
        tile = tile[:n].to(space)
        seen[those, 0] = tile[those, targets[those] - start]
        # counts and sums of its rows
        flags = flags[:n]
        above, equal, total = sums_of
        torch.gt(tile, own, out=flags)
        torch.sum(flags, 1, out=above)
        torch.eq(tile, own, out=flags)
        torch.sum(flags, 1, out=equal)
        # exp2 because exp goes to a vendor routine that is much slower on some processors
        tile.sub_(own).mul_(LOG2_E).exp2_()
        torch.sum(tile, 1, out=total)
    sums = sums.sum(0, dtype=torch.float64)
    unequal = (own != seen)[:, 0]
    sums[2, unequal] = math.inf
    return sums


def _compared(dtype):
    """The dtype that scores of a dtype are compared in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _tensor(values):
    """A tensor of an array or a list, whose numbers keep their precision."""
    return values if isinstance(values, Tensor) else torch.tensor(np.asarray(values))


def _check(values, targets, name):
    """Refuse inputs that would give a wrong rank, or a message about something else."""
    # shapes, types, and whether there is anything
    if values.dim() < 1 or targets.shape != values.shape[:-1]:
        raise ValueError(
            f"{name} of shape {tuple(values.shape)} need one target per row, "
            f"not {tuple(targets.shape)}"
        )
    if targets.dtype != torch.int64 or not values.is_floating_point():
        raise ValueError(
            f"{name} are {values.dtype} and targets {targets.dtype}: "
            "give floating-point numbers and int64 ids"
        )
    if targets.numel() == 0:
        raise ValueError("there is no token to rank: the window is empty")


def _check_ids(ids, size):
    """Refuse ids outside [0, size)."""
    outside = ids[(ids < 0) | (ids >= size)]
    if len(outside):
        raise ValueError(f"token id {outside[0].item()} is outside the vocabulary of {size}")


def _shaped(ranks, targets):
    """Ranks of the targets' shape, none of them of scores that hold a NaN."""
    ranks = Ranks(*(column.view_as(targets) for column in ranks))
    undefined = ranks.logprob.isnan().nonzero()
    if len(undefined):
        row = tuple(undefined[0].tolist())
        raise ValueError(f"the scores of the target at {row} hold a NaN: no rank can be told")
    return ranks
