"""How many times the parameters: beside planted laws and NumPy's lines."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from planted import exact

from rbplib import InputError, Loss, compare, forecast, table_losses

SIZES = np.geomspace(1e5, 1e8, 6)
nats = partial(exact, S=SIZES)


def hits(rng, times, source=None):
    """A Loss of hits whose law needs so many times the parameters."""
    share = np.exp(-2 * (SIZES / times / 1e5) ** -0.1)
    sums = rng.binomial(400, share, (40, len(SIZES)))
    names = tuple(f"m{i}" for i in range(len(SIZES)))
    return Loss(sums, 400, SIZES, k=1, corpus="text", models=names, source=source)


@pytest.mark.parametrize(("alpha", "beta", "x"), [(0.1, 0.1, 1e7), (0.05, 0.2, None)])
def test_the_ratio_is_that_of_planted_laws(alpha, beta, x):
    a, b = nats(1 - alpha * np.log(SIZES)), nats(2 - beta * np.log(SIZES))
    told = compare(a, b, x, n_bootstrap=0)
    S = x or SIZES[-1]
    # 1 - alpha ln S = 2 - beta ln S_b
    expected = np.exp((1 + alpha * np.log(S)) / beta)
    assert told.as_good == pytest.approx(expected) and told.ratio == pytest.approx(expected / S)
    assert told.intervals["models"] == pytest.approx((told.ratio, told.ratio), rel=1e-4)
    beyond = max(np.log10(expected / SIZES[-1]), np.log10(SIZES[0] / expected), 0)
    assert told.beyond == pytest.approx(beyond) and np.isnan(told.intervals["text"]).all()


def test_the_interval_of_other_text_draws_both_families_on_the_same_sources():
    rng = np.random.default_rng(0)
    source = np.arange(40) // 2 * 7
    a, b = hits(rng, 1, source=source), hits(rng, 3, source=source)
    told = compare(a, b, n_bootstrap=400, seed=5)
    # by hand: each source with all its documents, a line through each resample
    ratios = []
    for drawn in np.random.default_rng(5).integers(20, size=(400, 20)):
        weights = np.repeat(np.bincount(drawn, minlength=20), 2)
        lines = []
        for loss in (a, b):
            y = np.log(-np.log(weights @ loss.sums / (weights @ loss.totals)))
            lines.append(np.polyfit(np.log(SIZES), y, 1))
        (slope_a, at_a), (slope_b, at_b) = lines
        x = np.log(SIZES[-1])
        ratios.append(np.exp((slope_a * x + at_a - at_b) / slope_b - x))
    assert told.paired
    assert told.intervals["text"] == pytest.approx(np.quantile(ratios, [0.025, 0.975]), rel=1e-6)
    # of other sources nothing goes together
    unpaired = compare(a, replace(a, corpus="other"), n_bootstrap=400, seed=5)
    assert not unpaired.paired and np.ptp(unpaired.intervals["text"]) > 0.01


def test_sources_of_tables_are_paired_by_their_names():
    losses = []
    for times in (1, 3):
        loss = hits(np.random.default_rng(times), times)
        names = [f"s{i:02}" for i in range(40)]
        rows = pd.DataFrame(loss.sums, names, loss.S)
        rows = rows.rename_axis("source").reset_index().melt("source", None, "S", "hits")
        rows = rows.assign(model="m" + rows["S"].astype(str), tokens=400, k=1)
        losses += table_losses(rows.sample(frac=1, random_state=times))  # in any order
    a, b = losses
    assert compare(a, b).paired
    assert not compare(a, replace(b, labels=tuple(f"q{i}" for i in range(40)))).paired


def test_what_cannot_be_compared_is_one_sentence():
    a = nats(1 - 0.1 * np.log(SIZES))
    with pytest.raises(InputError, match="not compared"):
        compare(a, hits(np.random.default_rng(0), 1))
    with pytest.raises(InputError, match="size"):
        compare(a, a.keep([0, 1]))


def test_one_text_is_told_by_its_digest_and_by_how_much_of_it_there_is(capsys):
    rng = np.random.default_rng(3)
    a, b = (replace(hits(rng, times), corpus="c", digest="1") for times in (1, 3))
    assert compare(a, b).paired and not capsys.readouterr().err
    # another version of it, of as many documents
    assert not compare(a, replace(b, digest="2")).paired
    assert "not of one text, though c has one name" in capsys.readouterr().err
    # under another name, of other sources
    assert compare(a, replace(b, corpus="d")).paired and not capsys.readouterr().err
    assert not compare(a, replace(b, source=np.arange(40) // 2)).paired
    assert "one text in other documents or sources" in capsys.readouterr().err
    # of other numbers of tokens: paired by digests alone
    other = replace(b, totals=b.totals + 1)
    assert compare(a, other).paired
    assert not compare(replace(a, digest=None), replace(other, digest=None)).paired


def test_how_far_a_ratio_lies_outside_is_told_up_and_down():
    a, b = (nats(1 - 0.1 * np.log(SIZES / times)) for times in (1, 100))
    up, down = compare(a, b, n_bootstrap=0), compare(b, a, S=SIZES[0], n_bootstrap=0)
    assert up.outside == up.beyond == pytest.approx(2) and down.outside == pytest.approx(-2)
    assert compare(a, a, S=SIZES[2], n_bootstrap=0).outside == 0
    ahead = forecast(a, [SIZES[0] / 10, SIZES[0], 10 * SIZES[-1]])
    assert ahead.below == pytest.approx([1, 0, 0]) and ahead.horizon[2] == pytest.approx(1)


@pytest.mark.parametrize(
    ("slope", "why"),
    [(0.1, "no size of it is as good"), (-0.05, "do not tell whether f gets")],
)
def test_what_has_no_ratio_or_interval_says_why(slope, why, capsys):
    uneven = nats(np.resize([0, 0.3], 6) + slope * np.log(SIZES))
    told = compare(nats(1 - 0.1 * np.log(SIZES)), uneven, n_bootstrap=0)
    assert np.isnan(told.intervals["models"]).all() and why in capsys.readouterr().err


def test_of_three_sizes_intervals_that_are_given_hold():
    rng, inside, sizes = np.random.default_rng(1), [], SIZES[[0, 2, 5]]
    for _ in range(150):
        a, b = (exact(rng.normal(-0.1 * np.log(sizes / n), 0.01), sizes) for n in (1, 3))
        low, high = compare(a, b, 1e7, n_bootstrap=0).intervals["models"]
        inside += [low <= 3 <= high] if np.isfinite(high) else []
    assert len(inside) > 120 and np.mean(inside) > 0.93
