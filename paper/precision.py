"""The same model in five precisions: what rounding the weights, or the scores too, does to the ranks."""

from dataclasses import replace

from rbplib.families import results_dir
from rbplib.measuring import measure
from rbplib.texts import load_documents

CONDITIONS = {  # name: dtypes of the weights and activations, and of the head's product
    "float32": ("float32", "float32"),
    "bf16 weights": ("bfloat16", "float32"),
    "bf16 throughout": ("bfloat16", "bfloat16"),
    "fp16 weights": ("float16", "float32"),
    "fp16 throughout": ("float16", "float16"),
}
QUANTISED = {
    name: (name, "float32") for name in ("Q8_0", "Q4_1", "Q4_0")
}  # weights rounded to blocks, see rounded


def precision_tables(family, corpus, documents=100, conditions=tuple(CONDITIONS)):
    """{condition: list of RankTable, smallest model first} of a family on a corpus's first documents, measured where
    missing, one forward pass per condition; kept under results/precision/, apart from other tables.

    conditions: out of CONDITIONS and QUANTISED.
    """
    sample, found = load_documents(corpus), {}
    texts = [sample.texts[i] for i in range(min(documents, len(sample.texts)))]
    some = [replace(sample, texts=texts, units=sample.units[:documents])]  # but the whole's digest
    for name in conditions:
        weights, head = (CONDITIONS | QUANTISED)[name]
        folder = (
            results_dir() / "precision" / f"{name.replace(' ', '-')}-{documents}"
        )  # so that samples never mix
        found[name] = measure(
            family, corpus, dtype=weights, results=folder, samples=some, head_dtype=head
        )
    return found
