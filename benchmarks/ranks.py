"""Whole models: rbplib beside the floors and the peers, windows of 512 tokens in batches of four.

    python -m benchmarks ranks [--rounds 5]

Contenders of one model are timed in turn in one process, since only ratios in it count. Peak memory
above the loaded model is that of a process of its own.
"""

import json
import statistics
import sys

import torch

from benchmarks import common, peers

SHAPES, BATCH = ("14m", "70m"), (4, 512)


def timed(shape, batch, length, count):
    """{contender: seconds} of one model, in turns; each is called once before."""
    with torch.inference_mode():
        model = peers.make_model(shape)
        ids = peers.make_ids(model, batch, length)
        ways = {name: way for name, (way, _) in peers.CONTENDERS.items()}
        for way in ways.values():
            way(model, ids[:1])
        return common.rounds(ways, (model, ids), count)


def memory(shape, batch, length, name):
    """Peak memory of one contender above the loaded model, MB."""
    with torch.inference_mode():
        model = peers.make_model(shape)
        ids = peers.make_ids(model, batch, length)
        way, _ = peers.CONTENDERS[name]
        way(model, ids[:1, :16])  # libraries loaded, wrappers made, threads started
        return common.peak_mb(way, model, ids)


def cell(times, name, tokens):
    """Tokens a second, and the ratio to rbplib."""
    text = f"{tokens / statistics.median(times[name]):,.0f}"
    return text if name == common.OURS else f"{text}; {common.ratio(times, name)}"


def main(argv=None):
    options = common.parser("ranks", __doc__).parse_args(argv)
    shapes, (batch, length), count = SHAPES, BATCH, options.rounds
    if options.child:
        shape, *numbers, last = options.child
        batch, length = map(int, numbers)
        if last.isdigit():
            print(json.dumps(timed(shape, batch, length, int(last))))
        else:
            print(json.dumps(memory(shape, batch, length, last)))
        return 0
    if options.quick:
        shapes, batch, length, count = ("tiny",), 2, 24, 1
    # Times and memory, a process each.
    times, megabytes, gives = {}, {}, {}
    for shape in shapes:
        times[shape] = common.child("ranks", shape, batch, length, count)
        for name, (_, what) in peers.CONTENDERS.items():
            gives[name] = what
            megabytes[shape, name] = common.child("ranks", shape, batch, length, name)
    # One line a contender.
    lines, tokens = [], batch * (length - 1)
    for name in gives:
        lines.append([name, gives[name]])
        for shape in shapes:
            lines[-1] += [cell(times[shape], name, tokens), f"{megabytes[shape, name]:,.0f}"]
    head = ["", "gives"]
    for shape in shapes:
        head += [f"{shape.upper()}, tokens a second", "memory, MB"]
    text = common.table(head, lines)
    common.report(options, text, seconds=times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
