"""On a machine with CUDA: the rank kernel right, then fast, beside what users write.

    python -m benchmarks gpu [--minutes 4] [--rounds 7]

Right first: nothing is timed where a count is wrong. Then heads, the kernel alone and whole models,
each in turn in one process. A way that fails, or does not fit, is named and passed over, and so is
what there was no time for: what runs when the time is up is stopped. The record is written after
each section. Without CUDA it says so.
"""

import os
import signal
import statistics
import time
from functools import partial
from unittest import mock

import torch
from torch.nn import functional as F

from benchmarks import common, heads, peers
from rbplib import kernel, ranks
from tests.ranks.sorts import planted_sorts, wrong

PLAIN = "rbplib, RBP_KERNEL=0"
SORTED = [1, 2, 7, 31, 33, 1_000, 50_257, 50_304, 151_936]  # V
HEADS = [  # rows, V, d, stored
    (16_384, 50_304, 1024, torch.bfloat16),
    (16_384, 50_304, 1024, torch.float32),
    (16_384, 50_304, 2048, torch.bfloat16),
    (16_384, 151_936, 1536, torch.bfloat16),
    (16_384, 256_000, 2304, torch.bfloat16),
]
ALONE = [(16_384, 50_304, dtype) for dtype in kernel.DTYPES]
MODELS = [("410m", 16, 512), ("410m", 8, 2048), ("1.4b", 16, 512), ("1.4b", 8, 2048)]
QUICK = [1, 33], [(64, 3_000, 32, torch.float32)], [(64, 3_000, torch.float32)], [("tiny", 2, 16)]


def by_logits(of_logits):
    """A head's way: full logits, and what is made of them and the targets."""
    return lambda hidden, weight, targets: of_logits(hidden @ weight.t(), targets)


without_kernel = mock.patch.dict(os.environ, RBP_KERNEL="0")  # around any way
cross_entropy = by_logits(partial(F.cross_entropy, reduction="none"))
WAYS = {
    common.OURS: heads.rbplib,
    PLAIN: without_kernel(heads.rbplib),
    "logits alone": heads.logits_alone,
    "logits, compare, log_softmax": heads.compare,
    "logits, cross_entropy": cross_entropy,
    "linear_cross_entropy": heads.cross_entropy,
}
MODEL_WAYS = {
    common.OURS: peers.rbplib,
    PLAIN: without_kernel(peers.rbplib),
    "body only": peers.body_only,
    "full logits": peers.full_logits,
    "full logits, compare, log_softmax": peers.by_head(heads.compare),
    "full logits, cross_entropy": peers.by_head(cross_entropy),
}


def right(sizes, head, device):
    """(table by dtype, rows that are wrong): all sorts of scores beside brute force, and a head
    beside the same head by torch's own operations."""
    lines, total = [], 0
    for dtype in kernel.DTYPES:
        rows = bad = 0
        for size in sizes:
            scores, targets = planted_sorts(size, dtype, device)
            answer = kernel.counted(scores, targets, ranks._count)
            bad += wrong(answer, scores, targets, 3e-6, 1).sum().item()
            rows += len(targets)
        believed = scores.is_cuda and kernel.proven(scores.device, dtype, ranks._count)
        # products are the same on both ways
        inputs = heads.states(*head[:3], device, dtype)
        ours, plain = ranks.head_ranks(*inputs), without_kernel(ranks.head_ranks)(*inputs)
        other = (ours.greater != plain.greater) | (ours.ties != plain.ties)
        nats = (ours.logprob - plain.logprob).abs().max().item()
        counts = f"{rows:,}", str(bad), f"{len(other):,}", str(other.sum().item()), f"{nats:.1e}"
        lines.append([str(dtype), "yes" if believed else "no", *counts])
        total += bad + other.sum().item()
    columns = "scores", "kernel believed", "rows of all sorts", "wrong", "rows of a head"
    return common.table([*columns, "unlike torch's", "logprob, nats"], lines), total


def sentence(error):
    """A failure in a cell."""
    return f"{type(error).__name__}: {str(error)[:60]}".splitlines()[0]


def in_time(end):
    """Whether there is time; where it runs out later, what runs then is stopped."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time was left")
    signal.setitimer(signal.ITIMER_REAL, left)


def late(*_):
    raise TimeoutError("stopped: the time was up")


def timed(ways, inputs, tokens, count, device, end):
    """{name: cell} of each way: nanoseconds a token, the ratio to rbplib, peak memory in MB."""
    # each alone: what fails is named, and not timed
    memory, cells = {}, {}
    for name, way in ways.items():
        try:
            in_time(end)
            way(*inputs)
            memory[name] = common.peak_mb(way, *inputs, device=device)
        except Exception as error:  # no memory, no time, no such function in this torch
            cells[name] = sentence(error)
    # the others in turn, whole rounds alone
    times = {name: [] for name in memory}
    try:
        for _ in range(count):
            in_time(end)
            taken = [common.seconds(ways[name], *inputs, device=device) for name in times]
            for name, seconds in zip(times, taken, strict=True):
                times[name].append(seconds)
    except TimeoutError as error:
        if not all(times.values()):
            return cells | dict.fromkeys(times, sentence(error))
    for name, taken in times.items():
        parts = [f"{statistics.median(taken) / tokens * 1e9:,.0f} ns", f"{memory[name]:,.0f} MB"]
        if common.OURS in times:
            parts.insert(1, common.ratio(times, name))
        cells[name] = "; ".join(parts)
    return cells


def time_heads(size, *how):
    return timed(WAYS, heads.states(*size[:3], how[1], size[3]), size[0], *how)


def time_alone(size, count, device, end):
    """The kernel alone by threads of a row, beside what only reads: terabytes a second."""
    rows, vocab, dtype = size
    scores = torch.randn(rows, vocab, device=device).mul_(2).to(dtype)
    targets = torch.zeros(rows, dtype=torch.int64, device=device)
    ways = {"amax, which only reads": lambda: scores.amax(1)}
    for threads in (256, 512, 1024):
        counted = partial(kernel.counted, scores, targets, ranks._count)
        ways[f"{threads} threads a row"] = mock.patch.object(kernel, "THREADS", threads)(counted)
    # each as fast as its median
    cells = {}
    for name, way in ways.items():
        in_time(end)
        way()
        taken = [common.seconds(way, device=device) for _ in range(count)]
        rate = scores.nbytes / statistics.median(taken)
        cells[name] = f"{rate / 1e12:.2f} TB/s"
    return cells


def time_models(size, *how):
    shape, batch, length = size
    model = peers.make_model(shape, how[1], torch.bfloat16)
    ids = peers.make_ids(model, batch, length)
    return timed(MODEL_WAYS, (model, ids), ids[:, 1:].numel(), *how)


def by_size(run, sizes, count, device, end):
    """A table of one line a way and one column a size; what there was no time for is named."""
    columns, missed = {}, []
    for size in sizes:
        heading = ", ".join(map(str, size))
        try:
            in_time(end)
            columns[heading] = run(size, count, device, end)
        except Exception as error:
            missed.append(f"Not measured: {heading}: {sentence(error)}")
    # one line a way
    lines = []
    for name in next(iter(columns.values()), {}):
        lines.append([name, *(cells[name] for cells in columns.values())])
    return "\n\n".join([common.table(["", *columns], lines), *missed])


def sections(sizes, count, device, end):
    """(text, rows that are wrong) of each section in turn; the first decides about the others."""
    try:
        in_time(end)
        text, bad = right(sizes[0], sizes[1][0], device)
    except Exception as error:
        text, bad = f"Not proven right: {sentence(error)}", 1
    yield text, bad
    timings = {
        "The head alone": (time_heads, sizes[1]),
        "The kernel alone": (time_alone, sizes[2]),
        "Whole models": (time_models, sizes[3]),
    }
    for title, (run, chosen) in {} if bad else timings.items():
        yield f"{title}\n\n{by_size(run, chosen, count, device, end)}", 0


def run(options):
    device, count = options.device, options.rounds
    if device == "cuda" and not torch.cuda.is_available():
        return "There is no CUDA device here: nothing was measured."
    # a rehearsal goes through the same lines at tiny sizes
    sizes = SORTED, HEADS, ALONE, MODELS
    if options.quick:
        sizes, count = QUICK, 1
    elif device != "cuda":
        raise SystemExit("--device cpu is a rehearsal: add --quick.")
    about = {} if options.quick else {"device": torch.cuda.get_device_name()}
    signal.signal(signal.SIGALRM, late)
    end = time.monotonic() + 60 * options.minutes - 10
    texts = []
    with torch.inference_mode():
        for text, bad in sections(sizes, count, device, end):
            signal.setitimer(signal.ITIMER_REAL, 0)
            if bad:
                return print(text)
            texts.append(text)
            if not options.quick:
                common.record("gpu", "\n\n".join(texts), **about)
    return "\n\n".join(texts), about


minutes = {"type": float, "default": 4}
device = {"default": "cuda", "help": "cpu: a rehearsal, for --quick alone"}
main = common.program("gpu", __doc__, run, rounds=7, minutes=minutes, device=device)
