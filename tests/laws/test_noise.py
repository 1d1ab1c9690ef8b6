"""The noise floor: a true law is not called broken, a broken one is."""

import numpy as np
import pytest
from planted import planted_curve

from rbplib.laws.law import fit_law
from rbplib.laws.noise import fewer_sources, noise_floor
from rbplib.pages.law_tables import noise_frame


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
