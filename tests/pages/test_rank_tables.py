"""Page tables of distributions of ranks, made from planted tables."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paper import appendix, gpt2, lognormal
from paper.contest import table_contest
from paper.lognormal_fit import predicted_ratio, predicted_ratios
from paper.rank_fit import fit_rank_law
from paper.rank_laws import CANDIDATES
from paper.show import rank_tables
from rbplib.stored import RankTable


def power_law_table(S, exponent, V=400, documents=120, tokens=150, seed=0):
    rng, n = np.random.default_rng(seed), documents * tokens
    p = np.arange(1.0, V + 1) ** -exponent
    rank = rng.choice(V, size=n, p=p / p.sum())
    record = {"model": f"m{S:.0f}", "nonembedding_params": S, "vocab_size": V, "documents": documents}
    document, position = np.repeat(np.arange(documents), tokens), np.tile(np.arange(1, tokens + 1), documents)
    return RankTable(document, position, rank, rank, np.ones_like(rank), -np.ones(n), record)


TABLES = [power_law_table(S, 1.2 + 0.1 * np.log(S / 1e4), seed=i) for i, S in enumerate((1e4, 1e5, 1e6))]


def test_tables_of_a_contest():
    result, fits = table_contest(TABLES[0], ("zipf", "yule", "lognormal"), n_bootstrap=300)
    frame = rank_tables.contest_frame(result, fits)
    assert frame.iloc[0]["above the best"] == 0 and np.all(frame["AIC above the best"] >= 0)
    assert np.allclose(frame["above the best"], 1000 * (frame["held-out nats"] - frame["held-out nats"][0]))
    assert list(frame["law"]) == [fits[name].title for name in result.candidates]
    assert len(rank_tables.vuong_frame(TABLES[0], fits, [("zipf", "yule")])) == 1
    by_aic = rank_tables.fit_frame(sorted(fits.values(), key=lambda fit: fit.aic))
    assert by_aic["AIC above the best"].is_monotonic_increasing and by_aic["1 - RBP_10000"].isna().all()
    p, (s, beta), step = fits["lognormal"].pmf, fits["lognormal"].values, 1e-5
    logs = np.log(
        [entropies(-x * np.log(R) - beta * np.log(R) ** 2) for R in [np.arange(1, len(p) + 1.0)] for x in (s, s + step)]
    )
    assert predicted_ratio(s, beta, len(p)) == pytest.approx(np.divide(*(logs[1] - logs[0])), rel=1e-3)


def entropies(log_mass):
    """(-log p_1, entropy) of a law on ranks by its logarithms."""
    p = np.exp(log_mass) / np.exp(log_mass).sum()
    return -np.log(p[0]), -(p @ np.log(p))


def test_the_end_of_the_vocabulary_alone_moves_the_ratio():
    """A page once laid a ratio on all ranks beside one on 4,096 as if they were of one law."""
    lam, beta = lognormal.natural(*gpt2.PRINTED)
    on_all = lognormal.local_exponents(lam, beta)
    found = [predicted_ratio(1 + lam, beta, V) for V in (4_096, 50_257, 3_000_000)]
    assert on_all.neg_log_p1 / on_all.entropy < found[2] < found[1] < found[0] and found[0] > 1 > found[1]
    with pytest.raises(ValueError):
        table_contest(TABLES[0], ("no such distribution",))


def test_what_page_08_says_of_any_family():
    """Ahead of Zipf, behind it or the same law is computed."""
    _, fits = table_contest(TABLES[0], ("zipf", "lognormal", "yule"), n_bootstrap=50)
    bent = {**fits, "lognormal": fit_rank_law(1e6 * np.exp(-0.2 * np.log(np.arange(1, 401)) ** 2), "lognormal")}
    order = ("zipf", "lognormal")
    for zipf, ends, said in (
        (0.0, (-0.015, -0.005), "10 [5, 15] behind Zipf."),
        (0.02, (0.005, 0.015), "10 [5, 15] ahead of Zipf."),
    ):
        result = SimpleNamespace(place=order.index, loss=[zipf, 0.01], lead=lambda *_, ends=ends: np.array(ends))
        assert rank_tables.zipf_words(result, bent) == said
    straight = {**fits, "lognormal": fit_rank_law(1e6 * fits["zipf"].pmf, "lognormal")}
    assert "it is Zipf's law" in rank_tables.zipf_words(SimpleNamespace(place=order.index, loss=[0, 0]), straight)


def test_table_of_lognormals():
    rows = rank_tables.lognormal_frame(TABLES, "lognormal")
    # a pure power law: the exponent at the pivot is that power, however loosely (mu, sigma) are known
    assert np.allclose(rows["exponent at the pivot"], 1.2 + 0.1 * np.log(rows["S"] / 1e4), atol=0.03)
    low, high = predicted_ratios(TABLES)
    assert 0 < low <= high


def test_the_end_of_a_grid_is_no_end_of_a_range():
    """The two exponents are within a quarter of each other from lam 0.3 on; 20 is where the grid ends, not they."""
    lam = np.geomspace(0.05, 20, 300)
    e = lognormal.local_exponents(lam, np.full_like(lam, lognormal.natural(*gpt2.PRINTED).beta))
    said = appendix.close_words(lam, e.neg_log_p1 / e.entropy, lognormal.natural(*gpt2.PRINTED).lam)
    assert "to 20 (where the grid ends)" in said and "(where the grid begins)" not in said and "is 0.854" in said
    half = lam < 2
    assert "(where the grid ends)" not in appendix.close_words(lam, np.where(half, 1.01, 2.0), 1.0)
    assert "nowhere equal" in appendix.close_words(lam, 0 * lam + 3, 1.0)
    said = appendix.turn_words(appendix.exponents_frame())
    assert "Falling somewhere: authors' GPT-2 figure." in said and "lognormal, μ moving" in said


def test_tables_of_the_appendix():
    """What no other test reads off these tables: their shapes, and the lines that must agree with each other."""
    formulas = appendix.approximation_frame()
    assert len(formulas) == 1 + len(appendix.POINTS) and formulas["σ"][0] == 12.892
    terms = appendix.cancellation_frame((-1, -5, -20), 2.0)
    parts = terms["log c"] + terms["log(√2π σ)"] + terms["μ²/2σ²"]
    assert np.allclose(parts, terms["sum = -log p_1"], atol=1e-9)
    readings = appendix.hypothesis_frame()
    assert len(readings) == 6 and np.allclose(readings["ratio"], readings["slope of -log p_1"] / readings["slope of H"])
    assert readings["R²"][readings["linear in"] == "log S"].min() > 0.99 > readings["R²"].min()
    examples = appendix.entropy_examples()
    assert np.allclose(examples["CE"], examples["H(R)"] - examples["I(R;X)"] + examples["KL"], atol=1e-9)
    assert list(appendix.exponents_frame().columns[:3]) == ["law", "k = 1", "k = 10"]
    assert (appendix.emergence_frame((0.5, 0.9)).drop(columns="p") > 0).all(axis=None)
    assert appendix.precision_frame()["effective misses"].is_monotonic_increasing  # ever narrower intervals


def test_page_08_says_each_law_in_a_line():
    text = (Path(__file__).resolve().parents[2] / "notebooks" / "08_rank_distribution.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^- \*\*(.+?)\*\*: ", text, re.M)) == sorted(c.title for c in CANDIDATES.values())
