"""Notebooks: parameters refused when misspelt, executed pages made fit for the book, sources paired and clean."""

import ast
import re

import jupytext
import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rbplib.pages import book
from rbplib.settings import InputError, find_root

ROOT = find_root(__file__)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def write_notebook(path, *code, parameters="family: str = 'nano-pythia'  # a name\nn: int = 2", heading="# A page"):
    cells = [new_markdown_cell(heading), new_code_cell(parameters, metadata={"tags": ["parameters"]})]
    nb = new_notebook(cells=cells + [new_code_cell(c) for c in code], metadata=KERNEL)
    nbformat.write(nb, path)
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A root of its own with one family of three names."""
    for folder in ("families", "corpora", "notebooks"):
        (tmp_path / folder).mkdir()
    text = "models: [{id: a/small}, {id: a/middle}, {id: a/large}]\nembedded: true\n"
    (tmp_path / "families" / "nano-pythia.yml").write_text(text)
    (tmp_path / "families" / "other.yml").write_text(text + "title: Another <b>one</b>\n")
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    return tmp_path


def test_parameters_are_read_with_and_without_types(place):
    path = write_notebook(place / "notebooks/01_x.ipynb", parameters="a: int = 1  # one\nb = 'two'\nc: list = []")
    assert book.parameter_defaults(path) == {"a": "1", "b": "'two'", "c": "[]"}


def test_a_misspelt_parameter_is_refused_before_anything_runs(place):
    write_notebook(place / "notebooks/01_x.ipynb", "raise SystemError('ran')")
    with pytest.raises(InputError, match=r"no parameter 'famly': did you mean 'family'"):
        book.run_notebook("01_x", parameters={"famly": "other"})
    assert not (place / "book").exists()


def test_unknown_names_suggest_the_nearest(place):
    write_notebook(place / "notebooks/01_x.ipynb")
    with pytest.raises(InputError, match="did you mean '01_x'"):
        book.run_notebook("01_xx")
    with pytest.raises(InputError, match="did you mean 'other'"):
        book.run_notebook("01_x", "othr")


def test_the_command_says_bad_input_in_one_line(place, capsys):
    write_notebook(place / "notebooks/01_x.ipynb")
    assert book.main(["notebook", "01_x", "--family", "other", "-p", "m", "3"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_notebook_runs_for_a_family_and_is_fit_for_the_book(place):
    write_notebook(
        place / "notebooks/01_x.ipynb",
        "import sys\nprint('seen on the page', n)\nprint('noise', file=sys.stderr)\nprint(family)",
    )
    out = book.run_notebook("01_x", "other", parameters={"n": 3}, log=place / "logs/x.log")
    assert out == place / "book/_executed/other/01_x.ipynb"
    nb = nbformat.read(out, 4)
    assert nb.cells[0].source == "# A page: other"
    tagged = [c for c in nb.cells if book.PARAMETER_TAGS & set(c.metadata.get("tags", []))]
    assert len(tagged) == 2 and all("remove-cell" in c.metadata["tags"] for c in tagged)
    text = "".join(o.text for o in nb.cells[-1].outputs)
    assert text == "seen on the page 3\nother\n"
    assert "noise" in (place / "logs/x.log").read_text()
    assert str(place) not in out.read_text()
    assert list(out.parent.iterdir()) == [out]
    again = out.read_bytes()
    book.run_notebook("01_x", "other", parameters={"n": 3})
    assert out.read_bytes() == again
    assert book.check_pages() == (1, [])


def test_check_pages_sees_a_changed_page_and_a_changed_notebook(place):
    source = write_notebook(place / "notebooks/01_x.ipynb", "1 + 1")
    out = book.run_notebook("01_x", "other")
    write_notebook(source, "1 + 2")
    assert "older than its notebook" in book.check_pages()[1][0]
    out.write_text(out.read_text().replace("1 + 1", "1 + 3"))
    assert "was changed" in book.check_pages()[1][0]
    out.write_text("cut short")
    assert "not a page" in book.check_pages()[1][0]


def test_a_failing_notebook_leaves_the_old_page_and_says_where(place):
    source = write_notebook(place / "notebooks/01_x.ipynb", "1 + 1")
    out = book.run_notebook("01_x", "other")
    before = out.read_bytes()
    write_notebook(source, "1 / 0")
    with pytest.raises(RuntimeError, match=r"01_x.ipynb failed .*ZeroDivisionError"):
        book.run_notebook("01_x", "other")
    assert out.read_bytes() == before and list(out.parent.iterdir()) == [out]


def test_tidy_drops_times_and_hands_on_alternative_text():
    figure = new_output("display_data", {"image/svg+xml": "<svg/>"}, metadata={"image/svg+xml": {"alt": "A line."}})
    nb = new_notebook(
        cells=[new_markdown_cell("Intro\n\n# Title"), new_code_cell("x", outputs=[figure])],
        metadata={**KERNEL, "papermill": {"duration": 1}, "language_info": {"name": "python", "version": "3.11.7"}},
    )
    nb.cells[1].metadata.update(papermill={"start_time": "now"}, execution={"a": "b"})
    book.tidy(nb, "fam")
    assert nb.cells[0].source == "Intro\n\n# Title: fam"
    assert nb.cells[1].metadata == {"mystnb": {"image": {"alt": "A line."}}, "tags": ["hide-input"]}
    assert set(nb.metadata) == {"kernelspec"}


def test_an_index_page_never_carries_markup_of_a_title(place):
    page = book.family_index("other").read_text()
    assert "<b>" not in page and "toctree" in page
    write_notebook(place / "notebooks/01_x.ipynb", "1 + 1")
    book.run_notebook("01_x", book.DEFAULT_FAMILY)
    assert "[A page: nano-pythia](01_x.ipynb)" in book.family_index(book.DEFAULT_FAMILY).read_text()


def test_the_contents_tell_the_default_familys_story():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    globs = [c["glob"] for part in toc["parts"] for c in part["chapters"] if "glob" in c]
    assert f"book/_executed/{book.DEFAULT_FAMILY}/[0-9]*" in globs
    assert f"book/_executed/{book.TOGETHER}/[0-9]*" in globs
    assert "book/_executed/*/index" in globs


def test_every_hand_written_page_is_in_the_contents_once():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = [toc["root"]] + [c["file"] for part in toc["parts"] for c in part["chapters"] if "file" in c]
    written = [p.relative_to(ROOT).with_suffix("").as_posix() for p in (ROOT / "book").rglob("*.md")]
    assert sorted(listed) == sorted(p for p in written if not p.startswith("book/_"))


def test_there_are_notebooks_and_every_one_has_its_pair():
    assert NOTEBOOKS
    md = {p.stem for p in (ROOT / "notebooks").glob("*.md")} - {"README"}
    assert md == {p.stem for p in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
class TestSource:
    def test_both_halves_say_the_same(self, path):
        pair = [jupytext.read(p) for p in (path, path.with_suffix(".md"))]
        cells = [[(c.cell_type, c.source.strip(), c.metadata.get("tags", [])) for c in nb.cells] for nb in pair]
        assert cells[0] == cells[1], f"run `jupytext --sync {path.with_suffix('.md').relative_to(ROOT)}`"
        assert pair[0].metadata["jupytext"]["formats"] == "ipynb,md:myst"
        assert pair[0].metadata["kernelspec"]["name"] == "python3"

    def test_no_output_is_committed(self, path):
        for cell in nbformat.read(path, 4).cells:
            assert not cell.get("outputs") and cell.get("execution_count") is None

    def test_one_parameters_cell_with_types_and_comments(self, path):
        cells = [c for c in nbformat.read(path, 4).cells if "parameters" in c.metadata.get("tags", [])]
        assert len(cells) == 1
        lines = [x for x in cells[0].source.splitlines() if x.strip() and not x.startswith("#")]
        for line in lines:
            assert re.match(r"seed: int = \d+$|\w+: \w+(\[.*\])? = .*  # ", line), f"not typed and commented: {line}"
        if path.stem in book.notebook_names()[0]:
            assert {"family", "corpora", "seed"} <= set(book.parameter_defaults(path))

    def test_cells_call_and_the_library_computes(self, path):
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code":
                tree = ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.M))
                for node in ast.walk(tree):
                    if isinstance(node, ast.FunctionDef):
                        assert node.end_lineno - node.lineno < 5, f"{node.name} belongs in the library"

    def test_every_figure_goes_through_show(self, path):
        source = "\n".join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == "code")
        assert "plt.show" not in source and "matplotlib inline" not in source and "rcParams" not in source
