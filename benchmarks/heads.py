"""Ways to turn hidden states and a head into ranks that may be faster on a GPU: timed, and compared with the engine.

Most of what the engine does beside the product is memory traffic: each operation over a tile of scores reads and writes
it once, 0.2 MB a token for 50,304 float32 scores. A way says how it takes the three sums of a tile (candidates above
the target, equal to it, and the sum of exp(score - own)), and how the tile is cut; product, rows and refusals stay the
engine's, whose `sum_rows` is replaced while a way is timed. All counts are exact: a comparison is of the same scores,
and a count is below 2^24. Log-probabilities may differ in their last bits, which is measured.
"""

from contextlib import contextmanager, nullcontext
from unittest import mock

import torch

from rbplib import tiles
from rbplib.heads import Head
from rbplib.ranks import head_ranks

MUCH = 1 << 34  # bytes: the number of rows alone cuts the tile


def engine_sums(tile, own):
    sums = torch.empty(3, len(own), dtype=tile.dtype, device=tile.device)
    tiles.sum_tile(tile, own, tiles.flags_of(tile), sums)
    return sums.double()


def counts(tile, own):
    """Candidates above and equal, by booleans: a byte each, but a GPU copies them to int64 to add them up."""
    return [torch.count_nonzero(flags, 1).double() for flags in (tile > own, tile == own)]


def flags_exp(tile, own):
    """The engine's flags, which a GPU adds up as they are, and exp."""
    flags, sums = tiles.flags_of(tile), torch.empty(3, len(own), dtype=tile.dtype, device=tile.device)
    for compare, row in ((torch.gt, sums[0]), (torch.eq, sums[1])):
        torch.sum(compare(tile, own, out=flags), 1, out=row)
    torch.sum(tile.sub_(own).exp_(), 1, out=sums[2])
    return sums.double()


def boolean_exp2(tile, own):
    found = counts(tile, own)
    return torch.stack([*found, tile.sub_(own).mul_(tiles.LOG2_E).exp2_().sum(1).double()])


def boolean_exp(tile, own):
    return torch.stack([*counts(tile, own), tile.sub_(own).exp_().sum(1).double()])


def boolean_logsumexp(tile, own):
    return torch.stack([*counts(tile, own), (torch.logsumexp(tile, 1) - own[:, 0]).double().exp()])


def boolean_softmax(tile, own):
    """log-softmax is one kernel; its value at the target is read off by the target's own place."""
    found, place = counts(tile, own), (tile == own).byte().argmax(1, keepdim=True)
    return torch.stack([*found, (-torch.log_softmax(tile, 1).gather(1, place)[:, 0]).double().exp()])


def three_sums(tile, own):
    """In one expression, for a compiler to fuse: the tile is then read once."""
    above, equal = (tile > own).sum(1), (tile == own).sum(1)
    return torch.stack([above.double(), equal.double(), (tile - own).exp().sum(1).double()])


@contextmanager
def summed_by(sums):
    """The engine with other sums of a tile, while this is entered."""

    def sum_rows(scores, some, wanted):
        tile = scores(some, slice(None))[: len(wanted)]  # (n, V)
        return sums(tile, tile.gather(1, wanted[:, None]))

    with mock.patch.object(tiles, "sum_rows", sum_rows), whole_rows():
        yield


def with_sums(sums, rows=None):
    """The engine with other sums of a tile, and with so many rows at once, whatever memory they take."""

    def run(hidden, head, targets):
        with summed_by(sums):
            if rows is None:
                return head_ranks(hidden, head, targets)
            scores = scores_of(hidden, head, targets)
            scores.most = rows
            return tiles.Ranks(*(column.to(targets.device) for column in tiles.ranked(scores, targets)))

    return run


def whole_rows():
    """On a processor too, one block of the vocabulary, so that all ways run the code that a GPU runs."""
    return mock.patch.object(tiles, "blocks", lambda size, device: [(0, size)])


def scores_of(hidden, head, targets):
    return tiles.Product(hidden, head, torch.float32, MUCH)


def product_alone(hidden, head, targets):
    scores = scores_of(hidden, head, targets)
    for chunk in tiles.row_chunks(len(targets), 1024):
        scores(scores.rows(chunk), slice(None))


def stored_product_alone(hidden, head, targets):
    for chunk in tiles.row_chunks(len(targets), 1024):
        hidden[chunk] @ head.weight.t()


def in_blocks(rows, columns):
    """Tiles of some rows and words, small enough for the device's cache; the target's score is made ahead of them."""

    def run(hidden, head, targets):
        scores, found = scores_of(hidden, head, targets), []
        for chunk in tiles.row_chunks(len(targets), rows):
            some, wanted = scores.rows(chunk), targets[chunk]
            own, total = scores.own(some, wanted), 0
            for left in range(0, len(head.weight), columns):
                tile = scores(some, slice(left, left + columns))[: len(wanted)]
                total = total + engine_sums(tile, own)
            found.append(total)
        above, equal, total = torch.cat(found, 1)
        return tiles.Ranks(above.long(), equal.long(), (-total.log()).float())

    return run


def two_streams(rows):
    """The product of one chunk while the chunk before is counted."""

    def run(hidden, head, targets):
        scores, found = scores_of(hidden, head, targets), []
        on_gpu = hidden.is_cuda
        main, other = (torch.cuda.current_stream(), torch.cuda.Stream()) if on_gpu else (None, None)
        for chunk in tiles.row_chunks(len(targets), rows):
            wanted = targets[chunk]
            tile = scores(scores.rows(chunk), slice(None))[: len(wanted)]
            if on_gpu:
                other.wait_stream(main)
                tile.record_stream(other)
            with torch.cuda.stream(other) if on_gpu else nullcontext():
                found.append(boolean_exp(tile, tile.gather(1, wanted[:, None])))
        if on_gpu:
            main.wait_stream(other)
        above, equal, total = torch.cat(found, 1)
        return tiles.Ranks(above.long(), equal.long(), (-total.log()).float())

    return run


def recorded(sums, rows):
    """A chunk's work recorded as a CUDA graph and replayed: one launch in place of a dozen. On a processor it runs."""
    kept = {}

    def work(hidden, head, targets):
        scores = scores_of(hidden, head, targets)
        tile = scores(scores.rows(slice(None)), slice(None))[: len(targets)]
        return sums(tile, tile.gather(1, targets[:, None]))

    def replayed(hidden, head, targets):
        if not hidden.is_cuda:
            return work(hidden, head, targets)
        key = (hidden.shape, head.weight.data_ptr())
        if key not in kept:
            held, wanted, side = hidden.clone(), targets.clone(), torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                work(held, head, wanted)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = work(held, head, wanted)
            kept[key] = graph, held, wanted, out
        graph, held, wanted, out = kept[key]
        held.copy_(hidden)
        wanted.copy_(targets)
        graph.replay()
        return out.clone()

    def run(hidden, head, targets):
        found = [replayed(hidden[c], head, targets[c]) for c in tiles.row_chunks(len(targets), rows)]
        above, equal, total = torch.cat(found, 1)
        return tiles.Ranks(above.long(), equal.long(), (-total.log()).float())

    return run


def float32_head(rows=None):
    """The head's numbers stored in float32: the engine's fixed number of rows, or so many at once with its sums."""
    kept = {}

    def run(hidden, head, targets):
        key = (hidden.data_ptr(), head.weight.data_ptr())
        if key not in kept:
            kept[key] = hidden.float(), Head(head.weight.float())
        states, wide = kept[key]
        if rows is None:
            return head_ranks(states, wide, targets)
        scores = scores_of(states, wide, targets)
        scores.most, scores.fixed = rows, 0
        return tiles.Ranks(*(column.to(targets.device) for column in tiles.ranked(scores, targets)))

    return run


def in_storage_dtype(hidden, head, targets):
    """The engine's dtype=None by other sums: bf16 scores compared as they are. Widening is exact and keeps the order,
    so counts are those of the widened scores; the log-softmax widens inside its kernel."""
    found = []
    for chunk in tiles.row_chunks(len(targets), 1024):
        tile, wanted = hidden[chunk] @ head.weight.t(), targets[chunk][:, None]
        own = tile.gather(1, wanted)
        logprob = torch.log_softmax(tile, 1, dtype=torch.float32).gather(1, wanted)[:, 0]
        found.append((*(torch.count_nonzero(flags, 1) for flags in (tile > own, tile == own)), logprob))
    return tiles.Ranks(*(torch.cat(part) for part in zip(*found, strict=True)))


def ways(device, compiler=True):
    """{name: (function of hidden, head and targets, name of the way whose ranks are the truth or None)}."""
    truth, stored = "the engine", "the engine, dtype=None"
    found = {
        truth: (lambda h, head, t: head_ranks(h, head, t), truth),
        stored: (lambda h, head, t: head_ranks(h, head, t, dtype=None), stored),
        "the product alone, float32 scores": (product_alone, None),
        "the product alone, scores in the weights' dtype": (stored_product_alone, None),
        "dtype=None, compared in the weights' dtype": (in_storage_dtype, stored),
        "engine's flags, exp": (with_sums(flags_exp), truth),
        "booleans, exp2": (with_sums(boolean_exp2), truth),
        "booleans, exp": (with_sums(boolean_exp), truth),
        "booleans, logsumexp": (with_sums(boolean_logsumexp), truth),
        "booleans, log-softmax": (with_sums(boolean_softmax), truth),
    }
    for rows in (256, 1024, 4096, 8192):
        found[f"{rows} rows, engine's sums"] = (with_sums(engine_sums, rows), truth)
        found[f"{rows} rows, engine's flags, exp"] = (with_sums(flags_exp, rows), truth)
    for rows, columns in ((1024, 2048), (2048, 4096), (4096, 8192)):
        found[f"blocks of {rows} x {columns}, engine's sums"] = (in_blocks(rows, columns), truth)
    found["two streams, 1024 rows, booleans, exp"] = (two_streams(1024), truth)
    found["CUDA graph of 1024 rows, booleans, exp"] = (recorded(boolean_exp, 1024), truth)
    found["CUDA graph of 1024 rows, engine's sums"] = (recorded(engine_sums, 1024), truth)
    fixed = f"float32 head, the engine (on CUDA always {tiles.CUDA_ROWS} rows)"
    found[fixed] = (float32_head(), fixed)
    for rows in (64, 1024, 4096):
        found[f"float32 head, {rows} rows at once"] = (float32_head(rows), fixed)
    if compiler:
        fused = torch.compile(three_sums, dynamic=False, backend="inductor" if device == "cuda" else "eager")
        for rows in (1024, 4096):
            found[f"{rows} rows, three sums in one kernel (torch.compile)"] = (with_sums(fused, rows), truth)
    return found


FEWER = {"engine's flags, exp": flags_exp, "booleans, logsumexp": boolean_logsumexp}  # timed in whole batches too


def states(rows, width, vocab, device, dtype):
    """Random hidden states (rows, width), a Head of a trained model's spread, and targets."""
    pick = torch.Generator(device).manual_seed(0)
    hidden = torch.randn(rows, width, generator=pick, device=device).to(dtype)
    weight = (torch.randn(vocab, width, generator=pick, device=device) * 2.5 / width**0.5).to(dtype)
    return hidden, Head(weight), torch.randint(0, vocab, (rows,), generator=pick, device=device)
