"""All families together: the table's rows, and mixed models against planted effects."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from planted import planted_curve

from rbplib.laws.families import (
    components,
    heterogeneity,
    mean_effect,
    rise_with_k,
    seed_scatter,
)
from rbplib.laws.law import exponent_difference, fit, fit_law
from rbplib.pages.law_tables import BEYOND, differences, exponent_table, without_ends
from rbplib.settings import InputError


def family(name, corpus, seed, **options):
    return replace(planted_curve(seed=seed, documents=60, tokens=80, **options), family=name, corpus=corpus)


def test_every_row_is_the_fit_of_its_family_corpus_and_k():
    curves = [family("a", "x", 1), family("b", "x", 2)]
    table = exponent_table(curves, [1, 10], n_bootstrap=50)
    row = table[(table["family"] == "b") & (table["k"] == 10)].iloc[0]
    law = fit_law(curves[1], 10, n_bootstrap=50)
    assert (row["alpha"], row["tokens: low"], row["R²"]) == pytest.approx((law.alpha, law.ci_tokens[0], law.r2))
    assert row["misses at the largest"] == curves[1].misses[-1, 1] and row["tokens scored"] == curves[1].totals.sum()
    assert table["k"].isna().sum() == 2  # cross-entropy


def test_a_family_with_a_small_vocabulary_or_two_models_spoils_nobody_else():
    small = replace(family("small", "x", 1, ks=(1, 10)), vocab_size=50)
    two = family("two", "x", 2, ks=(1, 10)).keep(["m0", "m1"])
    table = exponent_table([small, two, family("whole", "x", 3, ks=(1, 10, 100))], [1, 10, 100], n_bootstrap=0)
    by = table.set_index(["family", "k"])["status"]
    assert by["small", 100] == BEYOND and by["small", 1] == "ok" and "needs three" in by["two", 1]
    assert by["whole", 100] == "ok"


def planted_table(rise=0.0, family_sd=0.0, corpus_sd=0.0, noise=0.002, seed=0):
    rng = np.random.default_rng(seed)
    fams, corps = (
        {f"f{i}": rng.normal(0, family_sd) for i in range(5)},
        {f"c{i}": rng.normal(0, corpus_sd) for i in range(5)},
    )
    return pd.DataFrame(
        {"family": f, "corpus": c, "k": float(k), "tokens: low": -noise * 1.96, "tokens: high": noise * 1.96,
         "alpha": 0.08 + rise * np.log10(k) + fams[f] + corps[c] + rng.normal(0, noise)}
        for f in fams for c in corps for k in (1, 10, 100)
    )  # fmt: skip


def test_a_planted_rise_with_k_is_found_and_none_is_not():
    rise = rise_with_k(planted_table(rise=0.02, corpus_sd=0.01))
    assert rise.interval[0] < 0.02 < rise.interval[1] and rise.p < 1e-6 and rise.groups == 25
    flat = rise_with_k(planted_table(seed=3))
    assert flat.interval[0] < 0 < flat.interval[1]


def test_planted_differences_are_put_where_they_are():
    found = components(planted_table(family_sd=0.0, corpus_sd=0.02))
    assert found.corpus == pytest.approx(0.02, rel=0.7) and found.corpus_p < 0.001
    assert found.family < 0.003 and found.family_p > 0.05
    assert found.token_noise == pytest.approx(0.002, rel=1e-6)
    other = components(planted_table(family_sd=0.03, corpus_sd=0.0, seed=1))
    assert other.family_p < 0.001 and other.corpus_p > 0.05
    alone = components(planted_table(corpus_sd=0.02).query("family == 'f0'"))
    assert np.isnan(alone.corpus) and np.isnan(alone.corpus_p)  # one family: corpora and noise are one
    single = components(planted_table().query("family == 'f0' and corpus == 'c0'"))
    assert np.isnan(single.family)


def test_difference_to_cross_entropy():
    curves = [family("a", "x", 1), family("b", "x", 2)]
    table = differences(curves, n_bootstrap=200)
    expected = fit_law(curves[0], 1, n_bootstrap=0).alpha - fit(curves[0].cross_entropy_loss(), n_bootstrap=0).alpha
    assert table["difference"][0] == pytest.approx(expected)
    assert (table["low"] < table["difference"]).all() and (table["high"] > table["difference"]).all()
    assert np.isnan(mean_effect(table, "difference").estimate)  # each family is there once
    many = pd.concat([table.assign(corpus=c, difference=table["difference"] + i / 100) for i, c in enumerate("xyz")])
    assert mean_effect(many, "difference").estimate == pytest.approx(many["difference"].mean(), abs=1e-3)
    between, ends = exponent_difference(curves[0].loss(1), curves[0].loss(100), n_bootstrap=200)
    assert ends[0] < between < ends[1]


def test_corpora_of_a_family_that_differ_are_told_apart():
    def centred(corpus_sd):
        table = planted_table(corpus_sd=corpus_sd, seed=5)
        return table.assign(**{"tokens: low": table["alpha"] - 0.00392, "tokens: high": table["alpha"] + 0.00392})

    assert (heterogeneity(centred(0.02))["p"] < 1e-4).all()
    assert (heterogeneity(centred(0.0))["p"] > 0.001).all()
    found = heterogeneity(centred(0.02))
    one = centred(0.02).query("family == 'f0' and k == 1")["alpha"]
    assert found["Q"][0] == pytest.approx(((one - one.mean()) ** 2).sum() / 0.002**2)


def seeds_of(curve, sd, bend=0.0, sizes=2, seeds=3, rng=0):
    """(law of a curve on an exact line plus seed noise and a bend, repeats of its smallest sizes with that noise)."""
    rng = np.random.default_rng(rng)
    x = np.log(curve.S)
    exact = np.log(0.6) - 0.05 * (x - x[0]) + bend * (x - x.mean()) ** 2
    total = 10**9

    def planted(y, S):
        hits = np.round(total * np.exp(-np.exp(y))).astype(np.int64)[None, :, None]
        names = tuple(f"m{i}" for i in range(len(S)))
        return replace(curve, models=names, S=S, hits=hits, totals=np.array([total]), ks=np.array([1]),
                       nll=np.ones((1, len(S))))  # fmt: skip

    law = fit_law(planted(exact + rng.normal(0, sd, len(x)), curve.S), 1, n_bootstrap=0)
    where = np.repeat(np.arange(sizes), seeds)
    return law, planted(exact[where] + rng.normal(0, sd, len(where)), curve.S[where])


def test_planted_seed_scatter_is_found_and_told_from_a_bend():
    curve = planted_curve(documents=5)
    many = [seed_scatter(*seeds_of(curve, 0.01, rng=i)) for i in range(400)]
    assert np.sqrt(np.mean([s["sd between seeds"] ** 2 for s in many])) == pytest.approx(0.01, rel=0.08)
    assert np.mean([s["p"] < 0.05 for s in many]) == pytest.approx(0.05, abs=0.035)
    x = np.log(curve.S)
    assert many[0]["error of alpha from seeds"] == pytest.approx(
        many[0]["sd between seeds"] / np.sqrt(((x - x.mean()) ** 2).sum())
    )
    bent = [seed_scatter(*seeds_of(curve, 0.01, bend=0.02, rng=i)) for i in range(50)]
    assert np.mean([s["p"] < 0.05 for s in bent]) > 0.9
    assert (many[0]["sizes"], many[0]["models"]) == (2, 6)


def test_one_seed_a_size_is_refused():
    law, repeats = seeds_of(planted_curve(documents=5), 0.01)
    with pytest.raises(InputError, match="no size with two seeds"):
        seed_scatter(law, repeats.keep([0, 3]))


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
