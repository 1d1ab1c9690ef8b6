"""The noise floor: a true law is not called broken, a broken one is."""

import numpy as np
import pytest
from planted import planted_curve, planted_loss

from paper.show.law_tables import noise_frame
from paper.steps import fewer_sources, local_exponents, noise_floor
from rbplib.law import fit_law


def test_a_true_law_looks_as_its_noise_says():
    worse = [noise_floor(planted_curve(documents=200, tokens=60, ks=(4000,), top=0.3, seed=s).loss(4000), 0.1,
                         n_bootstrap=400).worse for s in range(40)]  # fmt: skip
    assert 0.02 < np.mean(np.array(worse) < 0.25) < 0.55 and np.mean(worse) == pytest.approx(0.5, abs=0.17)


def test_a_broken_law_is_worse_than_its_noise():
    curve = planted_curve(documents=300, tokens=400)
    curve.hits[:, 3, 0] -= curve.hits[:, 3, 0] // 10
    floor = noise_floor(curve.loss(1), n_bootstrap=500)
    assert floor.worse < 0.01 and floor.r2 < floor.r2_band[0]


def test_sd_is_one_over_the_root_of_misses_without_clustering():
    floor = noise_floor(planted_curve(documents=400, clustering=0, top=0.02).loss(10), n_bootstrap=2000)
    assert floor.sd * np.sqrt(floor.misses) == pytest.approx(np.ones(7), rel=0.15)
    assert floor.deff == pytest.approx(np.ones(7), rel=0.3)


def test_a_quarter_of_the_documents_doubles_the_noise():
    curve = planted_curve(documents=800)
    whole, quarter = (fit_law(c, 1, n_bootstrap=500).noise_sd for c in (curve, fewer_sources(curve, 0.25)))
    assert quarter / whole == pytest.approx(2, rel=0.3)


def test_a_model_without_misses_gives_no_floor_and_no_crash():
    curve = planted_curve(documents=30)
    curve.hits[:, 6, 2] = curve.totals
    floor = noise_floor(curve.loss(100), n_bootstrap=50)
    assert np.isnan(floor.worse) and np.isnan(noise_frame([floor], 4096)["1/√misses"][0])


X = np.log(np.geomspace(1e4, 1e6, 6))


def test_local_exponents_are_the_differences_of_the_logarithms():
    loss = planted_loss(-0.1 * X, source_sd=0.05)
    found = local_exponents(loss, n_bootstrap=300)
    assert found.alpha == pytest.approx(-np.diff(loss.y) / np.diff(X), rel=1e-9)
    assert found.S == pytest.approx(np.sqrt(loss.S[1:] * loss.S[:-1]))
    assert found.bend == pytest.approx(found.alpha[-1] - found.alpha[:-1].mean(), rel=1e-9)
    drawn = loss.resampled(300, 42).y
    ends = np.quantile(-np.diff(drawn, axis=1) / np.diff(X), [0.025, 0.975], axis=0)
    assert found.sources == pytest.approx(ends, rel=1e-9)


def test_trainings_widen_a_local_exponent_by_two_draws_over_the_step():
    loss = planted_loss(-0.1 * X, training_sd=0.05, source_sd=1e-6, again=40)
    found, (sd, df) = local_exponents(loss, n_bootstrap=100), loss.training_noise()
    half = (found.trainings[1] - found.trainings[0]) / 2
    assert (sd, df) == (pytest.approx(0.05, rel=0.15), 6 * 39)
    assert half == pytest.approx(1.97 * sd * np.sqrt(2) / np.diff(X), rel=2e-3)
    assert found.bend_sd[1] == pytest.approx(sd / (X[1] - X[0]) * np.sqrt(2 + 2 * 0.25 + 2 / 16), rel=1e-9)
    # -(y6 - y5) + (y5 - y1) / 4 by hand: weights -1, 1 + 1/4, -1/4


@pytest.mark.parametrize("bend", [0.0, 0.1])
def test_a_planted_bend_is_covered_and_told_from_training_noise(bend):
    """Training noise is seldom taken for a bend by the test that knows it, and mostly by the one that does not."""
    y = -0.1 * X + np.where(np.arange(6) == 5, bend * (X[5] - X[4]), 0)
    found = [local_exponents(planted_loss(y, 0.01, 0.01, seed=s), n_bootstrap=200) for s in range(150)]
    covered = [(f.trainings[0, -1] <= 0.1 - bend) & (0.1 - bend <= f.trainings[1, -1]) for f in found]
    p = np.array([f.p for f in found])
    assert np.mean(covered) == pytest.approx(0.95, abs=0.06)
    assert np.mean([f.bend for f in found]) == pytest.approx(-bend, abs=0.004)
    told = np.mean(p[:, 2] < 0.05)
    assert told < 0.11 if bend == 0 else told > 0.9  # 5% expected; 11% is three standard errors above
    assert np.mean(p[:, 1] < 0.05) > 0.6
    said = {f.explained_by for f in found}
    assert said <= {"documents", "sources", "trainings", "none of these"}
    assert ("none of these" in said) if bend else ("trainings" in said)


def test_local_exponents_without_repeats_and_with_few_sizes():
    alone = local_exponents(planted_loss(-0.1 * X, again=0), n_bootstrap=100)
    assert np.isnan(alone.trainings).all() and np.isnan(alone.p[2]) and np.isfinite(alone.p[:2]).all()
    two = local_exponents(planted_loss(-0.1 * X[:2]), n_bootstrap=100)
    assert len(two.alpha) == 1 and np.isnan(two.bend) and two.explained_by == "not tested"
    few = local_exponents(planted_loss(-0.1 * X, sources=5, documents=1), n_bootstrap=100)
    assert np.isnan(few.sources).all() and few.explained_by == "not tested"
    none = local_exponents(planted_loss(-0.1 * X).keep([3]), n_bootstrap=100)
    assert not len(none.alpha) and none.sources.shape == (2, 0) and none.explained_by == "not tested"


def test_models_of_one_size_count_by_their_mean():
    loss = planted_loss(-0.1 * X, source_sd=0.05)
    twice = local_exponents(loss.keep([0, 1, 1, 2, 3]), n_bootstrap=50)
    assert twice.alpha == pytest.approx(local_exponents(loss.keep([0, 1, 2, 3]), n_bootstrap=50).alpha)
