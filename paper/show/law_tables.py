"""Tables on laws for pages: data frames with one row per fit, from the records of `laws`."""

from itertools import product

import numpy as np
import pandas as pd

from paper.evidence import direction
from paper.families import contrasts, loss_at, pooled
from paper.forecasts import extrapolate
from paper.laws import fit
from paper.show.tables import corpus_title, ends
from paper.steps import step_weights


def bend_frame(bends):
    """`families.bends_by_k` as a table: a row per loss and corpus, and of all corpora, with what to call it.

    The last step is flatter or steeper where both the spread of families and noise say so.
    """
    rows = []
    for k, found in bends.items():
        for corpus in (None, *dict.fromkeys(c.corpus for c in found)):
            effect = pooled([c for c in found if corpus in (None, c.corpus)])
            sign = direction(effect.interval, effect.noise_p)
            rows.append(
                {
                    "loss": f"k = {k}" if k else "cross-entropy",
                    "corpus": corpus_title(corpus) if corpus else "mean of all",
                    "families": effect.groups,
                    "bend": effect.estimate,
                    **ends(effect.interval),
                    "p": effect.p,
                    "sd: sources": effect.sources_sd,
                    "sd: trainings": effect.trainings_sd,
                    "p of noise": effect.noise_p,
                    "last step": {-1: "flatter", 1: "steeper"}.get(np.sign(sign), "undecided"),
                }
            )
    return pd.DataFrame(rows)


def step_frame(curves, k=None, n_bootstrap=10_000, seed=42):
    """Local exponents of each family, means over its corpora; half-width: 1.96 sd of sources and trainings."""
    rows = []
    for family in dict.fromkeys(c.family for c in curves):
        counted = [c for c in curves if c.family == family and (k is None or k in c.ks)]
        sizes = np.unique(counted[0].S) if counted else np.empty(0)
        for i, S in enumerate(np.sqrt(sizes[1:] * sizes[:-1])):
            weights = lambda S, i=i: step_weights(S)[i]  # noqa: E731
            step = pooled(contrasts(counted, weights, loss_at(k), n_bootstrap, seed))
            noise = np.hypot(*np.nan_to_num([step.sources_sd, step.trainings_sd]))
            rows.append((family, S, step.estimate, 1.96 * noise))
    return pd.DataFrame(rows, columns=["family", "S", "exponent", "half-width"])


def form_frame(found):
    """Errors of the largest model's loss, of each PublishedLaw, predicted without it and without the largest two.

    By a line, from three models or more, and with a floor, from four; NaN for fewer."""
    rows, forms = [], (("line", "least_squares", 3), ("floor", "irreducible", 4))
    for p in found:
        loss, floor = p.law.loss, fit(p.law.loss, "irreducible", n_bootstrap=0).parameters["floor"]
        row = {"family": p.law.family, "text": p.text, "models": p.law.n_models, "floor": floor}
        for out, (name, kind, least) in product((1, 2), forms):
            row[f"{name}, {out} out"] = np.nan
            if len(loss.models) - out >= least:
                row[f"{name}, {out} out"] = extrapolate(loss, out, kind).error[-1]
        rows.append(row)
    return pd.DataFrame(rows)
