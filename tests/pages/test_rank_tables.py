"""Page tables of distributions of ranks, made from planted tables."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from paper.distributions import CANDIDATES, fit_rank_law, table_contest
from paper.lognormal import predicted_ratios
from paper.show import rank_tables
from rbplib.table import COLUMNS, RankTable


def power_law_table(S, exponent, V=400, documents=120, tokens=150, seed=0):
    rng, n = np.random.default_rng(seed), documents * tokens
    p = np.arange(1.0, V + 1) ** -exponent
    rank = rng.choice(V, size=n, p=p / p.sum())
    record = {"model": f"m{S:.0f}", "nonembedding_params": S, "vocab_size": V, "documents": documents}
    document, position = np.repeat(np.arange(documents), tokens), np.tile(np.arange(1, tokens + 1), documents)
    columns = (document, position, rank, rank, np.ones_like(rank), -np.ones(n))
    return RankTable(dict(zip(COLUMNS, columns, strict=True)), record)


TABLES = [power_law_table(S, 1.2 + 0.1 * np.log(S / 1e4), seed=i) for i, S in enumerate((1e4, 1e5, 1e6))]


def test_tables_of_a_contest():
    result, fits = table_contest(TABLES[0], ("zipf", "yule", "lognormal"), n_bootstrap=300)
    frame = rank_tables.contest_frame(result, fits)
    assert frame.iloc[0]["above the best"] == 0 and np.all(frame["AIC above the best"] >= 0)
    assert np.allclose(frame["above the best"], 1000 * (frame["held-out nats"] - frame["held-out nats"][0]))
    assert list(frame["law"]) == [fits[name].title for name in result.candidates]
    by_aic = rank_tables.fit_frame(sorted(fits.values(), key=lambda fit: fit.aic))
    assert by_aic["AIC above the best"].is_monotonic_increasing and by_aic["1 - RBP_10000"].isna().all()


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


def test_page_08_says_each_law_in_a_line():
    text = (Path(__file__).resolve().parents[2] / "notebooks" / "08_rank_distribution.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^- \*\*(.+?)\*\*: ", text, re.M)) == sorted(c.title for c in CANDIDATES.values())
