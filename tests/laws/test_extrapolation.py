"""Held-out extrapolation: calibrated on planted laws, plain about what it left out."""

import numpy as np
import pytest
from planted import planted_curve

from rbplib.extrapolation import extrapolate
from rbplib.families import InputError


def test_prediction_is_a_refit_by_hand():
    curve = planted_curve()
    found = extrapolate(curve.loss(10), held_out=2)
    x, y = np.log(curve.S), np.log(-np.log(curve.rbp[:, 1]))
    slope, intercept = np.polyfit(x[:5], y[:5], 1)
    assert found.models == ("m5", "m6") and found.law.models == ("m0", "m1", "m2", "m3", "m4")
    assert found.predicted == pytest.approx(intercept + slope * x[5:])
    assert found.observed == pytest.approx(y[5:])
    assert found.error == pytest.approx(np.exp(found.predicted - y[5:]) - 1)


def test_interval_is_that_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    curve = planted_curve()
    found = extrapolate(curve.loss(1))
    x, y = np.log(curve.S), np.log(-np.log(curve.rbp[:, 0]))
    reference = sm.OLS(y[:6], sm.add_constant(x[:6])).fit().get_prediction([[1.0, x[6]]]).conf_int(obs=True)
    assert found.interval[:, 0] == pytest.approx(reference[0])


def test_interval_covers_a_planted_law():
    inside = [bool(extrapolate(planted_curve(seed=s, documents=60, tokens=80, clustering=0).loss(1)).inside[0])
              for s in range(200)]  # fmt: skip
    assert 0.89 < np.mean(inside) <= 1.0


@pytest.mark.parametrize("estimator", ["binomial", "irreducible", "quadratic"])
def test_every_estimator_predicts(estimator):
    found = extrapolate(planted_curve(documents=400, tokens=400).loss(1), 1, estimator)
    assert abs(found.error[0]) < 0.2 and np.isfinite(found.interval).all()


def test_the_cross_entropy_is_predicted_too():
    found = extrapolate(planted_curve(documents=400, tokens=400).cross_entropy_loss())
    assert abs(found.error[0]) < 0.2 and np.isfinite(found.interval).all()


def test_too_few_models_left_are_told():
    curve = planted_curve()
    with pytest.raises(InputError, match="leaves too few"):
        extrapolate(curve.keep(["m0", "m1", "m2"]).loss(1))
    exact = extrapolate(curve.keep(["m0", "m1", "m2", "m3"]).loss(1), 1, "quadratic")
    assert np.isnan(exact.interval).all() and np.isfinite(exact.error).all()
