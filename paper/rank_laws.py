"""The candidates for the distribution of ranks: the unnormalised log mass of rank k, and where a fit may look.

A candidate is one function of float64 ranks (n,) and its parameters, with one row above it; all are normalised by the
same sum over 1..V. Those continuous in origin are cut into cells the same way, rank k holding (k-1, k] ("ceiling"),
except where the name says `rounded`: (k-1/2, k+1/2]. Derived in book/derivations/rank_laws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

# Gauss-Legendre rules exact to rounding on the cell (1/2, 3/2], and on cells of ranks above NARROW
WIDE, SLIM, NARROW = np.polynomial.legendre.leggauss(12), np.polynomial.legendre.leggauss(3), 64
PAPER = "lognormal"  # the paper's own, Eq. 10, on the support 1..V
IN_MU_SIGMA = ("lognormal", "lognormal_rounded")  # whose (s, beta) the literature writes as (mu, sigma)


class Range(NamedTuple):
    """Where a parameter is looked for: evenly, or evenly in its logarithm."""

    low: float
    high: float
    log: bool = False


def scale(low, high):
    """The Range of a parameter that is a scale, searched in its logarithm."""
    return Range(low, high, log=True)


@dataclass(frozen=True)
class Candidate:
    """One candidate distribution. `formula(k, *parameters)` is its log mass up to a constant."""

    name: str
    title: str
    formula: Callable
    ranges: dict  # {parameter: Range}
    starts: tuple[tuple[float, ...], ...]

    def log_mass(self, k, params):
        """Log mass up to a constant, float64 (n,), at ranks k (n,) for a parameter vector."""
        return self.formula(k, *params)


CANDIDATES = {}
CUTOFF = scale(3.0, 1e7)  # a cutoff beyond 1e7 ranks is none at all
CUT = {"s": Range(-1.0, 8.0), "tau": CUTOFF}
CURVED = {"s": Range(-8.0, 20.0), "beta": Range(0.0, 4.0)}
FRECHET = {"C": scale(1e-3, 50.0), "nu": scale(0.02, 8.0)}
OFFSET, SHAPE = Range(-0.999, 500.0), scale(1e-3, 1e3)
ATOM = Range(-12.0, 25.0)  # log weight of rank 1 beside the tail from rank 2 on


def candidate(title, starts, **ranges):
    """Enter the function below into CANDIDATES under its own name; ranges in the order of its parameters."""

    def enter(formula):
        row = Candidate(name=formula.__name__, title=title, formula=formula, ranges=ranges, starts=tuple(starts))
        CANDIDATES[row.name] = row
        return formula

    return enter


@candidate("Zipf", [(1.4,)], s=Range(0.0, 8.0))
def zipf(k, s):
    return -s * np.log(k)


@candidate("Zipf with cutoff", [(1.2, 3e3), (0.8, 200.0)], **CUT)
def zipf_cutoff(k, s, tau):
    return -s * np.log(k) - k / tau


@candidate("Zipf-Mandelbrot", [(1.3, -0.4), (1.6, 2.0)], s=Range(0.0, 12.0), q=OFFSET)
def zipf_mandelbrot(k, s, q):
    return -s * np.log(k + q)


@candidate("Zipf-Mandelbrot with cutoff", [(1.2, -0.5, 5e3), (1, 0.5, 500)], s=Range(-1.0, 12.0), q=OFFSET, tau=CUTOFF)
def zipf_mandelbrot_cutoff(k, s, q, tau):
    return -s * np.log(k + q) - k / tau


@candidate("lognormal density at k, either curvature", [(1.4, 0), (1, 0.05)], **CURVED | {"beta": Range(-2.0, 4.0)})
def log_quadratic(k, s, beta):
    t = np.log(k)
    return -s * t - beta * t**2


@candidate("lognormal density at k (paper Eq. 10)", [(1.3, 0.01), (1.0, 0.05)], **CURVED)
def lognormal(k, s, beta):
    return log_quadratic(k, s, beta)


@candidate("lognormal, rounded", [(1.3, 0.01), (1.0, 0.05)], **CURVED)
def lognormal_rounded(k, s, beta):
    """By Gauss-Legendre over the cell: stable also as beta goes to 0, a rounded Pareto."""
    out = np.empty(len(k))
    for near, (nodes, weights) in ((k <= NARROW, WIDE), (k > NARROW, SLIM)):
        terms = log_quadratic(k[near, None] + nodes / 2, s, beta)
        top = terms.max(axis=1, keepdims=True)
        out[near] = top[:, 0] + np.log(np.exp(terms - top) @ (weights / 2))
    return out


@candidate("Pareto, rounded", [(1.4,)], s=Range(0.0, 8.0))
def pareto_rounded(k, s):
    return lognormal_rounded(k, s, 0.0)


@candidate("lognormal, ceiling", [(0.7, 3.5), (2.0, 2.0)], mu=Range(-60.0, 12.0), sigma=scale(0.2, 30.0))
def lognormal_ceiling(k, mu, sigma):
    """log[Phi(upper) - Phi(lower)] of the cell's edges, without cancellation in either tail; lower may be -inf."""
    with np.errstate(divide="ignore"):
        upper, lower = (np.log(k) - mu) / sigma, (np.log(k - 1) - mu) / sigma
        flip = lower > 0
        top = special.log_ndtr(np.where(flip, -lower, upper))
        rest = special.log_ndtr(np.where(flip, -upper, lower))
        return top + np.log(-np.expm1(np.minimum(rest - top, -1e-300)))


@candidate("Weibull (stretched exponential)", [(5.0, 0.3), (30.0, 0.5)], tau=scale(1e-6, 1e6), c=scale(0.02, 3.0))
def weibull(k, tau, c):
    before, after = ((k - 1) / tau) ** c, (k / tau) ** c
    return -before + np.log(-np.expm1(np.minimum(before - after, -1e-300)))


@candidate("Fréchet", [(0.9, 0.5)], **FRECHET)
def frechet(k, C, nu):
    with np.errstate(divide="ignore"):
        gain = C * k**-nu * np.expm1(-nu * np.log1p(-1 / k))  # minus log F gained over the cell; inf at k = 1
    return -C * k**-nu + np.log(-np.expm1(-np.maximum(gain, 1e-300)))


@candidate("Fréchet with cutoff", [(0.9, 0.4, 5e3), (0.9, 0.4, 500.0)], **FRECHET, tau=CUTOFF)
def frechet_cutoff(k, C, nu, tau):
    return frechet(k, C, nu) - k / tau


@candidate("Yule-Simon", [(0.4,)], rho=scale(1e-3, 8.0))
def yule(k, rho):
    return special.betaln(k, rho + 1)


@candidate("Waring", [(0.4, -0.4), (1.0, 2.0)], rho=scale(1e-3, 50.0), a=Range(-0.999, 2e3))
def waring(k, rho, a):
    return special.betaln(k + a, rho + 1)


@candidate("beta-negative-binomial", [(0.8, 0.4, 0.8), (0.5, 1.0, 3.0)], r=SHAPE, a=SHAPE, b=scale(1e-3, 1e4))
def beta_negative_binomial(k, r, a, b):
    x = k - 1
    return special.betaln(a + r, b + x) - special.betaln(r, x + 1) - np.log(r + x)


@candidate("point mass at 1, Zipf tail with cutoff", [(0.0, 1.1, 5e3), (0.5, 0.9, 500.0)], atom=ATOM, **CUT)
def atom_zipf_cutoff(k, atom, s, tau):
    return np.where(k == 1, atom, zipf_cutoff(np.maximum(k, 2.0), s, tau))


@candidate("point mass at 1, lognormal tail", [(0.0, 1.1, 0.01), (0.0, 0.7, 0.05)], atom=ATOM, **CURVED)
def atom_lognormal(k, atom, s, beta):
    return np.where(k == 1, atom, lognormal(np.maximum(k, 2.0), s, beta))


@candidate(
    "two lognormals, ceiling",
    [(0.6, -1.0, 2.0, 4.0, 2.2), (0.85, 0.0, 2.5, 6.0, 1.5), (0.4, -1.0, 1.0, 2.5, 2.8)],
    weight=Range(1e-4, 0.9999),
    mu1=Range(-30.0, 8.0),
    sigma1=scale(0.2, 20.0),
    mu2=Range(-10.0, 12.0),
    sigma2=scale(0.2, 10.0),
)
def two_lognormals(k, weight, mu1, sigma1, mu2, sigma2):
    first = np.log(weight) + lognormal_ceiling(k, mu1, sigma1)
    return np.logaddexp(first, np.log1p(-weight) + lognormal_ceiling(k, mu2, sigma2))
