"""On a machine with CUDA: ranks against brute force, speed and memory beside others.

    python -m benchmarks gpu [--minutes 10]

The head alone and whole models, beside full logits and torch's `linear_cross_entropy`, in turn in
one process; then whole measurings (`benchmarks.whole`). What does not fit the device's memory or
the time is named. Without CUDA it says so.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks import common, heads, peers, whole
from rbplib.ranks import head_ranks

CHECKED = [  # rows, V, d, stored
    (1_024, 50_257, 1024, torch.float32),
    (1_024, 50_257, 1024, torch.bfloat16),
    (1_024, 50_257, 1024, torch.float16),
]
HEADS = [
    (16_384, 50_304, 1024, torch.bfloat16),
    (16_384, 50_304, 1024, torch.float32),
    (16_384, 50_304, 2048, torch.bfloat16),
    (16_384, 151_936, 1536, torch.bfloat16),
]
MODELS = [("410m", 16, 512), ("410m", 8, 2048), ("1.4b", 16, 512), ("1.4b", 8, 2048)]
FAMILIES = ["nano-pythia", "nano-gpt2", "nano-opt", "nano-qwen2.5", "nano-mamba"]
LARGE = ("12b", 80)  # shape, windows
QUICK = [[(64, 3_000, 32, torch.float32)]] * 2 + [[("tiny", 2, 16)]]  # the first three, tiny
HEAD = [
    "rows, V, d, stored",
    "wrong of exact products",
    "ranks that differ from float64's",
    "farthest, places",
    "logprob, nats",
]
WAYS = (common.OURS, "full logits", "linear_cross_entropy, chunked", "compare and log-softmax")


def check(rows, vocab, width, dtype, device):
    """How the library's ranks differ from those of float64 scores, as cells; the first must be 0.

    It is of small whole numbers, whose products are exact in any order and have many ties.
    """
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(0, vocab, (rows,), generator=generator).to(device)
    hidden = torch.randint(-2, 3, (rows, width), generator=generator).to(device, dtype)
    weight = torch.randint(-2, 3, (vocab, width), generator=generator).to(device, dtype)
    wrong, _, _ = compared(hidden, weight, targets)
    moved, places, nats = compared(*heads.states(rows, vocab, width, device, dtype))
    return [f"{wrong}", f"{moved / rows:.2%}", f"{places}", f"{nats:.1e}"]


def compared(hidden, weight, targets):
    """(ranks that differ from float64's, farthest in places, largest difference of logprob)."""
    ranks = head_ranks(hidden, weight, targets)
    scores = hidden.double() @ weight.double().t()
    own = scores.gather(1, targets[:, None])
    away = (ranks.greater - (scores > own).sum(1)).abs()
    ties = ranks.ties != (scores == own).sum(1)
    logprob = scores.log_softmax(1).gather(1, targets[:, None])[:, 0]
    nats = (ranks.logprob.double() - logprob).abs().max().item()
    return ((away > 0) | ties).sum().item(), away.max().item(), nats


def timed(ways, inputs, tokens, count, device):
    """{name: cell} of each way: nanoseconds a token, the ratio to rbplib, peak memory in MB."""
    # Each alone: what does not fit is named, and not timed.
    memory, cells = {}, {}
    for name, way in ways.items():
        try:
            way(*inputs)
            memory[name] = common.peak_mb(way, *inputs, device=device)
        except torch.OutOfMemoryError:
            cells[name] = "out of memory"
    # The others in turn.
    fitting = {name: ways[name] for name in memory}
    times = common.rounds(fitting, inputs, count, device)
    for name, taken in times.items():
        nanoseconds = statistics.median(taken) / tokens * 1e9
        parts = [f"{nanoseconds:,.0f} ns", f"{memory[name]:,.0f} MB"]
        if common.OURS in times:
            parts.insert(1, common.ratio(times, name))
        cells[name] = "; ".join(parts)
    return cells


def time_heads(size, count, device):
    rows, vocab, width, dtype = size
    inputs = heads.states(rows, vocab, width, device, dtype)
    return timed(heads.CONTENDERS, inputs, rows, count, device)


def time_models(size, count, device):
    shape, batch, length = size
    model = peers.make_model(shape, device, torch.bfloat16)
    ids = peers.make_ids(model, batch, length)
    ways = {name: peers.CONTENDERS[name][0] for name in WAYS}
    return timed(ways, (model, ids), ids[:, 1:].numel(), count, device)


def by_size(run, sizes, end, *options):
    """A table of one line a way and one column a size; what there was no time for is named."""
    columns, missed = {}, []
    for size in sizes:
        heading = ", ".join(map(str, size))
        if time.monotonic() > end:
            missed.append(heading)
        else:
            columns[heading] = run(size, *options)
    # One line a way.
    lines = []
    for name in next(iter(columns.values()), {}):
        lines.append([name, *(cells[name] for cells in columns.values())])
    text = common.table(["", *columns], lines)
    if missed:
        text += f"\n\nNot reached: {'; '.join(missed)}."
    return text


def main(argv=None):
    parser = common.parser("gpu", __doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--device", default="cuda", help="cpu: a rehearsal, for --quick alone")
    options = parser.parse_args(argv)
    device, count, sizes = options.device, options.rounds, (CHECKED, HEADS, MODELS)
    if device == "cuda" and not torch.cuda.is_available():
        print("There is no CUDA device here: nothing was measured.")
        return 0
    # A rehearsal goes through the same lines at tiny sizes.
    if options.quick:
        sizes, count = QUICK, 1
    elif device != "cuda":
        parser.error("--device cpu is a rehearsal: add --quick.")
    end = time.monotonic() + 60 * options.minutes
    families, large = ([], ("tiny", 2)) if options.quick else (FAMILIES, LARGE)
    with torch.inference_mode():
        lines = []
        for size in sizes[0]:
            lines.append([str(size), *check(*size, device)])
        texts = [common.table(HEAD, lines)]
        texts.append(by_size(time_heads, sizes[1], end, count, device))
        texts.append(by_size(time_models, sizes[2], end, count, device))
        with tempfile.TemporaryDirectory() as place:
            folder, measured = Path(place), []
            for name in families:
                measured += whole.time_family(name, device, folder)
            texts.append(common.table(whole.FAMILIES, measured))
            texts.append(common.table(whole.LARGE, whole.time_large(*large, device, folder)))
    text = "\n\n".join(texts)
    print(text)
    if not options.quick:
        common.record("gpu", text, device=torch.cuda.get_device_name())
    return int(any(wrong != "0" for _, wrong, *_ in lines))


if __name__ == "__main__":
    sys.exit(main())
