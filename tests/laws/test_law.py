"""Laws: planted exponents come back, doubt is said, and other people's code agrees."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from planted import planted_losses

import rbplib as rbp


@pytest.fixture(scope="module")
def losses():
    return planted_losses(tokens=400)


@pytest.fixture(scope="module")
def loss(losses):
    return losses[1]


def test_a_bend_and_its_interval_over_models_are_those_of_statsmodels(loss):
    sm = pytest.importorskip("statsmodels.api")
    law, z = rbp.fit(loss, "quadratic", n_bootstrap=0), np.log(loss.S)
    z -= z.mean()
    theirs = sm.OLS(law.y, np.column_stack([-z, np.ones(7), z**2])).fit()
    bend = law.parameters["curvature"]
    assert [law.alpha, bend] == pytest.approx(theirs.params[[0, 2]], rel=1e-8)
    assert law.intervals["models"]["curvature"] == pytest.approx(theirs.conf_int()[2], rel=1e-8)


def test_the_binomial_law_is_the_glm_of_statsmodels(losses):
    sm = pytest.importorskip("statsmodels.api")
    loss = losses[100]
    law = rbp.fit(loss, "binomial", n_bootstrap=0)
    counts = np.column_stack([loss.misses, loss.sums.sum(0)])
    family = sm.families.Binomial(link=sm.families.links.CLogLog())
    glm = sm.GLM(counts, sm.add_constant(np.log(loss.S)), family=family).fit(tol=1e-12)
    assert [law.log_c, -law.alpha] == pytest.approx(glm.params, rel=1e-7)


def test_a_planted_floor_comes_back_and_none_is_below_zero():
    S = 2000 * 3.0 ** np.arange(10)
    law = rbp.fit(0.3 + 5 * S**-0.312346, "irreducible", S=S)
    assert [*law.parameters.values()] == pytest.approx([0.312346, np.log(5), 0.3], rel=1e-4)
    below = rbp.fit(2 * S**-0.1 - 0.05, "irreducible", S=S)
    assert below.parameters["floor"] == 0 and below.status == "at a bound" != law.status


DOUBTS = {  # hits (D, M) of totals (D, 1) and of those that were planted
    "saturated": lambda totals, sums: totals + 0 * sums,
    "no hits": lambda totals, sums: 0 * sums,
    "wrong sign": lambda totals, sums: sums[:, ::-1],
    "equal losses": lambda totals, sums: sums[:, :1] + 0 * sums,
    "few misses": lambda totals, sums: totals - (np.arange(300)[:, None] < 99 - np.arange(7)),
    # one document holds every miss
    "no interval of other text": lambda totals, sums: (
        totals - (np.arange(300)[:, None] == 0) * np.arange(99, 29, -10)
    ),
}


@pytest.mark.parametrize("status", DOUBTS)
def test_doubt_is_said_beside_the_fit(loss, status):
    sums = DOUBTS[status](loss.totals[:, None], loss.sums)
    assert status in rbp.fit(replace(loss, sums=sums), n_bootstrap=100).notes


def test_twenty_documents_are_enough_and_the_widest_noise_tells_a_lack_of_fit(loss):
    for D in (19, 20):
        part = replace(loss, sums=loss.sums[:D], totals=loss.totals[:D])
        law = rbp.fit(part, n_bootstrap=0)
        assert ("too few documents" in law.notes) == (D < 20)
    for trainings, doubted in ((0.5, False), (1e-4, True), (np.nan, True)):
        law = replace(law, p={"sources": 1e-9, "trainings": trainings})
        assert ("lack of fit" in law.caveats) == doubted


@pytest.mark.parametrize(
    ("y", "caveats"),
    [
        ([0.3, 0.2, 0.1, 0.0], ()),
        ([0.3, 0.0, 0.25, 0.1], ("not told from 0", "no line")),
        ([0.2, 0.2, 0.2, 0.2], ()),  # equal losses: a note
    ],
)
def test_caveats_stand_beside_the_notes_and_change_no_status(y, caveats):
    y = np.array(y) + np.array([0, 1e-3, -1e-3, 0]) * (np.ptp(y) > 0)
    law = rbp.fit(np.exp(y), S=[1e6, 1e7, 1e8, 1e9])
    assert law.caveats == caveats and not {*caveats} & {*law.notes}
    (row,) = rbp.law_table([law]).to_dict("records")
    assert (row["status"], row["caveats"]) == (law.status, ", ".join(caveats))
    assert all(word in repr(law) for word in (law.status, *caveats))


@pytest.mark.parametrize("estimator", ["least_squares", "binomial"])
def test_fewer_than_three_sizes_are_a_status_and_no_exponent(loss, estimator):
    few = replace(loss.keep(np.arange(4)), S=np.array([1e6, 1e6, 1e7, 1e7]))
    law = rbp.fit(few, estimator, n_bootstrap=100)
    assert law.status == "too few models"
    assert np.isnan([law.alpha, law.r2, *law.ci_tokens]).all()


def test_a_model_without_a_miss_is_left_out_but_by_maximum_likelihood(loss):
    sums = loss.sums.copy()
    sums[:, 2] = loss.totals
    law = rbp.fit(replace(loss, sums=sums), n_bootstrap=0)
    assert law.used == (0, 1, 3, 4, 5, 6) and law.without == ("m2",) and law.status == "saturated"
    assert law.y == pytest.approx(np.delete(loss.y, 2))
    assert len(rbp.fit(replace(loss, sums=sums), "binomial", n_bootstrap=0).used) == 7


def test_a_figure_of_laws_draws_what_is_there():
    laws = [rbp.fit(S=[1e6, 1e7, 1e8], hits=hits, totals=99) for hits in ([9] * 3, [30, 40, 50])]
    flat, good = (law.plot(Figure().subplots(), color="C1", marker="s") for law in laws)
    (_,), (points, line) = flat.lines, good.lines  # equal losses have no line
    assert points.get_marker() == "s" and line.get_color() == "C1"
    assert points.get_ydata() == pytest.approx(laws[1].loss.values)
    S, y = line.get_data()  # beyond the ends by a quarter
    assert S[[0, -1]] == pytest.approx([0.8e6, 1.25e8])
    assert y == pytest.approx(np.exp(laws[1].y_at(S)))
    axes = rbp.plot_intervals(laws, ["one", "two"], ax=Figure().subplots())
    assert [text.get_text() for text in axes.get_yticklabels()] == ["one", "two"]
    for wrong, match in [({"parameter": "beta"}, "'beta'"), ({"labels": ["one"]}, "not 1: one")]:
        with pytest.raises(rbp.InputError, match=match):
            rbp.plot_intervals(laws, **wrong)


def test_one_law_or_a_dict_is_tabled_and_more_than_one_loss_is_refused_by_what_takes_one(losses):
    law, tables = rbp.fit(losses[1]), rbp.plain_table(([[0]], [[1]], [[-1]]), 1e6, 9)
    assert len(rbp.law_table(law)) == len(rbp.law_table({"a text": law})) == 1
    assert len(rbp.plot_intervals({1: law}, iter("a"), ax=Figure().subplots()).get_yticks()) == 1
    for call, given, match in [
        (rbp.fit, losses, "a fit takes a Loss, and got dict"),
        (rbp.fit, [losses[1]], "got list"),
        (rbp.fit, [tables], "got list"),
        (rbp.rbp_loss, {"a text": [tables]}, "give one, as ladders"),
        (lambda k: rbp.rbp_loss(tables, k), [1, 10], "takes one k: give several to rbp_losses"),
    ]:
        with pytest.raises(rbp.InputError, match=match):
            call(given)
