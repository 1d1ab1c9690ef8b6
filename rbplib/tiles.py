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

from rbplib.heads import Head

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


def add_tile(scores: Tensor, own: Tensor, flags: Tensor, sums: tuple[Tensor, Tensor, Tensor]) -> None:
    """Add one tile's counts and exponentials to the sums; the tile is overwritten.

    Args:
        scores: float (n, b), the tile.
        own: (n, 1), the targets' scores.
        flags: (n, b) scratch. Comparisons written as floats and summed as floats are several times faster than
            booleans, and exact: a count is below 2^24.
        sums: three (n,) accumulators.
    """
    greater, ties, total = sums
    greater += torch.gt(scores, own, out=flags).sum(1)
    ties += torch.eq(scores, own, out=flags).sum(1)
    # exp2 because exp goes to a vendor routine that is three times slower on some processors
    total += scores.sub_(own).mul_(LOG2_E).exp2_().sum(1)


def new_sums(count: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no float64
    return tuple(torch.zeros(count, dtype=wide, device=device) for _ in range(3))


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


def finish(
    sums: tuple[Tensor, Tensor, Tensor], doubtful: Tensor, whole: Callable[[Tensor], Iterator[tuple[Tensor, Sums]]]
) -> Sums:
    """Ranks from the sums, with doubtful rows done again by `whole`, which yields (row numbers, their ranks)."""
    greater, ties, total = sums
    found = Sums(greater.long(), ties.long(), (-total.log()).float())
    doubtful = doubtful | ~total.isfinite()
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
    sums = new_sums(count, device)
    limit = best_rows(0) if device.type == "cpu" else max(1, 2**28 // size)
    for first, end in row_chunks(count, limit):
        part = tuple(s[first:end] for s in sums)
        for left, right in blocks(size, device):
            tile = logits[first:end, left:right].to(kind, copy=True)
            add_tile(tile, own[first:end], torch.empty_like(tile), part)

    def whole(rows):
        for some in rows.split(WHOLE_ROWS):
            yield some, careful_rows(logits[some].to(kind), targets[some])

    return finish(sums, torch.zeros(count, dtype=torch.bool, device=device), whole)


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
    spare = memory - (4 * wide * width if head.weight.dtype != kind else 0)
    most = max(1, min(chunk or best_rows(width), spare // (2 * wide * product.tile_kind.itemsize)))
    most = max(GRAIN, most // GRAIN * GRAIN) if device.type == "cpu" else most
    sums = new_sums(count, device)
    doubtful = torch.zeros(count, dtype=torch.bool, device=device)
    edges = torch.tensor([end for _, end in cuts], device=device)
    space = torch.empty(2, min(most, count + GRAIN) * wide, dtype=product.tile_kind, device=device)
    for first, end in row_chunks(count, most):
        rows, n = product.rows(hidden[first:end]), end - first
        wanted = targets[first:end]
        part = tuple(s[first:end] for s in sums)
        if len(cuts) > 1:
            own = product.own(rows, F.pad(wanted, (0, len(rows) - n)))[:n]
            seen = torch.empty_like(own)
            order = wanted.argsort()
            reach = torch.searchsorted(wanted[order], edges).tolist()
        done = 0
        for number, (left, right) in enumerate(cuts):
            tile, flags = (s[: len(rows) * (right - left)].view(len(rows), right - left) for s in space)
            tile = product(rows, slice(left, right), tile)[:n]
            if len(cuts) == 1:
                own = seen = tile.gather(1, wanted[:, None])
            elif reach[number] > done:
                here = order[done : reach[number]]
                seen[here, 0] = tile[here, wanted[here] - left]
                done = reach[number]
            add_tile(tile, own, flags[:n], part)
        doubtful[first:end] = (own != seen)[:, 0]

    def whole(numbers):
        most_whole = max(1, min(WHOLE_ROWS, memory // (16 * size)))
        for some in numbers.split(most_whole):
            rows = product.rows(hidden[some])
            scores = torch.empty(len(some), size, dtype=product.tile_kind, device=device)
            for left, right in cuts:
                scores[:, left:right] = product(rows, slice(left, right))[: len(some)]
            yield some, careful_rows(scores, targets[some])

    return finish(sums, doubtful, whole)
