"""Lab sheets: their code runs on planted ranks with NumPy alone and finds what the library finds;
the bundle."""

import re
import sys
import zipfile
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from pathlib import Path

import jupytext
import nbformat
import numpy as np
import pandas as pd
import pytest
from scipy.stats import f_oneway

import rbplib as rbp
from rbplib import run_loss
from rbplib.table import family_tables
from tests.ranktables import CORPORA, VOCABULARY, write_family

LABS = Path(__file__).resolve().parents[2] / "book" / "labs"
PAGES = sorted(LABS.glob("[0-9]_*.md"))
CODE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def bundle():
    spec = spec_from_file_location("bundle", LABS / "bundle.py")
    spec.loader.exec_module(module := module_from_spec(spec))
    return module


@pytest.fixture(scope="module")
def class_room(tmp_path_factory, bundle):
    """(Folder of the unpacked bundles of a planted family, the family's rank tables on its first
    corpus)."""
    root = write_family(tmp_path_factory.mktemp("labs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        patch.setenv("RBP_RESULTS", str(root / "results"))
        made = bundle.make_bundle(["synthetic"], root / "labs.zip")
        tables = family_tables("synthetic", min(CORPORA))[0]
    for zipped in made:
        with zipfile.ZipFile(zipped) as z:
            z.extractall(root / "unpacked")
    return root / "unpacked" / "labs", tables


@pytest.fixture(scope="module")
def ran(class_room):
    """{lab: the names that its solved notebook leaves behind, run where it was unpacked}; each cell
    prints there what the notebook says."""
    left = {}
    for page in PAGES:
        (solved,) = class_room[0].rglob(f"{page.stem}_solved.ipynb")
        names = left[page.stem] = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(solved.parent)
            patch.syspath_prepend(solved.parent)
            patch.delitem(sys.modules, "ranks", raising=False)
            for cell in nbformat.read(solved, 4).cells:
                if cell.cell_type == "code":
                    with redirect_stdout(StringIO()) as out:
                        exec(cell.source, names)
                    assert out.getvalue() == "".join(output.text for output in cell.outputs)
    return left


def test_a_class_needs_numpy_alone():
    code = [
        (LABS / "ranks.py").read_text(),
        *(b for p in PAGES for b in CODE.findall(p.read_text())),
    ]
    names = re.findall(r"^ *(?:import|from) (\w+)", "\n".join(code), re.M)
    assert {"numpy", "ranks"} <= set(names) <= {*sys.stdlib_module_names, "numpy", "ranks"}


def test_the_metrics_are_the_librarys(ran, class_room):
    lab, tables = ran["1_ranks"], class_room[1]
    losses = rbp.rbp_losses(tables, lab["ks"])
    shares = np.transpose([loss.share for loss in losses.values()])
    assert np.array_equal(lab["rbp"], shares) and lab["V"] == VOCABULARY
    assert lab["cross_entropy"] == pytest.approx(rbp.cross_entropy(tables).values)
    for model, table in zip(lab["models"], tables, strict=True):
        assert np.array_equal(np.repeat(model.ranks, model.counts), np.sort(table.rank()))


def test_the_line_and_its_intervals_are_the_librarys(ran, class_room):
    lab, law = ran["2_line"], rbp.fit(rbp.rbp_loss(class_room[1]), n_bootstrap=2000)
    assert (lab["alpha"], lab["r2"]) == pytest.approx((law.alpha, law.r2))
    assert lab["over_models"] == pytest.approx(law.ci_models, abs=1e-4)
    assert np.diff(lab["over_sources"]) == pytest.approx(np.diff(law.ci_tokens), rel=0.12)


def test_the_runs_are_the_librarys(ran, class_room):
    lab, tables = ran["3_runs"], class_room[1]
    for N, share in lab["counted"].items():
        loss = run_loss(tables, lab["k"], N)
        assert share == pytest.approx(np.exp(-loss.values[-1])) or share == 0
    # the intraclass correlation by the ratio of variances of SciPy
    hits = pd.Series(tables[-1].rank() <= lab["k"]).groupby(tables[-1].document)
    n, ratio = hits.size(), f_oneway(*(group for _, group in hits)).statistic
    mean_size = (n.sum() - (n**2).sum() / n.sum()) / (len(n) - 1)
    assert lab["alike"] == pytest.approx((ratio - 1) / (ratio - 1 + mean_size))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_students_get_no_solution_and_teachers_all(class_room, page):
    text, sheets = page.read_text(), []
    for name in (page.stem, f"{page.stem}_solved"):
        sheets.append((class_room[0] / f"{name}.md").read_text())
        pair = nbformat.read(class_room[0] / f"{name}.ipynb", 4)
        cells = [
            [(c.cell_type, c.source) for c in n.cells]
            for n in (jupytext.reads(sheets[-1], "md"), pair)
        ]
        assert cells[0] == cells[1]
        sheets.append(str(pair))
    student, notebook, teacher, _ = sheets
    code, room = CODE.findall(text), text.count("{exercise}") * [""]  # for an answer
    assert CODE.findall(student) == code[:1] + room and CODE.findall(teacher) == code
    hidden = text.count("\n:hidden:\n")  # on the book's page
    assert text.count("{solution}") == hidden == teacher.count("**Solution.**") == len(room)
    public = student + notebook
    assert "Solution" not in public and not re.search(r"'text': '\w", public)
    (marked,) = re.findall(r"\{choice\}`.*?(\*[^*]+\*).*`", text)
    assert marked in teacher and marked not in public and marked.strip("*") in student


def test_a_family_that_was_not_measured_is_one_sentence(tmp_path, bundle, capsys, monkeypatch):
    root = write_family(tmp_path, documents=5)
    monkeypatch.setenv("RBP_ROOT", str(root))
    monkeypatch.setenv("RBP_RESULTS", str(root / "nothing"))
    assert bundle.main(["synthetic", "-o", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "x").exists()


def test_a_bundle_is_made_again_only_where_a_table_changed(class_room, bundle, monkeypatch):
    root, made = class_room[0].parents[1], []
    monkeypatch.setenv("RBP_ROOT", str(root))
    monkeypatch.setattr("paper.counts.write_class", lambda *_: made.append(1) or 1 / 0)
    folder = bundle.kept(["synthetic"])
    folder.mkdir(parents=True)
    for name in ("labs.zip", "labs-teacher.zip"):
        (folder / name).write_bytes(b"kept")
    assert bundle.main(["synthetic", "-o", str(root / "out")]) == 0 and not made
    assert (root / "out/labs.zip").read_bytes() == b"kept"
    # a table, and a text's title, which the codebook has
    for name in ("results/ranks/synthetic/*/*.parquet", "corpora/*.yml"):
        before, path = bundle.kept(["synthetic"]), next(root.glob(name))
        path.write_bytes(path.read_bytes() + b" ")
        assert bundle.kept(["synthetic"]) != before
    with pytest.raises(ZeroDivisionError):
        bundle.main(["synthetic", "-o", str(root / "out")])
