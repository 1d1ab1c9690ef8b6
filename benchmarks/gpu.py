"""The rank engine on a GPU: real-architecture, random-weight models in bfloat16.

    python -m benchmarks gpu [--shape 410m 1.4b 6.9b] [--batch 16] [--pairs 7]

Per shape: time of the engine and of the forward pass with full logits in interleaved pairs, peak memory of each above
the model, the fraction of the GPU's own matrix rate that the engine reaches, and how often the host had to wait for
the device. Without a GPU it says so and measures nothing.
"""

import argparse
import json
import statistics
import sys
import time
import warnings

import torch

from benchmarks.contenders import SHAPES, full_logits, make_ids, make_model, rbplib
from benchmarks.ranks import RESULTS


def seconds(run, *args):
    torch.cuda.synchronize()
    start = time.perf_counter()
    run(*args)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def matrix_rate(size=8192, repeats=20):
    """bfloat16 floating-point operations per second of a large square product."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    a @ b
    return 2 * size**3 / min(seconds(torch.matmul, a, b) for _ in range(repeats))


def peak(run, model, ids):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(model, ids)
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def waits(model, ids):
    """Times the host waited for the device during one call, as torch's own debug mode counts them."""
    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rbplib(model, ids)
    torch.cuda.set_sync_debug_mode("default")
    return len(said)


def flops(model, ids):
    """Matrix products of one forward pass: two per weight and token, and the attention's own."""
    hidden, layers, _, vocab = SHAPES[model.shape_name]
    weights = 12 * layers * hidden**2 + vocab * hidden
    return ids.numel() * (2 * weights + 2 * layers * ids.shape[1] * hidden)


def measure(shape, batch, pairs, rate):
    model = make_model(shape, "cuda", torch.bfloat16)
    model.shape_name = shape
    ids = make_ids(model, batch)
    for run in (rbplib, full_logits):
        run(model, ids)
    times = [[seconds(run, model, ids) for run in (rbplib, full_logits)] for _ in range(pairs)]
    ours = statistics.median(t[0] for t in times)
    return {
        "pairs": times,
        "tok_s": ids[:, 1:].numel() / ours,
        "overhead": statistics.median(a / b for a, b in times) - 1,
        "peak_mb": peak(rbplib, model, ids),
        "full_peak_mb": peak(full_logits, model, ids),
        "rate_fraction": flops(model, ids) / ours / rate,
        "waits": waits(model, ids),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--shape", nargs="+", default=["410m", "1.4b", "6.9b"], choices=list(SHAPES))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=7)
    args = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("no GPU here: not measured")
        return 0
    with torch.inference_mode():
        rate = matrix_rate()
        runs = {shape: measure(shape, args.batch, args.pairs, rate) for shape in args.shape}
    name = torch.cuda.get_device_name()
    lines = [
        f"{name}, bfloat16, batch {args.batch} of 512 tokens, measured matrix rate {rate / 1e12:.0f} TFLOP/s",
        "",
        "| shape | tok/s | over full logits | peak MB | full logits, peak MB | of the matrix rate | host waits |",
        "|---|---|---|---|---|---|---|",
    ]
    for shape, r in runs.items():
        lines.append(
            f"| {shape.upper()} | {r['tok_s']:,.0f} | {r['overhead']:+.1%} | {r['peak_mb']:,.0f} | "
            f"{r['full_peak_mb']:,.0f} | {r['rate_fraction']:.0%} | {r['waits']} |"
        )
    print("\n".join(lines))
    path = RESULTS.with_name("gpu.json")
    path.write_text(
        json.dumps({"device": name, "rate": rate, "runs": runs, "table": "\n".join(lines)}, indent=1) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
