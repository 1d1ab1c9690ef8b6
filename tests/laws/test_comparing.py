"""How many times the parameters: beside planted laws and NumPy's lines."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from planted import exact

from rbplib import InputError, Loss, compare

SIZES = np.geomspace(1e5, 1e8, 6)
MODELS = tuple("abcdef")
nats = partial(exact, S=SIZES)
GOOD = nats(1 - 0.1 * np.log(SIZES))


def hits(times, **about):
    """A Loss of hits of 40 documents whose law needs so many times the parameters."""
    share = np.exp(-2 * (SIZES / times / 1e5) ** -0.1)
    sums = np.random.default_rng(times).binomial(400, share, (40, 6))
    return Loss(sums, 400, SIZES, **{"k": 1, "corpus": "text", "models": MODELS} | about)


@pytest.mark.parametrize(
    ("alpha", "beta", "S"), [(0.1, 0.1, 1e7), (0.05, 0.2, None), (0.1, 0.135, 1e5)]
)
def test_the_ratio_is_that_of_planted_laws(alpha, beta, S):
    a, b = nats(1 - alpha * np.log(SIZES)), nats(2 - beta * np.log(SIZES))
    compared = compare(a, b, S, n_bootstrap=0)
    S = S or SIZES[-1]
    # 1 - alpha ln S = 2 - beta ln S_b
    size = np.exp((1 + alpha * np.log(S)) / beta)
    assert compared.as_good == pytest.approx(size)
    assert compared.ratio == pytest.approx(size / S)
    assert compared.intervals["models"] == pytest.approx((size / S, size / S), rel=1e-4)
    # decades from the sizes measured, below 0 under the smallest
    outside = np.log10(size / np.clip(size, *SIZES[[0, -1]]))
    assert compared.outside == pytest.approx(outside)
    assert compared.beyond == pytest.approx(abs(outside))


def test_the_interval_of_other_text_draws_both_families_on_the_same_sources():
    source, x = np.arange(40) // 2 * 7, np.log(SIZES)
    a, b = hits(1, source=source), hits(3, source=source)
    compared = compare(a, b, n_bootstrap=400, seed=5)
    # by hand: each source with all its documents, a line through each resample
    ratios = []
    for drawn in np.random.default_rng(5).integers(20, size=(400, 20)):
        weights = np.repeat(np.bincount(drawn, minlength=20), 2)
        shares = [weights @ loss.sums / (weights @ loss.totals) for loss in (a, b)]
        (slope_a, at_a), (slope_b, at_b) = np.polyfit(x, np.log(-np.log(shares)).T, 1).T
        ratios.append(np.exp((slope_a * x[-1] + at_a - at_b) / slope_b - x[-1]))
    text = compared.intervals["text"]
    assert compared.paired and text == pytest.approx(np.quantile(ratios, [0.025, 0.975]), rel=1e-6)
    # of other sources nothing goes together
    unpaired = compare(a, replace(a, corpus="other"), n_bootstrap=400, seed=5)
    assert not unpaired.paired and np.ptp(unpaired.intervals["text"]) > 0.01


def test_sources_of_tables_are_paired_by_their_names():
    names = tuple(f"s{i:02}" for i in range(40))
    a, b = hits(1, labels=names), hits(3, labels=names)
    assert compare(a, b).paired
    assert not compare(a, replace(b, labels=names[::-1])).paired


def test_one_text_is_known_by_its_digest_and_by_how_much_of_it_there_is(capsys):
    a, b = (hits(times, digest="1") for times in (1, 3))
    # another number of tokens, another name, another version of the text, other sources
    for change, paired, complaint in (
        ({"totals": 401}, True, ""),
        ({"corpus": "d"}, True, ""),
        ({"digest": "2"}, False, "not of one text, though text has one name"),
        ({"source": np.arange(40) // 2}, False, "one text in other documents or sources"),
    ):
        assert compare(a, replace(b, **change)).paired == paired
        err = capsys.readouterr().err
        assert complaint in err and bool(err) == bool(complaint)
    # without digests
    assert not compare(replace(a, digest=None), replace(b, digest=None, totals=401)).paired


@pytest.mark.parametrize(
    ("b", "message"),
    [(hits(1), "not compared"), (GOOD.keep([0, 1]), "size")],
)
def test_what_cannot_be_compared_is_one_sentence(b, message):
    with pytest.raises(InputError, match=message):
        compare(GOOD, b)


@pytest.mark.parametrize(
    ("slope", "why"),
    [(0.1, "no size of it is as good"), (-0.05, "do not tell whether f gets")],
)
def test_what_has_no_ratio_or_interval_says_why(slope, why, capsys):
    uneven = nats(np.resize([0, 0.3], 6) + slope * np.log(SIZES))
    compared = compare(GOOD, uneven, n_bootstrap=0)
    assert np.isnan(compared.intervals["models"]).all() and why in capsys.readouterr().err
