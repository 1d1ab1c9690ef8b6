"""The inner loop of the rank engine: scores are made, counted and thrown away, and three sums per row are what stays.

The three: candidates above the target, candidates equal to it, and the sum of exp(score - target's score), whose
negative logarithm is the log-probability. No maximum is needed: that sum is at least 1, and one that overflows says so
and its row is done again, whole, with the usual care.

`sum_rows` reads them off whole rows of the vocabulary, as a GPU likes it; `sum_blocks` takes a block of it at
a time, so that a processor counts a tile while it is in its cache.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rbplib.heads import Head

BLOCK = 512  # candidates per tile; fixed, so that sums are always taken in the same order
GRAIN = 64  # rows come in multiples of this: kernels for fewer rows may add up in another order
CUDA_ROWS = 256  # always so many rows of a float32 head on CUDA, where any other number may mean another kernel
CUDA_COLUMNS = 16  # sums there run over a multiple of this: CUDA reads some numbers at once, from aligned addresses
WHOLE_ROWS = 128  # rows at once where whole rows of the vocabulary are held on a processor
LOG2_E = math.log2(math.e)


class Ranks(NamedTuple):
    """Three tensors of the targets' shape; rank by the paper's Eq. 3 is greater + ties.

    greater: int64, candidates scored strictly above the target; unit: tokens.
    ties: int64, candidates scored equal to it, itself included; 0 marks a position that was not scored.
    logprob: float32, log-softmax of the target; unit: nats.
    """

    greater: Tensor
    ties: Tensor
    logprob: Tensor


def sum_rows(scores: "Given | Product", rows: Tensor, wanted: Tensor) -> Tensor:
    """The three sums (3, n) of targets (n,), over the whole vocabulary at once."""
    tile = scores(rows, slice(None))  # (n and what pads it, V): the sums, too, meet the same kernel for any n
    sums = torch.empty(3, len(tile), dtype=tile.dtype, device=tile.device)
    tile = F.pad(tile, (0, scores.pad), value=-math.inf) if scores.pad else tile  # above no target, and exp of it is 0
    sum_tile(tile, tile.gather(1, F.pad(wanted, (0, len(tile) - len(wanted)))[:, None]), flags_of(tile), sums)
    return (sums if tile.device.type == "mps" else sums.double())[:, : len(wanted)]  # mps has no float64


def flags_of(tile: Tensor) -> Tensor:
    """Scratch for comparisons of a tile, of a dtype whose sum needs no copy first: CUDA adds up bfloat16 in float32."""
    return torch.empty_like(tile, dtype=torch.bfloat16 if tile.is_cuda and tile.dtype == torch.float32 else tile.dtype)


def sum_blocks(scores: "Given | Product", rows: Tensor, wanted: Tensor, space: Tensor) -> Tensor:
    """The same, block after block of the vocabulary, each tile made and counted in `space`.

    The target's own score must be known before the first block. It is computed ahead, and compared with what the tile
    that holds the target says: where the two differ in a single bit the row's third sum is set to infinity, and the
    row done again. So counts never rest on two products that round differently.
    """
    n, (starts, ends) = len(wanted), torch.tensor(scores.cuts).T.contiguous()
    own = scores.own(rows, wanted)  # (n, 1)
    holder = torch.bucketize(wanted, ends, right=True)  # the block of each target
    order, counts = holder.argsort(), holder.bincount(minlength=len(starts)).tolist()
    column = (wanted - starts[holder])[order]
    sums, seen = torch.empty(len(starts), 3, n, dtype=own.dtype), []
    pairs = {w: space[:, : len(rows) * w].view(2, len(rows), w).unbind() for w in set((ends - starts).tolist())}
    blocks = zip(scores.cuts, order.split(counts), column.split(counts), sums, strict=True)
    for (left, right), inside, places, part in blocks:
        tile, flags = pairs[right - left]
        tile = scores(rows, slice(left, right), tile)[:n]
        seen.append(tile[inside, places])
        sum_tile(tile, own, flags[:n], part)
    sums = sums.sum(0, dtype=torch.float64)
    sums[2, order[own[order, 0] != torch.cat(seen)]] = math.inf
    return sums


def sum_tile(tile: Tensor, own: Tensor, flags: Tensor, sums: Tensor) -> None:
    """One tile's counts and exponentials, into `sums`; the tile is overwritten.

    Args:
        tile: float (n, b), scores.
        own: (n, 1), the targets' scores.
        flags: (n, b) scratch, see `flags_of`; sums of them are exact, a count is below 2^24.
        sums: (3, n), filled with candidates above, candidates equal, and the sum of exp(score - own).
    """
    torch.sum(torch.gt(tile, own, out=flags), 1, out=sums[0])
    torch.sum(torch.eq(tile, own, out=flags), 1, out=sums[1])
    # exp2 because exp goes to a vendor routine that is much slower on some processors
    torch.sum(tile.sub_(own).mul_(LOG2_E).exp2_(), 1, out=sums[2])


def ranked(scores: "Given | Product", targets: Tensor) -> Ranks:
    """Ranks of targets (n,), `scores.most` rows at once; rows whose sum is not finite again, few at once, with care.
    They are on the processor: an accelerator is waited for once, for the sums."""
    space, sums = None, []
    if len(scores.cuts) > 1:
        space = torch.empty(2, min(scores.most, len(targets) + GRAIN) * widest(scores.cuts), dtype=scores.kind)
    for chunk in row_chunks(len(targets), scores.most):
        rows, wanted = scores.rows(chunk), targets[chunk]
        sums.append(sum_rows(scores, rows, wanted) if space is None else sum_blocks(scores, rows, wanted, space))
    greater, ties, total = torch.cat(sums, 1).cpu()
    found = Ranks(greater.long(), ties.long(), (-total.log()).float())
    doubtful = (~total.isfinite()).nonzero()[:, 0]
    for some in doubtful.split(scores.few) if len(doubtful) else ():
        there, n = some.to(targets.device), scores.fixed or len(some)
        rows, wanted = scores.rows(there), F.pad(targets[there], (0, n - len(some)))
        whole = torch.cat([scores(rows, slice(*cut))[:n] for cut in scores.cuts], 1)  # (n, V)
        for column, values in zip(found, careful_rows(whole, wanted, scores.pad), strict=True):
            column[some] = values[: len(some)].cpu()
    return found


def careful_rows(scores: Tensor, targets: Tensor, pad: int = 0) -> Ranks:
    """Ranks of whole rows (n, V), whatever infinities they hold; `pad` zeros lengthen what is added up.

    Where a row's highest score is infinite, its probability is shared equally by the candidates at that score.
    """
    own = scores.gather(1, targets[:, None])  # (n, 1)
    greater = torch.count_nonzero(scores > own, dim=1)
    ties = torch.count_nonzero(scores == own, dim=1)
    top = scores.amax(1, keepdim=True)
    parts = (scores - top).exp()
    logprob = (own - top) - (F.pad(parts, (0, pad)) if pad else parts).sum(1, keepdim=True).log()
    share = torch.where(own == top, -ties[:, None].to(scores.dtype).log(), float("-inf"))
    return Ranks(greater, ties, torch.where(top.isinf(), share, logprob)[:, 0].float())


class Given:
    """Scores (n, V) of any float dtype, compared in float32 or float64: there already, or what a head that is only a
    function makes of hidden states (n, d), whole rows at a time."""

    def __init__(self, inputs: Tensor, head=None, memory: int = 0, chunk: int | None = None):
        self.inputs, self.head, self.fixed, self.pad = inputs, head, 0, 0  # any number of rows, of V columns
        first = inputs[:1] if head is None else head(inputs[:1])
        self.size = size = first.shape[1]
        self.cuts = blocks(size, first.device)
        self.kind = torch.float64 if first.dtype == torch.float64 else torch.float32
        if head is None:
            self.most, self.few = 1024 if inputs.device.type == "cpu" else max(1, 2**28 // size), WHOLE_ROWS
        else:
            most = max(1, min(chunk or WHOLE_ROWS, memory // (12 * size)))
            self.most, self.few = most // GRAIN * GRAIN or most, max(1, min(WHOLE_ROWS, memory // (16 * size)))

    def rows(self, which: slice | Tensor) -> Tensor:
        rows = self.inputs[which]
        if self.head is None:
            return rows
        pad = max(0, min(self.most, GRAIN) - len(rows))  # few rows would meet another kernel
        return self.head(torch.cat([rows, rows[-1:].expand(pad, -1)]) if pad else rows)[: len(rows)]

    def __call__(self, rows: Tensor, which: slice, out: Tensor | None = None) -> Tensor:
        return rows[:, which].to(self.kind, copy=True) if out is None else out.copy_(rows[:, which])

    def own(self, rows: Tensor, targets: Tensor) -> Tensor:
        return rows.gather(1, targets[:, None]).to(self.kind)


class Product:
    """The scores of hidden states (n, d) against a head.

    Args:
        head: weight (V, d) in its storage dtype; it is never copied whole.
        kind: dtype of the product. A half-precision weight meets float32 exactly: on CUDA inside the product,
            elsewhere by widening one block at a time. float32 is torch's own: TF32 where a caller has switched it on.
        memory, chunk: bytes of tiles, and rows at once at most. More rows are best where the weight is wide, since
            each tile reads it anew. On an accelerator tiles take no more than logits in the storage dtype; of a float32
            or float64 head of the product's own dtype on CUDA always CUDA_ROWS (`fixed`), summed with `pad` columns
            more, at most CUDA_ROWS x V x 13 bytes (float64: 24): same bits, if a row comes out alike at every place.
    """

    def __init__(self, hidden: Tensor, head: Head, kind: torch.dtype, memory: int, chunk: int | None = None):
        self.hidden, self.head, self.product_kind = hidden, head, kind
        (size, width), stored = head.weight.shape, head.weight.dtype
        self.size, self.cuts = size, blocks(size, hidden.device)
        half = stored in (torch.float16, torch.bfloat16) and hidden.dtype == stored  # else states would be rounded
        self.narrow = hidden.device.type == "cuda" and kind == torch.float32 and half
        self.kind = kind if kind in (torch.float32, torch.float64) else torch.float32
        widened = 0 if self.narrow or stored == kind else kind.itemsize * widest(self.cuts) * width
        held = 2 * widest(self.cuts) * self.kind.itemsize  # bytes per row of tiles
        if hidden.device.type != "cpu":  # a row of scores, with the flags or its scores in another dtype; and of states
            flags = 2 if hidden.is_cuda and self.kind == torch.float32 else self.kind.itemsize
            held = size * (self.kind.itemsize + flags) + 2 * width * (stored if self.narrow else kind).itemsize
            memory = min(memory, widened + len(hidden) * size * stored.itemsize)
        best = chunk or max(1024, min(2048, 4 * width))
        self.most = max(GRAIN, min(best, (memory - widened) // held) // GRAIN * GRAIN)
        self.few = max(1, min(WHOLE_ROWS, memory // (16 * size)))  # whole rows of scores
        self.fixed, self.pad = (CUDA_ROWS, -size % CUDA_COLUMNS) if hidden.is_cuda and stored == self.kind else (0, 0)
        if self.fixed:
            self.most = self.few = CUDA_ROWS

    def rows(self, which: slice | Tensor) -> Tensor:
        """Some hidden states in the product's dtype, padded with zeros to a multiple of GRAIN, or CUDA_ROWS."""
        rows = self.hidden[which].to(self.head.weight.dtype if self.narrow else self.product_kind).contiguous()
        pad = -len(rows) % (self.fixed or GRAIN)
        return F.pad(rows, (0, 0, 0, pad)) if pad or self.fixed else rows  # a copy, so that its address is aligned

    def __call__(self, rows: Tensor, which: slice | Tensor, out: Tensor | None = None) -> Tensor:
        """(n, b) scores against a block of the vocabulary; `out` is used where the product can write to it."""
        weight = self.head.weight[which]
        bias = None if self.head.bias is None else self.head.bias[which]
        if self.narrow and rows.dtype == weight.dtype:
            scores = torch.mm(rows, weight.t(), out_dtype=torch.float32)
            scores = scores if bias is None else scores.add_(bias)
        else:
            weight = weight.to(self.product_kind)
            out = out if out is not None and out.dtype == self.product_kind else None
            if bias is None:
                scores = torch.mm(rows, weight.t(), out=out)
            else:
                scores = torch.addmm(bias.to(self.product_kind), rows, weight.t(), out=out)
        return self.head.after(scores).to(self.kind)

    def own(self, rows: Tensor, targets: Tensor) -> Tensor:
        """The targets' scores (n, 1), ahead of their blocks: the diagonals of small square products."""
        padded = F.pad(targets, (0, len(rows) - len(targets)))
        parts = [self(rows[i : i + GRAIN], padded[i : i + GRAIN]).diagonal() for i in range(0, len(rows), GRAIN)]
        return torch.cat(parts)[: len(targets), None]


def blocks(size: int, device: torch.device) -> list[tuple[int, int]]:
    """Blocks of the vocabulary: [0, BLOCK), ..., the last one not narrow. On an accelerator, one block."""
    if device.type != "cpu" or size < 2 * BLOCK:
        return [(0, size)]
    starts = list(range(0, size - GRAIN, BLOCK))
    return list(zip(starts, [*starts[1:], size], strict=True))


def widest(cuts: list[tuple[int, int]]) -> int:
    return max(end - start for start, end in cuts)


def least_memory(size: int, device: torch.device) -> int:
    """Bytes without which the engine does not start: a whole row of scores, and a smallest pair of tiles."""
    return max(8 * size, 8 * GRAIN * widest(blocks(size, device)) if device.type == "cpu" else 0)


def row_chunks(count: int, most: int) -> Iterator[slice]:
    """Cut `count` rows into runs of about equal length, multiples of GRAIN where `most` allows it."""
    pieces = -(-count // most)
    step = min(most, -(-count // (pieces * GRAIN)) * GRAIN)
    return (slice(i, i + step) for i in range(0, count, step))
