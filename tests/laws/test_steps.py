"""The noise floor: planted laws and breaks are told apart; the formula of R² against simulation."""

import numpy as np
import pytest
from planted import planted_curve

from paper.steps import noise_floor, size_spread


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


def test_the_r2_of_a_law_under_noise_is_that_of_simulation():
    S, alpha, m = np.geomspace(1e7, 1e10, 7), 0.1, 1000
    x, noise = np.log(S), np.random.default_rng(3).normal(0, m**-0.5, size=(4_000, 7))
    r2 = [np.corrcoef(x, row)[0, 1] ** 2 for row in noise - alpha * x]
    signal = alpha**2 * size_spread(S)  # label eq-r2 of book/derivations/power_law
    assert np.median(r2) == pytest.approx(signal / (signal + (len(S) - 2) / m), abs=0.01)
