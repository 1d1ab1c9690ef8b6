"""The head alone: ranks and log-probabilities from hidden states, by rbplib and in other ways.

    python -m benchmarks heads [--rounds 5] [--busy]

With --busy a process a core computes beside them, and only rbplib and the full logits are timed:
how much more do neighbours cost the rank head? That is shown, not recorded.

All ways take the same hidden states (n, d), output embedding (V, d) and targets (n,), in turn in
one process. Peak memory is that of a process of its own.
"""

import json
import os
import statistics
import subprocess
import sys

import torch
from torch.nn import LinearCrossEntropyOptions
from torch.nn.functional import linear_cross_entropy

from benchmarks import common
from rbplib.ranks import head_ranks

SIZES = [(50_304, 128), (50_304, 512), (4_096, 128), (4_096, 512)]  # V, d
ROWS = 2_048
LARGEST = (50_304, 512)  # whose memory and differences are told
TOP = 10_000  # candidates that the paper's own code sorts
# Rows of linear_cross_entropy at once: of its own choice a processor takes tens of times as long.
CHUNK = {"cpu": 256, "cuda": 2_048}
MOST = 0.05  # share of ranks that another way of adding up may move


def rbplib(hidden, weight, targets):
    ranks = head_ranks(hidden, weight, targets)
    return ranks.greater + ranks.ties, ranks.logprob


def logits_alone(hidden, weight, targets):
    hidden @ weight.t()
    return None, None


def compare(hidden, weight, targets):
    logits = hidden @ weight.t()
    rank = (logits >= logits.gather(1, targets[:, None])).sum(1)
    return rank, logprob_of(logits, targets)


def argsort(hidden, weight, targets):
    logits = hidden @ weight.t()
    order = logits.argsort(1, descending=True)
    rank = (order == targets[:, None]).float().argmax(1) + 1
    return rank, logprob_of(logits, targets)


def topk(hidden, weight, targets):
    logits = hidden @ weight.t()
    most = min(TOP, logits.shape[1])
    places = logits.topk(most).indices == targets[:, None]
    rank = torch.where(places.any(1), places.float().argmax(1) + 1, most + 1)
    return rank, logprob_of(logits, targets)


def cross_entropy(hidden, weight, targets):
    return None, -linear_cross_entropy(hidden, weight, targets, reduction="none")


def cross_entropy_chunked(hidden, weight, targets):
    options = LinearCrossEntropyOptions(batch_chunk_size=CHUNK[hidden.device.type])
    loss = linear_cross_entropy(hidden, weight, targets, reduction="none", options=options)
    return None, -loss


def logprob_of(logits, targets):
    return logits.log_softmax(1).gather(1, targets[:, None])[:, 0]


CONTENDERS = {
    common.OURS: rbplib,
    "logits alone": logits_alone,
    "logits, compare": compare,
    "logits, sort": argsort,
    "logits, top 10,000": topk,
    "linear_cross_entropy": cross_entropy,
    "linear_cross_entropy, chunked": cross_entropy_chunked,
}


def states(rows, vocab, width, device="cpu", dtype=torch.float32):
    """Random hidden states, an output embedding that spreads scores as a trained one, targets."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, width, generator=generator)
    weight = torch.randn(vocab, width, generator=generator) * 2.5 / width**0.5
    targets = torch.randint(0, vocab, (rows,), generator=generator)
    return hidden.to(device, dtype), weight.to(device, dtype), targets.to(device)


def differences(inputs):
    """{contender: (share of ranks that differ from rbplib's, largest difference of logprob)}.

    Either is None where a contender does not give it. A rank past the top 10,000 counts as one.
    """
    truth, truth_logprob = rbplib(*inputs)
    differing = {}
    for name, run in CONTENDERS.items():
        rank, logprob = run(*inputs)
        moved = nats = None
        if rank is not None:
            expected = truth.clamp(max=TOP + 1) if run is topk else truth
            moved = (rank != expected).double().mean().item()
        if logprob is not None:
            nats = (logprob - truth_logprob).abs().max().item()
        differing[name] = moved, nats
    return differing


def cells(times, name, rows):
    """Microseconds a token, and the ratio to rbplib."""
    text = f"{statistics.median(times[name]) / rows * 1e6:.1f}"
    return text if name == common.OURS else f"{text}; {common.ratio(times, name)}"


def shown(number, text):
    """A number as text, a dash where there is none."""
    return "–" if number is None else format(number, text)


def beside_neighbours(rows, sizes, count):
    """Table of rbplib and the full logits while a process a core computes beside them."""
    ways = {name: CONTENDERS[name] for name in (common.OURS, "logits alone")}
    neighbours = []
    for _ in range(os.cpu_count() or 1):
        neighbours.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
    try:
        lines = [[name] for name in ways]
        for size in sizes:
            times = common.rounds(ways, states(rows, *size), count)
            for line in lines:
                line.append(cells(times, line[0], rows))
    finally:
        for process in neighbours:
            process.kill()
            process.wait()
    return common.table(["", *(f"V = {vocab:,}, d = {width}" for vocab, width in sizes)], lines)


def main(argv=None):
    parser = common.parser("heads", __doc__)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args(argv)
    rows, sizes, count = ROWS, SIZES, options.rounds
    # Memory of one way in a process of its own.
    if options.child:
        name, *size = options.child
        inputs = states(*map(int, size))
        CONTENDERS[name](*(inputs[0][:64], inputs[1], inputs[2][:64]))
        print(json.dumps(common.peak_mb(CONTENDERS[name], *inputs)))
        return 0
    if options.quick:
        rows, sizes, count = 64, [(1_000, 16)], 1
    if options.busy:
        print(beside_neighbours(rows, sizes, count))
        return 0
    # Differences first: ways that do not agree are not timed. This call warms them up, too.
    times, largest = {}, LARGEST if LARGEST in sizes else sizes[-1]
    for size in sizes:
        inputs = states(rows, *size)
        differing = differences(inputs)
        if size == largest:
            told = differing
        if max(moved or 0 for moved, _ in differing.values()) > MOST:
            print(f"ranks differ at V, d = {size}: {differing}", file=sys.stderr)
            return 1
        times[size] = common.rounds(CONTENDERS, inputs, count)
    # One line a contender.
    lines = []
    for name in CONTENDERS:
        moved, nats = told[name]
        if options.quick:
            memory = common.peak_mb(CONTENDERS[name], *inputs)
        else:
            memory = common.child("heads", name, rows, *largest)
        lines.append([name, *(cells(times[size], name, rows) for size in sizes)])
        lines[-1] += [f"{memory:,.0f}", shown(moved, ".2%"), shown(nats, ".1e")]
    head = ["", *(f"V = {vocab:,}, d = {width}" for vocab, width in sizes)]
    text = common.table([*head, "memory, MB", "ranks that differ", "logprob, nats"], lines)
    print(text)
    if not options.quick:
        raw = [[size, taken] for size, taken in times.items()]
        common.record("heads", text, threads=torch.get_num_threads(), seconds=raw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
