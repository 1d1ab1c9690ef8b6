"""What was tried for the rank engine, each on the same rows in turn: microseconds per token, the head alone.

python -m benchmarks explore [--rounds 5] [--width 128 512]
"""

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from benchmarks.ranks import RESULTS, machine
from rbplib import tiles
from rbplib.ranks import head_ranks

VOCAB, ROWS = 50_304, 2048


def by_tiles(hidden, weight, targets, rows, block, work):
    """The bare loop, with `work(tile, own, flags)` after each product."""
    own = (hidden * weight[targets]).sum(1, keepdim=True)
    space = torch.empty(2, rows * block)
    for first in range(0, len(hidden), rows):
        some = hidden[first : first + rows]
        for left in range(0, len(weight), block):
            part = weight[left : left + block]
            tile, flags = (s[: len(some) * len(part)].view(len(some), len(part)) for s in space)
            torch.mm(some, part.t(), out=tile)
            work(tile, own[first : first + rows], flags)


def nothing(tile, own, flags):
    pass


def plain(tile, own, flags):
    (tile > own).sum(1), (tile == own).sum(1)
    torch.log_softmax(tile, 1)


def float_sums(tile, own, flags):
    torch.gt(tile, own, out=flags).sum(1), torch.eq(tile, own, out=flags).sum(1)
    torch.log_softmax(tile, 1)


def base_e(tile, own, flags):
    torch.gt(tile, own, out=flags).sum(1), torch.eq(tile, own, out=flags).sum(1)
    tile.sub_(own).exp_().sum(1)


def base_2(tile, own, flags):
    torch.gt(tile, own, out=flags).sum(1), torch.eq(tile, own, out=flags).sum(1)
    tile.sub_(own).mul_(tiles.LOG2_E).exp2_().sum(1)


def one_pass(tile, own, flags):
    """Both counts in one sum: 1 above, 2^-10 equal, so that whole part and rest tell them apart, exactly."""
    torch.heaviside(tile.sub_(own), torch.tensor(2.0**-10), out=flags).sum(1)
    tile.mul_(tiles.LOG2_E).exp2_().sum(1)


def in_two_threads(hidden, weight, targets):
    """A half of the rows each for two Python threads with single-threaded operations."""
    before, half = torch.get_num_threads(), len(hidden) // 2
    torch.set_num_threads(1)
    with ThreadPoolExecutor(2, initializer=lambda: torch.set_num_threads(1)) as pool:
        parts = [slice(0, half), slice(half, None)]
        list(pool.map(lambda part: head_ranks(hidden[part], weight, targets[part]), parts))
    torch.set_num_threads(before)


def split_product(hidden, weight, targets):
    """Three half-precision products for one of nearly float32 accuracy: high*high + high*low + low*high."""
    high, w_high = hidden.bfloat16(), weight.bfloat16()
    low, w_low = (hidden - high).bfloat16(), (weight - w_high).bfloat16()
    rows, block = 1024, 512
    out = torch.empty(rows, block, dtype=torch.bfloat16)
    for first in range(0, len(hidden), rows):
        for left in range(0, len(weight), block):
            r, c = slice(first, first + rows), slice(left, left + block)
            part = out[:, : len(weight[c])]
            for a, b in ((high, w_high), (high, w_low), (low, w_high)):
                torch.mm(a[r], b[c].t(), out=part)


def with_precision(level, run):
    torch.set_float32_matmul_precision(level)
    run()
    torch.set_float32_matmul_precision("highest")


def on_threads(count, run):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    run()
    torch.set_num_threads(before)


def trials(hidden, weight, targets):
    def tiled(rows, block, work):
        return lambda: by_tiles(hidden, weight, targets, rows, block, work)

    found = {
        "the engine": lambda: head_ranks(hidden, weight, targets),
        "product alone, all rows and words at once": lambda: hidden @ weight.t(),
        "product alone, 128 rows x all words": tiled(128, VOCAB, nothing),
        "product alone, tiles of 1024 x 512": tiled(1024, 512, nothing),
        "128 rows x all words: boolean sums, log-softmax": tiled(128, VOCAB, plain),
        "128 rows x all words: float sums, log-softmax": tiled(128, VOCAB, float_sums),
        "128 rows x all words: float sums, exp2": tiled(128, VOCAB, base_2),
        "tiles of 1024 x 512: float sums, log-softmax": tiled(1024, 512, float_sums),
        "tiles of 1024 x 512: float sums, exp": tiled(1024, 512, base_e),
        "tiles of 1024 x 512: float sums, exp2": tiled(1024, 512, base_2),
    }
    found["tiles of 1024 x 512: both counts in one pass, exp2"] = tiled(1024, 512, one_pass)
    for rows, block in ((256, 512), (512, 1024), (1024, 1024), (2048, 512), (2048, 2048)):
        found[f"tiles of {rows} x {block}: float sums, exp2"] = tiled(rows, block, base_2)
    found["the engine, one thread"] = lambda: on_threads(1, found["the engine"])
    found["the engine, two Python threads"] = lambda: in_two_threads(hidden, weight, targets)
    found["the engine, set_float32_matmul_precision('medium')"] = lambda: with_precision("medium", found["the engine"])
    found["three bfloat16 products, nothing else"] = lambda: split_product(hidden, weight, targets)
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks explore", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, nargs="+", default=[128, 512])
    args = parser.parse_args(argv)
    times = {}
    with torch.inference_mode():
        for width in args.width:
            pick = torch.Generator().manual_seed(0)
            hidden, weight = (torch.randn(n, width, generator=pick) * 0.1 for n in (ROWS, VOCAB))
            runs = trials(hidden, weight, torch.randint(0, VOCAB, (ROWS,), generator=pick))
            for _ in range(args.rounds):
                for name, run in runs.items():
                    start = time.perf_counter()
                    run()
                    times.setdefault(name, {}).setdefault(width, []).append((time.perf_counter() - start) / ROWS * 1e6)
    lines = ["| | " + " | ".join(f"d = {w}" for w in args.width) + " |", "|" + "---|" * (len(args.width) + 1)]
    for name, by_width in times.items():
        cells = (
            f"{statistics.median(by_width[w]):.0f} ({min(by_width[w]):.0f}-{max(by_width[w]):.0f})" for w in args.width
        )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    print("\n".join(lines))
    path = RESULTS.with_name("explore.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps({"machine": machine(), "microseconds": times, "table": "\n".join(lines)}, indent=1) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
