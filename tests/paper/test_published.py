"""Published results: every fit again by plain least squares, and the noise of exponents."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import rbplib
from paper import published
from paper.laws import fit
from rbplib.families import InputError, held

LAWS = published.published_laws()
SIZES = np.geomspace(1e7, 1e9, 5)


def slope(S, share):
    return -np.polyfit(np.log(S), np.log(-np.log(share)), 1)[0]


def lines(levels, slopes, noise=0.0, seed=0):
    """Losses along planted lines in logs, a family each."""
    rng, losses = np.random.default_rng(seed), []
    for i, (level, alpha) in enumerate(zip(levels, slopes, strict=True)):
        y = level - alpha * np.log(SIZES) + noise * rng.normal(size=5)
        losses.append(published.nats(SIZES, np.exp(y), "abcde", f"f{i}", "text"))
    return losses


@pytest.mark.parametrize("law", LAWS, ids=lambda p: f"{p.law.family} {p.quantity}")
def test_every_published_fit_is_plain_least_squares(law):
    column = {"-log acc": "acc", "log ppl": "log_ppl", "cross-entropy": "cross_entropy"}
    column = column.get(law.quantity) or "pass_" + law.quantity.partition("@")[2]
    values = law.rows[column].to_numpy()
    x, y = np.log(law.rows["S"]), np.log(values if column in published.NATS else -np.log(values))
    line = stats.linregress(x, y)
    record = law.record
    found = [record["alpha"], record["r2"], record["n"]]
    assert found == pytest.approx([-line.slope, line.rvalue**2, len(x)])
    half = stats.t.ppf(0.975, len(x) - 2) * line.stderr
    assert record["interval"] == pytest.approx((-line.slope - half, -line.slope + half))


def test_every_family_with_three_sizes_is_fitted():
    names = {law.law.family for law in LAWS}
    large = set()
    for table in ("lambada", "lambada_by_size", "humaneval_by_size"):
        sizes = published.read(table).groupby("family").size()
        large |= set(sizes.index[sizes > 2])
    assert {name.partition(",")[0] for name in names if "open_lm" not in name} == large
    assert sum("open_lm" in name for name in names) == 21  # of 24 cells three have too few sizes


def polyfit(S, values):
    """(exponent, R^2, half a 95% interval by Student's t) of values on S, by numpy alone."""
    x, y = np.log(S), np.log(values)
    slope, intercept = np.polyfit(x, y, 1)
    rest = np.sum((y - intercept - slope * x) ** 2)
    half = 4.302652730 * np.sqrt(rest / 2 / np.sum((x - x.mean()) ** 2))
    return -slope, 1 - rest / np.sum((y - y.mean()) ** 2), half


RAW = np.genfromtxt(held("published", "gpt2_wikipedia_counts.csv"), delimiter=",", skip_header=1)
PRINTED = {1: 0.0560, 10: 0.0932, 100: 0.1257, 1000: 0.1225, 10_000: -0.0901}  # exponents


@pytest.mark.parametrize("k", PRINTED)
@pytest.mark.parametrize("N", [1, 5, 10, 50, 100])
def test_the_authors_counts_by_hand(k, N):
    """Each of the hundred numbers, refitted by numpy from the file as it is."""
    S, hits, windows = RAW[(RAW[:, 2] == k) & (RAW[:, 3] == N)][:, [1, 4, 5]].T
    single = RAW[(RAW[:, 2] == k) & (RAW[:, 3] == 1)][:, 4] / 317_414
    rows = published.gpt2_counts().query("k == @k and N == @N")
    assert rows["S"].tolist() == S.tolist()  # the family file says what the counts were made with
    assert rows["times"].to_numpy() == pytest.approx(hits / windows / single**N)
    law = rbplib.fit(S=rows["S"], hits=rows["hits"], totals=windows[0])
    if len(set(hits)) == 1:  # runs of a hundred at k = 1
        assert law.status == "equal losses"
        return
    alpha, r2, half = polyfit(S, -np.log(hits / windows))
    assert [law.alpha, law.r2] == pytest.approx([alpha, r2], abs=1e-9)
    assert law.intervals["models"]["alpha"] == pytest.approx((alpha - half, alpha + half), abs=1e-8)
    if N == 1:
        assert round(alpha, 4) == PRINTED[k]


def test_cross_entropy_and_misses_of_the_authors():
    rows = published.gpt2_counts().query("N == 1 and k == 10_000")
    assert (rows["windows"] - rows["hits"]).tolist() == [1212, 1279, 1399, 1577]
    alpha, _, _ = polyfit(rows["S"], rows["cross_entropy"])
    assert round(alpha, 4) == 0.0584
    low, high, mass = published.gpt2_histogram()
    assert low[0] == 1 and high[-1] == 50257 and np.array_equal(low[1:], high[:-1] + 1)
    assert mass[0] / mass.sum() == pytest.approx(132_065 / 317_414, abs=2e-3)


def test_reference_points_are_where_a_family_file_names_them(tmp_path):
    points = published.reference_points("gpt2", "wikipedia")
    shares = np.array([132_065, 142_215, 147_050, 150_180]) / 317_414
    assert points.loss == pytest.approx(-np.log(shares))
    assert published.reference_points("gpt2", "wikipedia", 10).S.tolist() == points.S.tolist()
    for family, corpus, k in (("gpt2", "x", 1), ("gpt2", "wikipedia", 2), ("opt", "wikipedia", 1)):
        assert published.reference_points(family, corpus, k) is None
    (tmp_path / "mine.yml").write_text("published: {wikipedia: other}\nmodels: [gpt2]\n")
    with pytest.raises(InputError, match="not carried"):
        published.reference_points(tmp_path / "mine.yml", "wikipedia")


def test_open_lm_sizes_leave_out_both_embeddings():
    rows = published.read("openlm_scaling")
    total = rows["tokens"] / rows["tokens_per_20_params"] / 20
    assert np.allclose(rows["nonembedding_params"] + 2 * 50_432 * rows["width"], total, rtol=2e-3)
    part = published.open_lm("acc_coqa", least=0.1)
    by_name = rows.set_index("name")["acc_coqa"]
    assert set(part.index) == set(by_name.index[by_name >= 0.1])
    assert np.allclose(np.exp(-part["loss"]), by_name[part.index])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: published.lambada("pytia"), "did you mean 'pythia'"),
        (lambda: published.published_law("pythia", step=0), "fewer than three models"),
        (lambda: published.open_lm("loss_c5"), "did you mean 'loss_c4"),
    ],
)
def test_unknown_names_are_told(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("together", ["independent", "nested"])
def test_the_choice_of_passages_moves_the_exponent_as_it_says(together):
    law = published.published_law("opt")
    S, share, n = law.law.S, np.exp(-np.exp(law.law.y)), published.SCORED["LAMBADA"]
    rng, drawn = np.random.default_rng(1), []
    for _ in range(400):
        ease = rng.random((n, len(S) if together == "independent" else 1))
        drawn.append(slope(S, (ease < share).mean(axis=0)))
    assert np.std(drawn) < 1.12 * law.sampling_se < 3 * np.std(drawn)
    assert np.isnan(published.published_law("opt", "log ppl").sampling_se)


def test_ratio_of_exponents_inverts_a_test_of_slope():
    """At the ends of the interval the slope of y2 - r y1 has p = 5%."""
    first, second = (published.published_law("rwkv-4", q).law for q in ("-log acc", "log ppl"))
    ratio, ends = published.exponent_ratio(first, second)
    assert ratio == pytest.approx(second.alpha / first.alpha) and ends[0] < ratio < ends[1]
    for r in ends:
        line = stats.linregress(np.log(first.S), second.y - r * first.y)
        assert line.pvalue == pytest.approx(0.05, abs=1e-6)
    other = fit(lines([0], [0.2])[0], n_bootstrap=0)
    assert np.isnan(published.exponent_ratio(first, other)[1]).all()


def test_covariance_finds_what_was_planted_and_is_an_anova():
    alike = published.ancova(lines([0.0, 0.1, 0.3], [0.2] * 3))
    assert alike.common == pytest.approx(0.2) and np.ptp(alike.each["level"]) == pytest.approx(0.3)
    losses = lines([0.0, 0.1, 0.3], [0.2, 0.25, 0.3], 0.05, seed=1)
    found = published.ancova(losses)
    parts = [pd.DataFrame({"f": loss.family, "x": np.log(loss.S), "y": loss.y}) for loss in losses]
    rows = pd.concat(parts)
    table = smf.ols("y ~ C(f) * x", rows).fit().compare_f_test(smf.ols("y ~ C(f) + x", rows).fit())
    assert found.slopes == pytest.approx(table[:2])
    slopes = [-np.polyfit(part["x"], part["y"], 1)[0] for part in parts]
    assert found.each["alpha"].to_numpy() == pytest.approx(slopes)
    assert found.interval[0] < found.common < found.interval[1]
    assert (alike.best, alike.worst) == ("f0", "f2")
    assert alike.times == pytest.approx(np.exp(0.3 / 0.2))
    covered = 0
    for seed, true in enumerate(np.random.default_rng(9).normal(0.2, 0.03, (40, 3))):
        _, low, high = published.ancova(lines([0.0, 0.1, 0.3], true, 0.02, seed)).spread
        covered += low < 0.03 < high
    assert covered > 32


def test_shared_sizes_are_those_that_all_reach():
    first, second = lines([0, 0], [0.1, 0.1])
    for part in published.shared_sizes([first, replace(second, S=second.S * 10)]):
        assert len(part.S) == 3 and (part.S > 8e7).all() and (part.S < 1.25e9).all()


@pytest.mark.parametrize(
    "tokens, text",
    [
        ([1e9] * 5, published.FIXED),
        ([1e9, 2e9, 4e9, 8e9, 16e9], published.GROWS),
        ([1e9, 1e12, 1e9, 1e12, 1e9], published.OTHER),
        ([1e9, np.nan, 1e9, 1e9, 1e9], published.UNKNOWN),
    ],
)
def test_text_along_size(tokens, text):
    law = published.published_law("mamba")
    assert replace(law, rows=law.rows.assign(tokens=tokens)).text == text
