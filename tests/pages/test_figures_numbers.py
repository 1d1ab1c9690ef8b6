"""Three numbers of every figure, computed again from the raw rank tables with NumPy alone.

The tables are read by pyarrow and nothing of rbplib touches the second computation. A synthetic family stands in where
nothing was measured; where the embedded families were, their tables and their executed pages are checked as well.
"""

import json
import re
from html import unescape
from io import StringIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from ranktables import write_family

from paper.examples import same_probability, three_predictions
from paper.families import exponent_difference
from paper.runs import hit_dependence, run_losses
from rbplib.curve import family_curve, family_tables
from rbplib.families import load_corpus, load_family
from rbplib.law import fit, fit_law, fit_laws

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "results" / "ranks" / "nano-pythia"


class Raw:
    """Rank tables of one family on one corpus as plain arrays, smallest model first."""

    def __init__(self, root, family, corpus):
        self.family, self.corpus, found = family, corpus, []
        for path in sorted((root / "results" / "ranks" / family).glob(f"*/{corpus}-*.parquet")):
            table = pq.read_table(path)
            record = json.loads(table.schema.metadata[b"rbplib"])
            found.append((record["nonembedding_params"], {c: table[c].to_numpy() for c in table.column_names}, record))
        found.sort(key=lambda f: f[0])
        self.S = np.array([f[0] for f in found], float)
        self.tables = [f[1] for f in found]
        self.V = found[0][2]["vocab_size"]
        self.units = found[0][2].get("units")

    def rank(self, model):
        """Eq. 3."""
        return self.tables[model]["greater"].astype(int) + self.tables[model]["ties"]

    def losses(self, k):
        return np.array([-np.log(np.mean(self.rank(m) <= k)) for m in range(len(self.S))])

    def nats(self):
        return np.array([-np.mean(t["logprob"].astype(float)) for t in self.tables])


def straight_line(S, losses):
    """alpha, log c and R^2 by the normal equations."""
    A = np.stack([np.log(S), np.ones(len(S))], axis=1)
    (slope, level), residual, *_ = np.linalg.lstsq(A, np.log(losses), rcond=None)
    y = np.log(losses)
    return -slope, level, 1 - float(residual[0]) / float(((y - y.mean()) ** 2).sum())


def runs(document, position, hits, N):
    """Windows of N neighbours and those of them that are all hits, by walking through the rows."""
    length, good, windows, success = 0, 0, 0, 0
    for i, hit in enumerate(hits):
        joined = i > 0 and document[i] == document[i - 1] and position[i] == position[i - 1] + 1
        length = length + 1 if joined else 1
        good = (good + 1 if joined else 1) if hit else 0
        windows += length >= N
        success += good >= N
    return success, windows


PLACES = ["synthetic"] + (["measured"] if MEASURED.is_dir() else [])


@pytest.fixture(scope="module", params=PLACES)
def place(request, tmp_path_factory):
    """(raw tables, library's family name, corpus) with the library looking at the same folder."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "synthetic":
            root, family, corpus = write_family(tmp_path_factory.mktemp("figures")), "synthetic", "code"
        else:
            root, family = ROOT, "nano-pythia"
            corpus = "code"
            if any(not list((MEASURED / m.name).glob(f"{corpus}-*.parquet")) for m in load_family(family).models):
                pytest.skip("the embedded family is not measured whole")
        patch.setenv("RBP_ROOT", str(root))
        patch.setenv("RBP_RESULTS", str(root / "results"))
        yield Raw(root, family, corpus), family, corpus


def test_figure_1_equal_probability_and_different_rank(place):
    raw, family, corpus = place
    largest = family_tables(family, corpus)[0][-1].read()
    pair = same_probability(largest)
    if pair is None:
        pytest.skip("no such pair in this sample")
    rank, probability = raw.rank(-1)[list(pair)], np.exp(raw.tables[-1]["logprob"][list(pair)])
    assert len(set(rank)) == 2 and min(rank) == 1
    assert probability[0] == pytest.approx(probability[1], rel=0.05)
    assert list(largest.rank()[list(pair)]) == list(rank)


def test_figure_2_both_metrics_on_three_predictions(place):
    raw, family, corpus = place
    rows = list(three_predictions(family_tables(family, corpus)[0][-1].read(), k=3))
    assert len(rows) == 3 and np.mean(raw.rank(-1)[rows] <= 3) == pytest.approx(1 / 3)
    curve = family_curve(family, corpus, [3])
    assert curve.rbp[-1, 0] == pytest.approx(np.mean(raw.rank(-1) <= 3))
    assert curve.cross_entropy[-1] == pytest.approx(raw.nats()[-1], rel=1e-6)


def check_law(raw, law, k):
    alpha, log_c, r2 = straight_line(raw.S, raw.losses(k))
    assert law.alpha == pytest.approx(alpha, rel=1e-9)
    assert law.log_c == pytest.approx(log_c, rel=1e-9)
    assert law.r2 == pytest.approx(r2, rel=1e-9)
    assert np.exp(law.y) == pytest.approx(raw.losses(k), rel=1e-12)


def test_figure_3_first_choice(place):
    raw, family, corpus = place
    check_law(raw, fit_law(family_curve(family, corpus, [1]), 1, n_bootstrap=0), 1)


def test_figure_4_moderate_k(place):
    raw, family, corpus = place
    for law in fit_laws(family_curve(family, corpus, [10, 50, 100]), n_bootstrap=0):
        check_law(raw, law, law.k)


def test_figure_5_large_k(place):
    raw, family, corpus = place
    ks = [round(0.4 * raw.V), round(0.6 * raw.V)]
    for law in fit_laws(family_curve(family, corpus, ks), n_bootstrap=0):
        check_law(raw, law, law.k)
        assert law.misses == np.sum(raw.rank(-1) > law.k)


def test_figure_6_quality_and_exponent_against_k(place):
    raw, family, corpus = place
    curve = family_curve(family, corpus, [1, 7, 100])
    for law in fit_laws(curve, n_bootstrap=0):
        alpha, _, r2 = straight_line(raw.S, raw.losses(law.k))
        assert (law.alpha, law.r2) == pytest.approx((alpha, r2), rel=1e-9)
    rise = straight_line(raw.S, raw.losses(100))[0] - straight_line(raw.S, raw.losses(1))[0]
    assert exponent_difference(curve.loss(1), curve.loss(100), n_bootstrap=0)[0] == pytest.approx(rise, rel=1e-9)


def test_token_interval_is_that_of_sources_drawn_by_hand(place):
    raw, family, corpus = place
    law = fit_law(family_curve(family, corpus, [1]), 1, n_bootstrap=200, seed=42)
    units = np.array(raw.units or range(1 + max(raw.tables[0]["document"])))  # without sources each document is one
    names, place_of = np.unique(units[raw.tables[0]["document"]], return_inverse=True)
    D = len(names)
    hits = [np.bincount(place_of, raw.rank(m) <= 1) for m in range(len(raw.S))]
    totals, rng, alphas = np.bincount(place_of), np.random.default_rng(42), []
    for _ in range(200):
        drawn = rng.integers(0, D, D)
        losses = -np.log([h[drawn].sum() / totals[drawn].sum() for h in hits])
        alphas.append(straight_line(raw.S, losses)[0])
    assert law.ci_tokens == pytest.approx(tuple(np.quantile(alphas, [0.025, 0.975])), rel=1e-8)


def test_figure_7_runs(place):
    raw, family, corpus = place
    tables = family_tables(family, corpus)[0]
    t = raw.tables[-1]
    for k, N in ((1, 1), (10, 5), (100, 10)):
        loss = run_losses(tables, k, [N])[N]
        success, windows = runs(t["document"], t["position"], raw.rank(-1) <= k, N)
        assert (loss.sums[:, -1].sum(), loss.totals.sum()) == (success, windows)
    hits = (raw.rank(-1) <= 1).astype(float)
    rows = list(zip(t["document"].tolist(), t["position"].tolist(), (hits - hits.mean()).tolist(), strict=True))
    pairs = [a[2] * b[2] for a, b in pairwise(rows) if a[0] == b[0] and b[1] == a[1] + 1]
    assert hit_dependence(tables[-1], 1).acf[0] == pytest.approx(np.mean(pairs) / hits.var(), rel=1e-9)


def test_figure_8_cross_entropy_and_histogram(place):
    raw, family, corpus = place
    curve = family_curve(family, corpus, [1])
    alpha, _, r2 = straight_line(raw.S, raw.nats())
    law = fit(curve.cross_entropy_loss(), n_bootstrap=0)
    assert (law.alpha, law.r2) == pytest.approx((alpha, r2), rel=1e-6)
    from paper.histogram import rank_histogram

    tables = family_tables(family, corpus)[0]
    found = rank_histogram(tables[-1].read().rank(), raw.V)
    count = dict(zip(found.low.tolist(), found.count.tolist(), strict=True))
    assert [count.get(r, 0) for r in (1, 2, 10)] == [np.sum(raw.rank(-1) == r) for r in (1, 2, 10)]
    assert found.total == len(raw.rank(-1))


def page_tables(path):
    """Rows of every table that an executed page offers as dictionaries; numbers as it holds them, to the last digit."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            html = "".join(output.get("data", {}).get("text/html", []))
            for data in re.findall(r'data-csv="(.*?)"', html):  # what is offered as CSV is the whole of a table
                for row in pd.read_csv(StringIO(json.loads(unescape(data)))).to_dict("records"):
                    yield {n: float(x) if type(x) in (int, float) else x for n, x in row.items()}


def check_page(path, root, family):
    """Every row of a page that gives an exponent for a corpus and k equals the computation from the raw tables."""
    titles = {load_corpus(p.stem).title: p.stem for p in (root / "corpora").glob("*.yml")}
    checked = 0
    for row in page_tables(path):
        if {"corpus", "k", "alpha", "R²"} <= set(row) and "way" not in row and "N" not in row:
            if not isinstance(row["k"], float) or not isinstance(row["alpha"], float) or row["status"] == "saturated":
                continue
            raw = Raw(root, family, titles[row["corpus"]])
            alpha, _, r2 = straight_line(raw.S, raw.losses(row["k"]))
            assert (row["alpha"], row["R²"]) == pytest.approx((alpha, r2), rel=1e-8)
            checked += 1
    return checked


def test_a_page_holds_the_numbers_of_the_tables(tmp_path, monkeypatch):
    """The page of moderate k, run on the synthetic family from its own notebook."""
    import papermill

    root = write_family(tmp_path)
    (root / "book").mkdir()
    (root / "book" / "claims.yml").symlink_to(ROOT / "book" / "claims.yml")
    monkeypatch.setenv("RBP_ROOT", str(root))
    monkeypatch.setenv("RBP_RESULTS", str(root / "results"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    out = tmp_path / "page.ipynb"
    parameters = {"family": "synthetic", "n_bootstrap": 100}
    papermill.execute_notebook(ROOT / "notebooks" / "03_moderate_k.ipynb", out, parameters, progress_bar=False)
    assert check_page(out, root, "synthetic") == 6  # two corpora, three k


PAGES = sorted((ROOT / "book" / "_executed").glob("nano-*/0[2345]_*.ipynb"))


@pytest.mark.skipif(not PAGES, reason="the book's pages have not been run")
@pytest.mark.parametrize("path", PAGES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_books_pages_hold_the_numbers_of_the_tables(path):
    assert check_page(path, ROOT, path.parent.name) > 0
