"""The whole workflow in one call: Snakemake followed by a progress bar, its output in a log, the time of each stage."""

import os
import re
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from tqdm import tqdm

from rbplib.settings import InputError, load_family, root

STARTED = re.compile(r"^(?:local)?rule (\w+):|^Job \d+: (.*)")
FINISHED = re.compile(r"^Finished jobid: \d+ \(Rule: (\w+)\)")
STEPS = re.compile(r"^(\d+) of (\d+) steps")
QUIET = {"all"}  # rules that do nothing themselves


def follow(command, log, show=True):
    """Run the command to its end.

    Returns:
        {stage: (steps, seconds)}; seconds from the first start to the last end.
    Raises:
        RuntimeError: a step failed; the message holds what the step itself said.
    """
    log = Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    first, last, steps = {}, {}, {}
    tail = deque(maxlen=400)
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    bar = tqdm(total=None, unit="step", disable=not show, desc="book", mininterval=0.2, dynamic_ncols=True)
    try:
        with log.open("w", encoding="utf-8") as out:
            for line in run.stdout:
                out.write(line)
                out.flush()
                tail.append(line)
                now = time.monotonic()
                if m := STARTED.match(line):
                    if m[1]:
                        first.setdefault(m[1], now)
                    else:
                        bar.set_postfix_str(m[2], refresh=True)
                elif m := FINISHED.match(line):
                    last[m[1]] = now
                    steps[m[1]] = steps.get(m[1], 0) + 1
                elif m := STEPS.match(line):
                    bar.total = int(m[2])
                    bar.update(int(m[1]) - bar.n)
        code = run.wait()
    except BaseException:
        run.terminate()
        run.wait()
        raise
    finally:
        bar.close()
    if code:
        raise RuntimeError(f"{reason(tail)}\nThe whole log is {log}")
    return {n: (steps[n], last[n] - first.get(n, last[n])) for n in last if n not in QUIET}


def reason(lines):
    """The lines that say why: those a step printed itself, else Snakemake's last words."""
    said = [line.rstrip() for line in lines if re.match(r"\s*(rbp: |\S*Error|\S*Exception)", line)]
    return "\n".join(dict.fromkeys(said)) or "".join(list(lines)[-25:]).rstrip()


def make_book(families=(), jobs=None, settings=None, targets=(), show=True):
    """Run the whole workflow: measure, notebooks, HTML; then tell what each stage took and where the first page is.

    Args:
        families: names or YAML paths; all embedded families when empty.
        jobs: how many steps at once; one per core when None.
        settings: further {key: value} of the workflow, such as n_bootstrap.
    Returns:
        path of the first page.
    """
    families = list(families or ())
    names = [load_family(f).name for f in families]  # an unknown name fails here, before anything starts
    given = [
        str(Path(f).resolve()) if str(f).endswith((".yml", ".yaml")) else n
        for f, n in zip(families, names, strict=True)
    ]
    config = {**(settings or {})}
    if given:
        config["families"] = ",".join(given)
    script = Path(sys.executable).with_name("snakemake")
    if not script.is_file():
        raise InputError("the workflow needs snakemake: run `make env`, or install the extra 'flow'.")
    flow = Path(__file__).resolve().parent.parent / "workflow"
    command = [script, "--snakefile", flow / "Snakefile", "--directory", root(), "--profile", flow / "profiles/default"]
    command += ["--cores", str(jobs or os.cpu_count())]
    command += ["--config", *(f"{k}={v}" for k, v in config.items())] if config else []
    began = time.monotonic()
    stages = follow([str(c) for c in [*command, *targets]], root() / "logs" / "book.log", show)
    first = root() / "_build" / "html" / "index.html"
    if show:
        report(stages, time.monotonic() - began)
        print(f"first page: {first}")
    return first


def report(stages, total):
    """Print a line per stage: seconds from its first start to its last end. Stages overlap, so they do not add up."""
    ready = Path(sys.prefix) / ".ready"
    if ready.is_file():
        print(f"{'install':<12}{float(ready.read_text() or 0):>8.0f} s   (when the environment was made)")
    for name, (jobs, seconds) in stages.items():
        print(f"{name:<12}{seconds:>8.0f} s   {jobs} step{'s' if jobs > 1 else ''}")
    print(f"{'total':<12}{total:>8.0f} s")
