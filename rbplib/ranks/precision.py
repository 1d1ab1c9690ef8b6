"""The same model in five precisions: what rounding the weights, or the scores too, does to the ranks."""

from dataclasses import replace

import torch
from tqdm import tqdm

from rbplib.ranks.measure import Task, measure_model
from rbplib.ranks.table import by_size, expected, ranks_path, read_ranks
from rbplib.settings import InputError, load_corpus, load_family, results_dir
from rbplib.text.corpora import load_documents

CONDITIONS = {  # name: (dtype of weights and activations, dtype of the head's product; None: that of the weights)
    "float32": ("float32", torch.float32),
    "bf16 weights": ("bfloat16", torch.float32),
    "bf16 throughout": ("bfloat16", None),
    "fp16 weights": ("float16", torch.float32),
    "fp16 throughout": ("float16", None),
}


def precision_tables(family, corpus, documents=100, conditions=tuple(CONDITIONS), progress=True):
    """Rank tables of a family's models under several precisions, measured where missing.

    Kept under results/precision/, apart from the tables every other page reads.

    Args:
        family, corpus: names or paths.
        documents: only the first so many of the corpus sample.
        conditions: out of CONDITIONS.
    Returns:
        {condition: list of RankTable, smallest model first}.
    Raises:
        InputError: as `measure`.
    Cost: one forward pass per condition; half precision is no faster on a CPU.
    """
    family, corpus = load_family(family), load_corpus(corpus)
    sample = load_documents(corpus)
    some = replace(sample, texts=sample.texts[:documents])  # its digest is still that of the whole sample
    tasks, missing = {}, []
    for name in conditions:
        weights, head = CONDITIONS[name]
        folder = results_dir() / "precision" / f"{name.replace(' ', '-')}-{documents}"  # so that samples never mix
        for model, (entries,) in expected(family, family.models, [corpus], "paper", [sample], weights).items():
            entries["head_dtype"] = str(head).removeprefix("torch.") if head else weights
            path = ranks_path(family.name, model, corpus.name, "paper", folder)
            tasks[name, model] = Task(corpus, some, path, entries, head)
            try:
                read_ranks(path, entries)
            except InputError:  # missing, damaged, or of another model or sample
                missing.append((name, model))
    for name, model in tqdm(missing, desc=f"{family.name} in other precisions", disable=not progress or not missing):
        options = {"dtype": CONDITIONS[name][0]}
        measure_model(family, family.model(model), [tasks[name, model]], options=options, progress=False)
    found = {key: read_ranks(task.path, task.expect) for key, task in tasks.items()}
    return {c: by_size(t for (name, _), t in found.items() if name == c) for c in conditions}
