"""All families together: the table's rows, and mixed models against planted effects."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from planted import planted_curve
from scipy import stats

from paper.families import (
    bend_weights,
    components,
    contrasts,
    exponent_difference,
    heterogeneity,
    mean_over,
    pooled,
    slope_weights,
)
from paper.show.law_tables import BEYOND, bend_frame, exponent_table, loss_at, step_frame, without_ends
from rbplib.curve import Curve
from rbplib.law import fit, fit_law


def family(name, corpus, seed, **options):
    return replace(planted_curve(seed=seed, documents=60, tokens=80, **options), family=name, corpus=corpus)


def test_every_row_is_the_fit_of_its_family_corpus_and_k():
    curves = [family("a", "x", 1), family("b", "x", 2)]
    table = exponent_table(curves, [1, 10], n_bootstrap=50)
    row = table[(table["family"] == "b") & (table["k"] == 10)].iloc[0]
    law = fit_law(curves[1], 10, n_bootstrap=50)
    assert (row["alpha"], row["other text: low"], row["R²"]) == pytest.approx((law.alpha, law.ci_tokens[0], law.r2))
    assert row["misses at the largest"] == curves[1].misses[-1, 1] and row["tokens scored"] == curves[1].totals.sum()
    assert table["k"].isna().sum() == 2  # cross-entropy


def test_a_family_with_a_small_vocabulary_or_two_models_spoils_nobody_else():
    small = replace(family("small", "x", 1, ks=(1, 10)), vocab_size=50)
    two = family("two", "x", 2, ks=(1, 10, 100)).keep(["m0", "m1"])
    table = exponent_table([small, two, family("whole", "x", 3, ks=(1, 10, 100))], [1, 10, 100], n_bootstrap=0)
    by = table.set_index(["family", "k"])["status"]
    assert by["small", 100] == BEYOND and by["small", 1] == "ok" and by["two", 1] == "too few models"
    assert by["whole", 100] == "ok"


def planted_table(rise=0.0, family_sd=0.0, corpus_sd=0.0, noise=0.002, seed=0):
    rng = np.random.default_rng(seed)
    fams, corps = (
        {f"f{i}": rng.normal(0, family_sd) for i in range(5)},
        {f"c{i}": rng.normal(0, corpus_sd) for i in range(5)},
    )
    return pd.DataFrame(
        {"family": f, "corpus": c, "k": float(k), "other text: low": -noise * 1.96, "other text: high": noise * 1.96,
         "alpha": 0.08 + rise * np.log10(k) + fams[f] + corps[c] + rng.normal(0, noise)}
        for f in fams for c in corps for k in (1, 10, 100)
    )  # fmt: skip


def test_families_are_the_replicates():
    """The mean over families and Student's t over them, whatever the number of corpora or ranks that repeat each."""
    values = [0.01, 0.03, 0.02, 0.05]
    expected = stats.ttest_1samp(values, 0)
    found = mean_over([*values, np.nan])
    assert (found.estimate, found.p, found.groups) == (
        pytest.approx(np.mean(values)),
        pytest.approx(expected.pvalue),
        4,
    )
    assert found.interval == pytest.approx(tuple(expected.confidence_interval()))
    one = mean_over([0.1])
    assert (one.estimate, one.groups) == (0.1, 1) and np.isnan([*one.interval, one.p]).all()


def ladder(name, corpus, y, seed, repeats=0, sd=0.0, sources=40):
    """A curve whose -log RBP_k is exp(y_k) (M, K) on its sources, with `repeats` further trainings scattered by sd."""
    rng, S = np.random.default_rng(seed), np.geomspace(2e4, 2e7, len(y))
    totals = np.full(sources, 10**6)
    hard = np.random.default_rng(99).normal(1, 0.02, (sources, 1, 1))  # the same text for every family

    def curve(y, S):
        y = y + rng.normal(0, sd, (len(y), 1))
        hits = np.round(totals[:, None, None] * np.exp(-np.exp(y) * hard)).astype(np.int64)
        names = tuple(f"m{i}" for i in range(len(S)))
        return Curve(name, corpus, "paper", names, S, 4096, np.array([1, 100]), hits, totals, np.ones(hits.shape[:2]))

    found, many = curve(y, S), np.tile(np.arange(len(y)), repeats)
    return replace(found, repeats=curve(y[many], S[many])) if repeats else found


def planted_y(bend=0.0, rise=0.0):
    x = np.log(np.geomspace(2e4, 2e7, 6))
    y = np.stack([-0.05 * (x - x[0]), -1 - (0.05 + rise) * (x - x[0])], axis=1)
    y[-1] += bend * (x[-1] - x[-2])  # an exponent of the last step that is smaller by `bend`
    return y


def test_a_contrast_is_linear_in_the_logarithms_and_keeps_the_pairing():
    curve = family("a", "x", 1)
    (rise,) = contrasts([curve], slope_weights, lambda c: [c.loss(100), c.loss(1)], n_bootstrap=200)
    value, interval = exponent_difference(curve.loss(1), curve.loss(100), n_bootstrap=200)
    assert rise.value == pytest.approx(value) and rise.interval == pytest.approx(interval)
    (bend,) = contrasts([curve], bend_weights, loss_at(1), n_bootstrap=0)
    steps = -np.diff(curve.loss(1).y) / np.diff(np.log(curve.S))
    assert bend.value == pytest.approx(steps[-1] - steps[:-1].mean()) and np.isnan(bend.interval).all()
    gone = replace(curve, hits=np.where(np.arange(7)[:, None] == 6, curve.totals[:, None, None], curve.hits))
    assert contrasts([gone, curve.keep([0, 1])], bend_weights, loss_at(1), n_bootstrap=0) == []


@pytest.mark.parametrize(("bend", "common"), [(0.0, False), (0.0, True), (0.06, False), (0.06, True)])
def test_a_planted_bend_is_told_over_families_and_training_noise_is_not_taken_for_one(bend, common):
    """common: one seed for all families, so that each model errs as those of its size in the others do."""
    told, alone, sds = [], [], []
    for seed in range(60):
        y = planted_y(bend)
        curves = [ladder(f, c, y, seed * 100 + i * (not common), 3, 0.01) for i, f in enumerate("abcde") for c in "xy"]
        effect = pooled(contrasts(curves, bend_weights, loss_at(1), n_bootstrap=50))
        told.append(effect.interval[1] < 0)
        alone.append(effect.noise_p < 0.05)
        sds.append(effect.trainings_sd)
    if common:  # all families bend one way or the other: Student's t takes that for a law
        assert bend or np.mean(told) > 0.3
    else:
        assert np.mean(told) > 0.9 if bend else np.mean(told) < 0.12  # 2.5% expected; three standard errors above
    assert np.mean(alone) > 0.9 if bend else np.mean(alone) < 0.14
    length = np.sqrt((bend_weights(curves[0].S) ** 2).sum())
    assert np.sqrt(np.mean(np.square(sds))) == pytest.approx(0.01 * length, rel=0.05)  # corpora share trainings


def test_corpora_of_a_family_and_nested_k_add_no_replicates():
    """Twice the corpora of the same two families, and nothing is surer: p = 1.7e-72 came from counting them."""
    few = [ladder(f, c, planted_y(rise=r), 1) for f, r in (("a", 0.02), ("b", 0.03)) for c in "x"]
    many = [replace(c, corpus=name) for c in few for name in "wxyz"]
    ends = [pooled(contrasts(c, slope_weights, lambda c: [c.loss(100), c.loss(1)], 50)) for c in (few, many)]
    assert ends[0].interval == pytest.approx(ends[1].interval) and ends[0].groups == ends[1].groups == 2
    assert ends[0].estimate == pytest.approx(0.025, rel=0.02) and np.isnan(ends[0].trainings_sd)  # no repeats
    assert np.isfinite(ends[0].noise_p)  # then against sources alone


def test_tables_of_the_bend_and_of_the_steps():
    curves = [ladder(f, c, planted_y(0.03), i) for i, f in enumerate("abc") for c in "xy"]
    frame = bend_frame(curves, [1, 7], n_bootstrap=50).set_index(["loss", "corpus"])
    assert frame.loc[("k = 1", "mean of all"), "bend"] == pytest.approx(-0.03, rel=0.05)
    assert set(frame.loc["k = 1"].index) == {"mean of all", "x", "y"} and frame.loc[("k = 1", "x"), "families"] == 3
    assert frame.loc[("k = 7", "mean of all"), "families"] == 0  # nobody counted it
    steps = step_frame(curves, 1, n_bootstrap=50)
    assert steps.groupby("family").size().tolist() == [5, 5, 5]
    assert steps["exponent"].to_numpy().reshape(3, 5)[:, -1] == pytest.approx(0.02, rel=0.05)
    assert step_frame([curves[0].keep([0, 1])], 1).empty


def test_planted_differences_are_put_where_they_are():
    found = components(planted_table(family_sd=0.0, corpus_sd=0.02))
    assert found.corpus == pytest.approx(0.02, rel=0.7) and found.corpus_p < 0.001
    assert found.family < 0.003 and found.family_p > 0.05
    assert found.source_noise == pytest.approx(0.002, rel=1e-6)
    other = components(planted_table(family_sd=0.03, corpus_sd=0.0, seed=1))
    assert other.family_p < 0.001 and other.corpus_p > 0.05
    alone = components(planted_table(corpus_sd=0.02).query("family == 'f0'"))
    assert np.isnan(alone.corpus) and np.isnan(alone.corpus_p)  # one family: corpora and noise are one
    single = components(planted_table().query("family == 'f0' and corpus == 'c0'"))
    assert np.isnan(single.family)


def test_difference_to_cross_entropy():
    curves = [family("a", "x", 1), family("b", "x", 2)]
    found = contrasts(curves, slope_weights, lambda c: [c.loss(1), c.cross_entropy_loss()], n_bootstrap=200)
    expected = fit_law(curves[0], 1, n_bootstrap=0).alpha - fit(curves[0].cross_entropy_loss(), n_bootstrap=0).alpha
    assert found[0].value == pytest.approx(expected)
    assert all(c.interval[0] < c.value < c.interval[1] for c in found)
    assert pooled(found).estimate == pytest.approx(np.mean([c.value for c in found]))


def test_corpora_of_a_family_that_differ_are_told_apart():
    def centred(corpus_sd):
        table = planted_table(corpus_sd=corpus_sd, seed=5)
        return table.assign(
            **{"other text: low": table["alpha"] - 0.00392, "other text: high": table["alpha"] + 0.00392}
        )

    assert (heterogeneity(centred(0.02))["p"] < 1e-4).all()
    assert (heterogeneity(centred(0.0))["p"] > 0.001).all()
    found = heterogeneity(centred(0.02))
    one = centred(0.02).query("family == 'f0' and k == 1")["alpha"]
    assert found["Q"][0] == pytest.approx(((one - one.mean()) ** 2).sum() / 0.002**2)


def test_planted_scatter_of_trainings_is_told_from_a_bend():
    """What the F test of seeds against residuals did, by the law's own test: sources are next to nothing here."""

    def rejected(bend, n):
        laws = [fit_law(ladder("a", "x", planted_y(bend), seed, 3, 0.01), 1, n_bootstrap=100) for seed in range(n)]
        return np.mean([law.trained_lack_of_fit_p < 0.05 for law in laws])

    assert rejected(0.0, 200) == pytest.approx(0.05, abs=0.05)
    assert rejected(0.1, 40) > 0.9


def test_a_spoiled_end_of_a_ladder_shows():
    curve = planted_curve(documents=5)
    rng = np.random.default_rng(0)
    y = np.log(0.6) - 0.05 * np.log(curve.S / curve.S[0])
    y[-1] += 0.1  # the largest model did not get its training
    total = 10**9
    hits = np.round(total * np.exp(-np.exp(y + rng.normal(0, 1e-4, len(y))))).astype(np.int64)[None, :, None]
    curve = replace(curve, hits=hits, totals=np.array([total]), ks=np.array([1]), nll=np.ones((1, len(y))))
    found = without_ends(curve, 1).set_index("sizes")
    assert found.loc["without the largest", "R²"] > 0.999 > found.loc["without the smallest", "R²"]
    assert found.loc["without the largest", "alpha"] == pytest.approx(0.05, rel=0.01)
    assert found.loc["all", "largest two"] < 0.02 < 0.045 < found.loc["all", "smallest two"]
    assert list(found["models"]) == [7, 6, 6, 5]
    assert list(without_ends(curve.keep([0, 1, 2]), 1)["models"]) == [3]
