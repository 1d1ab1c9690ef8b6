"""The noise floor: planted laws and breaks are told apart."""

import numpy as np
import pytest
from planted import planted_losses

from paper.steps import noise_floor


def test_a_true_law_looks_as_its_noise_says_and_a_broken_one_does_not():
    worse = []
    for seed in range(40):
        loss = planted_losses(200, tokens=60, ks=(4000,), top=0.3, seed=seed)[4000]
        worse.append(noise_floor(loss, 0.1, n_bootstrap=400).worse)
    assert np.mean(worse) == pytest.approx(0.5, abs=0.17)
    loss = planted_losses(tokens=400, ks=(1,))[1]
    loss.sums[:, 3] -= loss.sums[:, 3] // 10
    floor = noise_floor(loss, n_bootstrap=500)
    assert floor.worse < 0.01 and floor.r2 < floor.r2_band[0]
