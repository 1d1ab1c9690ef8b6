"""What the authors' GPT-2 figures say: every number that the pages quote from the digitised histogram and points."""

import numpy as np
import pytest
from scipy import stats

from paper import gpt2, lognormal, published
from paper import steps as noise
from paper.rank_fit import fit_rank_law

MU, SIGMA, V = gpt2.MU, gpt2.SIGMA, gpt2.VOCABULARY
LAM, BETA = lognormal.natural(MU, SIGMA)


def close(found, stated, rtol=0.0, atol=0.0):
    assert np.allclose(np.asarray(found, float), stated, rtol=rtol, atol=atol), (found, stated)


RANKS = gpt2.gpt2_ranks()


FITS = [  # candidate, KL, KS, p1, 1 - RBP_10000
    ("zipf_mandelbrot_cutoff", 0.0005, 0.0036, 0.4157, 0.0035),
    ("two_lognormals", 0.0007, 0.0021, 0.4156, 0.0046),
    ("frechet_cutoff", 0.0019, 0.0121, 0.4178, 0.0040),
    ("atom_zipf_cutoff", 0.0029, 0.0153, 0.4152, 0.0039),
    ("frechet", 0.0079, 0.0124, 0.4145, 0.0121),
    ("lognormal_ceiling", 0.0080, 0.0239, 0.4234, 0.0058),
    ("beta_negative_binomial", 0.0089, 0.0139, 0.4172, 0.0118),
    ("waring", 0.0110, 0.0179, 0.4117, 0.0146),
    ("zipf_mandelbrot", 0.0112, 0.0181, 0.4111, 0.0148),
    ("lognormal_rounded", 0.0228, 0.0592, 0.3559, 0.0095),
    ("weibull", 0.0247, 0.0416, 0.4464, 0.0021),
    ("log_quadratic", 0.0277, 0.0553, 0.3599, 0.0144),
    ("zipf_cutoff", 0.0313, 0.0853, 0.3298, 0.0050),
    ("zipf", 0.0327, 0.0802, 0.3350, 0.0086),
    ("yule", 0.0462, 0.1057, 0.3095, 0.0077),
]


@pytest.mark.parametrize("row", FITS)
def test_candidates_on_the_digitised_histogram(row):
    name, *stated = row
    fit = fit_rank_law(RANKS, name)
    close([fit.kl, fit.max_drbp, fit.pmf[0], 1 - fit.rbp(10_000)], stated, atol=6e-5)


def test_fitted_values_on_the_digitised_histogram():
    best = fit_rank_law(RANKS, "zipf_mandelbrot_cutoff").parameters
    close([best["s"], best["q"], best["tau"]], (1.23, -0.55, 9500), rtol=6e-3)
    assert fit_rank_law(RANKS, "log_quadratic").parameters["beta"] < 0  # convex: no lognormal at all
    ceiling = fit_rank_law(RANKS, "lognormal_ceiling").parameters
    close([ceiling["mu"], ceiling["sigma"]], (0.69, 3.52), atol=6e-3)
    for name in ("lognormal", "lognormal_rounded"):
        assert fit_rank_law(RANKS, name).status == "ridge"


def test_what_the_printed_likelihood_ratio_measures():
    """R = -3818: most of it comes from a rounding kernel on one side only, and from a crude exponent."""
    parts = gpt2.ratio_parts()
    close(parts.n_tokens, 3.2e5, rtol=0.01)
    close(parts.exponents, (1.402, 1.435, 1.416, 1.395, 1.395), atol=1e-3)
    close(parts.ratios[:4], (-3818.005, -2880, -167, 720), rtol=6e-3)


def test_on_the_same_support_the_power_law_ties_with_the_lognormal():
    """A support cut on the power law's side alone gave it a lead of 2,838 nats, which is the cut and no fit."""
    parts = gpt2.ratio_parts()
    assert -1e-3 < parts.ratios[4] <= 0
    power, curved = (fit_rank_law(RANKS, name) for name in ("pareto_rounded", "lognormal_rounded"))
    assert len(power.pmf) == len(curved.pmf) == V and np.abs(power.pmf - curved.pmf).max() < 1e-6
    beyond = stats.norm.sf((np.log(V + 0.5) - MU) / SIGMA) / stats.norm.sf((np.log(0.5) - MU) / SIGMA)
    uncut = parts.n_tokens * (-power.nll + gpt2.rounded_lognormal_nll(RANKS, MU, SIGMA))
    assert np.isclose(parts.ratios[3], uncut + parts.n_tokens * np.log1p(-beyond), atol=0.1)


def test_likelihood_along_the_ridge():
    mu, sigma, lost = gpt2.ridge_losses((-50, -65.2, -80, -100, -200, -500))
    close([mu, sigma], (-62.2, 12.62), rtol=2e-3)
    close(lost, (-7.6, -0.3, -7.1, -21, -74.5, -125.4), atol=0.3)


def test_what_the_printed_pair_means():
    """Four readings of -log p_1, and the pair that stands in for a fit without finite (mu, sigma)."""
    close(list(gpt2.four_meanings().values()), (0.877, 1.0226, 1.1199, 1.0851), atol=6e-4)
    assert gpt2.anchor(fit_rank_law(RANKS, "lognormal")) == (MU, SIGMA)
    inside = fit_rank_law(1e6 * np.exp(-(np.log(np.arange(1, 500)) ** 2)), "lognormal")
    close(gpt2.anchor(inside), (0.5, np.sqrt(0.5)), atol=1e-3)


def test_ridge_numbers():
    k = np.arange(1.0, V + 1)
    close([1 + LAM + 2 * BETA * np.log(x) for x in (1, 10, 100, V)], (1.392, 1.406, 1.420, 1.457), atol=6e-4)
    close([LAM, BETA, 1 + LAM + BETA * np.log(V)], (0.3922, 0.00301, 1.425), atol=3e-4)
    zipf = k**-1.4 / (k**-1.4).sum()
    distances = []
    for mu in (-10, -65, -200, -1e3, -1e4):
        lam, beta = lognormal.natural(mu, np.sqrt(-mu / 0.4))
        p = np.exp(-(1 + lam) * np.log(k) - beta * np.log(k) ** 2)
        distances.append(np.abs(p / p.sum() - zipf).sum() / 2)
    close(distances, (0.077, 0.0148, 0.0050, 0.0010, 1e-4), rtol=0.02)
    V2 = lognormal.log_covariance(LAM, BETA)
    to_natural = np.array([[-1 / SIGMA**2, 2 * MU / SIGMA**3], [0, -1 / SIGMA**3]])
    usual = to_natural.T @ V2 @ to_natural
    scaled = [np.linalg.cond(I / np.sqrt(np.outer(np.diag(I), np.diag(I)))) for I in (usual, V2)]
    close(scaled, (4300, 17), rtol=0.02)
    C = np.linalg.inv(usual)
    close(C[0, 1] / np.sqrt(C[0, 0] * C[1, 1]), -0.9995, atol=2e-4)
    close(V2[0, 1] / (2 * V2[0, 0]), 4.1, atol=0.1)  # the pivot that frees the exponent from the curvature


def test_authors_law_against_their_histogram():
    low, high, mass = published.gpt2_histogram()
    m = mass / mass.sum()

    def above(x):
        return stats.norm.sf((np.log(x) - MU) / SIGMA)

    fitted = (above(low - 0.5) - above(high + 0.5)) / above(0.5)
    ratio = dict(zip(low.tolist(), fitted / m, strict=True))
    close([ratio[r] for r in (1, 2, 6, 12, 1001, 20002, 31705)], (0.86, 1.19, 1.35, 1.26, 0.61, 2.28, 11), rtol=0.01)
    close([(m * np.log(m / fitted)).sum(), above(V + 0.5) / above(0.5)], (0.0316, 0.007), atol=6e-4)
    close(-np.log(fitted[0]), 1.0226, atol=1e-4)


LACK_OF_FIT = {  # k: misses of the smallest model, Q on 2 degrees of freedom, z of the slope
    1: (185e3, 41, -49),
    10: (97e3, 62, -58),
    100: (44e3, 55, -52),
    1000: (13e3, 67, -28),
    10_000: (1.2e3, 4.7, 7.0),
}


def test_lack_of_fit_on_the_authors_figures():
    close(noise.size_spread(published.gpt2_reference("neg_log_rbp")[0]), 4.505, atol=1e-3)
    found = gpt2.figure_lack_of_fit()
    assert found["k"].tolist() == list(LACK_OF_FIT)
    columns = [found[name] for name in ("misses, smallest model", "Q", "slope in standard errors")]
    close(columns, np.transpose(list(LACK_OF_FIT.values())), rtol=0.035)
    assert np.array_equal(found["p"] < 1e-8, found["k"] <= 1000)
