"""Losses against training compute, C = 6 S D: the frontier,
and how many tokens a parameter the least loss asks for.

At one C the sum A S^-a + B D^-b is least where a A S^-a = b B D^-b. S leaves embeddings out,
and so does C.
"""

import numpy as np
from scipy.special import stdtrit

from paper import tokens as joint
from rbplib.bootstrap import line


def flops(S, D):
    """Training compute, about 6 operations for each parameter and token: float64 (n,)."""
    return 6 * np.asarray(S, float) * np.asarray(D, float)


def frontier(C, loss):
    """Models that none of as little compute equals: bool (n,). C, loss: float (n,)."""
    order = np.lexsort((loss, C))
    in_order = np.asarray(loss, float)[order]
    best = np.minimum.accumulate(in_order)
    before = np.concatenate([[np.inf], best[:-1]])
    on = np.zeros(len(order), bool)
    on[order] = before > best
    return on


def frontier_line(C, loss):
    """(exponent in C, R²) of the line through the frontier on logarithmic axes;
    NaN with fewer than three on it."""
    on = frontier(C, loss)
    if on.sum() < 3:
        return np.nan, np.nan
    x = np.log(C[on])
    y = np.log(loss[on])
    slope, _, r2 = line(y, x)
    return -float(slope), float(r2)


def optimum(S, D, loss, C):
    """log of the tokens a parameter that the sum, fitted to models (n,), asks for at compute C;
    NaN: not fitted."""
    if joint.reason(S, D, loss, joint.SUM):
        return np.nan
    law = joint.fit(S, D, loss).parameters
    both = np.log(C / 6)
    slopes = law["a"] * law["A"] / (law["b"] * law["B"])
    balance = np.log(slopes) + law["b"] * both
    exponents = law["a"] + law["b"]
    return float(both - 2 * balance / exponents)


def asked_ratios(S, D, losses, C):
    """Tokens a parameter that two losses of the same models ask for at compute C,
    and how many times the second's.

    The interval is the jackknife's, with one size after the other left out of both fits, as models
    of one size miss a form together: Student's t on the sizes less one.

    Args: S, D: float (n,). losses: two of float (n,), nats.
    Returns: {"first", "second", "times", "around": 95% interval of times, "inside": whether both
        optima lie within the sizes and tokens of the models}; NaN where a fit cannot be made.
    Cost: about a second.
    """
    S = np.asarray(S, float)
    D = np.asarray(D, float)
    first, second = (optimum(S, D, loss, C) for loss in losses)
    apart = []
    for size in np.unique(S):
        rest = S != size
        low, high = (optimum(S[rest], D[rest], loss[rest], C) for loss in losses)
        apart.append(high - low)
    times = second - first
    n = len(apart)
    half = stdtrit(n - 1, 0.975) * np.sqrt(n - 1) * np.std(apart)

    # whether the optima lie among the models
    asked = np.array([first, second])
    best_S = np.exp((np.log(C / 6) - asked) / 2)
    best_D = best_S * np.exp(asked)
    inside = (S.min() <= best_S) & (best_S <= S.max())
    inside &= (D.min() <= best_D) & (best_D <= D.max())
    return {
        "first": np.exp(first),
        "second": np.exp(second),
        "times": np.exp(times),
        "around": (np.exp(times - half), np.exp(times + half)),
        "inside": inside.all(),
    }
