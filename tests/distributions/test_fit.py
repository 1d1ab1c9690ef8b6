"""Fits of distributions: planted truth, an independent optimiser, the ridge, degenerate histograms."""

from dataclasses import replace

import numpy as np
import pytest
from plantedranks import PLANTED, V, planted_pmf
from scipy import optimize, special

from paper.histogram import RankHistogram
from paper.rank_fit import condition, fit_rank_law
from paper.rank_laws import CANDIDATES


@pytest.mark.parametrize("name", CANDIDATES)
def test_planted_parameters_return(name):
    """On expected counts the maximum is the planted distribution itself, to the accuracy of the search."""
    pmf = planted_pmf(name, PLANTED[name])
    fit = fit_rank_law(1e7 * pmf, name)
    assert fit.kl < 1e-9 and fit.max_drbp < 1e-5
    assert np.allclose(fit.values, PLANTED[name], rtol=3e-3, atol=3e-3), fit.parameters
    assert fit.status in ("ok", "ridge")


@pytest.mark.parametrize("name", ["zipf_mandelbrot_cutoff", "lognormal", "waring", "weibull"])
def test_standard_errors_match_the_scatter_of_refits(name):
    rng = np.random.default_rng(11)
    pmf, n = planted_pmf(name, PLANTED[name]), 100_000
    fits = [fit_rank_law(rng.multinomial(n, pmf), name) for _ in range(60)]
    spread = np.std([f.values for f in fits], axis=0, ddof=1)
    unit = [
        [abs(v) if r.log else 1 for v, r in zip(f.values, CANDIDATES[name].ranges.values(), strict=True)] for f in fits
    ]
    se = np.sqrt([np.diag(np.linalg.inv(f.information)) / n for f in fits]) * unit
    assert np.allclose(se.mean(0), spread, rtol=0.35)
    z = (np.mean([f.values for f in fits], axis=0) - PLANTED[name]) / (spread / np.sqrt(60))
    assert np.abs(z).max() < 4


def test_zeta_and_an_independent_optimiser():
    """Zipf against the one-parameter likelihood of scipy; Zipf-Mandelbrot against Nelder-Mead on all ranks."""
    rng = np.random.default_rng(5)
    counts = rng.multinomial(50_000, planted_pmf("zipf_mandelbrot_cutoff", PLANTED["zipf_mandelbrot_cutoff"]))
    k, n = np.arange(1.0, V + 1), counts.sum()

    def nll(params):
        s, q, log_tau = params
        if q <= -1:
            return np.inf
        log_mass = -s * np.log(k + q) - k / np.exp(log_tau)
        return special.logsumexp(log_mass) - counts @ log_mass / n

    best = optimize.minimize(nll, (1.2, -0.4, 7.0), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-13})
    fit = fit_rank_law(counts, "zipf_mandelbrot_cutoff")
    assert fit.nll <= best.fun + 1e-9 and np.isclose(fit.values[0], best.x[0], atol=1e-3)
    one = optimize.minimize_scalar(
        lambda s: nll((s, 0.0, 60.0)), bounds=(0.5, 3), method="bounded", options={"xatol": 1e-10}
    )
    assert np.isclose(fit_rank_law(counts, "zipf").values[0], one.x, atol=1e-6)


def test_binned_counts_use_the_mass_of_bins():
    """A histogram in wide bins gives the planted distribution back, without any rank inside a bin being known."""
    pmf = planted_pmf("frechet_cutoff", PLANTED["frechet_cutoff"])
    low = np.unique(np.round(10 ** np.arange(0, np.log10(V), 0.1)).astype(int))
    high = np.append(low[1:] - 1, V)
    cdf = np.r_[0, pmf.cumsum()]
    histogram = RankHistogram(low, high, 1e6 * (cdf[high] - cdf[low - 1]), V)
    fit = fit_rank_law(histogram, "frechet_cutoff")
    assert np.allclose(fit.values, PLANTED["frechet_cutoff"], rtol=1e-3) and fit.max_drbp < 1e-5


def test_lognormal_in_natural_parameters_recovers_mu_sigma():
    """Where the optimum is well inside its range, (mu, sigma) come back; the information is a covariance."""
    mu, sigma = 1.5, 1.2
    params = (1 - mu / sigma**2, 0.5 / sigma**2)
    pmf = planted_pmf("lognormal", params)
    fit = fit_rank_law(1e6 * pmf, "lognormal")
    assert np.isclose(fit.conventional["mu"], mu, atol=1e-4) and np.isclose(fit.conventional["sigma"], sigma, atol=1e-4)
    t = np.log(np.arange(1.0, V + 1))
    stats_ = np.stack([t, t**2])
    centred = stats_ - (stats_ @ pmf)[:, None]
    assert np.allclose(fit.information, (centred * pmf) @ centred.T, rtol=1e-5)
    assert not fit.ridge and fit.status == "ok"


def test_fisher_condition_knows_no_units():
    """Scaled to a unit diagonal: that of the estimates' correlations, whatever unit a parameter is measured in."""
    fit = fit_rank_law(1e6 * planted_pmf("lognormal", (0.9, 0.06)), "lognormal")
    size = np.sqrt(np.diag(fit.information))
    assert condition(fit.information) == pytest.approx(
        np.linalg.cond(fit.information / np.outer(size, size)), rel=1e-12
    )
    unit = np.diag([1.0, 1000.0])
    elsewhere = replace(fit, information=unit @ fit.information @ unit)
    assert condition(elsewhere.information) == pytest.approx(condition(fit.information), rel=1e-9)
    r = fit.information[0, 1] / np.prod(size)  # two parameters: (1 + |r|) / (1 - |r|)
    assert condition(fit.information) == pytest.approx((1 + abs(r)) / (1 - abs(r)), rel=1e-9)
    assert np.linalg.cond(fit.information) > 5 * condition(fit.information)  # the unscaled one is another number


def test_conventional_information_is_the_covariance_of_the_scores():
    """(mu, sigma) by label eq-jacobian against differences of log p in mu and sigma themselves."""
    fit = fit_rank_law(1e6 * planted_pmf("lognormal", (0.9, 0.06)), "lognormal")
    at = np.array(list(fit.conventional.values()))

    def log_p(mu, sigma):
        log_mass = CANDIDATES["lognormal"].log_mass(np.arange(1.0, V + 1), (1 - mu / sigma**2, 0.5 / sigma**2))
        return log_mass - special.logsumexp(log_mass)

    steps = 1e-5 * np.eye(2)
    scores = np.array([(log_p(*(at + h)) - log_p(*(at - h))) / 2e-5 for h in steps])
    assert np.allclose(fit.conventional_information, (scores * fit.pmf) @ scores.T, rtol=1e-6)


def test_ridge_is_marked():
    """A power law seen by the lognormal lies on the ridge; so does a lognormal far out along it."""
    on_edge = fit_rank_law(1e6 * planted_pmf("zipf", (1.4,)), "lognormal")
    assert on_edge.ridge and on_edge.status == "ridge" and np.isinf(on_edge.conventional["sigma"])
    far = fit_rank_law(1e8 * planted_pmf("lognormal", (1.392, 0.003)), "lognormal")
    assert (
        far.ridge
        and far.correlation > 0.99
        and condition(far.conventional_information) > 30 * condition(far.information)
    )


@pytest.mark.parametrize("counts", [[5, 0, 0, 0], [0, 0, 0, 7], [1, 1], [9, 4, 1] + [0] * 4000, [1] * 300])
def test_degenerate_histograms_finish(counts):
    """All mass on one rank, a flat histogram, a long empty tail: a record comes back, never an exception."""
    for name in CANDIDATES:
        fit = fit_rank_law(counts, name)
        assert np.isfinite(fit.nll) and np.isclose(fit.pmf.sum(), 1), name
