"""The switch between texts of a page: its list is that of the run's record, and titles are compared whole."""

import html
import json

import browser
import pandas as pd
import pytest

from paper.show import prose
from rbplib.families import default_corpora, known, load_family
from tests.conftest import ROOT
from tests.pagerunner import caught
from workflow.notebooks import texts

TITLES = ["Vuong's test, too", "Vuong's test", 'a "b": c', "a", "<b>A & B</b>"]
WORDS = ["Vuong's test, of all", "Vuong's test: of all", "Exponent by kind, a", "mean of all"]  # no texts


CHOOSE = """const list = document.querySelector('.rbp-texts select');
list.selectedIndex = arguments[0] + 1;
list.dispatchEvent(new Event('change', { bubbles: true }));"""


def page(titles):
    """HTML as `rbppage` makes it of what a run shows, with the book's script."""
    frame = pd.DataFrame({"corpus": [prose.shown(t) for t in [*TITLES, "mean of all"]], "x": 1.0})
    with caught() as outputs:
        prose.table(frame, "Vuong's test, of all")
        for title in TITLES:
            prose.table(frame[["x"]], f"Vuong's test, {title}", fold=True, of=prose.shown(title))
        prose.table(frame[["x"]], of=[prose.shown(title) for title in TITLES[:2]])
        for words in WORDS:
            prose.table(frame[["x"]], words, fold=True)
    body = "".join(
        f'<div data-of="{html.escape(json.dumps(o.metadata["of"]))}">{o.data["text/html"]}</div>'
        if "of" in o.metadata
        else o.data["text/html"]
        for o in outputs
    )
    listed = f'<div data-texts="{html.escape(json.dumps(titles))}" hidden></div>'
    script = (ROOT / "book" / "_static" / "rbp.js").as_uri()
    return f'<meta charset="utf-8"><article><h1>P</h1>{body}{listed}</article><script src="{script}"></script>'


@pytest.fixture(scope="module")
def driver():
    if not all(browser.find()):
        pytest.skip("no Chromium with its driver is installed")
    driver = browser.open_browser()
    yield driver
    driver.quit()


def test_titles_are_compared_whole_and_words_are_no_titles(driver, tmp_path):
    (tmp_path / "page.html").write_text(page([*TITLES, "a text that is not shown"]), encoding="utf-8")
    driver.get((tmp_path / "page.html").as_uri())
    found = driver.execute_script(browser.TEXTS)
    assert [one["title"] for one in found["own"]] == TITLES and not found["left away"]
    # its row, its fold, and for two of them the table of both
    assert [(one["wrong"], one["seen"]) for one in found["own"]] == [(0, 3), (0, 3), (0, 2), (0, 2), (0, 2)]
    driver.execute_script(CHOOSE, 3)
    of_all = driver.find_elements("css selector", "article > details > summary")
    assert [part.text for part in of_all if part.is_displayed()] == WORDS
    assert "mean of all" in driver.find_element("css selector", "table").text


def test_a_choice_lasts_to_the_next_page_that_has_the_text(driver, tmp_path):
    for name, titles in {"one": TITLES, "two": TITLES[::-1], "other": TITLES[3:]}.items():
        (tmp_path / f"{name}.html").write_text(page(titles), encoding="utf-8")
    chosen = "return document.querySelector('.rbp-texts select').selectedOptions[0].textContent"
    driver.get((tmp_path / "one.html").as_uri())
    driver.execute_script(CHOOSE, TITLES.index('a "b": c'))
    said = []
    for name in ("two", "other", "one"):
        driver.get((tmp_path / f"{name}.html").as_uri())
        said.append(driver.execute_script(chosen))
    assert said == ['a "b": c', "all", 'a "b": c']
    driver.execute_script(CHOOSE, -1)
    driver.get((tmp_path / "two.html").as_uri())
    assert driver.execute_script(chosen) == "all"


@pytest.mark.parametrize("titles", [TITLES[:1], ["none of these", "nor this"], []])
def test_a_page_of_one_text_has_no_switch(driver, tmp_path, titles):
    (tmp_path / "page.html").write_text(page(titles), encoding="utf-8")
    driver.get((tmp_path / "page.html").as_uri())
    assert driver.execute_script(browser.TEXTS) == {}


def test_a_run_records_the_titles_of_its_texts(tmp_path):
    family = load_family("nano-pythia")
    assert len(texts({"family": "nano-pythia"})) == len(default_corpora(family)) > 1
    assert set(texts({"family": "nano-pythia"})) <= set(texts({})) and any(f.embedded for f in known("family"))
    (tmp_path / "own.yml").write_text("title: 'a \"b\": <c>,  d'\npath: x.txt\n")
    (tmp_path / "x.txt").write_text("text")
    assert texts({"families": ["nano-pythia"], "corpora": ["docs", str(tmp_path / "own.yml")]})[1] == 'a "b": <c>, d'
