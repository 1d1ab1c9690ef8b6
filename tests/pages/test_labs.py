"""Lab sheets: their code runs on planted ranks with NumPy alone and finds what the library finds; the bundle."""

import ast
import importlib.util
import os
import re
import shutil
import sys
import zipfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from ranktables import CORPORA, VOCABULARY, write_family

from paper.runs import hit_dependence, run_losses
from rbplib.curve import rbp_curve
from rbplib.law import fit_law
from rbplib.table import family_tables

LABS = Path(__file__).resolve().parents[2] / "book" / "labs"
PAGES = sorted(LABS.glob("[0-9]_*.md"))
CODE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def bundle():
    spec = importlib.util.spec_from_file_location("bundle", LABS / "bundle.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


@pytest.fixture(scope="module")
def class_room(tmp_path_factory, bundle):
    """The bundle of a planted family, unpacked: (its folder, the family's rank tables on its first corpus)."""
    place = write_family(tmp_path_factory.mktemp("labs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(place))
        patch.setenv("RBP_RESULTS", str(place / "results"))
        out = bundle.make_bundle(["synthetic"], place / "labs.zip")
        tables = family_tables("synthetic", sorted(CORPORA)[0])[0]
        again = bundle.make_bundle(["synthetic"], place / "again.zip")
    for zipped, twin in zip(out, again, strict=True):
        with zipfile.ZipFile(zipped) as z:
            z.extractall(place / "unpacked")
        assert zipped.read_bytes() == twin.read_bytes()  # the same tables give the same bytes, on any day:
        assert {i.date_time for i in z.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    return place / "unpacked" / "labs", tables


def run_lab(folder, page):
    """The names that a lab's code leaves behind, its blocks run one after the other in the class's folder; what each
    printed is under the name `said`."""
    before, path, names = os.getcwd(), list(sys.path), {}
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.modules.pop("ranks", None)
    try:
        for number, block in enumerate(CODE.findall(page.read_text(encoding="utf-8"))):
            with redirect_stdout(StringIO()) as out:
                exec(compile(block, f"<{page.stem}, block {number}>", "exec"), names)
            names.setdefault("said", []).append(out.getvalue())
    finally:
        os.chdir(before)
        sys.path[:] = path
        sys.modules.pop("ranks", None)
    return names


@pytest.fixture(scope="module")
def ran(class_room):
    return {page.stem: run_lab(class_room[0], page) for page in PAGES}


def test_there_are_four_labs_and_each_says_what_it_needs():
    assert len(PAGES) == 4
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert all(f"**{word}.**" in text for word in ("Goals", "Needs", "Time")), page.stem


def test_a_class_needs_numpy_alone(class_room):
    for source in [(LABS / "ranks.py").read_text(), *("\n".join(CODE.findall(p.read_text())) for p in PAGES)]:
        for node in ast.walk(ast.parse(source)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert {n.split(".")[0] for n in names} <= {*sys.stdlib_module_names, "numpy", "ranks"}


def test_the_metrics_are_the_librarys(ran, class_room):
    found, curve = ran["1_ranks"], rbp_curve(class_room[1], ran["1_ranks"]["ks"])
    assert np.array_equal(found["rbp"], curve.rbp) and found["V"] == VOCABULARY
    assert found["cross_entropy"] == pytest.approx(curve.cross_entropy)
    for m, table in zip(found["models"], class_room[1], strict=True):
        assert np.array_equal(np.repeat(m.ranks, m.counts), np.sort(table.read().rank())) and m.S < m.total


def test_the_line_and_its_intervals_are_the_librarys(ran, class_room):
    found, law = ran["2_line"], fit_law(rbp_curve(class_room[1], (1,)), 1, n_bootstrap=2000)
    assert found["alpha"] == pytest.approx(law.alpha) and found["r2"] == pytest.approx(law.r2)
    assert found["over_models"] == pytest.approx(law.ci_models, abs=1e-4)
    assert np.diff(found["over_sources"]) == pytest.approx(np.diff(law.ci_tokens), rel=0.12)
    assert np.diff(found["apart"])[0] > 1.3 * np.diff(found["over_sources"])[0]  # the planted documents are shared


def test_the_runs_are_the_librarys(ran, class_room):
    found, largest = ran["3_runs"], class_room[1][-1]
    losses = run_losses(class_room[1], found["k"], found["lengths"])
    for N, share in found["counted"].items():
        loss = losses[N]
        assert share == pytest.approx(np.exp(-loss.values[-1])) or share == 0
    assert found["alike"] == pytest.approx(hit_dependence(largest, found["k"]).icc)
    assert len(found["exponents"]) > 1


def test_the_fits_at_every_k_are_the_librarys(ran, class_room):
    found = ran["4_noise"]
    for k in (min(found["fits"]), max(found["fits"])):
        law = fit_law(rbp_curve(class_room[1], (k,)), k, n_bootstrap=0)
        assert found["fits"][k][:2] == pytest.approx((law.alpha, law.r2))
        low, high = found["bands"][k]
        assert low < high <= 1
    assert (found["alpha"], found["r2"]) == pytest.approx(found["fits"][found["k"]][:2])  # the only family is the other
    assert abs(found["scores"][np.argmax(found["scores"])]) > 0 and 0.5 < found["s"] < 3 and found["kl"] > 0


def test_students_get_no_solution_and_teachers_all(class_room, bundle):
    folder = class_room[0]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        student, teacher = folder / page.name, folder / "teacher" / page.name
        student, teacher = student.read_text(), teacher.read_text()
        solutions, tasks = text.count("{solution}"), text.count("{exercise}")
        assert solutions == tasks == teacher.count("**Solution.**") == student.count("## Task: ") > 3
        assert "Solution" not in student and CODE.findall(student) == CODE.findall(text)[:1]
        assert CODE.findall(teacher) == CODE.findall(text)
        assert not re.search(r"\{(exercise|solution|eq|ref)\}|\\RBP|\\E\b", student + teacher)


def test_what_a_class_downloads_holds_no_solution(class_room):
    place = class_room[0].parents[1]
    with zipfile.ZipFile(place / "labs.zip") as z:
        names = z.namelist()
        assert not [n for n in names if "teacher" in n or (n.endswith((".md", ".html")) and b"Solution" in z.read(n))]
        assert {"labs/synthetic.counts", "labs/ranks.py", "labs/codebook.md", "labs/2_line.html"} <= {*names}
    with zipfile.ZipFile(place / "labs-teacher.zip") as z:
        assert {*z.namelist()} == {f"labs/teacher/{p.stem}.{kind}" for p in PAGES for kind in ("md", "html")}


def test_teachers_read_what_each_code_prints_and_on_what(ran, class_room):
    for page in PAGES:
        teacher, student = ((class_room[0] / who / page.name).read_text() for who in ("teacher", ""))
        told = re.findall(
            r"^\*\*What you will see\*\* \(synthetic, code\):\n\n```text\n(.*?)\n```$", teacher, re.M | re.S
        )
        assert told == [said.rstrip() for said in ran[page.stem]["said"] if said] and len(told) > 3
        assert "What you will see" not in student


def test_code_that_ends_early_says_so(bundle, class_room):
    code = "from ranks import read\nmodels, corpus = read('synthetic.counts', 'code'), 'code'\nprint(1)\n1 / 0\n"
    text = f"```python\n{code}```\n"
    said, read = bundle.printed(text, class_room[0])
    assert said == ["1\nThe code ends here on these counts: ZeroDivisionError: division by zero\n"]
    assert read == "synthetic, code"


def test_sheets_are_pages_of_their_own_as_well(class_room):
    for page in PAGES:
        student, teacher = (class_room[0] / who / f"{page.stem}.html" for who in ("", "teacher"))
        html = student.read_text()
        assert html.count("<h2>Task: ") == page.read_text().count("{exercise}") and "Solution" not in html
        assert (
            "<math" in html
            and 'class="math' not in html
            and "<main>" in html
            and "$" not in html
            and not re.search(r"<(script|link|img)", html)
        )
        assert teacher.read_text().count("What you will see") > 3


def sphinx(place, pages, extensions, config=()):
    """Build Markdown pages with extensions of the book: {page: HTML}, and the folder of the site."""
    from sphinx.application import Sphinx

    listed = "\n".join(pages)
    (place / "index.md").write_text(f"# X\n\n```{{toctree}}\n{listed}\n```\n")
    before = list(sys.path)
    sys.path.insert(0, str(LABS.parent / "_ext"))
    try:
        settings = {"extensions": ["myst_parser", *extensions], **dict(config)}
        Sphinx(
            place, None, place / "out", place / "trees", "html", settings, StringIO(), StringIO(), parallel=0
        ).build()
    finally:
        sys.path[:] = before
    return {page: (place / "out" / f"{page}.html").read_text() for page in pages}


def test_a_task_has_the_number_that_the_book_gives_it(bundle, class_room, tmp_path):
    root = LABS.parents[1]
    pages = re.findall(r"file: (book/(?:derivations|exercises|labs)\S*)", (root / "_toc.yml").read_text())
    for page in pages:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / f"{page}.md", tmp_path / f"{page}.md")
    built = sphinx(
        tmp_path, pages, ["sphinx_exercise"], {"myst_enable_extensions": ["dollarmath"], "numfig": True}.items()
    )
    shown = [
        (int(n), name) for page in pages for n, name in re.findall(r"Exercise (\d+) </span> \((.+?)\)</p>", built[page])
    ]
    assert [n for n, _ in shown] == list(bundle.exercise_numbers().values())
    names = dict(shown)
    sheets = "".join((class_room[0] / page.name).read_text() for page in PAGES)
    told = re.findall(r"## Task: (.+) \(exercise (\d+) of the book\)", sheets)
    assert len(told) > 15 and all(names[int(number)] == name for name, number in told)


FAKE = """import sys, zipfile
from pathlib import Path
out, sheets = Path(sys.argv[2]), Path(sys.argv[4])
sheets.mkdir(parents=True)
(sheets / "1_x.html").write_text("A sheet.")
if {measured}:
    for place in (out, out.with_stem("labs-teacher")):
        with zipfile.ZipFile(place, "w") as z:
            z.writestr("labs/fam.counts", "12")
else:
    sys.exit(print("rbp: fam was not measured: measure <it>.", file=sys.stderr) or 2)
"""


@pytest.mark.parametrize("measured", [True, False])
def test_the_book_offers_the_bundle_or_says_why_not(tmp_path, measured):
    (tmp_path / "book/labs").mkdir(parents=True)
    (tmp_path / "book/labs/bundle.py").write_text(FAKE.format(measured=measured))
    (tmp_path / "book/teaching.md").write_text("# Teaching\n\n```{labs-bundle} students\n```\n")
    (tmp_path / "book/notes.md").write_text("# Notes\n\n```{labs-bundle} teachers\n```\n")
    html, notes = sphinx(tmp_path, ["book/teaching", "book/notes"], ["rbplabs"]).values()
    for place in re.findall(r'href="(\.\./labs/[^"]+)"', html + notes):
        assert (tmp_path / "out/book" / place).is_file()
    assert ("../labs/labs-teacher.zip" in notes) == measured and "labs-teacher" not in html
    assert '<a href="../labs/1_x.html">1 x</a>' in html
    assert ('<a href="../labs/labs.zip" download>' in html and "counts of fam," in html) == measured
    for page, what in ((html, "bundle"), (notes, "teacher's copies")):
        assert (f"built without the {what}: fam was not measured: measure &lt;it&gt;." in page) != measured


def test_the_codebook_names_every_field_and_what_is_there(class_room, bundle):
    book = (class_room[0] / "codebook.md").read_text()
    (model, *_) = bundle.reader().read(class_room[0] / "synthetic.counts", "prose")
    for name in vars(model):
        assert f"`{name}" in book, name
    assert "Synthetic prose" in book and f"{int(model.tokens.sum()):,}" in book


def test_a_family_that_was_not_measured_is_one_sentence(tmp_path, bundle, capsys, monkeypatch):
    place = write_family(tmp_path, documents=5)
    monkeypatch.setenv("RBP_ROOT", str(place))
    monkeypatch.setenv("RBP_RESULTS", str(place / "nothing"))
    assert bundle.main(["synthetic", "-o", str(tmp_path / "x.zip")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "x.zip").exists()
