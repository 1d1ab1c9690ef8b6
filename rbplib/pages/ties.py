"""Ties and changed ranks between precisions, for the page on precision."""

import numpy as np

from rbplib.laws.curve import rbp_curve
from rbplib.laws.law import fit_law
from rbplib.ranks.table import DEFINITIONS


def tie_frame(tables, reference="float32"):
    """One row per precision and model: how often the true token is tied, and how often its rank is another.

    Args:
        tables: {precision: list of RankTable}, the models of one family on one corpus in the same order.
        reference: the precision that ranks are compared with.
    Returns:
        data frame.
    """
    import pandas as pd

    rows = []
    for precision, found in tables.items():
        for table, exact in zip(found, tables[reference], strict=True):
            tied = table.ties > 1
            size = int(table.record["nonembedding_params"])
            row = {"precision": precision, "model": table.record["model"], "S": size,
                   "tied": tied.mean(), "tied with the best": ((table.greater == 0) & tied).mean(),
                   "ties, largest": int(table.ties.max())}  # fmt: skip
            row["rank changed, first ten"] = _changed(table, exact, exact.rank() <= 10)
            row["rank changed, beyond 100"] = _changed(table, exact, exact.rank() > 100)
            row |= {f"rank changed, {d}": (table.rank(d) != exact.rank(d)).mean() for d in DEFINITIONS}
            rows.append(row)
    return pd.DataFrame(rows)


def _changed(table, exact, rows):
    return (table.rank() != exact.rank())[rows].mean() if rows.any() else np.nan


def precision_curves(tables, ks):
    """{(precision, definition): Curve}."""
    return {(p, d): rbp_curve(found, ks, d) for p, found in tables.items() for d in DEFINITIONS}


def shift_frame(curves, k=1, reference="float32"):
    """One row per precision, definition and model: RBP_k and how far it is from the reference."""
    import pandas as pd

    rows = []
    for (precision, definition), curve in curves.items():
        exact = curves[reference, definition]
        for i, model in enumerate(curve.models):
            here, there = curve.rbp[i, curve.index(k)], exact.rbp[i, exact.index(k)]
            rows.append({"precision": precision, "definition": definition, "model": model, "S": int(curve.S[i]),
                         "RBP": here, "change": here - there})  # fmt: skip
    return pd.DataFrame(rows)


def exponent_frame(curves, k=1, reference="float32", n_bootstrap=10_000, seed=42):
    """One row per precision and definition: exponent, token interval, R^2, change against the reference."""
    import pandas as pd

    laws = {key: fit_law(curve, k, n_bootstrap=n_bootstrap, seed=seed) for key, curve in curves.items()}
    return pd.DataFrame(
        {"precision": p, "definition": d, "alpha": w.alpha, "low": w.ci_tokens[0], "high": w.ci_tokens[1], "R²": w.r2,
         "change of alpha": w.alpha - laws[reference, d].alpha,
         "in widths of its interval": np.abs(w.alpha - laws[reference, d].alpha) / (w.ci_tokens[1] - w.ci_tokens[0])}
        for (p, d), w in laws.items()
    )  # fmt: skip
