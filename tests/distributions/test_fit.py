"""Rank-law fits: planted truth, an independent optimiser, the ridge, held-out comparison and hostile input."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from rbplib.distributions import contest
from rbplib.distributions import fit as d
from rbplib.distributions.candidates import FAMILIES
from rbplib.distributions.pivots import pivots
from rbplib.settings import InputError

V = 5000
PLANTED = {
    "zipf": (1.4,),
    "zipf_cutoff": (1.1, 800.0),
    "zipf_mandelbrot": (1.5, 0.7),
    "zipf_mandelbrot_cutoff": (1.2, -0.4, 1500.0),
    "log_quadratic": (1.5, -0.02),
    "lognormal": (0.9, 0.06),
    "lognormal_rounded": (0.9, 0.06),
    "pareto_rounded": (1.4,),
    "lognormal_ceiling": (0.8, 2.2),
    "weibull": (6.0, 0.4),
    "frechet": (0.9, 0.5),
    "frechet_cutoff": (0.9, 0.4, 700.0),
    "yule": (0.6,),
    "waring": (0.7, -0.3),
    "beta_negative_binomial": (0.8, 0.9, 1.5),
    "atom_zipf_cutoff": (1.0, 1.0, 900.0),
    "atom_lognormal": (0.5, 0.8, 0.05),
    "two_lognormals": (0.7, -0.4, 1.5, 4.5, 1.2),
}


def planted_pmf(family, params, size=V):
    mass = np.exp(FAMILIES[family].log_mass(np.arange(1.0, size + 1), np.array(params)))
    return mass / mass.sum()


def test_every_family_has_a_planted_case():
    assert set(PLANTED) == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_planted_parameters_return(family):
    """On expected counts the maximum is the planted law itself, to the accuracy of the search."""
    pmf = planted_pmf(family, PLANTED[family])
    fit = d.fit_rank_law(1e7 * pmf, family)
    assert fit.kl < 1e-9 and fit.max_drbp < 1e-5
    assert np.allclose(fit.values, PLANTED[family], rtol=3e-3, atol=3e-3), fit.parameters
    assert fit.status in ("ok", "ridge")


@pytest.mark.parametrize("family", ["zipf_mandelbrot_cutoff", "lognormal", "waring", "weibull"])
def test_standard_errors_match_the_scatter_of_refits(family):
    rng = np.random.default_rng(11)
    pmf, n = planted_pmf(family, PLANTED[family]), 100_000
    fits = [d.fit_rank_law(rng.multinomial(n, pmf), family) for _ in range(60)]
    spread = np.std([f.values for f in fits], axis=0, ddof=1)
    assert np.allclose(np.mean([f.se for f in fits], axis=0), spread, rtol=0.35)
    z = (np.mean([f.values for f in fits], axis=0) - PLANTED[family]) / (spread / np.sqrt(60))
    assert np.abs(z).max() < 4


def test_cells_against_scipy():
    """Ceiling and rounded cells, and the count families, equal their textbook forms."""
    k = np.arange(1.0, 300)
    n = stats.norm
    ceiling = n.cdf((np.log(k) - 0.8) / 2.2) - np.r_[0, n.cdf((np.log(k[:-1]) - 0.8) / 2.2)]
    assert np.allclose(np.exp(FAMILIES["lognormal_ceiling"].log_mass(k, (0.8, 2.2))), ceiling, rtol=1e-9)
    mu, sigma = 0.5, 1.7
    s, beta = 1 - mu / sigma**2, 0.5 / sigma**2
    rounded = n.cdf((np.log(k + 0.5) - mu) / sigma) - n.cdf((np.log(k - 0.5) - mu) / sigma)
    ours = np.exp(FAMILIES["lognormal_rounded"].log_mass(k, (s, beta)))
    assert np.allclose(ours / ours[0], rounded / rounded[0], rtol=1e-9)
    weibull = stats.weibull_min(0.4, scale=6.0)
    assert np.allclose(
        np.exp(FAMILIES["weibull"].log_mass(k, (6.0, 0.4))), weibull.cdf(k) - weibull.cdf(k - 1), rtol=1e-9
    )
    frechet = np.exp(-0.9 * k**-0.5)
    assert np.allclose(np.exp(FAMILIES["frechet"].log_mass(k, (0.9, 0.5))), frechet - np.r_[0, frechet[:-1]], rtol=1e-8)
    yule = stats.yulesimon(0.6).pmf(k)
    ours = np.exp(FAMILIES["yule"].log_mass(k, (0.6,)))
    assert np.allclose(ours / ours[0], yule / yule[0], rtol=1e-9)
    bnb = stats.betanbinom(3, 0.9, 1.5).pmf(k - 1)
    ours = np.exp(FAMILIES["beta_negative_binomial"].log_mass(k, (3.0, 0.9, 1.5)))
    assert np.allclose(ours / ours[0], bnb / bnb[0], rtol=1e-9)


@pytest.mark.parametrize("size", [2, 47, 48, 49, 64, 70, 4096, 50257])
def test_pivots_sum_like_ranks(size):
    """The short weighted sum equals the long one, for sums of the mass and for sums over counts."""
    rng = np.random.default_rng(1)
    k = np.arange(1.0, size + 1)
    short = pivots(size)
    for family, params in PLANTED.items():
        log_mass = FAMILIES[family].log_mass(k, np.array(params))
        assert np.isclose(short.weights @ np.exp(FAMILIES[family].log_mass(short.nodes, np.array(params))),
                          np.exp(log_mass).sum(), rtol=1e-9), family  # fmt: skip
    counts = rng.multinomial(10_000, np.full(size, 1 / size))
    assert np.isclose(short.project(counts) @ np.log(short.nodes), counts @ np.log(k), rtol=1e-10)


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
    fit = d.fit_rank_law(counts, "zipf_mandelbrot_cutoff")
    assert fit.nll <= best.fun + 1e-9 and np.isclose(fit.values[0], best.x[0], atol=1e-3)
    one = optimize.minimize_scalar(
        lambda s: nll((s, 0.0, 60.0)), bounds=(0.5, 3), method="bounded", options={"xatol": 1e-10}
    )
    assert np.isclose(d.fit_rank_law(counts, "zipf").values[0], one.x, atol=1e-6)


def test_binned_counts_use_the_mass_of_bins():
    """A histogram in wide bins gives the planted law back, without any rank inside a bin being known."""
    pmf = planted_pmf("frechet_cutoff", PLANTED["frechet_cutoff"])
    low = np.unique(np.round(10 ** np.arange(0, np.log10(V), 0.1)).astype(int))
    high = np.append(low[1:] - 1, V)
    cdf = np.r_[0, pmf.cumsum()]
    histogram = d.RankHistogram(low, high, 1e6 * (cdf[high] - cdf[low - 1]), V)
    fit = d.fit_rank_law(histogram, "frechet_cutoff")
    assert np.allclose(fit.values, PLANTED["frechet_cutoff"], rtol=1e-3) and fit.max_drbp < 1e-5


def test_lognormal_in_natural_parameters_recovers_mu_sigma():
    """Where the law is well inside its family, (mu, sigma) come back; the information is a covariance."""
    mu, sigma = 1.5, 1.2
    params = (1 - mu / sigma**2, 0.5 / sigma**2)
    pmf = planted_pmf("lognormal", params)
    fit = d.fit_rank_law(1e6 * pmf, "lognormal")
    assert np.isclose(fit.conventional["mu"], mu, atol=1e-4) and np.isclose(fit.conventional["sigma"], sigma, atol=1e-4)
    t = np.log(np.arange(1.0, V + 1))
    stats_ = np.stack([t, t**2])
    centred = stats_ - (stats_ @ pmf)[:, None]
    assert np.allclose(fit.information, (centred * pmf) @ centred.T, rtol=1e-5)
    assert not fit.ridge and fit.status == "ok"


def test_ridge_is_marked():
    """A power law seen by the lognormal lies on the ridge; so does a lognormal far out along it."""
    on_edge = d.fit_rank_law(1e6 * planted_pmf("zipf", (1.4,)), "lognormal")
    assert on_edge.ridge and on_edge.status == "ridge" and np.isinf(on_edge.conventional["sigma"])
    far = d.fit_rank_law(1e8 * planted_pmf("lognormal", (1.392, 0.003)), "lognormal")
    assert far.ridge and far.correlation > 0.99 and far.conventional_condition > 30 * far.fisher_condition
    profile = d.ridge_profile(1e5 * planted_pmf("zipf", (1.4,)), [-10, -100, -1000, -np.inf], "lognormal")
    assert np.all(np.diff(profile) > 0) and abs(profile[-1]) < 1e-3


def test_rounded_lognormal_is_what_powerlaw_fits():
    """The infinite-support likelihood equals a direct difference of the distribution function."""
    ranks = np.array([1, 1, 1, 2, 3, 7, 40])
    histogram = d.rank_histogram(ranks, 100)
    cdf = stats.lognorm(2.0, scale=np.exp(0.3)).cdf
    whole = 1 - cdf(0.5)
    direct = -np.mean(np.log((cdf(ranks + 0.5) - cdf(ranks - 0.5)) / whole))
    assert np.isclose(d.rounded_lognormal_nll(histogram, 0.3, 2.0), direct, rtol=1e-12)
    whole = cdf(100.5) - cdf(0.5)
    direct = -np.mean(np.log((cdf(ranks + 0.5) - cdf(ranks - 0.5)) / whole))
    assert np.isclose(d.rounded_lognormal_nll(histogram, 0.3, 2.0, 100), direct, rtol=1e-12)


def clustered_ranks(documents, tokens, seed):
    """Documents of differing difficulty: a cutoff law whose exponent varies by document."""
    rng = np.random.default_rng(seed)
    ranks = []
    for s in rng.normal(1.3, 0.15, documents):
        ranks.append(rng.choice(V, size=tokens, p=planted_pmf("zipf_cutoff", (s, 900.0))) + 1)
    return np.concatenate(ranks), np.repeat(np.arange(documents) * 3, tokens)  # gaps in the numbering are allowed


def test_held_out_comparison_and_clustered_vuong():
    ranks, documents = clustered_ranks(60, 400, seed=2)
    families = ("zipf", "zipf_cutoff", "yule")
    held = contest.cross_validate(ranks, documents, V, families, folds=5, seed=1)
    assert held.tokens.sum() == len(ranks) and held.scores.shape == (60, 3)
    again = contest.cross_validate(ranks, documents, V, families, folds=5, seed=1)
    assert np.array_equal(held.scores, again.scores)
    result = contest.contest(held, n_bootstrap=2000, seed=0)
    assert result.best == "zipf_cutoff" and result.loss[0] == 0
    for j, family in enumerate(result.families[1:], start=1):
        assert result.interval[0, j] < result.loss[j] < result.interval[1, j], family
    assert held.nll[1] > d.fit_rank_law(d.rank_histogram(ranks, V), "zipf_cutoff").nll  # held out costs something
    first, second = (d.fit_rank_law(d.rank_histogram(ranks, V), f) for f in ("zipf_cutoff", "zipf"))
    test = contest.vuong(first, second, ranks, documents)
    assert test.z > 3 and test.deff > 1.5 and abs(test.z) < abs(test.z_iid)
    assert np.isclose(test.mean, second.nll - first.nll - 1 / len(ranks), atol=1e-12)
    reverse = contest.vuong(second, first, ranks, documents)
    assert np.isclose(reverse.z, -test.z)


def test_hostile_input():
    with pytest.raises(InputError, match="did you mean 'weibull'"):
        d.fit_rank_law([3, 2, 1], "weibul")
    with pytest.raises(InputError, match="empty"):
        d.fit_rank_law(np.zeros(10), "zipf")
    with pytest.raises(InputError, match="at least 0"):
        d.fit_rank_law([1, -1, 3], "zipf")
    with pytest.raises(InputError, match="two tokens"):
        d.fit_rank_law([5], "zipf")
    with pytest.raises(InputError, match="no scored token"):
        d.rank_histogram(np.array([], dtype=int), 10)
    with pytest.raises(InputError, match="outside 1 to 10"):
        d.rank_histogram(np.array([0, 3]), 10)
    with pytest.raises(InputError, match="whole numbers"):
        d.rank_histogram(np.array([1.5, 3]), 10)
    with pytest.raises(InputError, match="folds"):
        contest.cross_validate(np.array([1, 2]), np.array([0, 0]), 10, ("zipf",))


@pytest.mark.parametrize("counts", [[5, 0, 0, 0], [0, 0, 0, 7], [1, 1], [9, 4, 1] + [0] * 4000, [1] * 300])
def test_degenerate_histograms_finish(counts):
    """All mass on one rank, a flat histogram, a long empty tail: a record comes back, never an exception."""
    for family in FAMILIES:
        fit = d.fit_rank_law(counts, family)
        assert np.isfinite(fit.nll) and np.isclose(fit.pmf.sum(), 1), family
