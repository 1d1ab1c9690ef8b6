"""Numbers on a built page equal a computation from the rank tables with NumPy alone."""

import json
import re
from html import unescape
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from paper.show import tables
from rbplib.curve import Curve
from rbplib.extrapolation import extrapolate


def executed(place, name, family="nano-pythia"):
    path = place / "book" / "_executed" / family / f"{name}.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))


def html_tables(notebook):
    """Rows of every table of a page: the value that sorts a numeric cell, the text of another."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            html = "".join(output.get("data", {}).get("text/html", ""))
            for body in re.findall(r"<table class=\"rbp-table\">.*?</table>(?:<p>.*?</p>)*", html, re.S):
                if csv := re.search(r'data-csv="(.*?)"', body):  # the whole of the table, with all digits
                    found.append(pd.read_csv(StringIO(json.loads(unescape(csv[1])))).to_dict("records"))
                    continue
                heads = [re.sub("<.*?>", "", h) for h in re.findall(r"<th scope=\"col\">(.*?)</th>", body, re.S)]
                rows = []
                for row in re.findall(r"<tr>(.*?)</tr>", body.split("<tbody>")[1], re.S):
                    cells = re.findall(r"<td[^>]*?(?: data-sort=\"([^\"]*)\")?>(.*?)</td>", row, re.S)
                    rows.append(dict(zip(heads, [float(s) if s else t for s, t in cells], strict=True)))
                found.append(rows)
    return found


def by_hand(place, corpus, k):
    """Sizes, y = log(-log RBP_k), and cross-entropy, straight from the Parquet files."""
    S, y, entropy = [], [], []
    for path in sorted((place / "results" / "ranks" / "nano-pythia").glob(f"*/{corpus}-*.parquet")):
        table = pq.read_table(path)
        record = json.loads(table.schema.metadata[b"rbplib"])
        rank = table["greater"].to_numpy() + table["ties"].to_numpy()
        S.append(record["nonembedding_params"])
        y.append(np.log(-np.log(np.mean(rank <= k))))
        entropy.append(-table["logprob"].to_numpy().astype(float).mean())
    order = np.argsort(S)
    return np.array(S)[order], np.array(y)[order], np.array(entropy)[order]


def line(S, y):
    x = np.log(S)
    slope, intercept = np.polyfit(x, y, 1)
    return -slope, 1 - np.sum((y - slope * x - intercept) ** 2) / np.sum((y - y.mean()) ** 2)


@pytest.mark.parametrize("corpus", ["docs", "code"])
def test_top1_law(small_book, corpus):
    import yaml

    title = yaml.safe_load((small_book / "corpora" / f"{corpus}.yml").read_text())["title"]
    sizes, laws = html_tables(executed(small_book, "02_top1_law"))[:2]
    S, y, entropy = by_hand(small_book, corpus, 1)
    shown = [row for row in sizes if row["corpus"] == title]
    assert [row["S"] for row in shown] == list(S)
    np.testing.assert_allclose([row["RBP_1"] for row in shown], np.exp(-np.exp(y)), rtol=1e-12)
    np.testing.assert_allclose([row["cross-entropy (nats)"] for row in shown], entropy, rtol=1e-6)
    (law,) = [row for row in laws if row["corpus"] == title]
    alpha, r2 = line(S, y)
    assert law["alpha"] == pytest.approx(alpha, rel=1e-9) and law["R²"] == pytest.approx(r2, rel=1e-9)
    # The models interval is Student's t on the residuals.
    import statsmodels.api as sm

    fit = sm.OLS(y, sm.add_constant(np.log(S))).fit()
    low, high = -fit.conf_int()[1][::-1]
    assert (law["other sizes: low"], law["other sizes: high"]) == (
        pytest.approx(low, rel=1e-8),
        pytest.approx(high, rel=1e-8),
    )


def test_k_dependence(small_book):
    import yaml

    title = yaml.safe_load((small_book / "corpora" / "docs.yml").read_text())["title"]
    rows = [r for r in html_tables(executed(small_book, "05_k_dependence"))[0] if r["corpus"] == title]
    assert [r["k"] for r in rows] == [1, 10, 50, 100, 1000]
    for row in rows:
        S, y, _ = by_hand(small_book, "docs", row["k"])
        alpha, r2 = line(S, y)
        assert row["alpha"] == pytest.approx(alpha, rel=1e-9) and row["R²"] == pytest.approx(r2, rel=1e-9)


def test_metric(small_book):
    """Fig. 2's three tokens: the probability and rank on the page, and their means, are those of the rank table."""
    notebook = executed(small_book, "01_metric")
    (three,) = [rows for rows in html_tables(notebook) if "within 3" in rows[0]]
    assert len(three) == 3 and sum(row["within 3"] == "yes" for row in three) == sum(row["rank"] <= 3 for row in three)
    text = "".join(
        "".join(o.get("data", {}).get("text/markdown", "")) for c in notebook["cells"] for o in c.get("outputs", [])
    )
    mean = np.mean([-np.log(row["probability"]) for row in three])
    shown = float(re.search(r"log p\$: ([0-9.]+) nats", text)[1])
    assert shown == pytest.approx(mean, rel=0.01)


def test_the_metric_on_a_text_file_of_ones_own(small_book, tmp_path, monkeypatch):
    """A corpus given by its path: the page once looked it up by its name alone."""
    from workflow.notebooks import run_notebook

    monkeypatch.setenv("RBP_ROOT", str(small_book))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    source = open(__file__, encoding="utf-8").read()
    text = tmp_path / "mine.jsonl"
    text.write_text("".join(json.dumps({"text": part}) + "\n" for part in source.split("\n\n\n")), encoding="utf-8")
    out = run_notebook("01_metric", "nano-pythia", tmp_path / "out.ipynb", {"corpora": [str(text)]})
    tables = html_tables(json.loads(out.read_text(encoding="utf-8")))
    assert [len(rows) for rows in tables if "within 3" in rows[0]] == [3]


def test_estimators_are_compared_on_the_same_cases_of_one_number_held_out():
    """On losses with a floor the form with a floor is best, and the line is behind it beyond the paired spread."""
    S = np.geomspace(1e4, 1e7, 7)
    rng, curves = np.random.default_rng(0), []
    for i in range(6):
        share = np.exp(-np.exp(np.log(0.5 + 20 * S**-0.3) + rng.normal(0, 1e-3, 7)))
        hits = np.round(1e8 * share).astype(np.int64)[None, :, None]
        names, totals = tuple("abcdefg"), np.array([10**8])
        curves.append(Curve("f", f"c{i}", "paper", names, S, 4096, np.array([1]), hits, totals, np.ones((1, 7))))
    found = tables.compare_estimators(curves, [1]).set_index(["held out", "form"])
    for held_out in (1, 2):
        assert found.loc[held_out].index[0] == "law with a floor"
        assert found.loc[(held_out, "law with a floor"), "groups"] == 6
        assert found.loc[(held_out, "line, least squares"), "verdict"] == "behind"
    one = np.abs([extrapolate(c.loss(1), 1).error[0] for c in curves])
    assert found.loc[(1, "line, least squares"), "rmse"] == pytest.approx(np.sqrt(np.mean(one**2)))
    assert tables.compare_estimators([curves[0].keep("abc")], [1]).empty


def test_a_parameter_told_from_zero_has_its_sign():
    ends = [(0.1, 0.2), (0.1, 0.3), (-0.2, -0.1), (-0.1, 0.1), (np.nan, np.nan)]
    laws = [SimpleNamespace(intervals=lambda _, pair=pair: {"sources": pair}) for pair in ends]
    assert "over *sources* above 0 in 2 of 4 cases, below in 1" in tables.apart_words(laws, "curvature")
    assert tables.apart_words(laws[4:], "curvature") == "No case has an interval."
