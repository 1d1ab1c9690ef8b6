"""The page where a reader pastes a table: in a browser, its numbers are those of `rbp fit`."""

import json
import re
from itertools import product

import numpy as np
import pandas as pd
import pytest

import rbplib as rbp
from rbplib.forecasting import extrapolate
from rbplib.sheets import NAMES
from tests import browser
from tests.laws.test_layouts import ALPHA, LAYOUTS, S, lines_of

PAGE = browser.ROOT / "book/your_table.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What sets the page's own part of HTML in a browser: (rows, size, law) to what it shows."""
    if not all(browser.find()):
        pytest.skip("there is no browser and driver to open pages with")
    folder = tmp_path_factory.mktemp("page")
    (folder / "_static").mkdir()
    script = browser.ROOT / "book/_static/table.js"
    (folder / "_static/table.js").write_text(script.read_text())
    part = re.search(r"```{raw} html\n(.*?)```", PAGE.read_text(), re.S)[1]
    html = f'<!doctype html><meta charset="utf-8"><title>x</title>{part}'
    (folder / "book").mkdir()
    (folder / "book/your_table.html").write_text(html)
    driver = browser.open_browser()

    def set_to(rows=None, size="70B", law=None, columns="", sizeunit="", dropbad=False):
        code = """
        const box = document.querySelector(".rbp-own"), [rows, law, entries] = arguments;
        if (rows !== null) box.querySelector("textarea").value = rows;
        const part = (name) => box.querySelector(`[name=${name}]`);
        for (const name of ["size", "columns", "sizeunit"]) part(name).value = entries[name];
        part("dropbad").checked = entries.dropbad;
        box.dispatchEvent(new Event("input"));
        if (law) { part("law").value = law; box.dispatchEvent(new Event("input")); }
        return [box.dataset.law || null, box.querySelector("output").textContent,
                [...box.querySelectorAll("circle:not([cy=NaN])")].length, part("law").length];
        """
        entries = {"size": size, "columns": columns, "sizeunit": sizeunit, "dropbad": dropbad}
        found, sentence, circles, laws = driver.execute_script(code, rows, law, entries)
        return found and json.loads(found), sentence, circles, laws

    try:
        driver.get((folder / "book/your_table.html").as_uri())
        yield set_to
    finally:
        driver.quit()


def test_what_stands_there_first_is_the_authors_law(page):
    shown, sentence, circles, _ = page(size="13B")
    S, hits = [85e6, 302e6, 708e6, 1476e6], [132065, 142215, 147050, 150180]
    law = rbp.fit(S=S, hits=hits, totals=317414)
    assert circles == 4 and shown["log_c"] == pytest.approx(law.log_c, rel=1e-9)
    assert "Exponent 0.05599" in sentence and "At S = 13B" in sentence
    assert "is no size" in page(size="1.4 B")[1]


@pytest.mark.parametrize("kind", ["accuracy", "loss_bits", "sources", "seeds"])
def test_points_line_interval_and_forecast_are_those_of_rbp_fit(page, kind):
    rng, sizes = np.random.default_rng(len(kind)), np.geomspace(1e6, 3e9, 7)
    nats = 9 * sizes**-0.1 * np.exp(0.03 * rng.normal(size=7))
    frame = pd.DataFrame({"model": [f"m{i}, b" for i in range(7)], "S": sizes})
    if kind == "loss_bits":
        frame[kind] = nats
    else:
        frame["hits"], frame["tokens"] = rng.binomial(5000, np.exp(-nats)), 5000
    if kind == "accuracy":
        frame = frame.assign(accuracy=frame.pop("hits") / 5000, questions=frame.pop("tokens"))
    if kind == "sources":
        other = frame.assign(hits=frame["hits"] // 2, tokens=4000, source="b")
        frame = pd.concat([frame.assign(source="a"), other])
    if kind == "seeds":
        frame = frame.assign(seed=[1, 1, 1, 1, 1, 1, 2], S=[*sizes[:6], sizes[5]])
        frame["model"] = [*frame["model"][:6], frame["model"][5]]
    (loss,) = rbp.table_losses(frame)
    shown, _, circles, _ = page(frame.to_csv(index=False), "7e10")
    assert circles == 7 and shown["n"] == 7
    law, ahead = rbp.fit(loss, n_bootstrap=0), extrapolate(loss, [7e10])
    theirs = [shown["alpha"], *shown["models"], *(point["loss"] for point in shown["points"])]
    ours = [law.alpha, *law.ci_models, *loss.values]
    if kind != "seeds":  # of which a forecast takes the mean of a size
        theirs += [shown["r2"], shown["loss"], *shown["ci_loss"]]
        ours += [law.r2, *ahead.loss, *ahead.interval[:, 0]]
    assert theirs == pytest.approx(ours, rel=1e-9)


def test_several_laws_are_chosen_from(page):
    rows = "model;S;k;hits;tokens\n"
    for k, size in product((1, 3), (1, 20, 300)):
        rows += f"m{size};{size}M;{k};{20 * k + 10 * len(str(size))};100\n"
    shown, _, _, laws = page(rows, law="k = 3")
    law = rbp.fit(S=[1e6, 2e7, 3e8], hits=[70, 80, 90], totals=100, n_bootstrap=0)
    assert laws == 2 and shown["alpha"] == pytest.approx(law.alpha, rel=1e-9)


GOOD = "model,S,D,k,loss,loss_se\na,1M,9,1,3,0\nb,2M,9,1,2.5,0\nc,3M,9,1,2,0\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2M", "2_000_000"),
        ("b,", "a,"),
        ("b,2M,9", "a,2M,8"),
        ("D", "S"),
        ("9,1,", "9,,"),
        ("9,1,3,", "0,1,3,"),
        ("2,0", "2,-1"),
        ("2,0", "2"),
        ("2M", "2 M"),
        ("2M", "2e3k"),
        ("D", "family"),
        ("b,2M", "a,1M,8,1,2.9,0\nb,2M"),
        (",0\n", ",0,7\n"),
        ("b,", "a,1M,9,2,2,0\nb,2.1M,9,2,2,0\nc,3M,9,2,1,0\nb,"),
        ("D,k,loss,loss_se\na,1M,9", "loss_se,tokens,loss,source\na,1M,x"),
        ("D,k,loss", "k,loss,D"),
        ("c,3M", "c,2.05M"),
    ],
)
def test_the_page_takes_and_refuses_what_rbp_fit_does(page, tmp_path, old, new):
    rows = GOOD.replace(old, new)
    (tmp_path / "t.csv").write_text(rows)
    shown, sentence, _, _ = page(rows)
    try:
        (loss,) = rbp.table_losses(tmp_path / "t.csv")
    except rbp.InputError:
        assert shown is None and sentence.endswith(".")
        return
    law = rbp.fit(loss, n_bootstrap=0)
    assert shown["status"] == law.status.replace("too few documents", "ok")
    assert (shown["alpha"] or np.nan) == pytest.approx(law.alpha, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ("", "lacks S and one of hits"),
        ("model,S,loss\na,1M,1\nb,2M,2", "three sizes"),
        ("model,hits\na,1", "lacks S and tokens; it has model, hits"),
        ("N,n_params,loss\n1M,2M,3", 'S from "N" or S from "n_params": say which'),
        ("model,S,hits,tokens\na,1M,10,9\nb,2M,2,9\nc,3M,3,9", 'row 1 (a) has hits "10"'),
        ("model,S,k,loss\na,1M,1,3\nb,2M,1.5,2\nc,3M,1,1", 'row 2 (b) has k "1.5"'),
        ("model,S,hits,tokens\na,1M,1e20,1e21\n", 'has hits "1e20" and tokens "1e21"'),
        ("model,S,loss\na,1e100,3\n", 'S "1e100"'),
        ("model,S,loss\na,12,3\nb,35,2\nc,70,1", "billions or millions meant?"),
        ("S,loss\n12,3\n35,2\n7000,1", "billions or millions meant?"),
        ("S,loss\n" + "1M,2\n" * 120_001, "at most 100000 are read here"),
        ("S" + ",a" * 20_000 + "\n", "at most 10000 are read"),
        ("family,model,S,loss\n,a,1M,3\nx,b,2M,2\nx,c,3M,1", "model a is of no family"),
        ("model,S,loss\na,1M,1\na,1M,2\nc,3M,3", "twice"),
        ("model,S,loss\na,1M,3\nb,1.01M,2\nc,3M,1", "more than 5%"),
        ("model,S,k,hits,tokens\na,1M,1,5,9\na,1M,4,3,9\n", "worse in hits at k = 4"),
        ("S,k,loss\n1M,1,2\n1M,4,3\n", "worse in loss at k = 4"),
        ("S,loss\n1M,3M\n2M,2\n3M,1%\n", 'row 1 (row 1) has loss "3M", row 3'),
        ("S,loss,loss_se\n1M,3,5%\n", 'loss_se "5%"'),
        ('S,loss\n1M,"3\n2M,2\n4M,1\n', "mark is open"),
        ("model,S,loss\n<img src=x onerror=alert(1)>,1M,one\n", 'loss "one"'),
    ],
)
def test_bad_rows_are_one_sentence(page, rows, word):
    shown, sentence, circles, _ = page(rows)
    assert shown is None and word in sentence and circles == 0 and sentence.endswith(".")


@pytest.mark.parametrize("name", LAYOUTS)
def test_published_layouts_are_fitted_as_the_command_does(page, name):
    header, line, option = LAYOUTS[name]
    rows = lines_of(header, line)
    if not header:  # JSON is of files
        assert page(rows)[0] is None
        return
    shown, sentence, circles, _ = page(rows, columns=option)
    assert shown["alpha"] == pytest.approx(ALPHA, rel=1e-6) and circles == 4
    assert [point["S"] for point in shown["points"]] == pytest.approx(S.tolist())
    assert "S from " in sentence or name == "pandas"


def test_names_are_those_that_files_may_have():
    script = (browser.ROOT / "book/_static/table.js").read_text()
    entries = re.search(r"NAMES = {\n(.*?)\n  };", script, re.S)[1]
    assert {k: v.split() for k, v in re.findall(r'(\w+): "(.*?)"', entries)} == NAMES


def test_units_unusable_rows_and_doubts_are_told_as_the_command_tells_them(page, tmp_path):
    rows = "S,acc,questions\n1,10%,900\n20,20%,900\n300,40%,900\n4000,none,900\n"
    (tmp_path / "t.csv").write_text(rows)
    (loss,) = rbp.table_losses(tmp_path / "t.csv", size_unit="m", drop_bad=True)
    assert 'row 4 (row 4) has accuracy "none"' in page(rows, sizeunit="m")[1]
    shown, sentence, _, _ = page(rows, sizeunit="m", dropbad=True)
    assert shown["alpha"] == pytest.approx(rbp.fit(loss, n_bootstrap=0).alpha, rel=1e-9)
    assert "Left out: row 4" in sentence and "accuracy from acc" in sentence
    # points on no line
    rows = "S,loss\n3B,.86\n7B,.26\n1.6B,.35\n6.9B,.66\n"
    (tmp_path / "t.csv").write_text(rows)
    law = rbp.fit(tmp_path / "t.csv")
    shown, sentence, _, _ = page(rows)
    assert shown["caveats"] == list(law.caveats) == ["not told from 0", "no line"]
    assert "not told from 0; no line." in sentence


@pytest.mark.parametrize("losses", ["3 2 1e-10", "1e-320 2 3", "3 3.000000000000001 3"])
def test_extreme_numbers_do_not_stop_the_page(page, losses):
    rows = "S,loss\n1,{}\n1e9,{}\n1e18,{}\n".format(*losses.split())
    shown, sentence, circles, _ = page(rows, size="1e18", sizeunit="1")
    assert circles == 3 and sentence and shown["n"] == 3


def test_a_hundred_thousand_rows_are_fitted(page):
    rows = "S,loss\n" + "".join(f"{1000 * i}K,{9 * i**-0.1}\n" for i in range(1, 100_001))
    shown, _, circles, _ = page(rows)
    assert shown["n"] == 100_000 and shown["alpha"] == pytest.approx(0.1) and circles == 2000
