"""What claims are judged by that others measured: the authors' figures, published ladders and trainings."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit

from paper import appendix, gpt2, ladders, lognormal, published
from paper.lognormal_fit import predicted_ratio
from paper.show.law_tables import form_frame
from rbplib.bootstrap import line
from rbplib.forecasting import held_out_forecasts, published_losses, tried

LATE = 2e10  # training tokens from which a published path is fitted: the start of training is no power law


def reversed_slope(figure):
    """Both things that noise must explain in a figure of the authors' whose line rises: the scatter and the slope."""
    tests = {"the scatter": figure.lack_of_fit_p, "the slope": 2 * ndtr(-abs(figure.standard_errors))}
    shared = {"k": figure.k, "standard_errors": figure.standard_errors}
    return [SimpleNamespace(of=of, noise_p=float(p), **shared) for of, p in tests.items() if figure.alpha < 0]


def word_pair(family):
    """The exponent of -log acc over that of log ppl, both losses of the last words of LAMBADA, with its interval."""
    ratio, around = ladders.exponent_ratio(*(ladders.published_law(family, of).law for of in ("log ppl", "-log acc")))
    return SimpleNamespace(family=family, ratio=ratio, around=around)


def published_numbers(n_tokens=gpt2.N_TOKENS):
    """{kind: cases} of what the authors and others published; nothing of it was measured here.

    n_tokens: behind the authors' GPT-2 histogram.
    """
    S, loss, _ = published.gpt2_reference("neg_log_rbp")
    slope, _, r2 = line(np.log(loss), np.log(S))
    half = stdtrit(len(S) - 2, 0.975) * abs(slope) * np.sqrt((1 / r2 - 1) / (len(S) - 2))
    names = {"p": "lack_of_fit_p", "slope in standard errors": "standard_errors"}
    _, _, rounded, _, cut = np.round(gpt2.ratio_parts().ratios, 6) + 0.0  # both sides rounded; on one support as well
    along = ladders.training_laws("pythia")
    first, last = next(p for p in along if p.law.r2 > 0.9), along[-1]
    exact = appendix.approximation_frame().iloc[0]
    lam, beta = lognormal.natural(*gpt2.PRINTED)
    local = lognormal.local_exponents(lam, beta)
    kinds = {
        "refit": {"slope": slope, "r2": r2, "around": (slope - half, slope + half)},
        "appendix": {
            "error_20": 100 * (exact["Eqs. 16, 20"] / exact["-log p_1, exact"] - 1),
            "error_21": 100 * (exact["Eq. 21"] / exact["H, exact"] - 1),
            "local_ratio": float(local.neg_log_p1 / local.entropy),
            "cut_ratio": predicted_ratio(1 + lam, beta, gpt2.VOCABULARY),
        },
    }
    in_size = {"first_step": first.step, "first_exponent": first.law.alpha, "last_exponent": last.law.alpha}
    paths = [
        line(np.log(loss[T > LATE]), np.log(T[T > LATE])) for T, loss, _ in published.size_paths("pythia").values()
    ]
    figures = list(pd.DataFrame(gpt2.figure_lack_of_fit(n_tokens)).rename(columns=names).itertuples())
    by_size = [ladders.published_law(name) for name in published.families() if "shots" not in name]
    forms = form_frame(by_size)  # a line says too little of a larger model under whose loss there is a floor: below 0
    for name, text in (("fixed", ladders.FIXED), ("grows", ladders.GROWS)):
        forms[name] = forms["line, 1 out"].where(forms["text"] == text)
    return {kind: [SimpleNamespace(**numbers)] for kind, numbers in kinds.items()} | {
        "word_pairs": [*map(word_pair, published.families("log ppl"))],
        "others": [p.law for p in by_size if not p.rows["architecture"].str.contains("transformer|attention").any()],
        "leans": list(forms.assign(lean=forms["grows"].fillna(-forms["fixed"])).itertuples()),
        "published_forecasts": tried(held_out_forecasts(published_losses())),
        "figures": figures,
        "training": [SimpleNamespace(r2=float(r2), in_tokens=float(-slope), **in_size) for slope, _, r2 in paths],
        "reversal": [reversal for figure in figures for reversal in reversed_slope(figure)],
        "ratios": [
            SimpleNamespace(lead_kept=ratio / gpt2.PRINTED_RATIO, rounded=rounded, cut=cut) for ratio in (rounded, cut)
        ],
    }
