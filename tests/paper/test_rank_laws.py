"""Distributions of ranks: textbook forms, planted truth, other optimisers, ridge, contest."""

import numpy as np
import pytest
from plantedranks import PLANTED, V, planted_pmf
from scipy import stats

from paper import distributions
from paper.distributions import CANDIDATES, RankHistogram, fit_rank_law
from tests.ranktables import rank_table


def test_a_ceiling_of_a_lognormal_is_its_textbook_form():
    """Its rounding is held to SciPy's by `ridge`, in test_lognormal."""
    k = np.arange(1.0, 300)
    mass = np.exp(CANDIDATES["lognormal_ceiling"].formula(k, 0.8, np.log(2.2)))
    textbook = np.diff(stats.lognorm(2.2, scale=np.exp(0.8)).cdf([0, *k]))
    assert mass / mass[0] == pytest.approx(textbook / textbook[0], rel=1e-8)


@pytest.mark.parametrize("name", CANDIDATES)
def test_planted_parameters_return(name):
    fit = fit_rank_law(1e7 * planted_pmf(name, PLANTED[name]), name)
    assert fit.max_drbp < 1e-5 and fit.status in ("ok", "ridge")
    assert fit.values == pytest.approx(PLANTED[name], rel=3e-3, abs=3e-3)


def test_binned_counts_use_the_mass_of_bins():
    name = "zipf_cutoff"
    low = np.unique(np.geomspace(1, V, 40).astype(int))
    shares = np.add.reduceat(planted_pmf(name, PLANTED[name]), low - 1)
    histogram = RankHistogram(low, np.append(low[1:] - 1, V), 1e6 * shares, V)
    assert fit_rank_law(histogram, name).values == pytest.approx(PLANTED[name], rel=1e-3)


def test_ridge_is_marked():
    on_edge = fit_rank_law(1e6 * planted_pmf("zipf", (1.4,)), "lognormal")
    assert on_edge.status == "ridge" and np.isinf(on_edge.conventional["sigma"])
    far = fit_rank_law(1e8 * planted_pmf("lognormal", (1.392, 0.003)), "lognormal")
    assert far.status == "ridge" and not far.bound.any()


def test_the_contest_holds_out_sources_and_finds_the_planted_law():
    # documents of differing difficulty: a cutoff law, its exponent by document
    rng, k, ranks = np.random.default_rng(2), np.arange(1.0, V + 1), []
    for s in rng.normal(1.3, 0.15, 60):
        mass = k**-s * np.exp(-k / 900)
        ranks.append(rng.choice(V, size=400, p=mass / mass.sum()) + 1)
    rank, source = np.concatenate(ranks), np.repeat(np.arange(60), 400)
    names = ("zipf", "zipf_cutoff", "lognormal_ceiling")
    table = rank_table(rank, 3 * source, vocab_size=V)
    result = distributions.table_contest(table, names, n_bootstrap=2000, seed=1)
    assert result.best.name == "zipf_cutoff"
    (low, high), loss = result.interval.to_numpy()[:, 1:], result.loss[1:]
    assert (low < loss).all() and (loss < high).all()

    # two scores by hand: every source scored by a fit to the other folds
    fold, score = np.random.default_rng(1).permutation(60) % distributions.FOLDS, 0.0
    for i in range(distributions.FOLDS):
        test = fold[source] == i
        counts = np.bincount(rank[~test] - 1, minlength=V)
        pmfs = [fit_rank_law(counts, name).pmf[rank[test] - 1] for name in ("zipf_cutoff", "zipf")]
        score += np.log(pmfs[0] / pmfs[1]).sum()
    assert result.loss["zipf"] == pytest.approx(score / len(rank), rel=1e-6)
