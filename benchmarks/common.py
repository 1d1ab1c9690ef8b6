"""What the benchmarks share: contenders in turn, peak memory, tables, and their records."""

import argparse
import gc
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

HERE = Path(__file__).parent
PACKAGES = ("torch", "transformers", "numpy", "scipy", "pandas", "lm-eval")
OURS = "rbplib"  # the contender that all others are put beside


def program(name, text, run, child=None, rounds=5, **more):
    """`main(argv)` of a benchmark: 0, or 1 where contenders do not agree.

    run: of the options, gives the text to print and what else to record; a sentence, of which no
        record is made; or None: nothing is told.
    child: in a process that the benchmark starts, what its words give as JSON.
    more: further options, what argparse asks for of each.
    """

    def main(argv=None):
        line = text.splitlines()[0]
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=line)
        parser.add_argument("--rounds", type=int, default=rounds)
        parser.add_argument("--quick", action="store_true", help="tiny, one round, not recorded")
        parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
        for option, how in more.items():
            parser.add_argument(f"--{option}", **how)
        options = parser.parse_args(argv)
        if options.child:
            print(json.dumps(child(*options.child)))
            return 0
        done = run(options)
        if isinstance(done, str):
            print(done)
        elif done is not None:
            print(done[0])
            if not options.quick:
                record(name, done[0], **done[1])
        return int(done is None)

    return main


def child(name, *words, **variables):
    """What `python -m benchmarks NAME --child WORDS` prints in its last line, from JSON.

    variables: of its environment, beside this one's.
    """
    command = [sys.executable, "-m", "benchmarks", name, "--child", *map(str, words)]
    environment = os.environ | variables
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def seconds(run, *inputs, device="cpu", clock=time.perf_counter):
    """Time of one call by a clock, until the device has done its work."""
    finish(device)
    start = clock()
    run(*inputs)
    finish(device)
    return clock() - start


def finish(device):
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def rounds(contenders, inputs, count, **how):
    """Seconds of each contender, {name: list of `count`}: all in turn, `count` times over."""
    times = {name: [] for name in contenders}
    for _ in range(count):
        for name, run in contenders.items():
            times[name].append(seconds(run, *inputs, **how))
    return times


def ratio(times, name):
    """How many times as long as rbplib a contender takes in the same round: "median (range)"."""
    ratios = sorted(other / ours for other, ours in zip(times[name], times[OURS], strict=True))
    return f"{statistics.median(ratios):.2f}x ({ratios[0]:.2f}-{ratios[-1]:.2f})"


def cell(times, name, scale, form):
    """Median time times a scale, as text, and the ratio to rbplib."""
    text = format(statistics.median(times[name]) * scale, form)
    return text if name == OURS else f"{text}; {ratio(times, name)}"


def peak_mb(run, *inputs, device="cpu"):
    """Highest memory during one call above what was held before it, MB; on a processor by Linux."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run(*inputs)
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = status_kb("VmRSS")
    run(*inputs)
    return (status_kb("VmHWM") - before) / 1024


def status_kb(field):
    """A field of the kernel's account of this process, kB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"\n{field}:\s+(\d+)", status)[1])


def table(head, rows):
    """Markdown of a table; cells are text."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def record(name, text, **raw):
    """Write results/NAME.json, and its text between the two marks of NAME in README.md."""
    about = {"machine": machine(), "versions": versions(), **raw, "text": text}
    path = HERE / "results" / f"{name}.json"
    path.write_text(json.dumps(about, indent=1) + "\n")
    # The page holds the text, and below it where it was measured.
    where = "; ".join([about["machine"], *(f"{k} {v}" for k, v in about["versions"].items())])
    page = (HERE / "README.md").read_text()
    before, rest = page.split(f"<!-- {name} -->\n")
    after = rest.split(f"<!-- end {name} -->")[1]
    filled = f"<!-- {name} -->\n{text}\n\n*{where}*\n<!-- end {name} -->"
    (HERE / "README.md").write_text(before + filled + after)


def machine():
    """What matters of this machine for its numbers."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    vendor = re.search(r"vendor_id\s*: (\w+)", text)
    model = re.search(r"cpu family\s*: (\d+)\nmodel\s*: (\d+)", text)
    words = [vendor[1] if vendor else platform.processor(), platform.machine()]
    if model:
        words.append(f"family {model[1]} model {model[2]}")
    units = [name for name in ("avx512f", "amx_tile") if name in text]
    return f"{' '.join(words)}, {os.cpu_count()} cores, {' '.join(units) or 'no wide units'}"


def versions():
    """{package: version} of those that are installed."""
    installed = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed
