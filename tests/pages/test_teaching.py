"""What teaching pages lean on: links to the glossary, number fields, figures of a run, citations. One small build."""

import ast
import doctest
import inspect
import json
import re
import shutil
import subprocess
import sys
import textwrap
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
import yaml

from paper import joint
from paper.rank_fit import RankDistribution
from paper.show import claims, reference
from paper.show.law_tables import BEYOND
from paper.show.rules import all_claims
from rbplib import noise as uncertainty
from tests import browser

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
BIB = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
TERMS = re.findall(r"^(\S.*)\n  \S", "\n".join(re.findall(r"```\{glossary\}\n(.*?)```", GLOSSARY, re.S)), re.M)
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'
PAGE = """# A page

The RBP of a *family* is a share. A family has RBP. All families: few misses, so few misses. In code: `family`.
Source code has no source, and {term}`ICC` is linked by hand.

{check}`An answer = 0.25 ± 0.01 nats` {check}`Whole = 3 ± 0` {check}`no field`

```{run-figure} 02_x a line
```

```{run-figure} 02_x a circle
```

```{run-figure} 03_y a line
```

```{run-figure} 02_x a square
:first:
```

Read {run-page}`How sure? <02_x#how-sure>` and {run-page}`Nothing <03_y>` and {run-page}`Here <05_z#an-end>`.

```{cite-book}
```

**agrees.** A line that agrees is measured. **agrees.**

<table class="rbp-table">
<tr><th scope="col">documents</th><th scope="col">R² as low, by</th><th scope="col">a & b</th></tr>
<tr><td class="text word">few hits</td><td class="text">few hits</td>
<td class="text word rbp-mark"><span aria-hidden="true">✓</span> ok</td></tr></table>

<ul><li><em>A claim</em>: <span class="rbp-basis">exact sums</span>; more</li></ul>

<p>Solution to<a href="#x"> Exercise 1</a></p>

It ends at $|V|$, or (at $k$).
"""
CITES = (
    "# R\n\n"
    + "".join(f"{{cite:p}}`{key}`\n" for key in re.findall(r"^@\w+\{(\w+),", BIB, re.M))
    + "\n```{bibliography}\n```\n"
)


def panels(rows=2):
    """A figure of rows of three panels with a legend below them, as the book draws it: its SVG."""
    from matplotlib import pyplot as plt

    from paper.show import figures, style

    style.use()
    fig, axes = plt.subplots(rows, 3, sharey=True, squeeze=False)
    for ax, name in zip(axes.flat, ("first", "second", "third") * rows, strict=True):
        ax.plot([1, 2], [3, 4], marker="o", label="a long word")
        ax.set(title=name, xlabel=f"size of the {name}")
    figures.legend_below(fig, axes[0, 0])
    return figures.svg_of(fig)


def sphinx_config(begin):
    """What the book's configuration says under names that begin so."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    return {name: value for name, value in config.items() if name.startswith(begin)}


def notebook(alt, svg=SVG):
    outputs = [{"data": {"image/svg+xml": s}, "metadata": {"image/svg+xml": {"alt": a}}} for a, s in ((alt, SVG), svg)]
    return json.dumps({"cells": [{}, {"outputs": outputs}]})


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The HTML of PAGE and of the glossary, made by the book's own extensions: {name: text}, and the warnings."""
    from sphinx.application import Sphinx

    place = tmp_path_factory.mktemp("teaching")
    (place / "book" / "_executed" / "nano-pythia").mkdir(parents=True)
    (place / "book" / "_executed" / "nano-pythia" / "02_x.ipynb").write_text(
        notebook("a line & its band", ("a square", panels()))
    )
    (place / "book" / "_executed" / "nano-pythia" / "05_z.md").write_text("# Z\n")
    (place / "book" / "_executed" / "nano-pythia" / "05_z.ipynb").write_text(notebook("", ("", SVG)))
    (place / "book" / "page.md").write_text(PAGE, encoding="utf-8")
    (place / "book" / "glossary.md").write_text(GLOSSARY.replace("{doc}`table of notation <notation>`", "a table"))
    (place / "index.md").write_text(
        "# X\n\n```{toctree}\nbook/page\nbook/glossary\nbook/_executed/nano-pythia/05_z\n```\n"
    )
    shutil.copy(ROOT / "CITATION.cff", place)
    (place / "book" / "cites.md").write_text(CITES, encoding="utf-8")
    extensions = ["myst_parser", "sphinxcontrib.bibtex", "rbpterms", "rbpteach", "rbpcite"]
    config = {"extensions": extensions, "myst_enable_extensions": ["dollarmath"]} | sphinx_config("bibtex_")
    config["bibtex_bibfiles"] = [str(ROOT / "book" / "references.bib")]
    config |= {"copyright": "2026"}
    warnings, before = StringIO(), list(sys.path)
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    try:
        app = Sphinx(place, None, place / "out", place / "trees", "html", config, StringIO(), warnings, parallel=0)
        app.build()
    finally:
        sys.path[:] = before
    pages = {p.stem: p.read_text(encoding="utf-8") for p in (place / "out" / "book").glob("*.html")}
    return pages, warnings.getvalue(), place / "out"


def links(html):
    return re.findall(r'href="[^"]*#(term-[^"]+)"[^>]*title="([^"]+)"[^>]*>(?:<span[^>]*>)?([^<]+)', html)


def test_the_first_use_of_a_word_is_linked_and_no_other(built):
    found = [shown for _, _, shown in links(built[0]["page"])]
    assert found == ["RBP", "family", "few misses", "misses", "source", "ICC", "agrees", "few hits", "ok", "exact sums"]


def test_the_head_of_a_column_shows_the_meaning_of_its_word(built):
    found = re.findall(r'<th scope="col"( title="[^"]+")?>([^<]+)</th>', built[0]["page"])
    assert [(title[:22], head) for title, head in found] == [
        (' title="A text that is', "documents"),
        (' title="Another test t', "R² as low, by"),
        ("", "a & b"),
    ]


def test_the_space_before_a_link_is_no_part_of_it(built):
    assert 'Solution to <a href="#x">Exercise 1</a>' in built[0]["page"]


def test_no_line_ends_between_a_formula_and_the_sign_behind_it(built):
    kept = re.findall(r'<span class="rbp-whole">(.*?)</span>(.*?)</span>', built[0]["page"])
    assert [(re.sub("<.*?>", "", formula), sign) for formula, sign in kept] == [(r"\(|V|\)", ","), (r"\(k\)", ").")]


def test_every_formula_of_the_glossary_is_told_without_tex(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    from rbpterms import plain

    formulas = re.findall(r"\$[^$]+\$", GLOSSARY)
    assert len(formulas) > 20 and not [f for f in formulas if re.search(r"[\\{}$]", plain(f))]


def test_the_link_carries_the_meaning_in_words(built):
    meanings = {anchor: text for anchor, text, _ in links(built[0]["page"])}
    assert meanings["term-ICC"].startswith("Intraclass correlation: how alike")
    assert "rank is at most k" in meanings["term-RBP"]
    inside = {text for _, text, _ in links(built[0]["glossary"])}
    assert inside and not [t for t in inside | set(meanings.values()) if re.search(r"[\\{}$]", t)]


def test_a_field_has_a_label_a_unit_a_tolerance_and_a_live_answer(built):
    html = built[0]["page"]
    fields = re.findall(r'<span class="rbp-check".*?</output></span>', html)
    assert len(fields) == 2 and 'data-value="0.25" data-within="0.01"' in fields[0]
    for field, told in zip(fields, ("nats, within 0.01", "exact"), strict=True):
        ident = re.search(r'<input id="([^"]+)" type="text" inputmode="decimal"', field)[1]
        assert f'<label for="{ident}">' in field and f'<output for="{ident}" aria-live="polite">' in field
        assert f'aria-describedby="{ident}-how"' in field and f'<span id="{ident}-how">({told})</span>' in field
        assert '<button type="button">' in field


def test_what_is_no_field_is_an_error(built):
    assert "'no field' is no field: it reads" in built[1]


def test_a_figure_of_a_run_is_shown_and_a_lacking_one_is_said(built):
    pages, _, out = built
    (image,) = re.findall(r'<img class="rbp-figure" src="([^"]+)" alt="a line &amp; its band">', pages["page"])
    assert (out / "book" / image).read_text() == SVG
    assert "without this figure of the page 02_x" in pages["page"] and "of the page 03_y" in pages["page"]


def test_the_first_row_of_panels_is_shown_with_the_legend_and_the_whole_is_folded(built):
    pages, _, out = built
    first, whole = re.findall(r'<img class="rbp-figure" src="([^"]+)" alt="[^"]*a square">', pages["page"])
    assert pages["page"].index(first) < pages["page"].index("More: all panels") < pages["page"].index(whole)
    first, whole = ((out / "book" / place).read_text() for place in (first, whole))
    frame = re.compile(r'd="M [\d.]+ [\d.]+L[\d.]+ [\d.]+L[\d.]+ [\d.]+L[\d.]+ [\d.]+z\s*" style="fill: #ffffff')
    assert len(frame.findall(whole)) == 7 and len(frame.findall(first)) == 4  # the paper behind all, and each panel
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', first))
    assert {a or b for a, b in used} <= set(re.findall(r' id="([^"]+)"', first))
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', first).groups()
    assert float(height) < float(width)


def test_of_one_row_of_panels_none_is_left_out(monkeypatch):
    """A slide once said something of k = 10 above the panel of k = 1 alone."""
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    from rbpteach import first_row

    assert first_row(panels(rows=1)) == "" != first_row(panels(rows=2))


DECK = """<!doctype html><html lang="en"><title>x</title><link rel="stylesheet" href="{0}.css">
<script src="{0}.js"></script>
<article><section><h1>Slides</h1><div class="rbp-deck"></div><section><h2>1</h2></section>
<section><h2>2</h2><details><summary>More</summary></details></section><section><h2>3</h2></section></section></article>
"""


def test_the_keys_of_slides_turn_them_and_the_focus_comes_back(tmp_path):
    """The space key once ended the show, as the focus stayed on the button."""
    if not all(browser.find()):
        pytest.skip("there is no Chromium with its driver to show slides")
    from selenium.webdriver.common.keys import Keys

    (tmp_path / "deck.html").write_text(DECK.format((ROOT / "book" / "_static" / "rbp").as_uri()))
    driver = browser.open_browser()
    try:
        driver.get((tmp_path / "deck.html").as_uri())
        driver.find_element("css selector", ".rbp-deck button").click()
        assert driver.find_element("tag name", "h1").is_displayed()
        shown = []
        for key in (Keys.SPACE, Keys.HOME, Keys.END, Keys.ARROW_LEFT):
            driver.switch_to.active_element.send_keys(key)
            (now,) = [s for s in driver.find_elements("css selector", "section section") if s.is_displayed()]
            shown.append(now.text.split()[0])
        driver.find_element("tag name", "summary").send_keys(Keys.SPACE)  # a fold opens, and the slide stays
        opened = driver.execute_script(
            "return document.querySelector('details').open && document.activeElement.tagName"
        )
        driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        assert driver.switch_to.active_element.text == "Show as slides" and opened == "SUMMARY"
        assert shown == ["2", "1", "3", "2"] and not driver.find_elements("css selector", ".rbp-presenting")
    finally:
        driver.quit()


def test_a_link_to_a_page_of_a_run_is_words_where_it_was_not_run(built):
    html = built[0]["page"]
    assert "Read How sure? and <em>Nothing</em> and" in html
    assert 'href="../book/_executed/nano-pythia/05_z.html#an-end">Here</a>' in html


def headings(page):
    text = (ROOT / "notebooks" / f"{page}.md").read_text(encoding="utf-8")
    return {re.sub(r"[^a-z0-9]+", "-", h.lower()).strip("-") for h in re.findall(r"^#+ (.+)$", text, re.M)}


def test_the_plan_its_notes_and_the_slides_lead_to_headings_that_are_there():
    for name in ("teaching", "teachers_notes", "slides"):
        text = (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")
        links = re.findall(r"\{run-page\}`[^`<]+ <(\w+)#?([\w-]*)>`", text)
        assert len(links) == text.count("{run-page}") and len(links) >= 3
        for page, anchor in links:
            assert not anchor or anchor in headings(page), (name, page, anchor)


def plan():
    """{session: (its minutes, its slides, [(part, minutes, slides)])} of the course."""
    text, said = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8"), {}
    rows = re.findall(r"^\| (.+?) \| \**(\d+)\** \| \**(\d+|\d+ to \d+|–)\** \|$", text, re.M)
    for part, minutes, slides in rows:
        first, _, last = slides.partition(" to ")
        shown = [] if slides == "–" else list(range(int(first), int(last or first) + 1))
        if part.startswith("**"):
            parts = said.setdefault(part.strip("*"), (int(minutes), shown, []))[2]
        else:
            parts.append((part, int(minutes), shown))
    return said


def test_the_minutes_of_a_session_are_those_of_its_parts_and_each_slide_has_its_part():
    """The parts once filled each session, and none had room for the slides."""
    slides = re.findall(r"^## (.+)$", (ROOT / "book" / "slides.md").read_text(encoding="utf-8"), re.M)
    starts = [at for at, title in enumerate(slides, 1) if title.startswith("Session ")]
    assert len(slides) > 15 and [f"Session {title}" for title in plan()] == [slides[at - 1] for at in starts]
    for (minutes, shown, parts), start, end in zip(
        plan().values(), starts, [*starts[1:], len(slides) + 1], strict=True
    ):
        assert shown == list(range(start, end)) == [n for _, _, part in parts for n in part]
        assert minutes == sum(m for _, m, _ in parts)
    text = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    assert f"Each session has {max(m for m, _, _ in plan().values())} minutes." in text
    assert len({m for m, _, _ in plan().values()}) == 1


def test_every_part_of_the_plan_has_a_note_with_its_slides_and_a_lab_says_its_time():
    notes = (ROOT / "book" / "teachers_notes.md").read_text(encoding="utf-8")
    for session, (_, _, parts) in plan().items():
        for part, minutes, shown in parts:
            span = " to ".join(map(str, dict.fromkeys((shown[0], shown[-1])))) if shown else "–"
            assert f"| {session[0]}, {part.partition(', while')[0]} | {minutes} | {span} |" in notes, part
            for lab in re.findall(r"\{doc\}`labs/(\w+)`", part):
                text = (ROOT / "book" / "labs" / f"{lab}.md").read_text(encoding="utf-8")
                assert f"**Time.** {minutes} minutes in class" in text
                assert ("the last task is for home" in text) == ("without its last task" in part), lab


def test_a_session_has_read_the_pages_whose_figures_it_shows():
    """Session 4 once showed figures of four pages and had read one."""
    text = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    slides = re.split(r"^## Session ", (ROOT / "book" / "slides.md").read_text(encoding="utf-8"), flags=re.M)[1:]
    read = set()
    for shown, (n, row) in zip(slides, re.findall(r"^\| (\d)\. .+? \| (.+?) \|", text, re.M), strict=True):
        now = set(re.findall(r"<(\w+)(?:#[\w-]+)?>", row))
        assert shown.startswith(n) and now == set(re.findall(r"<(\w+)(?:#[\w-]+)?>`", shown.partition("## ")[0])), n
        read |= now
        assert set(re.findall(r"\{run-figure\} (\w+)", shown)) <= read, n


def test_what_pages_quote_of_a_run_is_said_under_that_name():
    pages = [p.read_text(encoding="utf-8") for p in (ROOT / "book").glob("*.md")]
    found = re.findall(r"^```\{run-words\} (\S+) (\S+)$", "\n".join(pages), re.M)
    assert len(found) >= 5
    for page, name in found:
        assert f'name="{name}"' in (ROOT / "notebooks" / f"{page}.md").read_text(encoding="utf-8"), (page, name)


def test_the_citations_are_those_of_the_citation_file(built):
    text = " ".join(re.sub(r"<[^>]+>", "", built[0]["page"]).split())
    assert "@article{yue2025relative," in text and "@software{rbplib," in text
    assert "author = {Yue, Baoqing and Zhou, Jinyuan and" in text and "year = {2026}" in text
    entry = re.search(r"@article\{yue2025relative,(.*?)\n\}", (ROOT / "book" / "references.bib").read_text(), re.S)[1]
    assert re.search(r"title\s+= \{(.+)\}", entry)[1] in text


def status_words():
    """Every word that a status may be, out of the code that says them."""
    found = {"ok", BEYOND, uncertainty.NOT_TESTED}
    for function in (uncertainty.doubts, RankDistribution.status.fget):
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        tables = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
        found |= {key.value for table in tables for key in table.keys}
    return found


def test_every_status_word_is_in_the_glossary():
    words = status_words()
    words |= {claims.AGREES, claims.DIFFERS, claims.MIXED, claims.OPEN} | {rule.basis for rule in all_claims().values()}
    words |= set(joint.compared(pd.DataFrame({"a": [1, 1.1, 0.9], "b": [2, 2.1, 1.9], "c": [1, 1.2, 0.9]}))["verdict"])
    words |= {*uncertainty.EXPLAINED[2:], reference.ONLY_RUN, reference.ONLY_BOOK, reference.DIFFERS}
    assert {"few misses", "ridge", "no interval of other text", "tie", "behind", "proved"} <= words
    assert words <= set(TERMS), words - set(TERMS)
    explained = re.search(r"^explained by\n(.*?)\n\n", GLOSSARY, re.M | re.S)[1]
    assert all(word in " ".join(explained.split()) for word in uncertainty.EXPLAINED)


def test_forms_of_words_are_of_words_that_the_glossary_has():
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    try:
        from rbpterms import OTHER_FORMS
    finally:
        sys.path.pop(0)
    assert set(OTHER_FORMS) <= set(TERMS) and len(TERMS) == len(set(TERMS))


def test_words_are_found_as_if_each_were_tried_at_every_place(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    from rbpterms import OTHER_FORMS, OTHER_WORDS, forms

    each = [(w, OTHER_FORMS.get(w, re.escape(w) + ("" if w.endswith("s") else "s?"))) for w in TERMS]
    each = sorted([*each, *((w, other) for other, w in OTHER_WORDS.items())], key=lambda pair: -len(pair[0]))
    plainly = re.compile(rf"(?<![\w-])(?:{'|'.join(f'({form})' for _, form in each)})(?![\w-])")
    texts = [GLOSSARY, *(f"{w}, {w}s; x {w.upper()} -{w} ({w}): {w}" for w in (*TERMS, *OTHER_WORDS))]
    texts += ["families corpora Vuong's test: few misses, residual scatter runs of hits misses exponent at the pivot"]
    pattern, words = forms(TERMS)
    found = [[(m.span(), words[m.lastindex - 1]) for m in pattern.finditer(text)] for text in texts]
    assert found == [[(m.span(), each[m.lastindex - 1][0]) for m in plainly.finditer(text)] for text in texts]
    assert {word for line in found for _, word in line} == {word for word, form in each if form != "(?!)"}


def test_slides_show_figures_that_their_pages_draw():
    found = re.findall(r"\{run-figure\} (\S+) (.+)", (ROOT / "book" / "slides.md").read_text(encoding="utf-8"))
    assert len(found) >= 8
    for page, words in found:
        text = (ROOT / "notebooks" / f"{page}.md").read_text(encoding="utf-8")
        assert words in re.sub(r'"\s*f?"', "", text), (page, words)


def test_code_on_hand_written_pages_fits_its_column():
    """Of a window of 1280 px; code in solutions is wrapped by the style sheet."""
    pages = [p for place in ("", "derivations/", "labs/") for p in (ROOT / "book").glob(f"{place}*.md")]
    assert len(pages) > 20
    for page in pages:
        text = re.sub(r"^````\{solution\}.*?^````$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        code = "\n".join(re.findall(r"^```(?:bash|python|yaml)\n(.*?)^```$", text, re.M | re.S))
        assert not [line for line in code.splitlines() if len(line) > 77], page.name


def test_every_reference_is_cited_where_it_is_used():
    keys = re.findall(r"^@\w+\{(\w+),", (ROOT / "book" / "references.bib").read_text(encoding="utf-8"), re.M)
    pages = [*ROOT.glob("book/*.md"), *ROOT.glob("book/derivations/*.md"), *ROOT.glob("notebooks/*.md")]
    cited = re.findall(r"\{cite:[pt]\}`([\w,]+)`", "\n".join(p.read_text(encoding="utf-8") for p in pages))
    assert set(keys) == {key for group in cited for key in group.split(",")} and len(keys) == len(set(keys))


def test_a_reference_has_the_label_that_the_text_cites_and_stands_by_it(built):
    """The text once cited [Yue et al., 2025], and the list had [1] to [30]."""
    text = re.sub(r"</?(?:em|span)\b.*?>", "", built[0]["cites"])
    labels = re.findall(r'role="doc-biblioentry">\s*\[<a [^>]+>([^<]+)</a>', text)
    assert "Yue et al., 2025" in labels and len(labels) == len(set(labels)) == BIB.count("\n@") + 1
    assert set(re.findall(r'<a class="reference internal" href="#id\d+"[^>]*>([^<]+)</a>', text)) == set(labels)
    assert labels == sorted(labels, key=str.lower)


def copied(texts):
    """What the button beside a block copies of each text, by the button's own function as the book sets it."""
    import sphinx_copybutton

    function = (Path(sphinx_copybutton.__file__).parent / "_static" / "copybutton_funcs.js").read_text()
    said = sphinx_config("copybutton_")
    how = [said["copybutton_prompt_text"], said["copybutton_prompt_is_regexp"], True, True, True, "", ""]
    code = f"{function.replace('export function', 'function')}; const how = {json.dumps(how)};"
    code += f"console.log(JSON.stringify({json.dumps(texts)}.map((text) => formatCopyText(text, ...how))))"
    return json.loads(subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run the button's script")
def test_what_is_copied_of_a_solution_is_its_code_alone():
    blocks = re.findall(r"^```python\n(>>> .*?)^```$", (ROOT / "book" / "exercises.md").read_text(), re.M | re.S)
    sources = ["".join(e.source for e in doctest.DocTestParser().get_examples(block)) for block in blocks]
    found = [re.sub(r"\n\n+", "\n", text + "\n") for text in copied(blocks)]
    assert len(blocks) > 20 and [re.sub(r"\n\n+", "\n", text) for text in sources] == found
    assert copied(["n = 1\nprint(n)\n"]) == ["n = 1\nprint(n)"]


def test_the_page_of_data_says_how_many_models_were_trained_again():
    """It once counted the ladder itself among them."""
    families = {p.stem: yaml.safe_load(p.read_text()) for p in (ROOT / "families").glob("nano-pythia*.yml")}
    ladder = families["nano-pythia"]
    again = families[ladder["repeats"]]["models"]
    others = {m["id"] for m in again} - {m["id"] for m in ladder["models"]}
    text = (ROOT / "book" / "data.md").read_text(encoding="utf-8")
    assert f"`nano-pythia` with the {len(others)} models of its sizes that were trained again" in text


def test_arxiv_numbers_are_fields_that_the_style_links_and_papers_stand_with_their_addresses():
    """The built book once had two links out, and none to the paper or its authors' repository."""
    bib = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert len(re.findall(r"^ *eprint *= \{\d{4}\.\d{5}\},$", bib, re.M)) == bib.count("arXiv preprint") >= 20
    assert not re.search(r"arXiv[: ]*\d", bib)
    repository = re.search(r"authors' public repository \((.+?)\)", (ROOT / "published" / "README.md").read_text())[1]
    paper = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["preferred-citation"]["url"]
    for page in ("book/references.md", "notebooks/18_authors_figures.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert f"](https://github.com/{repository})" in text and f"]({paper})" in text, page


def test_letters_of_a_title_that_are_never_small_are_kept_large():
    """The style of the references writes small what no braces hold, all but the first letter."""
    text = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    for title in re.findall(r"^ *title *= \{(.*)\},?$", text, re.M):
        free = re.sub(r"\{[^{}]*\}", "", title)
        assert not re.search(r"\w+[A-Z]|\d+[A-Z]", free) and not re.match("[a-z]", free), title


def test_symbols_of_the_notation_lead_to_equations_that_are_there():
    text = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
    used = re.findall(r"\{doc\}`[^<`]+<([\w/]+)>` \(\{eq\}`([\w-]+)`\)", text)
    assert len(used) > 30 and len(used) == text.count("{eq}")
    for page, label in used:  # equations are numbered on each page anew, so each is named with its page
        assert f":label: {label}\n" in (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8"), (page, label)
