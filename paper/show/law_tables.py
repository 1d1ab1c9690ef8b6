"""Tables on laws for pages: data frames with one row per fit, from the records of `laws`."""

import numpy as np
import pandas as pd

from paper.evidence import direction
from paper.families import contrasts, loss_at, pooled
from paper.forecasts import apart, extrapolate
from paper.laws import fit
from paper.show.tables import corpus_title, ends
from paper.steps import step_weights

FORMS = ("line", "least_squares", 3), ("floor", "irreducible", 4)  # with the models they take
CALLED = {-1: "flatter", 1: "steeper"}  # the last step, where noise does not explain it


def bend_frame(bends):
    """{k: Contrasts} as a table: a row per loss and corpus, and of all corpora.

    The last step is flatter or steeper where both the spread of families and noise say so.
    """
    rows = []
    for k, cases in bends.items():
        for corpus in (None, *dict.fromkeys(case.corpus for case in cases)):
            effect = pooled([case for case in cases if corpus in (None, case.corpus)])
            row = {"loss": f"k = {k}" if k else "cross-entropy"}
            row |= {"corpus": corpus_title(corpus) if corpus else "mean of all"}
            row |= {"families": effect.groups, "bend": effect.estimate, **ends(effect.interval)}
            row |= {"p": effect.p, "p of noise": effect.noise_p}
            sign = direction(effect.interval, effect.noise_p)
            rows.append(row | {"last step": CALLED.get(np.sign(sign), "undecided")})
    return pd.DataFrame(rows)


def step_frame(curves, k=None, n_bootstrap=10_000, seed=42):
    """Local exponents of each family, means over its corpora, step by step.

    half-width: 1.96 sd of sources and trainings.
    """
    rows, counted = [], [curve for curve in curves if k is None or k in curve.ks]
    for family in dict.fromkeys(curve.family for curve in counted):
        own = [curve for curve in counted if curve.family == family]
        sizes = np.unique(own[0].S)
        for i, S in enumerate(np.sqrt(sizes[1:] * sizes[:-1])):
            weights = lambda S, i=i: step_weights(S)[i]  # noqa: E731
            step = pooled(contrasts(own, weights, loss_at(k), n_bootstrap, seed))
            noise = np.hypot(*np.nan_to_num([step.sources_sd, step.trainings_sd]))
            rows.append((family, S, step.estimate, 1.96 * noise))
    return pd.DataFrame(rows, columns=["family", "S", "exponent", "half-width"])


def form_frame(laws):
    """Errors of the largest model's loss, of each PublishedLaw, predicted without it,
    and without two.

    By a line, from three models or more, and with a floor, from four; NaN for fewer.
    """
    rows = []
    for published in laws:
        law, loss = published.law, published.law.loss
        row = {"family": law.family, "text": published.text, "models": law.n_models}
        row["floor"] = fit(loss, "irreducible", n_bootstrap=0).parameters["floor"]
        for out in (1, 2):
            rest, held = apart(loss, out)
            for name, kind, least in FORMS:
                error = np.nan
                if len(rest.models) >= least:
                    error = np.expm1(extrapolate(rest, held.S, kind).y - held.y)[-1]
                row[f"{name}, {out} out"] = error
        rows.append(row)
    return pd.DataFrame(rows)
