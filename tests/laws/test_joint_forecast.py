"""Forecasts in size and tokens, against planted truth, by brute force and beside statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm

from paper import joint, joint_forecast
from rbplib.families import InputError
from rbplib.forecasting import mixture_quantiles
from tests.planted import planted_grid

GRID = planted_grid(a=0.2, b=0.3)
POINTS = GRID.curve.S, GRID.D, GRID.loss().values


def test_a_product_widens_as_its_regression():
    S, D, loss = np.array(POINTS) * np.exp([[0.0], [0.0], [1.0]] * np.random.default_rng(0).normal(0, 0.02, (3, 30)))
    law, ahead = joint.fit(S, D, loss, "product"), (np.array([1e6, 3e4]), np.array([4e7, 3e6]))
    fitted = sm.OLS(np.log(loss), np.column_stack([np.ones(30), np.log(S), np.log(D)])).fit()
    told = fitted.get_prediction(np.column_stack([np.ones(2), *np.log(ahead)]))
    assert law.widening(*ahead) == pytest.approx(told.se_obs / np.sqrt(fitted.scale), rel=1e-6)
    assert np.log(law.predict(*ahead)) == pytest.approx(told.predicted_mean)


@pytest.mark.parametrize("form", ["additive", "kaplan"])
def test_other_forms_widen_as_their_refits_scatter(form):
    rng, ahead = np.random.default_rng(1), ([3e6], [5e7])
    law = joint.fit(*POINTS, form)
    truth, sd = law.predict(*POINTS[:2]), 0.002
    draws = [own.predict(*ahead)[0] for own in law.refitted(truth * np.exp(rng.normal(0, sd, (400, 30))))]
    spread = np.std(np.log(draws)) / sd
    assert law.widening(*ahead)[0] == pytest.approx(np.sqrt(1 + spread**2), rel=0.1)


def test_a_planted_law_is_foretold_and_the_interval_is_the_mixture():
    S, D = np.array([1e6, 1e5]), np.array([6e7, 5e6])
    found = joint_forecast.joint_forecast(POINTS, S, D)
    truth = 3 * (2.0 * S**-0.2 + 20.0 * D**-0.3)
    assert found.by_form["additive"] == pytest.approx(truth, rel=1e-3) and list(found.laws) == list(
        joint_forecast.FORMS
    )
    assert ((found.interval[0] < np.log(truth)) & (np.log(truth) < found.interval[1])).all()
    sd = [law.residual_sd * law.widening(S, D) for law in found.laws.values()]
    y = np.log(list(found.by_form.values()))
    alone = mixture_quantiles(y, np.array(sd), np.full((4, 1), 3.0), [0.025, 0.5, 0.975])  # 5 amounts, 2 exponents
    assert alone == pytest.approx(np.stack([found.interval[0], found.y, found.interval[1]]))
    noisy = joint_forecast.joint_forecast(POINTS, S, D, draws=POINTS[2] * [[1.1], [0.9]], least=0.1)
    assert (np.ptp(noisy.interval, axis=0) > np.ptp(found.interval, axis=0) + 0.2).all()


def test_where_a_pair_lies_is_said_of_both_sides():
    found = joint_forecast.joint_forecast(POINTS, [1e5, 1e9], 3.2e7)
    assert found.place(0) == "inside the sizes measured, an interpolation; 0.30 decades beyond the most text"
    assert "0.30 decades beyond the most text; WARNING: beyond both at once" in found.place(1)


def test_trainings_given_twice_are_told_as_one():
    twice = [np.concatenate([p, p]) for p in POINTS]
    once, again = (joint_forecast.joint_forecast(p, [1e6], 6e7) for p in (POINTS, twice))
    assert again.interval == pytest.approx(once.interval) and again.y == pytest.approx(once.y)
    apart = [*twice[:2], np.concatenate([POINTS[2] * 1.01, POINTS[2] / 1.01])]
    draws = np.array([np.concatenate([POINTS[2] * x, POINTS[2] / x]) for x in (1.1, 1.2)])
    assert joint_forecast.joint_forecast(apart, [1e6], 6e7, draws=draws).y == pytest.approx(once.y)


def test_what_is_left_out_is_counted_by_hand():
    left = joint_forecast.grid_ends(*POINTS[:2])
    frame = joint_forecast.held_out_joint(POINTS, left, {"corpus": "docs"})
    assert frame["left"].value_counts().to_dict() == {
        "the largest size": 5, "the largest two sizes": 10, "the most text": 6, "beyond in both at once": 2,
    }  # fmt: skip
    own = frame[frame["left"] == "the most text"]
    kept = GRID.D < GRID.D.max()
    again = joint_forecast.joint_forecast([p[kept] for p in POINTS], POINTS[0][~kept], POINTS[1][~kept])
    assert own["forecast"].to_numpy() == pytest.approx(np.exp(again.y))
    assert own["inside"].tolist() == ((own["low"] <= own["measured"]) & (own["measured"] <= own["high"])).tolist()
    assert joint_forecast.held_out_joint([p[:4] for p in POINTS], {"two": np.arange(4) < 2}).empty
    assert joint_forecast.held_out_joint(POINTS, {"nothing beyond both": (kept, kept & ~kept)}).empty


def test_intervals_hold_what_they_say_where_one_form_is_true():
    rng, held = np.random.default_rng(2), []
    for _ in range(25):
        loss = POINTS[2] * np.exp(rng.normal(0, 0.01, 30))
        points = (*POINTS[:2], loss)
        out = {"the largest size": POINTS[0] == POINTS[0].max()}
        held += joint_forecast.held_out_joint(points, out)["inside"].tolist()
    assert np.mean(held) > 0.95  # wider than a single form's, for three of the four are wrong here


def test_forecasts_of_measured_families(monkeypatch):
    monkeypatch.setattr(joint_forecast, "grid", lambda *asked: GRID)
    losses, ahead = joint_forecast.joint_losses("a", ["b"], "docs", 1, 5e7)
    found = ahead(losses["cross_entropy"], [1e6], n_bootstrap=20)
    assert found.D == [5e7] and found.told(0)[0] == pytest.approx(3 * (2.0 * 1e6**-0.2 + 20.0 * 5e7**-0.3), rel=0.1)
    assert ahead(losses["run"], [1e6]) == losses["run"]
    few = losses["rbp"].keep([0, 1])
    monkeypatch.setattr(joint_forecast, "grid", lambda *asked: type(GRID)(GRID.curve.keep([0, 1]), GRID.D[:2]))
    losses, ahead = joint_forecast.joint_losses("a", ["b"], "docs", 1, 5e7)
    assert ahead(few, [1e6]).startswith("there is no forecast in size and tokens: it has 3 parameters")
    for tokens, beside in ((None, ["b"]), (5e7, None)):
        with pytest.raises(InputError, match="--tokens and --beside go together"):
            joint_forecast.joint_losses("a", beside, "docs", 1, tokens)
