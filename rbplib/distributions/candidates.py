"""Families of rank laws: the unnormalised log mass of rank k, for ranks 1..V, and where a fit may look.

A law is its log mass up to a constant; `distributions` normalises every one of them by the same sum over 1..V.
Laws that are continuous in origin are cut into cells the same way, rank k holding (k-1, k] ("ceiling"), except those
whose name says `rounded`, whose cell is (k-1/2, k+1/2]. Derived in book/derivations/rank_laws.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

# Gauss-Legendre rules exact to rounding on the cell (1/2, 3/2], and on cells of ranks above NARROW
WIDE, SLIM, NARROW = np.polynomial.legendre.leggauss(12), np.polynomial.legendre.leggauss(3), 64


@dataclass(frozen=True)
class RankFamily:
    """One family. `log_mass(k, params)` takes float64 ranks (n,) and a parameter vector, and returns float64 (n,)."""

    name: str
    title: str
    parameters: tuple[str, ...]
    log_mass: Callable
    low: tuple[float, ...]
    high: tuple[float, ...]
    log_scale: tuple[bool, ...]  # parameters searched on a log scale
    starts: tuple[tuple[float, ...], ...]
    conventional: Callable | None = None  # params -> (names, values) as the literature writes them, where it differs


def _log_normal_cell(upper, lower):
    """log[Phi(upper) - Phi(lower)] without cancellation in either tail; lower may be -inf."""
    flip = lower > 0
    hi, lo = np.where(flip, -lower, upper), np.where(flip, -upper, lower)
    top = special.log_ndtr(hi)
    with np.errstate(divide="ignore"):
        return top + np.log(-np.expm1(np.minimum(special.log_ndtr(lo) - top, -1e-300)))


def _zipf(k, params):
    return -params[0] * np.log(k)


def _zipf_cutoff(k, params):
    s, tau = params
    return -s * np.log(k) - k / tau


def _zipf_mandelbrot(k, params):
    s, q = params
    return -s * np.log(k + q)


def _zipf_mandelbrot_cutoff(k, params):
    s, q, tau = params
    return -s * np.log(k + q) - k / tau


def _lognormal(k, params):
    s, beta = params
    t = np.log(k)
    return -s * t - beta * t**2


def _lognormal_rounded(k, params):
    """The lognormal density over (k-1/2, k+1/2], by Gauss-Legendre: stable also as beta goes to 0, a rounded Pareto."""
    s, beta = params
    out = np.empty(len(k))
    for near, (nodes, weights) in ((k <= NARROW, WIDE), (k > NARROW, SLIM)):
        t = np.log(k[near, None] + nodes / 2)
        terms = -s * t - beta * t**2
        top = terms.max(axis=1, keepdims=True)
        out[near] = top[:, 0] + np.log(np.exp(terms - top) @ (weights / 2))
    return out


def _pareto_rounded(k, params):
    return _lognormal_rounded(k, (params[0], 0.0))


def _lognormal_ceiling(k, params):
    mu, sigma = params
    with np.errstate(divide="ignore"):
        return _log_normal_cell((np.log(k) - mu) / sigma, (np.log(k - 1) - mu) / sigma)


def _weibull(k, params):
    tau, c = params
    before, after = ((k - 1) / tau) ** c, (k / tau) ** c
    return -before + np.log(-np.expm1(np.minimum(before - after, -1e-300)))


def _frechet(k, params):
    C, nu = params
    with np.errstate(divide="ignore"):
        gain = C * k**-nu * np.expm1(-nu * np.log1p(-1 / k))  # minus log F gained over the cell; inf at k = 1
    return -C * k**-nu + np.log(-np.expm1(-np.maximum(gain, 1e-300)))


def _frechet_cutoff(k, params):
    return _frechet(k, params[:2]) - k / params[2]


def _yule(k, params):
    return special.betaln(k, params[0] + 1)


def _waring(k, params):
    rho, a = params
    return special.betaln(k + a, rho + 1)


def _beta_negative_binomial(k, params):
    r, a, b = params
    x = k - 1
    return special.betaln(a + r, b + x) - special.betaln(r, x + 1) - np.log(r + x)


def _with_atom(tail):
    """A free weight at rank 1 beside a tail law from rank 2 on."""

    def log_mass(k, params):
        return np.where(k == 1, params[0], tail(np.maximum(k, 2.0), params[1:]))

    return log_mass


def _two_lognormals(k, params):
    weight, mu1, sigma1, mu2, sigma2 = params
    first = np.log(weight) + _lognormal_ceiling(k, (mu1, sigma1))
    return np.logaddexp(first, np.log1p(-weight) + _lognormal_ceiling(k, (mu2, sigma2)))


def _mu_sigma(params):
    """(mu, sigma) of (s, beta); infinite on the power-law edge beta = 0."""
    s, beta = params
    with np.errstate(divide="ignore", invalid="ignore"):
        return ("mu", "sigma"), np.array([(1 - s) / (2 * beta), np.sqrt(0.5 / beta)])


CUT = (3.0, 1e7)  # a cutoff beyond 1e7 ranks is none at all
FAMILIES = {
    f.name: f
    for f in (
        RankFamily("zipf", "Zipf", ("s",), _zipf, (0.0,), (8.0,), (False,), ((1.4,),)),
        RankFamily(
            "zipf_cutoff", "Zipf with cutoff", ("s", "tau"), _zipf_cutoff,
            (-1.0, CUT[0]), (8.0, CUT[1]), (False, True), ((1.2, 3e3), (0.8, 200.0)),
        ),
        RankFamily(
            "zipf_mandelbrot", "Zipf-Mandelbrot", ("s", "q"), _zipf_mandelbrot,
            (0.0, -0.999), (12.0, 500.0), (False, False), ((1.3, -0.4), (1.6, 2.0)),
        ),
        RankFamily(
            "zipf_mandelbrot_cutoff", "Zipf-Mandelbrot with cutoff", ("s", "q", "tau"), _zipf_mandelbrot_cutoff,
            (-1.0, -0.999, CUT[0]), (12.0, 500.0, CUT[1]), (False, False, True), ((1.2, -0.5, 5e3), (1.0, 0.5, 500.0)),
        ),
        RankFamily(
            "log_quadratic", "lognormal density at k, either curvature", ("s", "beta"), _lognormal,
            (-8.0, -2.0), (20.0, 4.0), (False, False), ((1.4, 0.0), (1.0, 0.05)),
        ),
        RankFamily(
            "lognormal", "lognormal density at k (paper Eq. 10)", ("s", "beta"), _lognormal,
            (-8.0, 0.0), (20.0, 4.0), (False, False), ((1.3, 0.01), (1.0, 0.05)), _mu_sigma,
        ),
        RankFamily(
            "lognormal_rounded", "lognormal, rounded", ("s", "beta"), _lognormal_rounded,
            (-8.0, 0.0), (20.0, 4.0), (False, False), ((1.3, 0.01), (1.0, 0.05)), _mu_sigma,
        ),
        RankFamily("pareto_rounded", "Pareto, rounded", ("s",), _pareto_rounded, (0.0,), (8.0,), (False,), ((1.4,),)),
        RankFamily(
            "lognormal_ceiling", "lognormal, ceiling", ("mu", "sigma"), _lognormal_ceiling,
            (-60.0, 0.2), (12.0, 30.0), (False, True), ((0.7, 3.5), (2.0, 2.0)),
        ),
        RankFamily(
            "weibull", "Weibull (stretched exponential)", ("tau", "c"), _weibull,
            (1e-6, 0.02), (1e6, 3.0), (True, True), ((5.0, 0.3), (30.0, 0.5)),
        ),
        RankFamily(
            "frechet", "Fréchet", ("C", "nu"), _frechet, (1e-3, 0.02), (50.0, 8.0), (True, True), ((0.9, 0.5),),
        ),
        RankFamily(
            "frechet_cutoff", "Fréchet with cutoff", ("C", "nu", "tau"), _frechet_cutoff,
            (1e-3, 0.02, CUT[0]), (50.0, 8.0, CUT[1]), (True, True, True), ((0.9, 0.4, 5e3), (0.9, 0.4, 500.0)),
        ),
        RankFamily("yule", "Yule-Simon", ("rho",), _yule, (1e-3,), (8.0,), (True,), ((0.4,),)),
        RankFamily(
            "waring", "Waring", ("rho", "a"), _waring,
            (1e-3, -0.999), (50.0, 2e3), (True, False), ((0.4, -0.4), (1.0, 2.0)),
        ),
        RankFamily(
            "beta_negative_binomial", "beta-negative-binomial", ("r", "a", "b"), _beta_negative_binomial,
            (1e-3, 1e-3, 1e-3), (1e3, 1e3, 1e4), (True, True, True), ((0.8, 0.4, 0.8), (0.5, 1.0, 3.0)),
        ),
        RankFamily(
            "atom_zipf_cutoff", "point mass at 1, Zipf tail with cutoff", ("atom", "s", "tau"),
            _with_atom(_zipf_cutoff), (-12.0, -1.0, CUT[0]), (25.0, 8.0, CUT[1]), (False, False, True),
            ((0.0, 1.1, 5e3), (0.5, 0.9, 500.0)),
        ),
        RankFamily(
            "atom_lognormal", "point mass at 1, lognormal tail", ("atom", "s", "beta"), _with_atom(_lognormal),
            (-12.0, -8.0, 0.0), (25.0, 20.0, 4.0), (False, False, False), ((0.0, 1.1, 0.01), (0.0, 0.7, 0.05)),
        ),
        RankFamily(
            "two_lognormals", "two lognormals, ceiling", ("weight", "mu1", "sigma1", "mu2", "sigma2"), _two_lognormals,
            (1e-4, -30.0, 0.2, -10.0, 0.2), (0.9999, 8.0, 20.0, 12.0, 10.0), (False, False, True, False, True),
            ((0.6, -1.0, 2.0, 4.0, 2.2), (0.85, 0.0, 2.5, 6.0, 1.5), (0.4, -1.0, 1.0, 2.5, 2.8)),
        ),
    )
}  # fmt: skip
