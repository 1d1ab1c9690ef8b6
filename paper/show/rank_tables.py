"""Tables of the pages on distributions of ranks and on the three losses, as data frames."""

import numpy as np
import pandas as pd

from paper.distributions import PAPER, condition, contains, fit_rank_law, table_histogram
from paper.lognormal import mu_over_sigma, pivot_exponent
from paper.show.prose import interval, number


def contest_frame(result, fits):
    """One row per candidate, best first: held-out nats, thousandths above the best, AIC, misfit at the most."""
    frame = fit_frame([fits[name] for name in result.candidates]).drop(
        columns=["p_1", "1 - RBP_10000", "fitted"]
    )
    low, high = 1000 * result.interval
    held_out = {
        "held-out nats": result.nll,
        "above the best": 1000 * result.loss,
        "low": low,
        "high": high,
    }
    for at, (name, values) in enumerate(held_out.items(), start=2):
        frame.insert(at, name, values)
    return frame


def fit_frame(fits):
    """One row per fitted distribution, in the order given: AIC above the best, absolute misfit, parameters."""
    best = min(f.aic for f in fits)
    return pd.DataFrame(
        {
            "law": f.title,
            "parameters": len(f.values),
            "AIC above the best": f.aic - best,
            "KL": f.kl,
            "max |ΔRBP|": f.max_drbp,
            "p_1": f.pmf[0],
            "1 - RBP_10000": 1 - f.rbp(10_000) if len(f.pmf) > 10_000 else np.nan,
            "fitted": ", ".join(f"{n} {v:.4g}" for n, v in f.parameters.items()),
            "status": f.status,
        }
        for f in fits
    )


def zipf_words(result, fits):
    """How the paper's lognormal stands to Zipf, which it contains, in thousandths of a nat: a sentence's end."""
    lead = 1000 * (result.loss[result.place("zipf")] - result.loss[result.place(PAPER)])
    if contains(fits["zipf"], fits[PAPER]):
        return "here it is Zipf's law."
    ends = sorted(1000 * np.sign(lead) * result.lead(PAPER, "zipf"))
    return f"{number(abs(lead))} {interval(ends)} {'ahead of' if lead > 0 else 'behind'} Zipf."


def lognormal_frame(tables, candidate="lognormal_rounded"):
    """One row per model: the lognormal in both parametrisations, how well each is determined, the ridge."""
    fits = [fit_rank_law(table_histogram(t), candidate) for t in tables]
    return pd.DataFrame(
        {
            "model": str(t.record["model"]),
            "S": float(t.record["nonembedding_params"]),
            **fit.conventional,
            "mu/sigma": mu_over_sigma(fit),
            **fit.parameters,
            "exponent at the pivot": pivot_exponent(fit)[0],
            "its standard error": pivot_exponent(fit)[1],
            "condition (mu, sigma)": condition(fit.conventional_information),
            "condition (s, beta)": condition(fit.information),
            "status": fit.status,
        }
        for t, fit in zip(tables, fits, strict=True)
    )
