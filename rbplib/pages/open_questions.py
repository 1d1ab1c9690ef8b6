"""Tables for the questions that the paper leaves open: one function per question, each over the cases of `evidence`."""

import math

import pandas as pd

from rbplib.distributions.candidates import PAPER
from rbplib.laws import published
from rbplib.laws.losses import NAMES
from rbplib.pages.claims import all_claims, holds
from rbplib.pages.evidence import far_case
from rbplib.pages.tables import law_columns


def question_frame(rows):
    """Data frame of (Case, columns) pairs, family and corpus first."""
    return pd.DataFrame({"family": c.curve.family, "corpus": c.curve.corpus, **columns} for c, columns in rows)


def independence_frame(found):
    """Largest model, k = 10: how hits hang together; runs measured, independent, and predicted from dependence."""

    def columns(d, g):
        return {
            "RBP": d.p,
            "lag 1": d.acf[0],
            "ICC": d.icc,
            "N": g.N,
            "log10 p_N": g.measured,
            "independent": g.independent,
            "predicted": g.dependent,
            "gap: low": g.interval[0],
            "gap: high": g.interval[1],
        }

    return question_frame((c, columns(c.dependence, gap)) for c in found for gap in c.gaps.values())


def prediction_errors(found, N):
    """(|measured - independent|, |measured - predicted|) in orders of magnitude at run length N, one pair per case."""
    gaps = [c.gaps[N] for c in found if N in c.gaps and c.gaps[N].successes]
    return [(abs(g.gap), abs(g.measured - g.dependent)) for g in gaps]


def distribution_frame(found):
    """Best and second law by held-out score, and the paper's, for the largest model of each case."""

    def columns(lognormals, result, fits):
        place = result.place(PAPER)
        return {
            "best": fits[result.best].title,
            "second": fits[result.candidates[1]].title,
            "nats behind": result.loss[1],
            "lognormal place": place + 1,
            "lognormal behind": result.loss[place],
            "low": result.interval[0, place],
            "high": result.interval[1, place],
            "models on the ridge": int((lognormals["status"] == "ridge").sum()),
        }

    return question_frame((c, columns(c.lognormals, *c.contest)) for c in found)


def breakdown_frame(found):
    """At the paper's large k, as shares of the vocabulary: the fit, and what noise makes of an exact law."""

    def columns(law, floor, vocab_size):
        return {
            "k / |V|": floor.k / vocab_size,
            "misses, largest": int(floor.misses[-1]),
            "alpha": law.alpha,
            "low": law.ci_tokens[0],
            "high": law.ci_tokens[1],
            "R²": floor.r2,
            "R² of an exact law: 5%": floor.r2_band[0],
            "95%": floor.r2_band[2],
            "as low under an exact law": floor.worse,
            "lack of fit p": law.lack_of_fit_p,
            "verdict": noise_verdict(far_case(law, floor)),
        }

    return question_frame((c, columns(c.laws[k], f, c.curve.vocab_size)) for c in found for k, f in c.floors.items())


def noise_verdict(case):
    """One word for a law at large k, by the rule of the claim on noise: noise suffices, a real break, or reversed."""
    if case.high < 0:
        return "reversed beyond noise"
    if holds(all_claims()["far_noise"].holds, case) is False:
        return "a real break"
    return "noise suffices" if math.isfinite(case.r2) else "no misses left"


def architecture_frame(found):
    """The law at k = 1, family by family."""
    return question_frame((c, law_columns(c.laws[1])) for c in found)


def exponent_frame(found):
    """The exponents of cross-entropy, rank entropy and -log RBP_1, their ratios, and what a lognormal predicts."""

    def columns(pair, predicted):
        return {
            **dict(zip(NAMES, pair.alpha, strict=True)),
            "CE less RBP: low": pair.interval[0],
            "high": pair.interval[1],
            "ratio CE": pair.ratio,
            "ratio H(R)": pair.alpha[1] / pair.alpha[2],
            "lognormal says: from": predicted[0],
            "to": predicted[1],
            "CE less H(R), largest": pair.gap[-1],
        }

    return question_frame((c, columns(c.pair, c.predicted)) for c in found)


def training_frame(family="pythia"):
    """The law in S at each published checkpoint of a family on LAMBADA."""
    return pd.DataFrame(
        {
            "step": w.step,
            "tokens (billions)": w.step * 2_097_152 / 1e9,
            "alpha": w.law.alpha,
            "models: low": w.law.ci_models[0],
            "models: high": w.law.ci_models[1],
            "R²": w.law.r2,
            "lack of fit p": w.lack_of_fit_p,
        }
        for w in published.training_laws(family)
    )
