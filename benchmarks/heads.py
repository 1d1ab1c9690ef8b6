"""The head alone: ranks and log-probabilities from hidden states, by rbplib and in other ways.

    python -m benchmarks heads [--rounds 7]

All ways take the same hidden states (n, d), output embedding (V, d) and targets (n,), in turn in
one process of one thread, once with malloc as it comes and once where freed memory is kept. CPU
time is told, of which neighbours cost little. Peak memory is that of a process of its own.
"""

import sys
import time

import torch
from torch.nn import LinearCrossEntropyOptions
from torch.nn.functional import linear_cross_entropy

from benchmarks import common
from rbplib.ranks import head_ranks

SIZES = [(50_304, 128), (50_304, 512), (4_096, 128), (4_096, 512)]  # V, d
ROWS = 2_048
LARGEST = (50_304, 512)  # whose memory and differences are told
# Rows of linear_cross_entropy at once: of its own choice a processor takes tens of times as long.
CHUNK = {"cpu": 256, "cuda": 2_048}
KEPT = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(1 << 30))
KINDS = {"default malloc": {}, "memory kept": KEPT}  # as `rbp book` keeps it
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

    Either is None where a contender does not give it.
    """
    truth, truth_logprob = rbplib(*inputs)
    differing = {}
    for name, run in CONTENDERS.items():
        rank, logprob = run(*inputs)
        moved = nats = None
        if rank is not None:
            moved = (rank != truth).double().mean().item()
        if logprob is not None:
            nats = (logprob - truth_logprob).abs().max().item()
        differing[name] = moved, nats
    return differing


def shown(number, text):
    """A number as text, a dash where there is none."""
    return "–" if number is None else format(number, text)


def timed(sizes, rows, count):
    """[(size, {contender: CPU-seconds})], in turns; nothing where ranks differ."""
    times = []
    for size in sizes:
        # differences first: ways that do not agree are not timed. This call warms them up, too
        inputs = states(rows, *size)
        differing = differences(inputs)
        if max(moved or 0 for moved, _ in differing.values()) > MOST:
            print(f"ranks differ at V, d = {size}: {differing}", file=sys.stderr)
            return []
        times.append((size, common.rounds(CONTENDERS, inputs, count, clock=time.process_time)))
    return times


def by_way(kind, times, rows, *more):
    """A table of one line a contender, and cells of more columns: {heading: {contender: cell}}."""
    head = [kind, *(f"V = {vocab:,}, d = {width}" for (vocab, width), _ in times)]
    lines = []
    for name in CONTENDERS:
        # CPU-microseconds a token
        cells = [common.cell(seconds, name, 1e6 / rows, ".1f") for _, seconds in times]
        lines.append([name, *cells, *(column[name] for _, column in more)])
    return common.table([*head, *(heading for heading, _ in more)], lines)


def child(name, rows, *numbers):
    """Times of all ways, or the memory of one."""
    rows, *size = map(int, (rows, *numbers))
    if name == "times":
        torch.set_num_threads(1)
        return timed(SIZES, rows, *size)
    inputs = states(rows, *size)
    CONTENDERS[name](*(inputs[0][:64], inputs[1], inputs[2][:64]))
    return common.peak_mb(CONTENDERS[name], *inputs)


def run(options):
    if options.quick:
        times = timed([(1_000, 16)], 64, 1)
        return (by_way("", times, 64), {}) if times else None
    # memory and differences stand beside the first kind's times
    columns = {"memory, MB": {}, "ranks that differ": {}, "logprob, nats": {}}
    for name, (moved, nats) in differences(states(ROWS, *LARGEST)).items():
        memory = common.child("heads", name, ROWS, *LARGEST)
        cells = f"{memory:,.0f}", shown(moved, ".2%"), shown(nats, ".1e")
        for column, cell in zip(columns.values(), cells, strict=True):
            column[name] = cell
    texts, raw = [], {}
    for kind, variables in KINDS.items():
        raw[kind] = common.child("heads", "times", ROWS, options.rounds, **variables)
        if not raw[kind]:
            return None
        texts.append(by_way(kind, raw[kind], ROWS, *columns.items()))
        columns = {}
    return "\n\n".join(texts), {"threads": 1, "cpu_seconds": raw}


main = common.program("heads", __doc__, run, child, rounds=7)
