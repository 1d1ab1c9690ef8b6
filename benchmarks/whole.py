"""A folder with a model and a text, to the end: `rbp.measure` beside lm-evaluation-harness.

    python -m benchmarks whole [--rounds 3]

Models have GPT-2's and Qwen2.5-0.5B's shape with random weights in float32; a text has documents
of one window each. What counts is CPU time and the highest memory of a whole process of one thread:
imports, the reading of weights, tokenisation, ranks or log-likelihoods, and, of rbplib, the digest
of the weights and a rank table on disk.
"""

import json
import os
import random
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks import common

LENGTH = 512  # tokens of a document
SHAPES = {  # the family and model whose configuration is taken, and documents
    "GPT-2, 4": ("gpt2", "openai-community/gpt2", 4),
    "GPT-2, 16": ("gpt2", "openai-community/gpt2", 16),
    "Qwen2.5-0.5B, 4": ("qwen2.5-to-72b", "Qwen/Qwen2.5-0.5B", 4),
    "Qwen2.5-0.5B, 16": ("qwen2.5-to-72b", "Qwen/Qwen2.5-0.5B", 16),
}
TINY = {"n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 500}
ALONE = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}  # compiled once


def rbplib(folder):
    import rbplib as rbp

    options = {"device": "cpu", "results": tempfile.mkdtemp(dir=folder), "progress": False}
    (table,) = rbp.measure(folder / "family.yml", folder / "text.yml", **options)
    return len(table)


def lm_eval(folder):
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from transformers import PreTrainedTokenizerFast

    saved = folder / "model"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(saved)  # by the model's type: none of it
    how = {"dtype": "float32", "device": "cpu", "batch_size": 8, "max_length": LENGTH}
    harness = HFLM(pretrained=str(saved), tokenizer=tokenizer, **how)
    texts = [json.loads(line)["text"] for line in (folder / "text.jsonl").open()]
    requests = [Instance("loglikelihood_rolling", {}, (text,), 0) for text in texts]
    harness.loglikelihood_rolling(requests, disable_tqdm=True)
    return sum(len(harness.tok_encode(text)) for text in texts)


CONTENDERS = {common.OURS: rbplib, "lm-evaluation-harness": lm_eval}


def write_inputs(folder, family, name, documents, **changes):
    """A model with random weights, its family, and a text, as files."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from benchmarks.peers import word_tokenizer
    from rbplib.families import held

    # the model and a tokenizer of as many words
    config = json.loads(held("families", "configs", f"{family}.json").read_text())[name] | changes
    config = AutoConfig.for_model(**config | {"dtype": "float32"})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder / "model")
    word_tokenizer(config.vocab_size).save_pretrained(folder / "model")
    entry = f"{{id: {folder}/model, dtype: float32}}"
    (folder / "family.yml").write_text(f"context: {LENGTH}\nmodels: [{entry}]\n")
    # a window a document
    pick = random.Random(0)
    with (folder / "text.jsonl").open("w") as file:
        for _ in range(documents):
            words = (f"w{pick.randrange(1, config.vocab_size)}" for _ in range(LENGTH))
            file.write(json.dumps({"text": " ".join(words)}) + "\n")
    source = f"source: file\npath: {folder}/text.jsonl\ntemplate: '{{{{text}}}}'\n"
    (folder / "text.yml").write_text(source)


def child(name, folder):
    """[CPU-seconds a token, peak memory in MB] of one contender's whole process."""
    tokens, used = CONTENDERS[name](Path(folder)), os.times()
    return [(used.user + used.system) / tokens, common.status_kb("VmHWM") / 1024]


def run(options):
    shapes, changes, count = SHAPES, {}, options.rounds
    if options.quick:
        shapes, changes, count = {"tiny": (*SHAPES["GPT-2, 4"][:2], 1)}, TINY, 1
    contenders = [common.OURS]
    if find_spec("lm_eval"):
        contenders.append("lm-evaluation-harness")
    else:
        print("lm-evaluation-harness is not installed: pip install -e '.[bench]'", file=sys.stderr)
    # in turns, a process each
    columns, raw = {}, {}
    for shape, (family, model, documents) in shapes.items():
        with tempfile.TemporaryDirectory() as folder:
            write_inputs(Path(folder), family, model, documents, **changes)
            used = {name: [] for name in contenders}
            for _ in range(count):
                for name, values in used.items():
                    values.append(common.child("whole", name, folder, **ALONE))
        raw[shape] = used
        # seconds of each, then peaks
        numbers = {name: np.transpose(values) for name, values in used.items()}
        times = {name: seconds for name, (seconds, _) in numbers.items()}
        rates = [common.cell(times, name, 1e3, ".2f") for name in contenders]
        peaks = [f"{peaks.max():,.0f}" for _, peaks in numbers.values()]
        columns |= {f"{shape}: CPU-ms a token": rates, f"{shape}: memory, MB": peaks}
    lines = zip(contenders, *columns.values(), strict=True)
    return common.table(["", *columns], lines), {"used": raw}


main = common.program("whole", __doc__, run, child, rounds=3)
