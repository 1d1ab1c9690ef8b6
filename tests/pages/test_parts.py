"""The parts of a page of results: opening, answer, code in one fold, how it was made; every notebook has its share."""

import ast
import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import nbformat
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebookfiles import KERNEL

from paper.show import prose

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.md"))
OPENINGS = yaml.safe_load((ROOT / "book" / "pages.yml").read_text(encoding="utf-8"))
RUN = {"page": "the digest", "date": "2026-01-02 03:04 UTC", "seconds": 7, "commit": "abc1234", "platform": "<Linux>"}


def shown(text, name=None, judged=()):
    about = {"rbp": name, "rbp_numbers": dict.fromkeys(judged, {})} if name else {}
    plain = "<IPython.core.display.Markdown object>"
    return new_output("display_data", {"text/markdown": text, "text/plain": plain}, metadata=about)


def drawn(alt, **about):
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><title>{alt}</title></svg>'
    return new_output("display_data", {"image/svg+xml": picture}, metadata={"image/svg+xml": {"alt": alt}, **about})


JUDGED = ("claim a at k = 1", "claim a at k = 10", "claim c", "laws corpus docs")


def planted(digest="the digest"):
    hidden = {"tags": ["hide-input"]}
    see = new_output("display_data", {"text/markdown": "It *rises* by $x = 2,445$."}, metadata={"see": True})
    moving = '<figure class="rbp-move"><figcaption>Drag it.</figcaption></figure>'
    moving = new_output("display_data", {"text/html": moving})
    claims = '<table class="rbp-table"><tr><td><span data-page="03_y">-log p_N &lt; 1</span></td></tr></table>'
    claims += '<a href="#" data-csv="-log p_N">CSV</a>'
    claims = new_output("display_data", {"text/html": claims})
    laws = prose.table_html(pd.DataFrame({"alpha": ["-log RBP_1", "p_1 of alpha"]}), "log10 of RBP^N", "laws.csv")
    laws = new_output("display_data", {"text/html": laws})
    cells = [
        new_markdown_cell("# A law\n\nOpening words. Pages 03 and 04, and page\n03; `page 03`, page 02, page 0355."),
        new_code_cell("k: int = 1  # rank", metadata={"tags": ["parameters", "remove-cell"]}),
        new_code_cell("k = 10", metadata={"tags": ["injected-parameters", "remove-cell"]}),
        new_code_cell("import first", metadata=hidden),
        new_markdown_cell("## Results"),
        new_code_cell("shown_code()", metadata={"tags": ["show-input"]}),
        new_code_cell("second()", metadata=hidden, outputs=[shown("A sentence."), shown("For a slide.", "slide")]),
        new_code_cell(
            "draw()",
            metadata=hidden,
            outputs=[drawn("One."), drawn("Another at -62.1 to RBP_10.", fold="More & <more>", of=["A, <b>"]), see],
        ),
        new_code_cell("move()", metadata=hidden, outputs=[moving, drawn("Long. " * 60)]),
        new_markdown_cell("## The answer stands here"),
        new_code_cell(
            "judge()",
            metadata=hidden,
            outputs=[
                shown("- **It agrees.** $x$ is 0.25, -log p_N rises, `p_N`.\n- Two.", "answer", JUDGED),
                shown("No bullet.\n\n- Four.\n- Five.", "answer"),
                shown("- Six.", "answer"),
            ],
        ),
        new_markdown_cell("## How sure, and what would change it"),
        new_code_cell("sure()", metadata=hidden, outputs=[shown("An end of -log RBP_1."), claims, laws]),
        new_markdown_cell(
            ":::{admonition} Exercise\nFind a.\n:::\n\n:::{admonition} Solution\n:class: dropdown\nHere.\n:::"
        ),
        new_markdown_cell(":::{admonition} Note\nNo task.\n:::\n\n:::{admonition} Exercise\nFind b.\n:::"),
    ]
    given = {"k": 10, "corpora": ["a b"], "family": "it's"}
    record = {"notebook": "02_x", "parameters": given, "source": "s0", "made_of": None, "page": digest}
    record["texts"] = ["A, <b>", "B"]
    return new_notebook(cells=cells, metadata={"rbp": record, **KERNEL})


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """{page: HTML} of a planted page, of one whose kept circumstances are another run's, and of pages that it names."""
    place = tmp_path_factory.mktemp("parts")
    (place / "logs/runs").mkdir(parents=True)
    for family, digest in (("fam", "the digest"), ("other", "another digest")):
        folder = place / "book/_executed" / family
        folder.mkdir(parents=True)
        nbformat.write(planted(digest), folder / "02_x.ipynb")
        (place / f"logs/runs/{family}-02_x.json").write_text(json.dumps(RUN))
    record = {"family": "fam", "model": "<1M>", "corpus": "docs", "columns_sha256": "0123456789abcdef"}
    schema = pa.schema([("rank", pa.int32())], {b"rbplib": json.dumps(record).encode()})
    pq.write_table(schema.empty_table(), place / "docs-1.parquet")
    (place / "them.counts").write_bytes(b"counts")
    (place / "logs/tables.json").write_text(
        json.dumps({"book/_executed/fam/02_x.ipynb": ["docs-1.parquet", "them.counts", "gone.parquet"]})
    )
    (place / "book/_executed/fam/03_y.md").write_text("# The <next> page (fam)\n")
    (place / "book/derivations").mkdir()
    (place / "book/derivations/power.md").write_text("# The proof\n")
    opening = {"question": "Is it < 1?", "goals": ["fit a line", "read it"], "needs": ["03_y", "power"], "minutes": 12}
    opening["beside"] = ["power", "03_y"]
    claim = {"claim": "At k = {k} RBP_1 <holds>", "k": [1, 10], "basis": "measured", "changes": "more sizes"}
    claim["pages"] = ["02_x", "derivations/power", "none", "03_y"]
    other = {
        "claim": "Another",
        "basis": "measured",
        "pages": ["02_x", "03_y"],
    }  # of this page, and not judged by its run
    alike = claim | {"claim": "Claims alike", "k": 1}
    (place / "book/claims.yml").write_text(json.dumps({"a": claim, "b": other, "c": alike}))
    proof = {"question": "Why?", "goals": ["prove it"], "needs": ["reading"], "minutes": 20}
    (place / "book/pages.yml").write_text(json.dumps({"02_x": opening, "derivations/power": proof}))
    pages = ["_executed/fam/02_x", "_executed/fam/03_y", "_executed/other/02_x", "derivations/power"]
    listed = "\n".join(f"book/{page}" for page in pages)
    (place / "index.md").write_text(f"# X\n\n```{{toctree}}\n{listed}\n```\n")
    config = {"extensions": ["myst_nb", "rbppage"], "nb_execution_mode": "off", "nb_render_markdown_format": "myst"}
    config |= {"myst_enable_extensions": ["dollarmath", "colon_fence"], "nb_ipywidgets_js": {}}
    (place / "conf.py").write_text("\n".join(f"{name} = {value!r}" for name, value in config.items()))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", place, place / "out"]  # another process:
    paths = {"PYTHONPATH": str(ROOT / "book" / "_ext")}  # myst_nb registers itself for all later builds of this one
    done = subprocess.run(command, env={**os.environ, **paths}, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return {page: (place / "out/book" / f"{page}.html").read_text(encoding="utf-8") for page in pages}


@pytest.fixture
def page(built):
    return built["_executed/fam/02_x"]


def text(html):
    return " ".join(re.sub(r"<[^>]+>", "", html).split())


def test_a_page_opens_with_its_question_and_what_it_needs(page):
    opening = page.split('<div class="rbp-opening">')[1].split("</div>")[0]
    assert "Is it &lt; 1?" in opening and opening.count("<li>") == 2
    assert "About 12 minutes. This is page 02.</p>" in opening
    assert '<a href="03_y.html">The &lt;next&gt; page</a>; for the proofs: ' in opening and "The proof</a>" in opening
    assert page.index("</h1>") < page.index("rbp-opening") < page.index("Opening words")


def test_a_page_that_no_run_writes_opens_so_too(built):
    page = built["derivations/power"]
    assert page.index("</h1>") < page.index("Why?") < page.index("<li>prove it") < page.index("About 20 minutes")
    assert "Needs: reading. About" in page  # it is no page of this book, so its name stands alone
    assert "rbp-opening" not in built["_executed/fam/03_y"]


def test_the_answer_is_lifted_once_to_the_top_and_leaves_no_empty_section(page):
    assert page.count("It agrees.") == 1 and page.count('class="rbp-answer') + page.count("rbp-answer docutils") >= 1
    assert page.index("Opening words") < page.index("It agrees.") < page.index("Results</h2>" if 0 else "Results<")
    said = page.split("It agrees.")[1].split("</ul>")[0]
    assert "−log p<sub>N</sub> rises" in said and "p_N</span>" in said
    assert page.index("A sentence.") < page.index(
        "For a slide."
    )  # it is said on a slide as well, and stays where it is
    assert "The answer stands here" not in page and "math" in page.split("It agrees.")[1][:200]


def test_four_lines_of_an_answer_stand_open_and_the_rest_in_a_fold(page):
    """An answer of 13 lines once stood before the page that it was of."""
    box = page.split("rbp-answer-title")[1].split("Results<")[0]
    before, fold = box.split("<summary>The rest of the answer</summary>")
    assert [text(item) for item in re.findall("<li>(.*?)</li>", before, re.S)][1:] == ["Two.", "Four."]
    assert "IPython" not in box and "No bullet." in before and before.count("<ul") == 2
    inside = fold.split("</details>")[0]
    assert re.findall("<li>(.*?)</li>", inside, re.S) and text(inside) == "Five. Six." and inside.count("<ul") == 1


def test_formulas_in_sentences_and_tables_of_claims_are_set_and_a_csv_is_left_plain(page):
    assert "An end of −log RBP<sub>1</sub>." in page and 'data-csv="-log p_N"' in page
    assert '<a href="03_y.html">−log p<sub>N</sub> &lt; 1</a>' in page


def test_what_stands_as_the_number_of_a_page_leads_to_it_but_in_code_and_on_itself(page):
    said = page.split("Opening words.")[1].split("</p>")[0]
    assert 'Pages <a href="03_y.html">03</a> and 04, and <a href="03_y.html">page\n03</a>;' in said
    assert said.count("<a ") == 2 and '>page</span> <span class="pre">03<' in said and ", page 02, page 0355." in said


def test_the_comma_of_a_number_in_a_formula_is_part_of_it(page):
    assert "x = 2{,}445" in page


def test_formulas_are_set_in_heads_captions_and_names_of_losses_of_a_table_and_not_in_what_people_named(page):
    assert "<caption>log<sub>10</sub> of RBP<sup>N</sup></caption>" in page and '<th scope="col">α</th>' in page
    assert '<td class="text">−log RBP<sub>1</sub></td>' in page and "p_1 of alpha</td>" in page
    assert 'data-csv="&quot;alpha\\n-log RBP_1' in page


def test_each_figure_of_a_cell_has_its_own_words_and_its_fold(page):
    before, fold = page.split('<details class="rbp-fold rbp-more"><summary>More &amp; &lt;more&gt;</summary>')
    assert 'alt="One."' in before and "Another" not in before
    inside, after = fold.split("</details>", 1)
    assert 'alt="Another at −62.1 to RBP₁₀."' in inside and 'alt="Long.' in after


def test_what_is_of_one_text_is_marked_so_with_its_fold_and_words_and_the_page_lists_its_texts(page):
    before, marked = page.split('<div data-of="[&quot;A, &lt;b&gt;&quot;]">')
    inside = re.split(r"</details>\s*</div>", marked)[0]
    assert inside.lstrip().startswith('<details class="rbp-fold rbp-more">') and "It <em>rises</em>" in inside
    assert 'data-texts="[&quot;A, &lt;b&gt;&quot;, &quot;B&quot;]" hidden' in page and "Long." not in inside


def test_each_figure_has_its_number_and_what_to_see(page):
    found = [text(part.split("</p>")[0]) for part in page.split('<p class="rbp-caption">')[1:]]
    assert (
        found[0] == "Fig. 02.1. One." and found[2] == "Fig. 02.4."
    )  # the third moves; a long description is no caption
    assert found[1].startswith("Fig. 02.2. It rises by") and page.count("It <em>rises</em>") == 1
    fold = page.split('rbp-more"><summary>')[1].split("</details>")[0]
    assert "It <em>rises</em>" in fold and "<figcaption><strong>Fig. 02.3.</strong> Drag it." in page


def test_hidden_code_is_in_one_fold_in_order_and_shown_code_stays(page):
    assert page.count("The code of this page") == 1 and "Show code cell source" not in page
    before, code = page.split("The code of this page")
    code = text(code.split("</details>")[0])
    assert re.search(r"import first.*second\(\).*judge\(\).*sure\(\)", code) and "shown_code" not in code
    assert "shown_code" in text(before) and "A sentence." in before and "second()" not in text(before)


def test_the_footer_says_how_the_page_was_made(page):
    footer = text(page.split("How this page was made")[1].split("</details>")[0])
    line = "papermill notebooks/02_x.ipynb 02_x.ipynb -y 'corpora: [\"a b\"]' -p family"
    assert line in footer and "k: int = 1 # rank k = 10" in footer
    for said in ("2026-01-02 03:04 UTC", "Seconds7", "abc1234", "&lt;Linux&gt;", "the digest"):
        assert said in footer


def test_the_footer_prints_the_digests_of_the_rank_tables(built):
    whole = sha256(b"counts").hexdigest()[:12]
    told = "The first 12 digits of the SHA-256 of their columns."
    told += f"fam &lt;1M&gt;: docs 0123456789abthem: counts, the whole file {whole}1 more are no longer here."
    for family, said in (("fam", told), ("other", "The page was run by itself;")):
        footer = text(built[f"_executed/{family}/02_x"].split("How this page was made")[1].split("</details>")[0])
        assert f"Rank tables given to it{said}" in footer


def test_circumstances_of_another_run_are_not_said(built):
    assert "How this page was made" in built["_executed/other/02_x"]
    assert "2026-01-02" not in built["_executed/other/02_x"] and "another digest" in built["_executed/other/02_x"]


def test_a_page_says_what_would_change_its_claims_with_their_proof_and_neighbours(page):
    said = page.split("<li><strong>At k")[1].split("</ul>")[0]
    words = "= 1, 10 RBP1 &lt;holds&gt; (basis of the verdict: measured); what would change it: more sizes. See also"
    assert words in text(said) and "Another" not in said
    assert said.endswith("<li><strong>Claims alike</strong>: as for the claim above.</li>")  # an item of its own
    assert said.count("more sizes") == said.count("See also") == 1  # what two claims share stands once
    assert '<a href="../../derivations/power.html">The proof</a>, none, <a href="03_y.html">' in said
    assert "data-page" not in page
    after = text(page.split("as for the claim above.</li>")[1])
    assert "What is proved: The proof. To read beside this page: The &lt;next&gt; page." in after


def test_exercises_are_numbered_by_the_page_alike_for_every_family(built):
    for family in ("fam", "other"):
        titles = re.findall(r'admonition-title">([^<]+)<', built[f"_executed/{family}/02_x"])
        assert titles == ["Exercise 02.1", "Solution to exercise 02.1", "Note", "Exercise 02.2"]
        assert re.search(
            r'id="exercise-02-2"[^>]*>\s*<p class="admonition-title">Exercise 02.2<', built["_executed/fam/02_x"]
        )


def test_the_line_of_the_footer_runs_in_a_shell(page):
    import html
    import shlex

    line = html.unescape(text(page.split("How this page was made")[1].split("</pre>")[0]))
    words = shlex.split(line[line.index("papermill") :])
    assert words[words.index("family") + 1 :][:4] == ["it's", "-p", "k", "10"]
    assert yaml.safe_load(words[words.index("-y") + 1]) == {"corpora": ["a b"]}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
class TestEveryPage:
    def test_it_has_an_answer_of_its_run(self, path):
        source = path.read_text(encoding="utf-8")
        assert re.search(r'claims\.judge\(|, name="', source)

    def test_a_notebook_alone_has_no_link_that_only_the_book_can_follow(self, path):
        text = path.read_text(encoding="utf-8")
        named = {name.rstrip("\\") for name in re.findall(r'data-page=\\?"([^"]+)"', text)}
        assert "href=" not in text.replace('href="http', "")
        assert named <= {"{page}", *(p.stem for p in NOTEBOOKS), *HAND, *(name.rpartition("/")[2] for name in HAND)}

    def test_it_says_how_sure_it_is(self, path):
        source, heading = path.read_text(encoding="utf-8"), "\n## How sure, and what would change it\n"
        assert source.count(heading) == 1
        section = source.split(heading)[1].split("\n## ")[0]
        told = re.sub(r"```\{code-cell\}.*?```", "", section, flags=re.S).strip()
        assert told or "claims.judge(" in section  # the answer is lifted from its place: something has to stand there

    def test_it_has_a_figure_and_a_table(self, path):
        code = path.read_text(encoding="utf-8")
        assert "figures.show(" in code and re.search(r"(?<![\w.])table\(", code)

    def test_it_has_two_exercises_or_more_with_their_solutions(self, path):
        text = path.read_text(encoding="utf-8")
        exercises, solutions = (text.count(f":::{{admonition}} {kind}\n") for kind in ("Exercise", "Solution"))
        assert exercises >= 2 and exercises == solutions
        assert "{check}`" in text or path.stem == "12_train_your_own"  # whose numbers are the reader's own


HAND = [p.relative_to(ROOT / "book").with_suffix("").as_posix() for p in (ROOT / "book").rglob("*.md")]
HAND = [name for name in HAND if not name.startswith(("_", "labs/"))]  # labs say it themselves, for their sheets


def test_every_page_but_the_first_has_an_opening_and_none_is_of_a_page_that_is_gone():
    assert {*OPENINGS} == {"families", *(p.stem for p in NOTEBOOKS), *HAND} - {"intro"}


@pytest.mark.parametrize("name", OPENINGS)
def test_an_opening_has_its_four_parts(name):
    said = OPENINGS[name]
    assert set(said) - {"beside"} == {"question", "goals", "needs", "minutes"}
    assert said["question"].endswith("?") and len(said["question"]) < 110
    assert len(said["goals"]) >= 1 + (name in {p.stem for p in NOTEBOOKS}) and said["minutes"] >= 5
    derived = {name.partition("/")[2] for name in HAND if name.startswith("derivations/")}  # as pages of results say it
    known = {p.stem for p in NOTEBOOKS} | (derived if name[0].isdigit() else {*HAND})
    assert set(said["needs"]) <= known - {name}
    of_results, beside = name in {p.stem for p in NOTEBOOKS}, set(said.get("beside", ()))
    assert beside <= known - {name} and bool(beside & derived) == bool(beside - derived) == of_results


def test_the_extensions_are_small():
    for path in (ROOT / "book" / "_ext").glob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        functions = [n for n in ast.walk(ast.parse("\n".join(lines))) if isinstance(n, ast.FunctionDef)]
        assert len(lines) <= 260 and max(n.end_lineno - n.lineno for n in functions) <= 42, path.name
