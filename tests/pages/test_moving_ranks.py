"""Figures of single predictions, rank histograms and noise that move: what they say is what numpy and scipy say."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import lognorm, ncf

from paper.histogram import table_histogram
from paper.lognormal_fit import ridge
from paper.rank_fit import fit_rank_law
from paper.show import moving_ranks
from paper.steps import noise_floor, size_spread, y_se
from tests.pages.test_moving import labels, spec_of, words_of
from tests.pages.test_rank_tables import TABLES
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
        found = told(spec, parts.replace(" its", ".its").replace(" mean", ".mean"), place=place, T=T, show=True)
        assert found == pytest.approx([rank, true[place - 1], true.mean()], abs=6e-4)


def test_the_bars_are_the_best_candidates_and_the_true_token(scored):
    logits, ids, spec = scored
    p = np.exp(log_softmax(logits.astype(float), axis=1))
    bars = [x for x in labels(spec, place=3, show=True) if x.startswith("names: ") or "; names: " in x]
    shown = [float(re.search(r"probability at T: ([\d.e-]+)", x)[1]) for x in bars if "told" not in x]
    assert shown == pytest.approx([*np.sort(p[2])[::-1][:8], p[2, 40]], rel=1e-4)
    (true,) = [x for x in labels(spec, place=3, show=True) if "← true" in x]
    assert "49 ␣&lt;40&gt;" in true  # of fifty one has no score, and it stands behind


def test_the_true_token_is_hidden_until_it_is_asked_for(scored):
    _, _, spec = scored
    before = " ".join(x for place in (1, 2, 3) for x in labels(spec, place=place))
    assert (
        "true" not in before and "rank" not in before and "49 ␣&lt;40&gt;" not in before and "mean of the 3" in before
    )
    assert "true" not in str(spec["params"]).replace("Show the true token", "") and "→" not in str(spec["params"])


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


def rounded(sigma, mu, V=400):
    """Masses of the ranks 1..V by scipy's lognormal, cut at the halves; by the upper tail, where these are exact."""
    ends = lognorm(sigma, scale=np.exp(mu)).sf(np.arange(V + 1) + 0.5)
    return (ends[:-1] - ends[1:]) / (ends[0] - ends[-1])


@pytest.fixture(scope="module")
def walked():
    return spec_of(moving_ranks.ridge({"one": TABLES}, [1, 10]))


@pytest.mark.parametrize(("at", "chosen"), [(0, {"mu": -5.0}), (1, {"mu": 1.5, "sigma": 2}), (2, {"way": "best"})])
def test_the_likelihood_on_the_ridge_is_that_of_scipys_lognormal(walked, at, chosen):
    table = TABLES[::-1][at]
    histogram, rank = table_histogram(table), table.rank()
    parts = r"μ = (N) σ = (N) below the best fit by.(N) nats per token.(N) over all (N) tokens"
    parts += r".RBP at k = 1: (N) measured (N).RBP at k = 10: (N) measured (N)"
    chosen["model"] = table.record["model"]
    mu, sigma, below, whole, n, *shares = told(walked, parts.replace("N", r"-?[\d.]+"), **chosen)
    _, best, _ = ridge(histogram, moving_ranks.SIGMAS)
    assert mu == pytest.approx(chosen.get("mu", best[18]), rel=1e-3) and sigma == chosen.get("sigma", 10)
    p = rounded(sigma, chosen.get("mu", best[18]))
    lost = -np.log(p[rank - 1]).mean() - fit_rank_law(histogram, "lognormal_rounded").nll
    assert below == pytest.approx(lost, rel=0.06) and whole == pytest.approx(lost * n, rel=0.06)
    measured = [(rank <= k).mean() for k in (1, 10)]
    assert n == len(rank) and shares == pytest.approx([p[0], measured[0], p[:10].sum(), measured[1]], abs=6e-4)


def test_the_line_and_the_points_on_the_ridge_are_those_masses(walked):
    drawn = labels(walked, sigma=3, mu=-1.0)
    (line,) = [x for x in drawn if x.startswith("k: 1; y: ")]
    assert float(line.removeprefix("k: 1; y: ")) == pytest.approx(rounded(3, -1.0)[0], rel=1e-5)
    first = moving_ranks.ridge_rows({"one": TABLES[-1:]}, [1])[0]["bins"][0]
    assert first == pytest.approx([1, (TABLES[-1].rank() == 1).mean()])
    assert "rank of the true token: 1; share of tokens per rank: 5e-1" in drawn


def test_a_law_too_far_from_the_ranks_is_a_sentence(walked):
    assert any("told: This law gives some rank less" in x for x in labels(walked, sigma=1, mu=-1000.0))


def test_ranks_without_a_lognormal_are_left_out():
    first = replace(TABLES[0], greater=np.zeros_like(TABLES[0].greater))
    assert isinstance(moving_ranks.ridge({"one": [first]}, [1]), str) and isinstance(moving_ranks.ridge({}, [1]), str)
    rows = moving_ranks.ridge_rows({"one": [first, TABLES[0]], "two": [first]}, [1])
    assert [(row["corpus"], row["model"]) for row in rows] == [("one", "m10000")]
    spec = spec_of(moving_ranks.ridge({"one": TABLES, "two": [first, TABLES[1]]}, [1]))
    ends = "The fit of this model to this text ends at a bound of its search."
    assert ends not in words_of(spec, corpus="two", model=TABLES[1].record["model"])
    assert ends in words_of(spec, corpus="two", model=TABLES[0].record["model"])


def test_draws_are_shown_with_their_quantiles_and_widths():
    rng = np.random.default_rng(0)
    draws = {"tokens": rng.normal(0.05, 0.001, 500), "sources": rng.normal(0.05, 0.003, 500)}
    same, rare = {"tokens": np.full(500, 0.05)}, {"documents": np.where(np.arange(500) < 100, np.nan, 0.04)}
    spec = spec_of(
        moving_ranks.resampling({"one": draws | rare, "two": {"sources": draws["sources"]} | same, "three": same})
    )
    low, high = np.quantile(draws["sources"], [0.025, 0.975])
    times = (high - low) / np.diff(np.quantile(draws["tokens"], [0.025, 0.975]))[0]
    parts = r"95% of (\d+) draws of sources: ([\d.]+) to ([\d.]+) ([\d.]+) times as wide.as by tokens"
    found = told(spec, parts.replace("sources: ", "sources:."), what="sources", corpus="one")
    assert found == pytest.approx([500, low, high, times], abs=6e-3) and found[1:3] == pytest.approx(
        [low, high], abs=6e-5
    )
    bars = [x for x in labels(spec, what="sources", corpus="one") if "share of draws: " in x]
    assert sum(float(re.search(r"share of draws: ([\d.]+)", x)[1]) for x in bars) == pytest.approx(1, abs=1e-4)
    assert "sources × 1.00" in words_of(spec, what="tokens", corpus="two") and "This text is not drawn so." in words_of(
        spec, what="tokens", corpus="two"
    )
    assert "This text is not drawn so." not in words_of(spec, what="tokens", corpus="one")
    assert spec["params"][0]["bind"]["options"] == ["one", "two"]
    assert isinstance(moving_ranks.resampling({}), str) and isinstance(moving_ranks.resampling({"one": same}), str)
