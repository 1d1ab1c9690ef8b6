"""Probed trainings: where a planted ability comes in, and what a loss loses there."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from paper import probes

TOKENS = np.arange(0, 11) * 1e6


def planted(start, slope=-0.5, se=0.05):
    """A training that copies from `start` tokens on, deeper by `slope` nats a million tokens."""
    copying = slope * np.clip(TOKENS - start, 0, None) / 1e6
    losses = {"copyable": 4.0 * 2.0 ** (-TOKENS / 1e6), "other": np.full(len(TOKENS), 4.0)}
    rows = [("copying", probes.STRING, copying), *(("loss", part, y) for part, y in losses.items())]
    frames = [
        pd.DataFrame({"tokens": TOKENS, "probe": probe, "part": part, "value": y, "se": se})
        for probe, part, y in rows
    ]
    return pd.concat(frames).assign(size=100, seed=1, k=np.nan)


def test_the_onset_of_a_planted_ability_is_found_with_its_interval():
    at, (low, high) = probes.onset(planted(2.25e6))
    assert at == pytest.approx(2.25e6 + 0.5 / 0.5 * 1e6, rel=0.02)
    assert low < at < high and high - low == pytest.approx(2 * 1.96 * 0.05 / 0.5 * 1e6, rel=0.1)


def test_an_ability_that_never_comes_has_no_onset_and_no_fall():
    row = probes.onset_frame({(100, 1): planted(20e6)}).iloc[0]
    assert row[["onset", "low", "high", "copyable", "other", "times"]].isna().all()
    assert list(probes.onset_frame({}).columns) == probes.COLUMNS


def test_a_part_loses_its_share_between_half_and_twice_the_onset():
    row = probes.onset_frame({(100, 1): planted(2e6)}).iloc[0]
    assert row.onset == pytest.approx(3e6)
    assert row.copyable == pytest.approx(1 - 2.0**-6 / np.mean([2.0**-1, 2.0**-2]))
    assert row.other == 0
    # beyond the last probe nothing is known
    assert np.isnan(probes.fall(planted(2e6), "copyable", 6e6, 12e6))


def test_kept_trainings_are_read_by_size_and_seed():
    trainings = probes.runs()
    assert trainings and list(trainings) == sorted(trainings)
    for probed in trainings.values():
        tokens, value, se = probes.series(probed, "copying", probes.STRING)
        assert (np.diff(tokens) > 0).all() and np.isfinite(value).all() and (se[1:] > 0).all()


def onsets_of(power, scatter=0.0, seed=0):
    """Onsets of five trainings each of four sizes, a power of size; a smaller size is late."""
    noise = np.random.default_rng(seed)
    rows = [
        {"size": size, "onset": 1e6 * size**power * np.exp(scatter * noise.standard_normal())}
        for size in (200_000, 600_000, 2_000_000, 5_000_000)
        for _ in range(5)
    ]
    # at the smallest size one training of two is not seen to copy: the size must be left out
    rows += [{"size": 79_000, "onset": 9e9}, {"size": 79_000, "onset": np.nan}]
    return pd.DataFrame(rows)


def test_onset_slope_is_the_planted_power_and_that_of_an_independent_tool():
    slope, ends, sizes = probes.onset_slope(onsets_of(-0.2))
    assert slope == pytest.approx(-0.2) and ends == pytest.approx((-0.2, -0.2))
    assert sizes == [200_000, 600_000, 2_000_000, 5_000_000]
    frame = onsets_of(-0.2, 0.3)
    slope, (low, high), _ = probes.onset_slope(frame)
    known = frame[frame["size"] > 79_000]
    line = stats.linregress(np.log(known["size"]), np.log(known["onset"]))
    half = stats.t.ppf(0.975, len(known) - 2) * line.stderr
    assert (slope, low, high) == pytest.approx((line.slope, line.slope - half, line.slope + half))


def test_onset_slope_holds_what_was_planted_as_often_as_it_says():
    inside = 0
    for seed in range(400):
        _, (low, high), _ = probes.onset_slope(onsets_of(-0.1, 0.3, seed))
        inside += low <= -0.1 <= high
    assert 0.92 <= inside / 400 <= 0.98


def test_onset_slope_says_nothing_of_one_size():
    frame = onsets_of(0)
    slope, ends, sizes = probes.onset_slope(frame[frame["size"] <= 200_000])
    assert np.isnan([slope, *ends]).all() and sizes == [200_000]
