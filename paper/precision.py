"""The ranks of one family in five precisions."""

from dataclasses import replace
from itertools import islice

from rbplib.families import results_dir
from rbplib.measuring import measure
from rbplib.table import DEFINITIONS
from rbplib.texts import load_documents

EXACT = "float32"  # the precision that the others are compared with
CONDITIONS = {  # name: dtypes of the weights and activations, and of the head's product
    EXACT: ("float32", "float32"),
    "bf16 weights": ("bfloat16", "float32"),
    "bf16 throughout": ("bfloat16", "bfloat16"),
    "fp16 weights": ("float16", "float32"),
    "fp16 throughout": ("float16", "float16"),
}
HALF = list(CONDITIONS)[1:]
NAMES = dict(zip(DEFINITIONS, ("Eq. 3", "authors' code", "ties at random"), strict=True))


def precision_tables(family, corpus, documents=100, conditions=tuple(CONDITIONS)):
    """{condition: list of RankTable, smallest model first} of a family on
    a corpus's first documents.

    Measured where missing, one forward pass per weights; kept under results/precision/, apart
    from other tables, in folders that name the number of documents, so that samples never mix.
    """
    from rbplib.heads import shared_states  # loads torch

    sample = load_documents(corpus)
    tables = {}
    texts = list(islice(sample.texts, documents))
    some = [replace(sample, texts=texts, units=sample.units[:documents])]  # but the whole's digest
    # heads of the same weights share a forward pass
    with shared_states():
        for name in conditions:
            weights, head = CONDITIONS[name]
            folder = results_dir() / "precision" / f"{name.replace(' ', '-')}-{documents}"
            how = {"dtype": weights, "head_dtype": head, "results": folder, "samples": some}
            tables[name] = measure(family, corpus, **how)
    return tables
