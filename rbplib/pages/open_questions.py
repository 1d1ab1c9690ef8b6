"""Tables for the questions that the paper leaves open; one function per question, each over the cases of `evidence`."""

import math

from rbplib.distributions.candidates import PAPER
from rbplib.laws import published_fits
from rbplib.pages.evidence import RUNS


def _frame(rows):
    import pandas as pd

    return pd.DataFrame(rows)


def independence_frame(found):
    """Largest model, k = 10: how hits hang together; runs measured, independent, and predicted from dependence."""
    rows = []
    for c in found:
        d = c.dependence
        start = {"family": c.curve.family, "corpus": c.curve.corpus, "RBP": d.p, "lag 1": d.acf[0], "ICC": d.icc}
        for N in RUNS:
            if N not in c.gaps:
                continue
            g = c.gaps[N]
            rows.append(
                start
                | {
                    "N": N,
                    "log10 p_N": g.measured,
                    "independent": g.independent,
                    "predicted": g.dependent,
                    "gap: low": g.interval[0],
                    "gap: high": g.interval[1],
                }
            )
    return _frame(rows)


def prediction_errors(found, N):
    """(|measured - independent|, |measured - predicted|) in orders of magnitude at run length N, one pair per case."""
    gaps = [c.gaps[N] for c in found if N in c.gaps and c.gaps[N].successes]
    return [(abs(g.gap), abs(g.measured - g.dependent)) for g in gaps]


def distribution_frame(found):
    """Best and second law by held-out score, and the paper's, for the largest model of each case."""
    rows = []
    for c in found:
        place = c.contest.candidates.index(PAPER)
        rows.append(
            {
                "family": c.curve.family,
                "corpus": c.curve.corpus,
                "best": c.fits[c.contest.best].title,
                "second": c.fits[c.contest.candidates[1]].title,
                "nats behind": c.contest.loss[1],
                "lognormal place": place + 1,
                "lognormal behind": c.contest.loss[place],
                "low": c.contest.interval[0, place],
                "high": c.contest.interval[1, place],
                "models on the ridge": int((c.lognormals["status"] == "ridge").sum()),
            }
        )
    return _frame(rows)


def noise_frame(found):
    """At the paper's large k, as shares of the vocabulary: the fit, and what noise makes of an exact law."""
    rows = []
    for c in found:
        for f in c.floors:
            law = c.laws[f.k]
            rows.append(
                {
                    "family": c.curve.family,
                    "corpus": c.curve.corpus,
                    "k / |V|": f.k / c.curve.vocab_size,
                    "misses, largest": int(f.misses[-1]),
                    "alpha": law.alpha,
                    "low": law.ci_tokens[0],
                    "high": law.ci_tokens[1],
                    "R²": f.r2,
                    "R² of an exact law: 5%": f.r2_band[0],
                    "95%": f.r2_band[2],
                    "as low under an exact law": f.worse,
                    "lack of fit p": law.lack_of_fit_p,
                }
            )
    return _frame(rows)


def noise_verdict(row):
    """One word for a row of `noise_frame`: noise suffices, a real break, or a reversed law."""
    if row["high"] < 0:
        return "reversed beyond noise"
    if row["as low under an exact law"] < 0.05 or row["lack of fit p"] < 0.05:
        return "a real break"
    return "noise suffices" if math.isfinite(row["R²"]) else "no misses left"


def architecture_frame(found):
    """The law at k = 1, family by family."""
    return _frame(
        {
            "family": c.curve.family,
            "corpus": c.curve.corpus,
            "alpha": c.laws[1].alpha,
            "low": c.laws[1].ci_tokens[0],
            "high": c.laws[1].ci_tokens[1],
            "models: low": c.laws[1].ci_models[0],
            "models: high": c.laws[1].ci_models[1],
            "R²": c.laws[1].r2,
        }
        for c in found
    )


def exponent_frame(found):
    """The exponents of cross-entropy, rank entropy and -log RBP_1, their ratios, and what a lognormal predicts."""
    rows = []
    for c in found:
        e = c.exponents
        rows.append(
            {
                "family": c.curve.family,
                "corpus": c.curve.corpus,
                "cross-entropy": e.alpha[0],
                "rank entropy": e.alpha[1],
                "-log RBP_1": e.alpha[2],
                "CE less RBP: low": e.difference_interval[0, 0],
                "high": e.difference_interval[1, 0],
                "ratio CE": e.alpha[0] / e.alpha[2],
                "ratio H(R)": e.alpha[1] / e.alpha[2],
                "lognormal says: from": c.predicted[0],
                "to": c.predicted[1],
                "CE less H(R), largest": c.losses.gap[-1],
            }
        )
    return _frame(rows)


def training_frame(family="pythia"):
    """The law in S at each published checkpoint of a family on LAMBADA."""
    return _frame(
        {
            "step": w.step,
            "tokens (billions)": w.step * 2_097_152 / 1e9,
            "alpha": w.alpha,
            "models: low": w.interval[0],
            "models: high": w.interval[1],
            "R²": w.r2,
            "lack of fit p": w.lack_of_fit_p,
        }
        for w in published_fits.training_laws(family)
    )
