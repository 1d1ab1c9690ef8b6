"""Tables of the pages on distributions of ranks, as data frames."""

import pandas as pd

from paper.distributions import fit_rank_law, table_histogram
from paper.lognormal import pivot_exponent


def fit_frame(fits):
    """One row per fitted distribution, in the order given: nats per token above the best, misfit,
    parameters."""
    best = min(fit.nll for fit in fits)
    rows = []
    for fit in fits:
        row = {"law": fit.title, "status": fit.status, "nats above the best": fit.nll - best}
        parameters = [f"{name} {value:.4g}" for name, value in fit.parameters.items()]
        rows.append(row | {"max |ΔRBP|": fit.max_drbp, "fitted": ", ".join(parameters)})
    return pd.DataFrame(rows)


def lognormal_frame(tables):
    """One row per model: the rounded lognormal in both parametrisations,
    and what of it the data fix."""
    rows = []
    for table in tables:
        fit = fit_rank_law(table_histogram(table), "lognormal_rounded")
        row = {"model": table.record["model"], "S": float(table.record["nonembedding_params"])}
        row |= fit.conventional | fit.parameters
        row["mu/sigma"] = row["mu"] / row["sigma"]
        rows.append(row | {"exponent at the pivot": pivot_exponent(fit), "status": fit.status})
    return pd.DataFrame(rows)
