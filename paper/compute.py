"""How many tokens a parameter give the least loss at one training compute, C = 6 S D.

Models are a data frame: S, D, then their losses in nats, of which the first is the cross-entropy.
At one C the sum A S^-a + B D^-b is least where a A S^-a = b B D^-b. S leaves embeddings out, and so
does C.
"""

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from paper import tokens


def optimum(S, D, loss, C):
    """log of the tokens a parameter at which the sum, fitted to models (n,), is least at compute C;
    NaN: not fitted."""
    if tokens.reason(S, D, loss, tokens.SUM):
        return np.nan
    return float(tokens.fit(S, D, loss).balance(np.log(C / 6)))


def optima(models, C=None):
    """Tokens a parameter at which each loss of hits is least, beside cross-entropy, at compute C,
    the models' median where none is given: data frame loss, C, first (cross-entropy), second,
    times (second over first), around, inside.

    around: 95% interval of `times` by the jackknife, with one size after the other left out of both
    fits, as models of one size miss a form together: Student's t on the sizes less one. inside:
    whether both optima lie within the sizes and tokens of the models. NaN: a fit cannot be made.
    Cost: about a second a loss.
    """
    S, D, entropy, *hits = models.to_numpy(float).T
    C = C or float(np.median(6 * S * D))
    rows = []
    for name, loss in zip(models.columns[3:], hits, strict=True):
        first, second = best = [optimum(S, D, y, C) for y in (entropy, loss)]
        gaps = []
        for size in np.unique(S):
            rest = S != size
            low, high = (optimum(S[rest], D[rest], y[rest], C) for y in (entropy, loss))
            gaps.append(high - low)
        n = len(gaps)
        half = stdtrit(n - 1, 0.975) * np.sqrt(n - 1) * np.std(gaps)
        # whether the optima lie among the models
        inside = True
        for values, side in ((S, -1), (D, 1)):
            at = np.exp((np.log(C / 6) + side * np.array(best)) / 2)
            inside &= bool(((values.min() <= at) & (at <= values.max())).all())
        row = {"loss": name, "C": C, "first": np.exp(first), "second": np.exp(second)}
        times = second - first
        around = np.exp(times - half), np.exp(times + half)
        rows.append(row | {"times": np.exp(times), "around": around, "inside": inside})
    return pd.DataFrame(rows)
