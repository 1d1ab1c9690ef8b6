"""The rank engine on a GPU: real-architecture, random-weight models in bfloat16, and the head alone in many ways.

    python -m benchmarks gpu [--shape 410m ...] [--minutes 6] [--small] [--out FILE]

Per shape, and batch x length: time of the engine over that of the forward pass with full logits, in interleaved pairs;
peak memory of each above the model; the share of the device's own matrix rate, measured in the same run; how often the
host waits for the device. Then the head alone in the ways of `benchmarks.heads`, and a profile. Results are written as
they come. Without a GPU nothing is measured; --small runs every line on a processor, whose numbers are no results.
"""

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import torch

from benchmarks import heads
from benchmarks.contenders import SHAPES, body_only, full_logits, make_ids, make_model, rbplib
from benchmarks.counting import Counting, waits
from benchmarks.gpu_session import BEGAN
from benchmarks.gpu_table import failures, table, unmeasured
from rbplib.families import InputError, write_text
from rbplib.heads import head_of
from training.carried import check_times
from training.children import INCOMPLETE

RESULTS = Path(__file__).parent / "results" / "gpu.json"
BATCHES = ((4, 512), (16, 512), (32, 512), (8, 2048), (32, 2048))  # windows x tokens
WAYS_AT = ("1.4b", "qwen")  # shapes whose heads are tried in all ways
ROWS = 16_384  # of the head alone
SMALL = {"14m": (16, 1, 2, 640), "wide": (16, 1, 2, 1500)}
SMALL_BATCHES, SMALL_ROWS = ((2, 16), (3, 32)), 96


def finish(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(run, *args, device="cuda"):
    finish(device)
    start = time.perf_counter()
    run(*args)
    finish(device)
    return time.perf_counter() - start


def matrix_rate(device, size=8192, repeats=20):
    """bfloat16 floating-point operations per second of a large square product of random numbers."""
    a, b = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    for _ in range(3):
        a @ b
    return 2 * size**3 / statistics.median(seconds(torch.matmul, a, b, device=device) for _ in range(repeats))


def copy_rate(device, size=1 << 30, repeats=10):
    """Bytes read and written per second of a large copy."""
    a = torch.empty(size, dtype=torch.uint8, device=device).random_(0, 255)
    b = torch.empty_like(a)
    return 2 * size / statistics.median(seconds(b.copy_, a, device=device) for _ in range(repeats))


def peak(run, model, ids):
    """MB above what is held before; None on a processor."""
    if model.device.type != "cuda":
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(model, ids)
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def device_waits(run, *args):
    """Times the host waited for the device during one call, as torch's own debug mode counts them; None elsewhere."""
    if not torch.cuda.is_available():
        return None
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            run(*args)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(w.message) for w in said)


def flops(shape, ids):
    """Matrix products of one forward pass: two per weight and token, and the attention's own."""
    hidden, layers, _, vocab = shape
    weights = 12 * layers * hidden**2 + vocab * hidden
    return ids.numel() * (2 * weights + 2 * layers * ids.shape[1] * hidden)


def words(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def tried(found, name, run, *args, **more):
    """What a part of the measurement returns; None where it fails, and why in found["failures"]: the others go on."""
    try:
        return run(*args, **more)
    except Exception as error:  # out of memory, a kernel that this torch or device lacks, a compiler that is not there
        found.setdefault("failures", {})[name] = words(error)
    if torch.cuda.is_available():
        with suppress(Exception):
            torch.cuda.empty_cache()
    return None


def over(times, name, other):
    """By how much one run takes longer than another, [median, least, most] of the rounds that have both; or None."""
    ratios = [t[name] / t[other] - 1 for t in times if t.get(name) and t.get(other)]
    return [statistics.median(ratios), min(ratios), max(ratios)] if ratios else None


def by_sums(sums):
    def run(model, ids):
        with heads.summed_by(sums):
            return rbplib(model, ids)

    return run


def case(model, shape, ids, rate, limit, device, most=9):
    """One batch: rounds of the engine, full logits, the body, and the engine by sums of fewer passes, until `limit`
    seconds have gone, 3 to `most` of them. The engine gets its ids on the processor, as `measure` gives them."""
    host, began, times = ids.cpu(), time.perf_counter(), []
    found = {"batch": len(ids), "length": ids.shape[1]}
    runs = {"engine": (rbplib, host), "full logits": (full_logits, ids), "body": (body_only, ids)}
    runs |= {name: (by_sums(sums), host) for name, sums in heads.FEWER.items()}
    going = [name for name, (run, given) in runs.items() if tried(found, name, run, model, given) is not None]
    while "engine" in going and (len(times) < 3 or (len(times) < most and time.perf_counter() - began < limit)):
        times.append({name: tried(found, name, seconds, runs[name][0], model, runs[name][1], device=device)
                      for name in going})  # fmt: skip
        going = [name for name in going if times[-1][name]]
    if not (ours := [t["engine"] for t in times if t["engine"]]):
        return found | {"failed": found["failures"]["engine"]}
    ours = statistics.median(ours)
    found |= {"seconds": times, "tok_s": ids[:, 1:].numel() / ours, "over": over(times, "engine", "full logits")}
    found |= {"over_body": over(times, "engine", "body")}
    found |= {"fewer": {name: over(times, name, "engine") for name in heads.FEWER}}
    found |= {"rate_share": rate and flops(shape, ids) / ours / rate}
    found |= {"way": tried(found, "way", lambda: "known" if head_of(model, ids) else "unsplit")}
    for what, name in (("", "engine"), ("full_", "full logits"), ("body_", "body")):
        run, given = runs[name]
        if name in going:
            found[f"{what}peak_mb"] = tried(found, f"{what}peak_mb", peak, run, model, given)
        if name in going and what != "full_":
            found[f"{what}waits"] = tried(found, f"{what}waits", waits, run, model, given)
            found[f"{what}device_waits"] = tried(found, f"{what}device_waits", device_waits, run, model, given)
    return found


def countable(name):
    """Whether operations are seen one by one: those of a graph or of compiled code are not, on a GPU."""
    return not (torch.cuda.is_available() and ("graph" in name or "compile" in name))


def passes(run, hidden, head, targets):
    """Bytes that a way's operations over tiles read and write, in units of the float32 scores; None where it has no
    tile of whole rows, as the engine on a processor."""
    scores = len(hidden) * len(head.weight)
    with Counting(least=min(len(hidden), 256) * len(head.weight) // 2) as counted:
        run(hidden, head, targets)
    return counted.moved / (4 * scores) or None


def head_ways(width, vocab, rows, device, limit, compiler, about, keep=lambda: None):
    """Into about["ways"]: {way: seconds, passes over the float32 scores, and how its ranks differ} of the head alone,
    in turns; keep() is called as each is there. On a GPU none is begun once `limit` seconds have gone."""
    ways, truth, began = heads.ways(device, compiler), {}, time.perf_counter()
    about |= {"width": width, "vocab": vocab, "rows": rows, "ways": {}, "planned": list(ways)}
    hidden, head, targets = heads.states(rows, width, vocab, device, torch.bfloat16)

    def first(name, run, of):
        ranks = run(hidden, head, targets)
        told = {"passes": passes(run, hidden, head, targets) if countable(name) else None}
        if of == name:
            truth[name] = ranks
        if of:
            a, b = truth[of], ranks
            moved = ((a.greater != b.greater) | (a.ties != b.ties)).sum().item()
            told |= {"moved": moved, "logprob": (a.logprob - b.logprob).abs().max().item()}
        return told | {"seconds": [seconds(run, hidden, head, targets, device=device)]}

    for name, (run, of) in ways.items():
        if device == "cuda" and time.perf_counter() - began > limit:
            break  # what is not there is named as not measured
        told = tried(about, name, first, name, run, of)
        about["ways"][name] = told or {"failed": about["failures"].pop(name)}
        keep()
    going, rounds = [n for n, told in about["ways"].items() if "seconds" in told], 1
    while going and (rounds < 3 or (rounds < 11 and time.perf_counter() - began < limit)):
        for name in list(going):
            took = tried(about, name, seconds, ways[name][0], hidden, head, targets, device=device)
            about["ways"][name]["seconds"] += [took] if took else []
            going.remove(name) if took is None else None
        rounds += 1


def profile_table(model, batch, device, rows=25):
    """What torch.profiler says of one batch, (windows, tokens), as text."""
    from torch.profiler import ProfilerActivity, profile

    ids = make_ids(model, *batch).cpu()
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(activities=activities) as made:
        rbplib(model, ids)
        finish(device)
    by = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    return made.key_averages().table(sort_by=by, row_limit=rows, max_name_column_width=60)


def rates(device):
    """(floating-point operations, bytes copied) per second, measured here."""
    if device == "cuda":
        return (matrix_rate, device), (copy_rate, device)
    return (matrix_rate, device, 128, 2), (copy_rate, device, 1 << 20, 2)


def measure_batches(model, about, batches, rate, ends, device, keep):
    """Into about["cases"]: one for each batch, until the time `ends`."""
    for j, (batch, length) in enumerate(batches):
        left = ends - time.perf_counter()
        if left < 0 and device == "cuda":
            break
        told, limit = {"batch": batch, "length": length}, left / (len(batches) - j) / 2
        ids = tried(told, "ids", make_ids, model, batch, length)
        made = ids is not None and tried(told, "the batch", case, model, about["dims"], ids, rate, limit, device)
        about["cases"].append(made or told | {"failed": next(iter(told["failures"].values()))})
        keep()


def measure(shapes, batches, rows, device, minutes, keep, compiler=True):
    """All of it, within some minutes; keep(results, profile) is called as each part ends. A part that fails is told,
    and the others go on."""
    until, profiles = time.perf_counter() + 60 * minutes, []
    name = torch.cuda.get_device_name() if device == "cuda" else "a processor: a rehearsal, no result"
    found = {"device": name, "torch": torch.__version__, "dtype": "bfloat16"}
    for what, run in zip(("rate", "copy_rate"), rates(device), strict=True):
        found[what] = tried(found, what, *run)
    ways_of = [shape for shape in shapes if shape in WAYS_AT or device == "cpu"]
    found |= {"planned": {"shapes": list(shapes), "batches": list(batches), "heads": ways_of}}
    found |= {"shapes": {}, "heads": {}, "skipped": []}

    def kept():
        keep(found, "\n\n".join(profiles))

    kept()
    for i, (shape, dims) in enumerate(shapes.items()):
        share = (until - time.perf_counter()) / (len(shapes) - i)  # seconds of this shape
        if share < 5 and device == "cuda":
            found["skipped"].append(shape)
            kept()
            continue
        of_head = share / 4 if shape in ways_of else 0.0
        ends, about = time.perf_counter() + share - of_head, {"dims": dims, "cases": []}
        found["shapes"][shape] = about
        model = tried(about, "the model", make_model, shape, device, torch.bfloat16, dims)
        if model:
            measure_batches(model, about, batches, found["rate"], ends, device, kept)
            some = tried(about, "the profile", profile_table, model, batches[1], device)
            profiles.append(f"{shape}, {batches[1]}\n{some or about['failures']['the profile']}\n")
            kept()
        del model
        if shape in ways_of:
            found["heads"][shape] = told = {}
            tried(told, "the head alone", head_ways, dims[0], dims[3], rows, device, of_head, compiler, told, kept)
        kept()
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__.split("\n")[0])
    shapes = ["410m", "1.4b", "qwen", "6.9b"]
    parser.add_argument("--shape", nargs="+", default=shapes, choices=list(SHAPES))
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--small", action="store_true", help="every line on a processor, at tiny shapes")
    parser.add_argument("--out", type=Path, help="the results file, by default benchmarks/results/gpu.json")
    args = parser.parse_args(argv)
    try:
        check_times(args, "minutes")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    if not args.small and not torch.cuda.is_available():
        print("no GPU here: not measured")
        return 0
    out, wrong = args.out or RESULTS, []
    if args.small and out == RESULTS:
        parser.error("a rehearsal is no result: name a file for it with --out")

    def keep(found, profiled):
        try:
            session = {"began": float(began)} if (began := os.environ.get(BEGAN)) else {}
            write_text(out, json.dumps(found | session | {"table": table(found)}, indent=1) + "\n")
            write_text(out.with_name("gpu_profile.txt"), profiled)
            wrong.clear()
        except InputError as error:  # a full disk: with the next part it is tried again
            print(error, file=sys.stderr) if not wrong else None
            wrong[:] = [error]

    device = "cpu" if args.small else "cuda"
    dims = SMALL if args.small else {shape: SHAPES[shape] for shape in args.shape}
    sizes = (SMALL_BATCHES, SMALL_ROWS) if args.small else (BATCHES, ROWS)
    with torch.inference_mode():
        found = measure(dims, *sizes, device, args.minutes, keep, compiler=not args.small)
    print(table(found))
    if wrong:
        return 1
    return INCOMPLETE if found["skipped"] or failures(found) or unmeasured(found) else 0


if __name__ == "__main__":
    sys.exit(main())
