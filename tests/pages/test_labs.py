"""Lab sheets: their code runs on planted ranks with NumPy alone and finds what the library finds; the bundle."""

import ast
import importlib.util
import os
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from ranktables import CORPORA, VOCABULARY, write_family

from rbplib.laws.curve import rbp_curve
from rbplib.laws.law import fit_law
from rbplib.laws.runs import hit_dependence, run_losses
from rbplib.ranks.table import family_tables

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
    with zipfile.ZipFile(out) as z:
        z.extractall(place / "unpacked")
    return place / "unpacked" / "labs", tables


def run_lab(folder, page):
    """The names that a lab's code leaves behind, its blocks run one after the other in the class's folder."""
    before, path, names = os.getcwd(), list(sys.path), {}
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.modules.pop("ranks", None)
    try:
        for number, block in enumerate(CODE.findall(page.read_text(encoding="utf-8"))):
            exec(compile(block, f"<{page.stem}, block {number}>", "exec"), names)
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
    assert abs(found["scores"][np.argmax(found["scores"])]) > 0 and 0.5 < found["s"] < 3 and found["kl"] > 0


def test_students_get_no_solution_and_teachers_all(class_room, bundle):
    folder = class_room[0]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        student, teacher = (folder / who / page.name for who in ("student", "teacher"))
        student, teacher = student.read_text(), teacher.read_text()
        solutions, tasks = text.count("{solution}"), text.count("{exercise}")
        assert solutions == tasks == teacher.count("**Solution.**") == student.count("## Task: ") > 3
        assert "Solution" not in student and CODE.findall(student) == CODE.findall(text)[:1]
        assert CODE.findall(teacher) == CODE.findall(text)
        assert not re.search(r"\{(exercise|solution|eq|ref)\}|\\RBP|\\E\b", student + teacher)


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
