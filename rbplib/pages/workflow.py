"""The whole workflow in one call: Snakemake followed by a progress bar, its output in a log, the time of each stage."""

import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

from tqdm import tqdm

from rbplib.settings import InputError, load_family, root

STARTED = re.compile(r"^(?:Job (\d+): (.*)|\s+jobid: (\d+))")
FINISHED = re.compile(r"^Finished jobid: (\d+) \(Rule: (\w+)\)")
STEPS = re.compile(r"^(\d+) of (\d+) steps")
TOTAL = re.compile(r"^total +(\d+)$")
STAGES = {"measure": "measure", "fits": "fits", "notebook": "notebooks", "together": "notebooks", "html": "pages"}


def follow(command, log, show=True):
    """Run Snakemake to its end, with a bar over its steps and its words in a log.

    Returns:
        {stage: (steps, seconds)}; seconds from the stage's first start to its last end.
    Raises:
        RuntimeError: a step failed; the message holds what the step itself said.
    """
    log = Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    started, spans = {}, {}
    tail = deque(maxlen=400)
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    bar = tqdm(total=None, unit="step", disable=not show, desc="book", mininterval=0.2, dynamic_ncols=True)
    ended = threading.Event()
    if show and sys.stderr.isatty():  # the clock moves on while a long step runs
        threading.Thread(target=_tick, args=(bar, ended), daemon=True).start()
    try:
        with log.open("w", encoding="utf-8") as out:
            for line in run.stdout:
                out.write(line)
                out.flush()
                tail.append(line)
                now = time.monotonic()
                if m := STARTED.match(line):
                    started.setdefault(m[1] or m[3], now)
                    if m[2]:
                        bar.set_postfix_str(m[2])
                elif m := FINISHED.match(line):
                    stage = STAGES.get(m[2].split("__")[0])
                    first, _, steps = spans.get(stage, (started.get(m[1], now), now, 0))
                    spans[stage] = min(first, started.get(m[1], now)), now, steps + 1
                elif m := STEPS.match(line):
                    bar.total = int(m[2])
                    bar.update(int(m[1]) - bar.n)
                elif (m := TOTAL.match(line)) and not bar.total:
                    bar.total = int(m[1])
                    bar.refresh()
        code = run.wait()
    except BaseException:
        run.terminate()  # Snakemake lets the steps that run come to their end
        run.wait()
        raise
    finally:
        ended.set()
        bar.close()
    if code:
        raise RuntimeError(f"{reason(list(tail))}\nThe whole log is {log}")
    return {stage: (steps, last - first) for stage, (first, last, steps) in spans.items() if stage}


def _tick(bar, ended):
    while not ended.wait(1):
        bar.refresh()


def reason(lines):
    """The lines that say why: those a step printed itself, else Snakemake's last words."""
    for pattern in (r"rbp: |.*\b(WARNING|ERROR):", r"\s*\S*(Error|Exception)\b"):
        said = []
        for i, line in enumerate(lines):
            if re.match(pattern, line):
                said += lines[i : i + 2] if line.rstrip().endswith(":") else [line]
        if said:
            return "".join(dict.fromkeys(said)).rstrip()
    return "".join(lines[-25:]).rstrip()


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
    flow = Path(__file__).resolve().parents[2] / "workflow"
    command = [script, "--snakefile", flow / "Snakefile", "--directory", root(), "--profile", flow / "profiles/default"]
    command += ["--cores", str(jobs or os.cpu_count())]
    command += ["--config", *(f"{k}={v}" for k, v in config.items())] if config else []
    began = time.monotonic()
    stages = follow([str(c) for c in [*command, *targets]], root() / "logs" / "book.log", show)
    first = root() / "_build" / "html" / "index.html"
    if show:
        report(stages, time.monotonic() - began)
    return first


def report(stages, total):
    """Print a line per stage: seconds from its first start to its last end. Stages overlap, so they do not add up."""
    ready = Path(sys.prefix) / ".ready"
    if ready.is_file():
        print(f"{'install':<12}{float(ready.read_text() or 0):>8.0f} s   (when the environment was made)")
    for name, (jobs, seconds) in stages.items():
        print(f"{name:<12}{seconds:>8.0f} s   {jobs} step{'s' if jobs > 1 else ''}")
    print(f"{'total':<12}{total:>8.0f} s")
