"""Ranks of a vLLM server beside those of `rbp measure`, row by row.

    python -m benchmarks vllm

Embedded models are served one after the other by the `vllm` of the path; `workflow/vllm_ranks.py`
asks for the windows of one text, and `rbp import` reads what it wrote. Without vLLM it says so.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import rbplib as rbp
from benchmarks import common
from rbplib.doors import import_answers, write_windows

URL = "http://127.0.0.1:8017"
SERVED = [  # family, model, dtype of its weights, of its head
    "nano-pythia 200k float32 float32",
    "nano-gpt2 200k float32 float32",
    "nano-opt 200k float32 float32",
    "nano-qwen2.5 185k float32 float32",
    "nano-pythia 200k bfloat16 float32",
    "nano-pythia 200k bfloat16 bfloat16",
]
HEAD = "model|weights, head|other rank|places|at k = 1|nats".split("|")


def served_table(folder, family, size, weights, head):
    """The rank table of one model's server, made as users make it."""
    windows, ranks = f"{folder}/windows.jsonl", f"{folder}/ranks.jsonl"
    write_windows(family, "docs", windows)
    # the token that vLLM adds to a window is one too many for these models
    serve = (
        f"env VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve models/{family}/{size} --port 8017 "
        f"--tokenizer models/tokenizer --max-model-len 257 --dtype {weights} "
        f'--hf-overrides {{"head_dtype":"{head}"}}'
    )
    wait = f"curl -sf --retry 300 --retry-delay 1 --retry-all-errors {URL}/version"
    ask = (
        f"{sys.executable} workflow/vllm_ranks.py {windows} {ranks} --url {URL} "
        f"--model {size} --weights {weights} --head {head}"
    )
    server = subprocess.Popen(serve.split())
    try:
        for command in (wait, ask):
            subprocess.run(command.split(), check=True)
    finally:
        server.terminate()
        server.wait()
    import_answers(ranks, family, "served")
    return rbp.measure("served", "docs")[0]


def run(options):
    if not shutil.which("vllm"):
        return "There is no vLLM here: nothing was compared."
    lines = []
    for model in SERVED[: 1 if options.quick else None]:
        family, size, *how = model.split()
        with tempfile.TemporaryDirectory() as folder:
            os.environ["RBP_RESULTS"] = folder
            theirs = served_table(folder, family, size, *how)
            (ours,) = rbp.measure(family, "docs", models=[size], progress=False)
        # how the two differ
        served, measured = theirs.rank(), ours.rank()
        places = np.abs(served - measured)
        more = (served == 1).sum() - (measured == 1).sum()
        nats = np.abs(theirs.logprob - ours.logprob).max()
        counts = f"{(places > 0).sum():,} of {len(places):,}|{places.max()}|{more:+}|{nats:.1e}"
        lines.append(f"{family} {size}|{', '.join(how)}|{counts}".split("|"))
    version = theirs.record["made_by"]["version"]
    text = f"vLLM {version}, the text `docs`.\n\n{common.table(HEAD, lines)}"
    return text, {}


main = common.program("vllm", __doc__, run)
