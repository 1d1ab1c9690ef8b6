"""The rank engine beside the floors and the peers: time in interleaved pairs, peak memory in processes of their own.

    python -m benchmarks ranks [--shape 14m 70m] [--batch 4 16] [--contender NAME...] [--pairs 5] [--part time memory]

Every (shape, batch, contender) is one process: it loads the model, warms both sides once, then times this library and
the contender in turn. Memory is measured in another process: the highest resident size while one batch is scored,
above that of the process with its model loaded. Results are merged into benchmarks/results/ranks.json as they come,
so the whole may be run in pieces.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.contenders import CONTENDERS

RESULTS = Path(__file__).parent / "results" / "ranks.json"
PEERS = {"lm-evaluation-harness": "lm_eval", "minicons": "minicons"}
LONG = ("minicons", "argsort", "the paper's algorithm")  # seconds per batch: warmed up on one sequence only
SLOW = {("70m", 16, name) for name in (*LONG, "compare and log-softmax")}


def machine():
    """What matters of the machine for these numbers, and no more."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    flags = set(re.search(r"^flags\s*:(.*)$", text, re.M)[1].split()) if "flags" in text else set()
    family = re.search(r"cpu family\s*:\s*(\d+)\n.*?model\s*:\s*(\d+)", text)
    vendor = "AMD" if "AuthenticAMD" in text else "Intel" if "GenuineIntel" in text else platform.processor()
    return {
        "processor": f"{vendor} {platform.machine()}" + (f", family {family[1]} model {family[2]}" if family else ""),
        "cores": os.cpu_count(),
        "avx512": "avx512f" in flags,
        "avx512_bf16": "avx512_bf16" in flags,
        "amx": "amx_tile" in flags,
    }


def versions():
    found = {"python": platform.python_version()}
    for package in ("torch", "transformers", "numpy", "scipy", "lm-eval", "minicons", "powerlaw"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def status_kb(field):
    return int(re.search(rf"^{field}:\s+(\d+)", Path("/proc/self/status").read_text(), re.M)[1])


def child_time(args):
    import torch

    from benchmarks.contenders import make_ids, make_model

    model = make_model(args.shape[0])
    ids = make_ids(model, args.batch[0])
    ours, other = CONTENDERS["rbplib"], CONTENDERS[args.contender[0]]
    warm = ids[:1] if args.contender[0] in LONG else ids
    pairs = []
    with torch.inference_mode():
        for run in (ours, other):
            run(model, warm)
        for _ in range(args.pairs):
            seconds = []
            for run in (ours, other):
                start = time.perf_counter()
                run(model, ids)
                seconds.append(time.perf_counter() - start)
            pairs.append(seconds)
    return {"pairs": pairs, "tokens": ids[:, 1:].numel(), "threads": torch.get_num_threads()}


def child_memory(args):
    import gc

    import torch

    from benchmarks.contenders import make_ids, make_model

    model = make_model(args.shape[0])
    ids = make_ids(model, args.batch[0])
    run = CONTENDERS[args.contender[0]]
    with torch.inference_mode():
        run(model, ids[:1, :64])  # libraries loaded, wrappers made, threads started
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = status_kb("VmRSS")
        run(model, ids)
    return {"loaded_mb": before / 1024, "peak_mb": (status_kb("VmHWM") - before) / 1024}


def run_child(part, shape, batch, contender, pairs):
    command = [sys.executable, "-m", "benchmarks", "ranks", "--child", part, "--shape", shape, "--batch", str(batch)]
    done = subprocess.run(
        [*command, "--contender", contender, "--pairs", str(pairs)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{contender} on {shape}, batch {batch}: {done.stderr.strip()[-800:]}")
    return json.loads(done.stdout.splitlines()[-1])


def load():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": []}


def merge(key, found):
    """One more measurement into the file; the newest of a kind replaces the one before."""
    whole = load()
    whole |= {"machine": machine(), "versions": {k: v for k, v in versions().items() if v}}
    entry = next((r for r in whole["runs"] if {k: r[k] for k in key} == key), None)
    if entry is None:
        whole["runs"].append(entry := dict(key))
    entry |= found
    order = list(CONTENDERS)
    whole["runs"].sort(key=lambda r: (r["shape"], r["batch"], order.index(r["contender"])))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(whole, indent=1) + "\n")


def write_result(name, text):
    """A finished table into benchmarks/results/NAME.json, with the machine and the versions it was made on."""
    found = {"machine": machine(), "versions": {k: v for k, v in versions().items() if v}, "table": text}
    RESULTS.with_name(f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


def summary(run):
    """Speed of a contender, and how many times faster this library is: median and range over the pairs."""
    ratios = sorted(other / ours for ours, other in run["pairs"])
    return {
        "tok_s": run["tokens"] / statistics.median(other for _, other in run["pairs"]),
        "ours_tok_s": run["tokens"] / statistics.median(ours for ours, _ in run["pairs"]),
        "ratio": statistics.median(ratios),
        "low": ratios[0],
        "high": ratios[-1],
        "pairs": len(ratios),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks ranks", description=__doc__.split("\n")[0])
    parser.add_argument("--shape", nargs="+", default=["14m", "70m"])
    parser.add_argument("--batch", nargs="+", type=int, default=[4, 16])
    parser.add_argument("--contender", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--part", nargs="+", default=["time", "memory"], choices=["time", "memory"])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="also the slow ones at the larger shape and batch")
    parser.add_argument("--no-report", action="store_true", help="only merge the numbers into the results file")
    parser.add_argument("--child", choices=["time", "memory"], help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        print(json.dumps(child_time(args) if args.child == "time" else child_memory(args)))
        return 0
    for shape in args.shape:
        for batch in args.batch:
            for contender in args.contender:
                if contender in PEERS and importlib.util.find_spec(PEERS[contender]) is None:
                    print(f"{contender} is not installed: pip install -e '.[bench]'", file=sys.stderr)
                    continue
                if (shape, batch, contender) in SLOW and not args.all:
                    continue
                key = {"shape": shape, "batch": batch, "contender": contender}
                for part in args.part:
                    if part == "time" and contender == "rbplib":
                        continue
                    found = run_child(part, shape, batch, contender, args.pairs)
                    merge(key, found)
                    if part == "time":
                        s = summary(found)
                        print(
                            f"{shape:>5} batch {batch:<3} {contender:24s} {s['tok_s']:8,.0f} tok/s; rbplib "
                            f"{s['ours_tok_s']:8,.0f}, {s['ratio']:6.2f}x ({s['low']:.2f} to {s['high']:.2f})"
                        )
                    else:
                        print(
                            f"{shape:>5} batch {batch:<3} {contender:24s} {found['peak_mb']:8,.0f} MB above the model"
                        )
    if not args.no_report:
        from benchmarks import report

        report.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
