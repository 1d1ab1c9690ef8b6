"""What the paper itself writes down: Appendix B as it stands, and the second hypothesis as curves.

Beside each formula of Appendix B stands the exact sum in `lognormal`. Paper section 5.2 lets mu/sigma fall in
proportion to S (or to log S: the text says both). Which of mu and sigma moves is left open, so each reading is a
`keep`. Derived in book/derivations/lognormal.
"""

import numpy as np
from scipy import optimize, special, stats

from paper import lognormal
from paper.lognormal import SQRT_2PI
from rbplib.families import check_choice

KEEPS = {"sigma": 0, "mu": -1, "root": 0.5}  # what stays, sigma, mu or sigma^2/|mu/sigma|: sigma ~ |mu/sigma|^power


def _normal(mu, sigma):
    """(mu, sigma, phi(a), P): the paper's shorthand, density phi(a) and P = Phi(mu/sigma), Eqs. 12 and 13."""
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    return mu, sigma, np.exp(-0.5 * (mu / sigma) ** 2) / SQRT_2PI, special.ndtr(mu / sigma)


def integrals(mu, sigma):
    """The truncated moments I_1 and I_2 of paper Eqs. 14 and 15."""
    mu, sigma, phi, P = _normal(mu, sigma)
    return mu * P + sigma * phi, (mu**2 + sigma**2) * P + mu * sigma * phi


def c(mu, sigma):
    """Paper Eq. 20: c replaced by psi(1)/2 + P."""
    mu, sigma, phi, P = _normal(mu, sigma)
    return 0.5 * phi / sigma + P


def _over_density(mu, sigma):
    """(log of P / phi(a), log of Eq. 20's c / phi(a)): finite where P, phi and c themselves underflow."""
    ratio, sigma = np.asarray(mu, float) / sigma, np.asarray(sigma, float)
    with np.errstate(over="ignore"):
        far = np.log(SQRT_2PI) + 0.5 * ratio**2 + special.log_ndtr(ratio)
        P = np.where(ratio < 0, np.log(lognormal.mills(-np.minimum(ratio, 0.0))), far)
    return P, np.logaddexp(-np.log(2 * sigma), P)


def neg_log_p1(mu, sigma):
    """Paper Eq. 16 with the c of Eq. 20, log(sigma c / phi(a)): its term mu^2/2 sigma^2 cancels. Nats."""
    return _over_density(mu, sigma)[1] + np.log(sigma)


def entropy(mu, sigma):
    """Paper Eq. 21, which the paper calls the cross-entropy: Eq. 17 with integrals in place of three sums. Nats.

    An approximation of `lognormal.rank_entropy`, not equal to it: 2% above at the printed GPT-2 pair.
    """
    P, c = _over_density(mu, sigma)
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    inner = np.exp(P - c) * ((sigma**2 - mu**2) / (2 * sigma**2) + mu) + np.exp(-c) * (sigma - mu / (2 * sigma))
    return neg_log_p1(mu, sigma) + inner


def _progress(S, scale):
    """log(S/S_0) or S/S_0 - 1, with S_0 = S[0]."""
    S = np.asarray(S, float) / S[0]
    return np.log(S) if check_choice(scale, ("log S", "S"), "scale") == "log S" else S - 1


def parameter_path(S, mu, sigma, rate, scale="log S", keep="sigma"):
    """(mu, sigma), float64 (M,) each, at sizes S when mu/sigma = r_0 - rate x(S), with x = log(S/S_0) or S/S_0 - 1.

    Args:
        S: float (M,), sizes, S_0 = S[0]; mu, sigma: the lognormal at S_0; rate: float.
        scale: "log S" or "S". keep: one of KEEPS.
    """
    ratio = mu / sigma - rate * _progress(S, scale)
    moved = sigma * np.abs(ratio / (mu / sigma)) ** KEEPS[check_choice(keep, KEEPS, "keep")]
    return ratio * moved, moved


def calibrated_rate(S, mu, sigma, factor, scale="log S", keep="sigma"):
    """The rate at which -log p_1 falls by `factor` from the first to the last size; NaN where no rate does it."""
    start = lognormal.neg_log_p1(mu, sigma)

    def gap(rate):
        return float(lognormal.neg_log_p1(*parameter_path(S, mu, sigma, rate, scale, keep))[-1] / start - factor)

    rates = np.geomspace(1e-3, 1e4, 57) / _progress(S, scale)[-1]  # far beyond the root the formula overflows
    high = next((rate for rate in rates if gap(rate) < 0), None)
    return np.nan if high is None else optimize.brentq(gap, 0.0, high, xtol=1e-15)


def exponents_over_k(ks, misses, step=1e-4):
    """Relative exponents alpha_k / alpha_(ks[0]) when the parameters of a distribution move by a little.

    Args:
        ks: the ranks `misses` answers for. misses: function of the size of the move, returning 1 - RBP_k, float64 (K,).
    """
    up, down = (np.log(-np.log1p(-np.asarray(misses(d)))) for d in (step, -step))
    change = up - down
    return change / change[0]


def fixed_sigma_misses(ks, mu, sigma, vocab_size=None):
    """For exponents_over_k: the lognormal of Eq. 10 with mu moving at fixed sigma, on all ranks or on 1..V."""

    def misses(step):
        lam, beta = lognormal.natural(mu - step * sigma, sigma)
        above = lognormal.misses(ks, lam, beta)
        beyond = 0.0 if vocab_size is None else lognormal.misses(vocab_size, lam, beta)[0]
        return (above - beyond) / (1 - beyond)

    return misses


def ceiling_misses(ks, mu, sigma):
    """For exponents_over_k: the untruncated lognormal of Eq. 9, R = ceil(X), RBP_k = Phi((ln k - mu)/sigma)."""
    return lambda step: stats.norm.sf((np.log(ks) - mu + step) / sigma)
