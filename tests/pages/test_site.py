"""What the book's extensions make of pages: one small site of planted pages and of a family with
hostile titles."""

import html
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
from hashlib import sha256

import nbformat
import pandas as pd
import pytest
import yaml
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import rbplib
from paper.show import plain, prose
from tests.commands import python
from tests.degenerate import CORPUS, LOSSES, ROOT, root_of_its_own, write_degenerate
from tests.notebookfiles import KERNEL
from tests.pagerunner import run_page
from workflow import book, pages
from workflow.forks import Failed

HOSTILE = (
    "<img src=x onerror=alert(1)> </script><script>alert(2)</script> $x_1$ `code` "
    "[a](javascript:alert(3)) "
    "{math}`x` {{ title }} | *b* _c_ \\(z\\) &lt;i&gt; <!-- # --> <svg/onload=alert(4)> ![i](x) \\$"
)
RUN = {"date": "2026-01-02 03:04 UTC", "seconds": 7, "platform": "<Linux>"}
CLAIM = {
    "claim": "At k = {k} RBP_1 <holds>",
    "basis": "measured",
    "changes": "more sizes",
    "k": [1, 10],
    "pages": ["02_x", "derivations/power", "none", "03_y"],
}
OPENING = {
    "question": "Is it < 1?",
    "goals": ["fit a line", "read it"],
    "needs": ["03_y"],
    "minutes": 12,
    "beside": ["power", "03_y"],
}
PARAMETERS = {"k": 10, "corpora": ["a b"], "family": "it's"}
BY_HAND = """# The start

A family has hits. All families have hits. In code: `family`.

{check}`An answer = 0.25 ± 0.01 nats` {check}`Whole = 3 ± 0` {choice}`Which? <one> | *other*`

```{run-figure} 02_x Another
```

```{run-figure} 02_x a circle
```

```{run-words} 02_x answer
```

```{run-words} 03_y answer
```

Read {run-page}`How sure? <02_x#how-sure-and-what-would-change-it>` and {run-page}`Nothing <09_z>`.

{cite:p}`yue2025relative`

```{bibliography}
```
"""
GLOSSARY = (
    "# Words\n\n```{glossary}\nfamily\n  Models of *one* kind.\n\nhits\n  Ranks within $k$.\n```\n"
)


def output(forms, **about):
    return new_output("display_data", forms, metadata=about)


def markdown(text, **about):
    return output({"text/markdown": text, "text/plain": "<Markdown object>"}, **about)


def figure(alt, **about):
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><g/><title>{alt}</title></svg>'
    )
    return output({"image/svg+xml": picture}, **{"image/svg+xml": {"alt": alt}}, **about)


def planted_page():
    laws = prose.table_html(pd.DataFrame({"alpha": ["-log RBP_1"]}), "log10 of RBP^N", "laws.csv")
    laws += '<span data-page="02_x#code-a">its code</span> <span data-page="03_y#b">b</span>'
    answer = markdown(
        "- **It agrees.** $x$ is 0.25, -log p_N rises.\n  - Its rule.\n"
        "- Two.\n- Three.\n- Four.\n- Five.",
        rbp="answer",
        rbp_numbers={"claim a at k = 1": {}, "claim a at k = 10": {}},
    )
    figures = [
        figure("One.", data="x,y\n1,2\n"),
        figure(r"Another $\log\,\mathrm{RBP}_1$ at -62.1.", fold="More & <more>", of=["A, <b>"]),
        markdown("It *rises*.", see=True),
        figure("A long one. " * 30, fold="The same on B"),
    ]
    task = ":::{admonition} Exercise\nFind.\n:::\n\n"
    task += ":::{admonition} Solution\n:class: dropdown\nHere.\n:::\n\n"

    def hidden(source, *outputs):
        about = {"tags": ["hide-input"], "cell": 3}
        return new_code_cell(source, metadata=about, outputs=list(outputs))

    cells = [
        new_markdown_cell("# A law\n\nOpening words. Pages 03 and 04; `page 03`, page 02."),
        new_code_cell("k: int = 1", metadata={"tags": ["parameters", "remove-cell"]}),
        hidden("import first", markdown("Four models.", rbp="scope")),
        new_markdown_cell("## Results"),
        new_code_cell("shown_code()", metadata={"tags": ["show-input"]}),
        hidden("unseen()"),
        hidden("second()", markdown("A sentence."), *figures),
        new_markdown_cell("## The answer stands here"),
        hidden("judge()", markdown("All is well.", rbp="answer"), answer),
        new_markdown_cell("## How sure, and what would change it"),
        hidden("sure()", output({"text/html": laws})),
        new_markdown_cell(task + task),
    ]
    record = {
        "notebook": "02_x",
        "parameters": PARAMETERS,
        "tables": {"fam/m/c": "0123456789abcdef"},
        "source": "s0",
        "made_of": None,
        "texts": ["A, <b>", "B"],
    }
    return new_notebook(cells=cells, metadata={"rbp": record, **KERNEL})


def write_planted(root):
    """Planted pages below `root`/book, and what the extensions read beside them; their names."""
    executed = root / "book" / "_executed"
    (root / "logs/runs").mkdir(parents=True)
    for family in ("fam", "z<b"):
        path = executed / family / "02_x.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(planted_page(), path)
        # of the other another run is on record
        digest = sha256(path.read_bytes()).hexdigest() if family == "fam" else "another"
        run = json.dumps(RUN | {"page": digest})
        (root / f"logs/runs/{family}-02_x.json").write_text(run)
    files = {
        "book/_executed/fam/03_y.md": "# The <next> page (fam)\n",
        "book/_executed/z<b/03_y.md": "# The <next> page (z<b)\n",
        "book/derivations/power.md": "(there)=\n# The proof\n",
        "book/start.md": BY_HAND,
        "book/api.md": (ROOT / "book/api.md").read_text(),
        "book/glossary.md": GLOSSARY,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).unlink(missing_ok=True)
        (root / name).write_text(text)
    for name, record in {"claims.yml": {"a": CLAIM}, "pages.yml": {"02_x": OPENING}}.items():
        (root / "book" / name).unlink()
        (root / "book" / name).write_text(json.dumps(record))
    return [name.rpartition(".")[0] for name in files] + [
        f"book/_executed/{f}/02_x" for f in ("fam", "z<b")
    ]


def write_hostile(root):
    """An executed page of a family and a corpus whose titles try to be markup; its name and the
    notebook."""
    write_degenerate(root, {"hostile": LOSSES})
    titled = f"title: {json.dumps(HOSTILE)}\nnote: {json.dumps(HOSTILE)}\n"
    for path in (root / "families" / "hostile.yml", root / "corpora" / f"{CORPUS}.yml"):
        path.write_text(titled + path.read_text().partition("\n")[2])
    notebook = run_page("02_top1_law", family="hostile", corpora=[CORPUS], n_bootstrap=100)
    pages.tidy(notebook, "hostile")
    notebook.metadata |= KERNEL
    path = root / "book" / "_executed" / "hostile" / "02_top1_law.ipynb"
    notebook.metadata["rbp"] = {"made_of": None}
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    return "book/_executed/hostile/02_top1_law", notebook


def write_contents(root, pages):
    """A first page, and the contents that lead from it to all."""
    (root / "book" / "index.md").write_text("# X\n")
    (root / "_toc.yml").unlink()
    chapters = [{"file": page} for page in pages]
    contents = {"format": "jb-book", "root": "book/index", "chapters": chapters}
    (root / "_toc.yml").write_text(yaml.safe_dump(contents))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """({page: HTML} of the site, built with warnings as errors; the hostile notebook; the
    folder)."""
    with root_of_its_own(tmp_path_factory.mktemp("site")) as root:
        hostile, notebook = write_hostile(root)
        pages = [*write_planted(root), hostile]
    write_contents(root, pages)
    # Sphinx alone, of the configuration that jupyter-book writes: the book may outlive it
    # another process: myst_nb registers itself for all later builds of this one
    code = """if True:
        import sys
        from jupyter_book.cli.main import sphinx
        from sphinx.cmd.build import main
        sphinx.main([sys.argv[1]], standalone_mode=False)
        sys.exit(main(["-q", "-W", "-b", "html", *sys.argv[1:]]))"""
    paths = f"{ROOT / 'book' / '_ext'}:{ROOT}"
    done = python("-c", code, root, root / "out", cwd=root, PYTHONPATH=paths)
    assert not done.returncode, done.stderr[-3000:]
    built = {page: (root / "out" / f"{page}.html").read_text() for page in pages}
    return built, notebook, root / "out"


@pytest.fixture(scope="module")
def page(site):
    return site[0]["book/_executed/fam/02_x"]


@pytest.fixture(scope="module")
def start(site):
    return site[0]["book/start"]


def words(text):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def part(text, begin, end):
    return text.split(begin, 1)[1].split(end, 1)[0]


def test_a_page_opens_with_what_it_rests_on_its_question_and_its_answer(site, page):
    places = ["<h1>", "rbp-scope docutils", "rbp-opening", "rbp-answer-title"]
    assert sorted(places, key=page.index) == places
    assert "02 · A law" in part(page, "<h1>", "</h1>")
    assert "02 · A law" in part(site[0]["book/start"], "bd-links", "</nav>")
    assert (
        part(page, "rbp-scope", "</div>").count("Four models.") == page.count("Four models.") == 1
    )
    pages = page, site[0]["book/_executed/z<b/02_x"]  # each leads to one of its own family
    begin = '<div class="rbp-opening docutils container">'
    opening, other = (part(text, begin, "</div>") for text in pages)
    assert "Is it < 1? After this page you can fit a line. You can read it." in words(opening)
    assert 'href="03_y.html"' in opening and 'href="03_y.html"' in other
    # the author's words, below them folded verdicts, and in these what they rest on
    before, rest = part(page, "rbp-answer-title", "Results<").split("<summary>Verdicts", 1)
    assert "All is well." in before and "It agrees." in rest and page.count("It agrees.") == 1
    assert "−log p<sub>N</sub> rises" in rest and "Two. Three. Four. Five." in words(rest)
    assert "Its rule." in part(rest, '<details class="rbp-fold rbp-below">', "</details>")
    # the line of a claim and the code that judges it are places that links lead to
    soup = BeautifulSoup(page, "html.parser")
    assert soup.find(id="claim-a").text.startswith("It agrees.")
    assert "judge()" in soup.find(id="code-a").text
    for to, link in ({"#code-a": "its code", "03_y.html#b": "b"}).items():
        assert soup.find("a", href=to).text == link


def test_figures_have_numbers_words_folds_and_data_and_say_of_which_text_they_are(site, page):
    captions = [words(text.split("</p>")[0]) for text in page.split('<p class="rbp-caption">')[1:]]
    assert captions == ["Fig. 02.1. One.", "Fig. 02.2. It rises .", "Fig. 02.3. The same on B"]
    fold = part(page, '<div data-of="[&quot;A, &lt;b&gt;&quot;]">', "</details>")
    assert "More &amp; &lt;more&gt;</summary>" in fold and "log RBP₁ at −62.1." in fold
    assert 'rbp-texts" data-texts="[&quot;A, &lt;b&gt;&quot;, &quot;B&quot;]"' in page
    line = part(page, '<p class="rbp-from">', "</p>")
    assert words(line).startswith("Cell 3 of 02_x.ipynb") and 'id="fig-02-1"' in page
    data = re.search(r'href="([^"]+)" download', line)[1]
    assert (site[2] / "book/_executed/fam" / data).read_text() == "x,y\n1,2\n"
    moving = (site[2] / "_downloads/figures/hostile/02_top1_law-2.json").read_text()
    assert {"model", "S", "loss"} <= set(json.loads(moving)[0])


def test_the_number_of_a_page_leads_to_it_but_in_code_and_on_itself(page):
    sentence = part(page, "Opening words.", "</p>")
    assert sentence.count("<a ") == 1 and 'href="03_y.html"' in sentence
    titles = [words(text.split("</p>")[0]) for text in page.split('<p class="admonition-title">')]
    assert titles[1::2] == ["Exercise 02.1", "Exercise 02.2"]


def test_the_footer_has_a_line_that_runs_in_a_shell_and_the_circumstances_of_this_run(site, page):
    footer = page.split("How this page was made")[1].split("</details>")[0]
    line = re.sub("<[^>]+>", "", part(footer, "<pre>", "</pre>"))
    command = shlex.split(html.unescape(line))
    assert command[:3] == ["papermill", "notebooks/02_x.ipynb", "02_x.ipynb"]
    assert yaml.safe_load(command[command.index("-y") + 1]) == PARAMETERS
    for fact in ("fam/m/c 0123456789ab", "2026-01-02 03:04 UTC", "<Linux>"):
        assert fact in words(footer)
    assert "2026-01-02" not in site[0]["book/_executed/z<b/02_x"]  # its log is of another run


def test_the_switch_leads_to_the_same_page_of_other_families(site, page):
    switch = BeautifulSoup(page, "html.parser").select("nav.rbp-families a")
    links = [("fam", None), ("z<b", "../z<b/02_x.html")]
    assert [(a.text, a.get("href")) for a in switch] == links
    assert "rbp-families" not in site[0]["book/start"]


def test_a_field_has_a_label_and_a_tolerance_and_a_choice_one_right_answer(start):
    first, second = re.findall(r'<span class="rbp-check".*?</output></span>', start)
    assert 'data-value="0.25" data-within="0.01"' in first
    assert words(first) == "An answer (nats, within 0.01) Check" and "(exact)" in second
    ident = re.search(r'<input id="([^"]+)" type="text" inputmode="decimal"', first)[1]
    assert f'<label for="{ident}">' in first
    (choice,) = re.findall(r'role="radiogroup" aria-label="Which\?".*?</output></span>', start)
    answers = re.findall(r'name="([^"]+)" data-right="(.)"> ([^<]+)</label>', choice)
    assert [answer[1:] for answer in answers] == [("0", "&lt;one&gt;"), ("1", "other")]


@pytest.mark.skipif(
    shutil.which("node") is None, reason="there is no node to run the page's script"
)
def test_a_field_reads_numbers_as_people_write_them():
    script = (ROOT / "book/_static/rbp.js").read_text()
    typed = part(script, "  function typed", "  function checked")
    cases = {"1,035": [1.035, 1035], "0,0606": [0.0606], "6.06e-2": [0.0606], "2 000": [2000]}
    cases |= {"25%": [25, 0.25], "\u22123": [-3], "abc": [], "": []}
    code = f"function typed{typed}; console.log(JSON.stringify({[*cases]}.map(typed)))"
    assert json.loads(subprocess.check_output(["node", "-e", code])) == [*cases.values()]


def test_figures_words_and_links_of_a_run_are_shown_and_lacking_ones_are_said(site, start):
    (picture,) = re.findall(r'alt="Another [^"]*" class="rbp-figure" src="../([^"]+)"', start)
    assert (site[2] / picture).is_file() and "without this figure of the page 02_x" in start
    text = words(start)
    assert "It agrees." in text and "built without what page 03_y says here" in text
    anchor = "_executed/fam/02_x.html#how-sure-and-what-would-change-it"
    assert f'href="{anchor}"' in start and "<em>Nothing</em>" in start


def test_the_first_use_of_a_word_is_linked_with_its_meaning(start):
    links = re.findall(
        r'href="glossary.html#term-\w+" title="([^"]+)"[^>]*>(?:<span[^>]*>)?([^<]+)', start
    )
    assert links == [("Models of one kind.", "family"), ("Ranks within k.", "hits")]


def test_the_page_of_names_holds_every_public_one_with_its_words(site):
    text = words(site[0]["book/api"])
    for name in set(rbplib.__all__) - {"__version__"}:
        first = inspect.getdoc(getattr(rbplib, name)).splitlines()[0]
        assert " ".join(first.split()) in text, name


def alive(text):
    """Names of tags that a browser would run: handlers, links, pictures, scripts."""
    tags = []
    for tag in BeautifulSoup(text, "html.parser")(True):
        values = [value for name, value in tag.attrs.items() if name.startswith("on")]
        if tag.name == "script" and tag.get("type") != "application/json":
            values += re.findall(r"alert\(\d", tag.text)
        outside = tag.get("src") == "x" or tag.get("href", "").startswith("javascript:")
        if outside or any("alert" in value for value in values):
            tags.append(tag.name)
    return tags


def test_the_scan_sees_what_runs():
    assert alive(HOSTILE) == ["img", "script", "svg"]
    assert alive(MarkdownIt(options_update={"html": True}).render(HOSTILE))


def test_nothing_that_titles_say_becomes_markup(site):
    built, notebook, out = site
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ())]
    alts = [o.metadata.get("image/svg+xml", {}).get("alt", "") for o in outputs]
    assert any(HOSTILE in alt for alt in alts)
    text = built["book/_executed/hostile/02_top1_law"]
    assert HOSTILE in html.unescape(text) and not alive(text)
    assert "<img" not in (out / "searchindex.js").read_text()  # a title found is shown as HTML


def test_what_people_write_means_nothing_in_markdown():
    lines = (HOSTILE, "1. a", "# a", "- a", "    a", "~~a~~", "***", "|a|b|\n|-|-|-")
    for text in map(plain.shown, lines):
        assert re.fullmatch(
            r"<p>[^<]*</p>\n", MarkdownIt("gfm-like", {"linkify": False}).render(text)
        )


# ---- a book that is built again

EDITS = {  # of a page: (what stood there, what stands there now)
    "book/_executed/fam/02_x.ipynb": ("# A law", "# Another *title*"),
    "book/_executed/fam/03_y.md": ("## Gone", "(there)=\n## New\n\nOther words of hits."),
    "book/derivations/power.md": ("(there)=\n# The proof", "# $$a = b$$ (eq)"),
    "book/glossary.md": ("family\n", "words\n  What is said.\n\nfamily\n"),
}


def edit(path, old, new):
    """Another text in a file, by a clock that is behind."""
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, (9, len(new)))


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_book_built_again_is_that_of_a_build_from_nothing(tmp_path, monkeypatch):
    """To a byte, where titles, headings, words of the glossary and formulas of some pages change
    and a label moves to another, one of them while the book is built; the others are not read."""
    with root_of_its_own(tmp_path / "root") as root:
        write_contents(root, [page for page in write_planted(root) if page != "book/api"])
        pages, html = root / "book", root / "_build/html"
        (pages / "api.md").unlink()
        with open(pages / "_executed/fam/03_y.md", "a") as page:
            page.write("\n## Gone\n")
        (pages / "index.md").write_text("# X\n\n{ref}`Words <there>`\n")
        (during, change), *after = EDITS.items()
        exchange = book.exchange
        with monkeypatch.context() as patch:
            patch.setattr(book, "exchange", lambda *f: edit(root / during, *change) or exchange(*f))
            book.build_html()
        read = {path: path.stat().st_mtime_ns for path in root.rglob("*.doctree")}
        for name, change in after:
            edit(root / name, *change)
        assert len(book.others()) == 4 and all(book.others().values())
        book.build_html()
        again = [path for path, time in read.items() if path.stat().st_mtime_ns != time]
        # start shows what 02_x said, and the page of families is written by each build
        names = ["02_x", "03_y", "families", "glossary", "power", "start"]
        assert sorted(path.stem for path in again) == names
        assert not book.others() and "CITATION.cff" in book.manifest()
        # what was read is damaged
        by_parts, damaged = files(html), next(path for path in read if path.stem == "index")
        damaged.write_bytes(damaged.read_bytes() + b"\0")
        (html / "index.html").write_text("")
        assert sorted(book.others().values()) == [False, True]
        book.build_html()
        assert files(html) == by_parts
        # what a page names that has not changed is gone
        edit(pages / "_executed/fam/03_y.md", "(there)=\n", "")
        assert all(book.others().values())
        with pytest.raises(Failed, match="index.md.*there"):
            book.build_html()
        assert files(html) == by_parts and not all(book.others().values())
