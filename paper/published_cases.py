"""The cases that claims are judged by and others measured: published ladders, the authors' histogram."""

import numpy as np

from paper import gpt2, lognormal, published
from paper.evidence import above_one, law_rows
from paper.lognormal import predicted_ratio
from paper.show.claims import cases
from paper.show.law_tables import form_frame
from rbplib.bootstrap import line

LATE = 2e10  # training tokens from which a published path is fitted: the start of training is no power law


def word_pairs():
    """The exponent of -log acc over that of log ppl, of the last words of LAMBADA, a row per family."""
    rows = []
    for family in published.families("log ppl"):
        laws = [published.published_law(family, of).law for of in ("log ppl", "-log acc")]
        ratio, around = published.exponent_ratio(*laws)
        rows.append({"family": family, "ratio": ratio, "around": around})
    rows = cases(rows)
    return rows.assign(above_one=above_one(rows["around"]))


def by_size():
    """The published ladders of LAMBADA, without examples in the prompt."""
    return [published.published_law(name) for name in published.families() if "shots" not in name]


def without_attention(published_laws):
    """Rows of the laws of families without attention."""
    attention = "transformer|attention"
    laws = [
        p.law for p in published_laws if not p.rows["architecture"].str.contains(attention).any()
    ]
    return law_rows(laws).drop(columns="k")


def leans(published_laws):
    """Errors of a line at the largest model, left out: fixed, grows, and lean, above 0 as the claim says.

    A line says too little of a larger model under whose loss there is a floor: an error below 0.
    """
    forms = form_frame(published_laws)
    error = forms["line, 1 out"]
    fixed, grows = (
        error.where(forms["text"] == text) for text in (published.FIXED, published.GROWS)
    )
    forms = forms.assign(fixed=fixed, grows=grows, lean=grows.fillna(-fixed))
    return cases(forms[["family", "fixed", "grows", "lean"]].to_dict("records"))


def along_training():
    """R² and exponent in tokens of each size of Pythia, and the exponents in size at the ends."""
    steps = published.training_laws("pythia")
    first, last = next(p for p in steps if p.law.r2 > 0.9), steps[-1]
    ends = {
        "first_step": first.step,
        "first_exponent": first.law.alpha,
        "last_exponent": last.law.alpha,
    }
    rows = []
    for T, loss, _ in published.size_paths("pythia").values():
        late = T > LATE
        slope, _, r2 = line(np.log(loss[late]), np.log(T[late]))
        rows.append({"r2": float(r2), "in_tokens": float(-slope), **ends})
    return cases(rows)


def histogram_ratios():
    """What is left of the printed likelihood ratio: both sides rounded, and on one support as well."""
    _, rounded, cut = np.round(list(gpt2.ratio_parts().values()), 6) + 0.0
    both = {"rounded": rounded, "cut": cut}
    return cases([{"lead_kept": ratio / gpt2.PRINTED_RATIO, **both} for ratio in both.values()])


def approximations():
    """Errors of Eqs. 20 and 21 in percent, and ratios of local exponents, at the printed GPT-2 pair."""
    formulas = lognormal.formulas_and_sums(*gpt2.PRINTED)
    (p1, exact_p1), (entropy, exact_entropy) = formulas["-log p_1"], formulas["H"]
    lam, beta = lognormal.natural(*gpt2.PRINTED)
    first, second = lognormal.local_exponents(lam, beta)
    row = {
        "error_20": float(100 * (p1 / exact_p1 - 1)),
        "error_21": float(100 * (entropy / exact_entropy - 1)),
        "local_ratio": float(first / second),
        "cut_ratio": predicted_ratio(1 + lam, beta, gpt2.VOCABULARY),
    }
    return cases([row])
