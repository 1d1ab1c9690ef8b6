"""Tables and small recipes for the pages on rank laws, so that notebooks only call and draw."""

import numpy as np

from rbplib.distributions.candidates import FAMILIES
from rbplib.distributions.contest import contest, cross_validate, vuong
from rbplib.distributions.fit import fit_rank_law, rank_histogram
from rbplib.laws.losses import NAMES

PAPER = "lognormal"  # the paper's law, Eq. 10, on the support 1..V
SMALL = ("zipf", "zipf_mandelbrot", "zipf_mandelbrot_cutoff", "lognormal", "lognormal_ceiling", "weibull", "frechet")


def table_histogram(table, definition="greater+ties"):
    """Rank histogram of a rank table."""
    return rank_histogram(table.rank(definition), int(table.record["vocab_size"]))


def law_contest(table, families=tuple(FAMILIES), folds=5, n_bootstrap=10_000, seed=42):
    """(Contest, {family: RankLaw}) on one rank table: held-out comparison, and fits to all its tokens."""
    ranks, V = table.rank(), int(table.record["vocab_size"])
    held = cross_validate(ranks, table.document, V, families, folds, seed)
    histogram = rank_histogram(ranks, V)
    return contest(held, n_bootstrap, seed), {f: fit_rank_law(histogram, f) for f in families}


def contest_frame(result, fits):
    """One row per law, best first: held-out loss with interval, AIC, and how far the law is off in absolute terms."""
    import pandas as pd

    best_aic = min(f.aic for f in fits.values())
    rows = []
    for i, family in enumerate(result.families):
        fit = fits[family]
        rows.append(
            {
                "law": fit.title,
                "parameters": len(fit.values),
                "held-out nats": result.nll[i],
                "above the best": result.loss[i],
                "low": result.interval[0, i],
                "high": result.interval[1, i],
                "AIC above the best": fit.aic - best_aic,
                "KL": fit.kl,
                "max |ΔRBP|": fit.max_drbp,
                "status": fit.status,
            }
        )
    return pd.DataFrame(rows)


def fit_frame(fits):
    """One row per fitted law, in the order given: AIC above the first, absolute misfit, parameters."""
    import pandas as pd

    return pd.DataFrame(
        {
            "law": f.title,
            "parameters": len(f.values),
            "AIC above the best": f.aic - fits[0].aic,
            "KL": f.kl,
            "max |ΔRBP|": f.max_drbp,
            "p_1": f.pmf[0],
            "1 - RBP_10000": 1 - f.rbp(10_000) if f.vocab_size > 10_000 else np.nan,
            "fitted": ", ".join(f"{n} {v:.4g}" for n, v in f.parameters.items()),
            "status": f.status,
        }
        for f in fits
    )


def vuong_frame(table, fits, pairs):
    """Vuong's statistic of pairs of laws on the tokens of a table, clustered by document and not."""
    import pandas as pd

    ranks, rows = table.rank(), []
    for a, b in pairs:
        v = vuong(fits[a], fits[b], ranks, table.document)
        rows.append(
            {
                "first": fits[a].title,
                "second": fits[b].title,
                "nats per token in favour of the first": v.mean,
                "z, clustered": v.z,
                "z, as if independent": v.z_iid,
                "design effect": v.deff,
            }
        )
    return pd.DataFrame(rows)


def lognormal_frame(tables, family="lognormal_rounded"):
    """One row per model: the lognormal in both parametrisations, how well each is determined, the ridge."""
    import pandas as pd

    rows = []
    for t in sorted(tables, key=lambda t: float(t.record["nonembedding_params"])):
        fit = fit_rank_law(table_histogram(t), family)
        rows.append(
            {
                "model": str(t.record["model"]),
                "S": float(t.record["nonembedding_params"]),
                "mu": fit.conventional["mu"],
                "sigma": fit.conventional["sigma"],
                "mu/sigma": _ratio(fit),
                "s": fit.parameters["s"],
                "beta": fit.parameters["beta"],
                "exponent at the pivot": _pivot(fit)[0],
                "its standard error": _pivot(fit)[1],
                "condition (mu, sigma)": fit.conventional_condition,
                "condition (s, beta)": fit.fisher_condition,
                "status": fit.status,
            }
        )
    return pd.DataFrame(rows)


def _pivot(fit):
    """(s + 2 beta t_0, its standard error): the local exponent at the log-rank t_0 where it does not depend on beta."""
    (i11, i12), _ = fit.information
    return float(fit.parameters["s"] + fit.parameters["beta"] * i12 / i11), float(1 / np.sqrt(fit.n_tokens * i11))


def _ratio(fit):
    """mu/sigma = (1 - s) / sqrt(2 beta); infinite on the power-law edge."""
    s, beta = fit.parameters["s"], fit.parameters["beta"]
    with np.errstate(divide="ignore"):
        return float((1 - s) / np.sqrt(2 * np.float64(beta)))


def loss_frame(losses):
    """One row per model: the three losses, the gap between cross-entropy and rank entropy, and the floor E ln R."""
    import pandas as pd

    ends = losses.gap_interval()
    frame = pd.DataFrame({"model": losses.models, "S": losses.S.astype(int)})
    for i, name in enumerate(NAMES):
        frame[name] = losses.values[:, i]
    frame["CE less H(R)"], frame["low"], frame["high"] = losses.gap, ends[:, 0], ends[:, 1]
    frame["E ln R"] = losses.mean_log_rank
    return frame


def exponent_frame(exponents):
    """One row per loss: exponent, token interval, R^2, and its difference from that of -log RBP_1."""
    import pandas as pd

    lead = [*exponents.difference, np.nan]
    ends = [*exponents.difference_interval.T, (np.nan, np.nan)]
    return pd.DataFrame(
        {
            "loss": NAMES,
            "alpha": exponents.alpha,
            "low": exponents.interval[0],
            "high": exponents.interval[1],
            "R²": exponents.r2,
            "less that of -log RBP_1": lead,
            "difference: low": [e[0] for e in ends],
            "difference: high": [e[1] for e in ends],
        }
    )


def predicted_ratio(fit):
    """Exponent of the rank entropy over that of -log p_1 by a fitted lognormal, lam moving at fixed beta, on 1..V."""
    t = np.log(np.arange(1, fit.vocab_size + 1.0))
    s, beta = fit.parameters["s"], fit.parameters["beta"]
    first, second, both, third = (fit.pmf @ v for v in (t, t**2, t * t, t**3))
    log_z = -np.log(fit.pmf[0])
    entropy = log_z + s * first + beta * second
    return float((s * (both - first**2) + beta * (third - first * second)) / entropy / (first / log_z))


def predicted_ratios(tables):
    """`predicted_ratio` of the paper's lognormal fitted to each model: (smallest, largest)."""
    found = [predicted_ratio(fit_rank_law(table_histogram(t), PAPER)) for t in tables]
    return min(found), max(found)


def anchor(fit, otherwise=(-65.192, 12.892)):
    """(mu, sigma) of a fitted lognormal; on the ridge, where they are not finite, the pair given instead."""
    found = fit.conventional["mu"], fit.conventional["sigma"]
    return found if np.isfinite(found).all() else otherwise
