"""The paper's second hypothesis as curves: mu/sigma moves with model size, what follows for loss and entropy.

Paper section 5.2 lets mu/sigma fall in proportion to S (or to log S: the text says both). Which of mu and sigma moves
is left open, so each reading is a `keep`. Everything here uses the exact sums of `theory`. Derived in
book/derivations/lognormal.
"""

import numpy as np
from scipy import optimize, stats

from rbplib.distributions import theory

KEEPS = ("sigma", "mu", "root", "ridge")  # what stays: sigma, mu, sigma^2/|mu/sigma|, or sigma/|mu/sigma|


def parameter_path(S, mu, sigma, rate, scale="log S", keep="sigma"):
    """(mu, sigma) at sizes S when mu/sigma = r_0 - rate x(S), with x = log(S/S_0) or S/S_0 - 1 and S_0 = S[0].

    Args:
        S: float (M,), sizes; mu, sigma: the law at S[0]; rate: float.
        scale: "log S" or "S". keep: one of KEEPS.
    Returns:
        mu, sigma: float64 (M,) each.
    """
    if scale not in ("log S", "S"):
        raise ValueError(f"scale must be 'log S' or 'S', not {scale!r}.")
    if keep not in KEEPS:
        raise ValueError(f"keep must be one of {', '.join(KEEPS)}, not {keep!r}.")
    S = np.asarray(S, float)
    x = np.log(S / S[0]) if scale == "log S" else S / S[0] - 1
    start = mu / sigma
    ratio = start - rate * x
    change = ratio / start
    spread = {"sigma": np.ones_like(x), "mu": 1 / change, "root": np.sqrt(np.abs(change)), "ridge": np.abs(change)}[
        keep
    ]
    return ratio * sigma * spread, sigma * spread


def calibrated_rate(S, mu, sigma, factor, scale="log S", keep="sigma"):
    """The rate at which -log p_1 falls by `factor` from the first to the last size.

    Raises:
        ValueError: no rate reaches it, as along the ridge, where -log p_1 does not fall at all.
    """
    start = theory.neg_log_p1(mu, sigma)

    def gap(rate):
        return float(theory.neg_log_p1(*parameter_path(S, mu, sigma, rate, scale, keep))[-1] / start - factor)

    S = np.asarray(S, float)
    top = 2.0 / (np.log(S[-1] / S[0]) if scale == "log S" else S[-1] / S[0] - 1)
    for _ in range(12):
        if gap(top) < 0:
            return optimize.brentq(gap, 0.0, top, xtol=1e-15)
        top *= 2
    raise ValueError(f"no rate makes -log p_1 fall by the factor {factor:.3g} with {keep} kept.")


def log_line(S, y):
    """(slope, R^2) of least squares of log y on log S."""
    x, z = np.log(S) - np.mean(np.log(S)), np.log(y) - np.mean(np.log(y))
    slope = (x @ z) / (x @ x)
    return slope, slope**2 * (x @ x) / (z @ z)


def exponents_over_k(ks, law, step=1e-4):
    """Relative exponents alpha_k / alpha_(ks[0]) when `law(step)` gives 1 - RBP_k after a small move of the parameters.

    Args:
        ks: the ranks `law` answers for. law: function of a number, returning float64 (K,).
    """
    up, down = (np.log(-np.log1p(-np.asarray(law(d)))) for d in (step, -step))
    change = up - down
    return change / change[0]


def fixed_sigma_misses(ks, mu, sigma, vocab_size=None):
    """`law` for exponents_over_k: the lognormal of Eq. 10 with mu moving at fixed sigma, on all ranks or on 1..V."""

    def law(step):
        lam, beta = theory.natural(mu - step * sigma, sigma)
        above = theory.misses(ks, lam, beta)
        if vocab_size is None:
            return above
        beyond = theory.misses(vocab_size, lam, beta)[0]
        return (above - beyond) / (1 - beyond)

    return law


def ceiling_misses(ks, mu, sigma):
    """`law` for exponents_over_k: the untruncated lognormal of Eq. 9, R = ceil(X), RBP_k = Phi((ln k - mu)/sigma)."""
    return lambda step: stats.norm.sf((np.log(ks) - mu + step) / sigma)
