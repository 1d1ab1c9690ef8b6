"""Figures of single predictions, rank histograms and noise that move: what they say is what numpy and scipy say."""

import re

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import ncf

from rbplib.laws.noise import noise_floor, size_spread, y_se
from rbplib.pages import moving_ranks
from tests.pages.test_moving import labels, spec_of
from tests.planted import planted_curve


def told(spec, pattern, **chosen):
    """The numbers in the one text of a figure that holds the pattern, with its parameters set so."""
    text = " ".join(labels(spec, **chosen)).replace("−", "-").replace(",", "")
    (found,) = set(re.findall(pattern, text))
    return [float(x) for x in ([found] if isinstance(found, str) else found)]


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(1)
    logits, ids = rng.normal(0, 2, (3, 50)).astype(np.float32), [7, 11, 3, 40]
    logits[0, 12] = logits[0, 11]  # a tie counts against the true token
    logits[2, 40], logits[2, 9] = logits[2].min() - 1, -np.inf
    return logits, ids, spec_of(moving_ranks.guess(logits, ids, lambda some: "".join(f" <{i}>" for i in some)))


@pytest.mark.parametrize("T", [0.2, 1, 2.5, 3])
def test_temperature_moves_the_nats_of_the_whole_vocabulary_and_no_rank(scored, T):
    logits, ids, spec = scored
    true = -log_softmax(logits.astype(float) / T, axis=1)[np.arange(3), ids[1:]]
    for place in (1, 2, 3):
        rank = (logits[place - 1] >= logits[place - 1, ids[place]]).sum()
        parts = r"rank (\d+) at every T its -log p at T = [\d.]+: ([\d.]+) nats mean of the 3 places: ([\d.]+) nats"
        found = told(spec, parts.replace(" its", ".its").replace(" mean", ".mean"), place=place, T=T)
        assert found == pytest.approx([rank, true[place - 1], true.mean()], abs=6e-4)


def test_the_bars_are_the_best_candidates_and_the_true_token(scored):
    logits, ids, spec = scored
    p = np.exp(log_softmax(logits.astype(float), axis=1))
    bars = [x for x in labels(spec, place=3) if x.startswith("names: ") or "; names: " in x]
    shown = [float(re.search(r"probability at T: ([\d.e-]+)", x)[1]) for x in bars if "told" not in x]
    assert shown == pytest.approx([*np.sort(p[2])[::-1][:8], p[2, 40]], rel=1e-4)
    (true,) = [x for x in labels(spec, place=3) if "← true" in x]
    assert "49 ␣&lt;40&gt;" in true  # of fifty one has no score, and it stands behind


def test_no_place_is_a_sentence():
    assert moving_ranks.guess(np.empty((0, 5)), [1], str) == moving_ranks.NO_PLACE
    assert moving_ranks.guess(np.full((1, 5), -np.inf), [1, 2], str) == moving_ranks.NO_PLACE


@pytest.mark.parametrize(("step", "more"), [(0, 0), (1, -2)])
def test_a_perfect_law_shows_the_r2_of_the_noncentral_f(step, more):
    curve = planted_curve()
    floors = [noise_floor(curve.loss(k), n_bootstrap=200) for k in (1, 100)]
    spec, one = spec_of(moving_ranks.floor({"one": curve}, {"one": floors})), floors[step]
    n, free = curve.scored_tokens, len(curve.S) - 2
    strength = 10**more * one.alpha**2 * size_spread(curve.S) / np.mean(y_se(one.misses / n, n) ** 2)
    F = ncf.ppf([0.5, 0.05, 0.95], 1, free, strength)
    parts = r"R² = ([\d.]+).a perfect law with (\d+) misses:.R² = ([\d.]+).nine in ten from ([\d.]+) to ([\d.]+)"
    found = told(spec, parts.replace(".nine", " nine"), step=step, more=more)
    assert found[:2] == pytest.approx([one.r2, one.misses[-1] * 10**more], abs=0.5)
    assert found[2:] == pytest.approx(F / (F + free), abs=0.02)


def test_no_noise_known_is_a_sentence():
    assert isinstance(moving_ranks.floor({}, {}), str)
