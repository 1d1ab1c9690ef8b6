"""Whole models: rbplib beside the floors and the peers, windows of 512 tokens in batches of four.

    python -m benchmarks ranks [--rounds 5]

Contenders of one model run in turn in one process, since only ratios in it count. CPU time of one
thread is told, of which neighbours cost little. Peak memory above the loaded model is that of a
process of its own.
"""

import time

import torch

from benchmarks import common, peers

SHAPES, BATCH = ("14m", "70m"), (4, 512)


def child(shape, batch, length, name, count):
    """CPU-seconds of all contenders of one model, in turns; or the peak memory of one above the
    loaded model, MB."""
    torch.set_num_threads(1)
    ways = {name: way for name, (way, _) in peers.CONTENDERS.items()}
    with torch.inference_mode():
        model = peers.make_model(shape)
        ids = peers.make_ids(model, int(batch), int(length))
        # libraries loaded, wrappers made, threads started
        for way in [ways[name]] if name in ways else ways.values():
            way(model, ids[:1, :16] if name in ways else ids[:1])
        if name in ways:
            return common.peak_mb(ways[name], model, ids)
        return common.rounds(ways, (model, ids), int(count), clock=time.process_time)


def run(options):
    shapes, (batch, length), count = SHAPES, BATCH, options.rounds
    if options.quick:
        shapes, batch, length, count = ("tiny",), 2, 24, 1
    # times and memory, a process each
    columns, raw = {"gives": [what for _, what in peers.CONTENDERS.values()]}, {}
    for shape in shapes:
        times = common.child("ranks", shape, batch, length, "times", count)
        scale = 1e6 / batch / (length - 1)
        rates, peaks = [], []
        for name in peers.CONTENDERS:
            rates.append(common.cell(times, name, scale, ".0f"))
            peaks.append(f"{common.child('ranks', shape, batch, length, name, 1):,.0f}")
        columns |= {
            f"{shape.upper()}, CPU-us a token": rates,
            f"{shape.upper()}, memory, MB": peaks,
        }
        raw[shape] = times
    lines = zip(peers.CONTENDERS, *columns.values(), strict=True)
    return common.table(["", *columns], lines), {"cpu_seconds": raw}


main = common.program("ranks", __doc__, run, child)
