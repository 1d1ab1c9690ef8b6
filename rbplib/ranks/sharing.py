"""Share the models of a family out over devices, a process each."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from rbplib.settings import InputError


def share_out(family, waiting, devices, options, trust_remote_code, progress):
    """One process per model, as many at once as there are devices; the largest models first."""
    free = SimpleQueue()
    for name in devices:
        free.put(name)

    def run(model, tasks):
        name = free.get()
        command = [sys.executable, "-m", "rbplib", "measure", "--family", str(family.path), "--model", model.name]
        command += ["--device", name, *(() if progress else ("--quiet",))]
        command += ["--trust-remote-code"] if trust_remote_code else []
        for task in tasks:
            command += ["--corpus", str(task.corpus.file or task.corpus.path or task.corpus.name)]
        for key, value in options.items():
            command += [f"--{key}", str(value).removeprefix("torch.")] if value is not None else []
        try:
            return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        finally:
            free.put(name)

    order = sorted(waiting, key=lambda w: -(w[0].nonembedding_params or 0))
    with ThreadPoolExecutor(len(devices)) as pool:
        done = list(pool.map(lambda w: run(*w), order))
    failed = [(w[0].name, d) for w, d in zip(order, done, strict=True) if d.returncode]
    if failed:
        name, process = failed[0]
        last = (process.stderr.strip().splitlines() or ["no message"])[-1].removeprefix("rbp: ")
        raise InputError(f"measuring {name} of {family.name} failed: {last}")
