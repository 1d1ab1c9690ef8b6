"""The inner loop of the rank engine: a tile of scores is made, counted and overwritten while it is in the cache.

A tile is some rows of hidden states against a block of the vocabulary. Three sums per row are all that leaves it:
candidates above the target, candidates equal to it, and the sum of exp(score - target's score), whose negative
logarithm is the log-probability. No maximum is needed: that sum is at least 1, and one that overflows says so and
its row is done again, whole, with the usual care.

The target's own score must be known before the first block. It is computed ahead from the target's row of the
weight, and compared with what the tile that holds the target says: rows where the two differ in a single bit are
done again whole as well. So counts never rest on two products that round differently.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rbplib.models.heads import Head

BLOCK = 512  # candidates per tile; fixed, so that sums are always taken in the same order
GRAIN = 64  # rows come in multiples of this: kernels for fewer rows may add up in another order
WHOLE_ROWS = 128  # rows at once where whole rows of the vocabulary are held
LOG2_E = math.log2(math.e)


class Sums(NamedTuple):
    """Per row: candidates above the target, candidates equal to it, and its log-probability."""

    greater: Tensor  # int64 (n,)
    ties: Tensor  # int64 (n,)
    logprob: Tensor  # float32 (n,), NaN where a score of the row is NaN


def blocks(size: int, device: torch.device) -> list[tuple[int, int]]:
    """Blocks of the vocabulary: [0, BLOCK), ..., the last one not narrow. On an accelerator, one block."""
    if device.type != "cpu" or size < 2 * BLOCK:
        return [(0, size)]
    starts = list(range(0, size - GRAIN, BLOCK))
    return list(zip(starts, [*starts[1:], size], strict=True))


def widest(size: int, device: torch.device) -> int:
    return max(end - start for start, end in blocks(size, device))


def least_memory(size: int, device: torch.device) -> int:
    """Bytes without which the engine does not start: a whole row of scores, and a smallest pair of tiles."""
    return max(8 * size, 8 * GRAIN * widest(size, device) if device.type == "cpu" else 8 * size)


def best_rows(width: int) -> int:
    """Rows per tile where memory allows: more when the weight is wide, since each tile reads a block of it anew."""
    return max(1024, min(2048, 4 * width))


def row_chunks(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut `count` rows into runs of about equal length, whole multiples of GRAIN but for the end of the last."""
    pieces = -(-count // most)
    step = -(-count // (pieces * GRAIN)) * GRAIN
    return ((i, min(i + step, count)) for i in range(0, count, step))


def sum_tile(scores: Tensor, own: Tensor, flags: Tensor, sums: Tensor) -> None:
    """One tile's counts and exponentials, into `sums`; the tile is overwritten.

    Args:
        scores: float (n, b), the tile.
        own: (n, 1), the targets' scores.
        flags: (n, b) scratch. Comparisons written as floats and summed as floats are several times faster than
            booleans, and exact: a count is below 2^24.
        sums: (3, n), filled with candidates above, candidates equal, and the sum of exp(score - own).
    """
    torch.sum(torch.gt(scores, own, out=flags), 1, out=sums[0])
    torch.sum(torch.eq(scores, own, out=flags), 1, out=sums[1])
    # exp2 because exp goes to a vendor routine that is much slower on some processors
    torch.sum(scores.sub_(own).mul_(LOG2_E).exp2_(), 1, out=sums[2])


def total(sums: Tensor) -> Tensor:
    """Sums (blocks, 3, n) of all blocks added up, in float64 where the device has it: (3, n)."""
    return sums.sum(0, dtype=torch.float32 if sums.device.type == "mps" else torch.float64)


def careful_rows(scores: Tensor, targets: Tensor) -> Sums:
    """Ranks of whole rows (n, V), whatever infinities they hold.

    Where a row's highest score is infinite, its probability is shared equally by the candidates at that score.
    """
    own = scores.gather(1, targets[:, None])  # (n, 1)
    greater = torch.count_nonzero(scores > own, dim=1)
    ties = torch.count_nonzero(scores == own, dim=1)
    top = scores.amax(1, keepdim=True)
    logprob = (own - top) - (scores - top).exp().sum(1, keepdim=True).log()
    share = torch.where(own == top, -ties[:, None].to(scores.dtype).log(), float("-inf"))
    return Sums(greater, ties, torch.where(top.isinf(), share, logprob)[:, 0].float())


def finish(sums: Tensor, doubtful: Tensor, whole: Callable[[Tensor], Iterator[tuple[Tensor, Sums]]]) -> Sums:
    """Ranks from the sums (3, n), with doubtful rows done again by `whole`: (row numbers, their ranks)."""
    found = Sums(sums[0].long(), sums[1].long(), (-sums[2].log()).float())
    doubtful = doubtful | ~sums[2].isfinite()
    if doubtful.any():
        for rows, again in whole(doubtful.nonzero()[:, 0]):
            for column, values in zip(found, again, strict=True):
                column[rows] = values
    return found


def score_sums(logits: Tensor, targets: Tensor) -> Sums:
    """Ranks of targets (n,) from given scores (n, V), in float32 or float64."""
    (count, size), device = logits.shape, logits.device
    kind = torch.float64 if logits.dtype == torch.float64 else torch.float32
    own = logits.gather(1, targets[:, None]).to(kind)
    cuts, sums = blocks(size, device), []
    limit = best_rows(0) if device.type == "cpu" else max(1, 2**28 // size)
    for first, end in row_chunks(count, limit):
        part = torch.empty(len(cuts), 3, end - first, dtype=kind, device=device)
        for (left, right), place in zip(cuts, part, strict=True):
            tile = logits[first:end, left:right].to(kind, copy=True)
            sum_tile(tile, own[first:end], torch.empty_like(tile), place)
        sums.append(total(part))

    def whole(rows):
        for some in rows.split(WHOLE_ROWS):
            yield some, careful_rows(logits[some].to(kind), targets[some])

    return finish(torch.cat(sums, 1), torch.zeros(count, dtype=torch.bool, device=device), whole)


class Product:
    """The scores of some rows against a block of the vocabulary, in the dtype asked for.

    Args:
        head: weight (V, d) in its storage dtype; it is never copied whole.
        kind: dtype of the product. A half-precision weight meets float32 exactly: on CUDA inside the product,
            elsewhere by widening one block at a time.
    """

    def __init__(self, head: Head, kind: torch.dtype):
        self.head, self.kind = head, kind
        self.device = head.weight.device
        self.narrow = self.device.type == "cuda" and kind == torch.float32 and head.weight.dtype != kind
        self.tile_kind = kind if kind in (torch.float32, torch.float64) else torch.float32

    def rows(self, hidden: Tensor) -> Tensor:
        """Hidden states in the product's dtype, padded with zeros to a multiple of GRAIN on a CPU."""
        hidden = hidden.to(self.head.weight.dtype if self.narrow else self.kind)
        pad = -len(hidden) % GRAIN if self.device.type == "cpu" else 0
        return F.pad(hidden, (0, 0, 0, pad)) if pad else hidden

    def __call__(self, hidden: Tensor, which: slice | Tensor, out: Tensor | None = None) -> Tensor:
        """(n, b) scores; `out` is used where the product can write to it."""
        weight = self.head.weight[which]
        bias = None if self.head.bias is None else self.head.bias[which]
        if self.narrow and hidden.dtype == weight.dtype:
            scores = torch.mm(hidden, weight.t(), out_dtype=torch.float32)
            scores = scores if bias is None else scores.add_(bias)
        else:
            weight = weight.to(self.kind)
            out = out if out is not None and out.dtype == self.kind else None
            if bias is None:
                scores = torch.mm(hidden, weight.t(), out=out)
            else:
                scores = torch.addmm(bias.to(self.kind), hidden, weight.t(), out=out)
        return self.head.after(scores).to(self.tile_kind)

    def own(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The targets' scores (n, 1), ahead of their blocks: the diagonals of small square products."""
        parts = [self(hidden[i : i + GRAIN], targets[i : i + GRAIN]).diagonal() for i in range(0, len(hidden), GRAIN)]
        return torch.cat(parts)[:, None]


def head_sums(hidden: Tensor, head: Head, targets: Tensor, kind: torch.dtype, memory: int, chunk: int | None) -> Sums:
    """Ranks of targets (n,) from hidden states (n, d) and a head, tile by tile.

    Args:
        kind: dtype of the product.
        memory: bytes for tiles.
        chunk: at most so many rows at once.
    """
    (count, _), (size, width), device = hidden.shape, head.weight.shape, hidden.device
    product = Product(head, kind)
    cuts = blocks(size, device)
    wide = widest(size, device)
    widened = 0 if product.narrow or head.weight.dtype == kind else kind.itemsize * wide * width
    held = (3 if product.narrow else 2) * wide * product.tile_kind.itemsize  # bytes per row of tiles
    most = max(GRAIN, min(chunk or best_rows(width), (memory - widened) // held) // GRAIN * GRAIN)
    edges = torch.tensor([end for _, end in cuts], device=device)
    space = torch.empty(2, min(most, count + GRAIN) * wide, dtype=product.tile_kind, device=device)
    sums, doubtful = [], []
    for first, end in row_chunks(count, most):
        rows, n, wanted = product.rows(hidden[first:end]), end - first, targets[first:end]
        part = torch.empty(len(cuts), 3, n, dtype=product.tile_kind, device=device)
        reach, doubt = [0] * len(cuts), torch.zeros(n, dtype=torch.bool, device=device)
        if len(cuts) > 1:
            own = product.own(rows, F.pad(wanted, (0, len(rows) - n)))[:n]
            order = wanted.argsort()  # the rows in the order in which the blocks meet their targets
            reach = torch.searchsorted(wanted[order], edges).tolist()
            column = wanted[order] - (wanted[order] // BLOCK).clamp(max=len(cuts) - 1) * BLOCK
            seen = torch.empty_like(own[:, 0])
        done = 0
        for (left, right), stop, place in zip(cuts, reach, part, strict=True):
            tile, flags = (s[: len(rows) * (right - left)].view(len(rows), right - left) for s in space)
            tile = product(rows, slice(left, right), tile)[:n]
            if len(cuts) == 1:
                own = tile.gather(1, wanted[:, None])
            elif stop > done:
                seen[done:stop] = tile[order[done:stop], column[done:stop]]
                done = stop
            sum_tile(tile, own, flags[:n], place)
        if len(cuts) > 1:
            doubt[order] = own[order, 0] != seen
        sums.append(total(part))
        doubtful.append(doubt)

    def whole(numbers):
        most_whole = max(1, min(WHOLE_ROWS, memory // (16 * size)))
        for some in numbers.split(most_whole):
            rows = product.rows(hidden[some])
            scores = torch.empty(len(some), size, dtype=product.tile_kind, device=device)
            for left, right in cuts:
                scores[:, left:right] = product(rows, slice(left, right))[: len(some)]
            yield some, careful_rows(scores, targets[some])

    return finish(torch.cat(sums, 1), torch.cat(doubtful), whole)
