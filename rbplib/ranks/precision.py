"""The same model in five precisions: what rounding the weights, or the scores too, does to the ranks."""

import numpy as np
import torch
from tqdm import tqdm

from rbplib.models import load as loading
from rbplib.models.sizes import window_length
from rbplib.ranks.measure import batch_ranks, check_context, choose_batch_tokens
from rbplib.ranks.table import COLUMNS, expected, ranks_path, read_ranks, write_ranks
from rbplib.settings import InputError, load_corpus, load_family, results_dir
from rbplib.text.corpora import load_documents
from rbplib.text.windows import batches, encode, make_windows

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
    found, missing = {c: [] for c in conditions}, []
    for condition in conditions:
        for model in family.models:
            path, expect = _wanted(family, model, corpus, sample, condition, documents)
            try:
                found[condition].append(read_ranks(path, expect))
            except InputError:  # missing, damaged, or of another model or sample
                missing.append((condition, model))
    for condition, model in tqdm(
        missing, desc=f"{family.name} in other precisions", disable=not progress or not missing
    ):
        path, expect = _wanted(family, model, corpus, sample, condition, documents)
        _measure(family, model, sample.texts[:documents], condition, path, expect)
        found[condition].append(read_ranks(path, expect))
    return {c: sorted(t, key=lambda t: t.record["nonembedding_params"]) for c, t in found.items()}


def _wanted(family, model, corpus, sample, condition, documents):
    """(path, record entries) of one table; the number of documents is part of the path, so samples never mix."""
    weights, head = CONDITIONS[condition]
    folder = results_dir() / "precision" / f"{condition.replace(' ', '-')}-{documents}"
    (expect,) = expected(family, [model], [corpus], "paper", [sample], weights)[model.name]
    expect["head_dtype"] = str(head).removeprefix("torch.") if head else weights
    return ranks_path(family.name, model.name, corpus.name, "paper", folder), expect


def _measure(family, model, texts, condition, path, expect):
    weights, head = CONDITIONS[condition]
    loaded = loading.load_model(model, dtype=weights)
    check_context(loaded, model, window_length(family))
    special = loaded.tokenizer.all_special_ids
    cut = make_windows(encode(loaded.tokenizer, texts), special, window_length(family), "paper")
    groups = batches(cut.windows, choose_batch_tokens(loaded, cut.length))
    parts = [batch_ranks(loaded, [cut.windows[i] for i in group], special, head) for group in groups]
    columns = {name: np.concatenate([p[name] for p in parts]) for name in COLUMNS}
    order = np.lexsort((columns["position"], columns["document"]))
    record = {**expect, **loaded.record, "documents": cut.documents}
    write_ranks(path, {name: values[order] for name, values in columns.items()}, record)
