"""One family in eight precisions: what rounded weights, or scores too, do to ranks, RBP and the exponent."""

from dataclasses import replace

import numpy as np
import pandas as pd

from paper.curves import rbp_curve
from paper.laws import fit_law
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
    "Q8_0": ("Q8_0", "float32"),
    "Q4_1": ("Q4_1", "float32"),
    "Q4_0": ("Q4_0", "float32"),
}
HALF, BLOCKS = list(CONDITIONS)[1:5], list(CONDITIONS)[5:]  # weights in blocks: see rbplib.models
NAMES = dict(zip(DEFINITIONS, ("Eq. 3", "authors' code", "ties at random"), strict=True))


def precision_tables(family, corpus, documents=100, conditions=tuple(CONDITIONS)):
    """{condition: list of RankTable, smallest model first} of a family on a corpus's first documents.

    Measured where missing, one forward pass per condition; kept under results/precision/, apart from
    other tables, in folders that name the number of documents, so that samples never mix.
    """
    sample, tables = load_documents(corpus), {}
    texts = [sample.texts[i] for i in range(min(documents, len(sample.texts)))]
    some = [replace(sample, texts=texts, units=sample.units[:documents])]  # but the whole's digest
    for name in conditions:
        weights, head = CONDITIONS[name]
        folder = results_dir() / "precision" / f"{name.replace(' ', '-')}-{documents}"
        how = {"dtype": weights, "head_dtype": head, "results": folder, "samples": some}
        tables[name] = measure(family, corpus, **how)
    return tables


def tie_frame(tables):
    """One row per precision and model: how often, in percent, a true token is tied, a rank another."""
    rows = []
    for precision, ladder in tables.items():
        for table, exact in zip(ladder, tables[EXACT], strict=True):
            tied, changed = table.ties > 1, table.rank() != exact.rank()
            S = int(table.record["nonembedding_params"])
            row = {"precision": precision, "model": table.record["model"], "S": S}
            row["tied (%)"] = 100 * tied.mean()
            row["tied with the best (%)"] = 100 * ((table.greater == 0) & tied).mean()
            rows.append(row | {"ranks changed (%)": 100 * changed.mean()})
    return pd.DataFrame(rows)


def precision_curves(tables, ks):
    """{(precision, definition): Curve} of {precision: rank tables, models in one order}."""
    curves = {}
    for precision, ladder in tables.items():
        for definition, name in NAMES.items():
            curves[precision, name] = rbp_curve(ladder, ks, definition)
    return curves


def shift_frame(curves, k=1):
    """One row per precision, definition and model: RBP_k and how far it is from the exact one."""
    parts = []
    for (precision, definition), curve in curves.items():
        place = {"precision": precision, "definition": definition, "model": curve.models}
        at, exact = curve.index(k), curves[EXACT, definition].rbp
        columns = {"RBP": curve.rbp[:, at], "change": curve.rbp[:, at] - exact[:, at]}
        parts.append(pd.DataFrame(place | columns))
    return pd.concat(parts, ignore_index=True)


def precision_frame(curves, ks, n_bootstrap=10_000, seed=42):
    """One row per k, precision and definition: exponent, interval over sources, change against the exact one."""
    rows = []
    for k in ks:
        exact = {}
        for (precision, definition), curve in curves.items():
            law = fit_law(curve, k, n_bootstrap=n_bootstrap, seed=seed)
            low, high = law.ci_tokens
            change = law.alpha - exact.setdefault(definition, law.alpha)  # the exact come first
            row = {"k": k, "precision": precision, "definition": definition, "alpha": law.alpha}
            row |= {"low": low, "high": high, "change of alpha": change}
            rows.append(row | {"share of its interval": np.abs(change) / (high - low)})
    return pd.DataFrame(rows)
