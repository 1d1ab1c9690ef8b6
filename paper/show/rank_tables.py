"""Tables of the pages on distributions of ranks, as data frames."""

import pandas as pd

from paper.distributions import fit_rank_law, table_histogram
from paper.lognormal import pivot_exponent
from paper.show.plain import corpus_title


def contest_frame(contests):
    """One row per corpus and law, best first, of {corpus: Contest}: thousandths of a nat above the best."""
    parts = []
    for corpus, contest in contests.items():
        frame = fit_frame(contest.fits)
        frame.insert(0, "corpus", corpus_title(corpus))
        low, high = 1000 * contest.interval
        parts.append(frame.assign(**{"above the best": 1000 * contest.loss}, low=low, high=high))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def fit_frame(fits):
    """One row per fitted distribution, in the order given: AIC above the best, absolute misfit, parameters."""
    best = min(fit.aic for fit in fits)
    rows = []
    for fit in fits:
        parameters = [f"{name} {value:.4g}" for name, value in fit.parameters.items()]
        row = {"law": fit.title, "parameters": len(fit.values)}
        row |= {"AIC above the best": fit.aic - best, "KL": fit.kl, "max |ΔRBP|": fit.max_drbp}
        rows.append(
            row | {"p_1": fit.pmf[0], "fitted": ", ".join(parameters), "status": fit.status}
        )
    return pd.DataFrame(rows)


def lognormal_frame(tables):
    """One row per model: the rounded lognormal in both parametrisations, and what of it the data fix."""
    rows = []
    for table in tables:
        fit = fit_rank_law(table_histogram(table), "lognormal_rounded")
        row = {"model": str(table.record["model"]), "S": float(table.record["nonembedding_params"])}
        mu, sigma = fit.conventional.values()
        row |= fit.conventional | {"mu/sigma": mu / sigma} | fit.parameters
        rows.append(row | {"exponent at the pivot": pivot_exponent(fit), "status": fit.status})
    return pd.DataFrame(rows)
