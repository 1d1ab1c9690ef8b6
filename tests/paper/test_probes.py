"""Probed trainings: where a planted ability comes in, and what a loss loses there."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from paper import probes
from rbplib.families import InputError
from tests.pagerunner import records, run_page
from tests.ranktables import rank_table

TOKENS = np.arange(0, 11) * 1e6


def rows(probe, part, value, **about):
    return pd.DataFrame({"tokens": TOKENS, "probe": probe, "part": part, "value": value} | about)


LOSSES = {"copyable": 4.0 * 2.0 ** (-TOKENS / 1e6), "other": 4.0 - TOKENS / 1e7}


def planted(start):
    """A training that copies from `start` tokens on, deeper by half a nat a million tokens."""
    copying = -0.5 * np.clip(TOKENS - start, 0, None) / 1e6
    frames = [rows("loss", part, value, se=0.05) for part, value in LOSSES.items()]
    return pd.concat([*frames, rows("copying", probes.STRING, copying, se=0.05)])


def test_the_onset_of_a_planted_ability_and_what_each_part_loses_around_it():
    early, never = planted(2e6), planted(20e6)
    frame = probes.onset_frame({(100, 1): early, (100, 2): never, (100, 3): planted(2.25e6)})
    first, none, later = frame.itertuples()
    assert first.onset == pytest.approx(3e6) and later.onset == pytest.approx(3.25e6, rel=0.02)
    assert first.low < first.onset < first.high
    assert first.high - first.low == pytest.approx(2 * 1.96 * 0.05 / 0.5 * 1e6, rel=0.1)
    # from half to twice the onset, and from an eighth to half of it
    y = np.array([np.interp([3.75e5, 1.5e6, 6e6], TOKENS, loss) for loss in LOSSES.values()])
    before, fall = (1 - y[:, 1:] / y[:, :-1]).T
    assert [first.copyable, first.other] == pytest.approx(fall)
    assert first.times == pytest.approx(fall[0] / fall[1])
    assert first.before == pytest.approx(before[0] / before[1])
    assert np.isnan([none.onset, none.copyable, none.before]).all()
    assert np.isnan(probes.fall(early, "copyable", 6e6, 12e6))  # beyond the last probe


HEAD, BODY = "size,seed,tokens,probe,part,k,value,se,total\n", ""
for tokens in (10, 20):
    BODY += f"8,44,{tokens},loss,other,,1,.1,5\n8,44,{tokens},hits,other,1,2,,5\n"
    BODY += f"8,44,{tokens},copying,random,,-0.25,.1,5\n8,44,{tokens},loss,copyable,,0.5,.1,5\n"
FAULTS = {  # of a file: what stands where, and what in its stead
    "one.csv, row 4": ("-0.25", ""),
    "one.csv, row 3": ("2,,5", "6,,5"),
    "two.csv, row 2": (",44,", ",43,"),  # a copy of another
    "one.csv lacks rows at 20": ("8,44,20,hits,other,1,2,,5\n", ""),
    "one.csv cannot be read.*no row": (BODY, ""),
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_fault_of_a_probe_file_is_a_sentence_that_names_it(message, monkeypatch, tmp_path):
    monkeypatch.setattr(probes, "held", lambda *parts: tmp_path)
    text = HEAD + BODY
    (tmp_path / "two.csv").write_text(text.replace(",44,", ",43,"))
    assert list(probes.runs()) == [(8, 43)]
    (tmp_path / "one.csv").write_text(text.replace(*FAULTS[message]))
    with pytest.raises(InputError, match=message):
        probes.runs()


def censored_depth(onsets, slope):
    """-ln likelihood of a slope by scipy's fit of a normal to censored data."""
    came = onsets["onset"].notna()
    off = np.log(onsets["onset"].fillna(onsets["end"])) - slope * np.log(onsets["size"])
    normal = stats.norm(*stats.norm.fit(stats.CensoredData(off[came], right=off[~came])))
    return -normal.logpdf(off[came]).sum() - normal.logsf(off[~came]).sum()


def test_onset_slope_is_the_planted_power_and_counts_what_never_came_as_late():
    size = np.repeat([2e5, 6e5, 2e6, 5e6], 5)
    noise = np.exp(0.3 * np.random.default_rng(0).standard_normal(20))
    frame = pd.DataFrame({"size": size, "onset": 1e6 * size**-0.2 * noise, "end": 16e6})
    slope, (low, high) = probes.onset_slope(frame)
    line = stats.linregress(np.log(size), np.log(frame["onset"]))
    half = stats.t.ppf(0.975, 18) * line.stderr
    scipys = line.slope, line.slope - half, line.slope + half
    assert (slope, low, high) == pytest.approx(scipys, abs=1e-4) and low < -0.2 < high
    assert np.isnan(probes.onset_slope(frame[:5])[0])  # one size
    # the later half beyond the last probe: the least of scipy's censored fits, and ends as high
    end = frame["onset"].median()
    seen = frame.assign(onset=frame["onset"].where(frame["onset"] < end), end=end)
    at, (low, high) = probes.onset_slope(seen)
    least, *beside = (censored_depth(seen, slope) for slope in (at, at - 0.01, at + 0.01))
    assert least < min(beside)
    assert censored_depth(seen, low) == pytest.approx(censored_depth(seen, high), rel=1e-4)


def test_a_token_is_copyable_where_its_bigram_stood_before():
    windows = np.random.default_rng(3).integers(0, 9, (40, 50))
    document, position = np.indices((40, 49)).reshape(2, -1)
    table = rank_table(1 + 0 * document, document, position + 1, token=windows[:, 1:].ravel())
    by_hand = []
    for window in windows[:, 1:].tolist():  # the first token of a window is in no table
        bigrams = list(zip(window, window[1:], strict=False))
        by_hand += [False] + [pair in bigrams[:i] for i, pair in enumerate(bigrams)]
    assert probes.copyable(table).tolist() == by_hand


def test_losses_are_of_the_parts_and_of_the_whole_joined_from_them():
    frames, losses = [], {"copyable": np.linspace(1, 0.5, 11), "other": np.full(11, 1.5)}
    for part, y in losses.items():
        hits = np.round(1e6 * np.exp(-y))
        frames += [rows("hits", part, hits, k=1), rows("loss", part, 2 * y, k=0)]
    frames += [rows("copying", part, -TOKENS / 1e7) for part in probes.STRINGS]
    trainings = {(100, 1): pd.concat(frames).assign(size=100, seed=1, total=1_000_000, se=0.1)}
    frame = probes.losses(trainings)
    curves = {(row["what"], row["part"]): row["value"] for row in probes.curves(trainings)}
    assert curves[probes.TEN, "other"] == pytest.approx(np.full(10, np.exp(-15)), rel=1e-4)
    first = frame[frame["k"] == 1]
    assert len(first) == 10 and (first["share"] == 0.5).all()  # none before the first step
    whole = -np.log((np.exp(-losses["copyable"]) + np.exp(-1.5)) / 2)[1:]
    assert first["whole"].to_numpy() == pytest.approx(whole, abs=1e-5)


@pytest.mark.parametrize("shape", probes.FITTED)
def test_the_planted_shape_misses_least(shape):
    tokens = np.arange(3, 41) * 4e5
    x = np.log(tokens / 5e6)
    after = x > 0
    logs = {"line": -0.2 * x, "step": -0.5 * after, "bent": -0.1 * x - 0.4 * x * after}
    logs["fall"] = logs["bent"] - 0.3 * after
    logs["steep"] = -0.1 * x - 0.5 * np.clip(x, -np.log(2) / 2, np.log(2) / 2)
    noise = np.random.default_rng(0).normal(0, 0.01, len(x))
    errors = probes.shape_errors(tokens, np.exp(logs[shape] + noise), 5e6)
    # a shape that holds the planted one misses no more than its own noise allows
    assert errors[shape] <= 1.15 * min(errors.values()) < 0.02
    assert shape == "steep" or errors["fall"] < 0.02
    assert all(map(np.isnan, probes.shape_errors(tokens, tokens, 1e9).values()))


def test_the_onset_moves_with_the_batch_as_planted(monkeypatch, tmp_path):
    (tmp_path / "batch-2").mkdir()
    trainings = {(100, n): planted(4e6 + 1e5 * n) for n in (1, 2, 3)} | {(200, 1): planted(1e6)}
    others = {(100, n): planted(1.5e6 + 1e5 * n) for n in (1, 2, 3)}
    monkeypatch.setattr(probes, "held", lambda *parts: tmp_path)
    monkeypatch.setattr(probes, "runs", {"batch-2": others}.get)
    frame = probes.by_batch(trainings)
    assert frame["batch"].tolist() == 3 * [2] + 3 * [8] and (frame["size"] == 100).all()
    reach = 10**5.7 * np.sqrt(np.array([2, 8]) * 256)
    assert frame["predicted"].unique() == pytest.approx(reach)
    power, (low, high) = probes.onset_slope(frame.assign(size=frame["batch"]))
    assert power == pytest.approx(np.log(5.2 / 2.7) / np.log(4), rel=0.01) and low < power < high


def test_a_gain_of_copyable_tokens_counts_beyond_the_scatter_of_trainings_alone(monkeypatch):
    """The rule of `copying_steep`, on planted gains: in trainings that do not copy they are 1."""
    cases = [(78_960, 43), (78_960, 44), *product((200_064, 655_928, 1_856_000), (42, 43))]
    runs = probes.runs()
    trainings = {case: runs[case] for case in cases}  # the first two do not
    onsets = probes.onset_frame(trainings)
    logs = np.repeat([0, -0.8, 0, 0.8], 2) + np.tile([0, 0.1], 4)
    planted = onsets.assign(times=np.exp(logs), before=1.0)
    monkeypatch.setattr(probes, "runs", lambda folder=".": trainings)
    monkeypatch.setattr(probes, "onset_frame", lambda _: planted)
    monkeypatch.setattr(probes, "gains", lambda probed, at: (0.5, 0.5, 1.0, 1.0))
    rows = records(run_page("15_copying"))["claim copying_steep"]["rows"]
    # Student's interval of one training beside the mean of two
    half = stats.t.ppf(0.975, 3) * 0.1 / np.sqrt(2) * np.sqrt(1 + 1 / 2)
    assert [row["chance"] for row in rows] == pytest.approx([np.exp(half)] * 6)
    assert [row["holds"] for row in rows] == [False, False, None, None, True, True]
    assert [row["hidden"] for row in rows] == [False, False, True, True, False, False]
