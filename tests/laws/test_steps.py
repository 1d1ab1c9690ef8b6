"""Steps of a ladder and the noise floor: planted bends and laws are told apart; formulas against
simulation."""

import numpy as np
import pytest
from planted import planted_curve, planted_loss

from paper.steps import expected_r2, local_exponents, noise_floor

X = np.log(np.geomspace(1e4, 1e6, 6))


def test_a_true_law_looks_as_its_noise_says_and_a_broken_one_does_not():
    worse = []
    for seed in range(40):
        loss = planted_curve(documents=200, tokens=60, ks=(4000,), top=0.3, seed=seed).loss(4000)
        worse.append(noise_floor(loss, 0.1, n_bootstrap=400).worse)
    assert np.mean(worse) == pytest.approx(0.5, abs=0.17)
    curve = planted_curve(documents=300, tokens=400)
    curve.hits[:, 3, 0] -= curve.hits[:, 3, 0] // 10
    floor = noise_floor(curve.loss(1), n_bootstrap=500)
    assert floor.worse < 0.01 and floor.r2 < floor.r2_band[0]


def test_local_exponents_are_the_differences_of_the_logarithms():
    loss = planted_loss(-0.1 * X, source_sd=0.05)
    steps = local_exponents(loss, n_bootstrap=300)
    assert steps.alpha == pytest.approx(-np.diff(loss.y) / np.diff(X), rel=1e-9)
    assert steps.bend == pytest.approx(steps.alpha[-1] - steps.alpha[:-1].mean(), rel=1e-9)
    drawn = -np.diff(loss.resampled(300, 42).y, axis=1) / np.diff(X)
    assert steps.sources == pytest.approx(np.quantile(drawn, [0.025, 0.975], axis=0), rel=1e-9)
    # models of one size count by their mean
    twice = local_exponents(loss.keep([0, 1, 1, 2, 3, 4, 5]), n_bootstrap=0)
    assert twice.alpha == pytest.approx(steps.alpha)


@pytest.mark.parametrize("bend", [0.0, 0.1])
def test_a_planted_bend_is_covered_and_told_from_training_noise(bend):
    """Training noise is seldom taken for a bend by the test that knows it, mostly by the other."""
    y = -0.1 * X + bend * (X[5] - X[4]) * (np.arange(6) == 5)
    cases = [
        local_exponents(planted_loss(y, 0.01, 0.01, seed=s), n_bootstrap=200) for s in range(150)
    ]
    low, high = np.array([case.trainings[:, -1] for case in cases]).T
    p = np.array([case.p for case in cases])
    assert np.mean((low <= 0.1 - bend) & (0.1 - bend <= high)) == pytest.approx(0.95, abs=0.06)
    share = np.mean(p[:, 2] < 0.05)
    assert share > 0.9 if bend else share < 0.11  # 5% expected; three standard errors above
    assert np.mean(p[:, 1] < 0.05) > 0.6
    explained = {case.explained_by for case in cases}
    assert ("none of these" if bend else "trainings") in explained


def test_the_r2_of_a_law_under_noise_is_that_of_simulation():
    S, alpha, m = np.geomspace(1e7, 1e10, 7), 0.1, 1000
    x, noise = np.log(S), np.random.default_rng(3).normal(0, m**-0.5, size=(4_000, 7))
    r2 = [np.corrcoef(x, row)[0, 1] ** 2 for row in noise - alpha * x]
    assert np.median(r2) == pytest.approx(expected_r2(alpha, S, m), abs=0.01)
