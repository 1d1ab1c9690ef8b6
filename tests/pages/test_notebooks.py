"""Notebooks: parameters refused when misspelt, executed ones made fit for the book, sources paired and clean."""

import ast
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebookfiles import KERNEL, write_notebook

from rbplib.families import InputError
from workflow import book as workflow
from workflow import html, notebooks

OPEN = {"01_metric": 3, "13_findings": 3, "22_reproduced": 2}  # its examples; findings by section; what differs

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_parameters_are_read_with_and_without_types(three_names):
    path = write_notebook(three_names / "notebooks/01_x.ipynb", parameters="a: int = 1  # one\nb = 'two'\nc: list = []")
    assert notebooks.parameter_defaults(path) == {"a": "1", "b": "'two'", "c": "[]"}


def test_a_misspelt_parameter_is_refused_before_anything_runs(three_names):
    write_notebook(three_names / "notebooks/01_x.ipynb", "raise SystemError('ran')")
    with pytest.raises(InputError, match=r"no parameter 'famly': did you mean 'family'"):
        notebooks.run_notebook("01_x", parameters={"famly": "other"})
    assert not (three_names / "book").exists()


def test_unknown_names_suggest_the_nearest(three_names):
    write_notebook(three_names / "notebooks/01_x.ipynb")
    with pytest.raises(InputError, match="did you mean '01_x'"):
        notebooks.run_notebook("01_xx")
    with pytest.raises(InputError, match="did you mean 'other'"):
        notebooks.run_notebook("01_x", "othr")


def test_the_command_says_bad_input_in_one_line(three_names, capsys):
    write_notebook(three_names / "notebooks/01_x.ipynb")
    assert workflow.main(["notebook", "01_x", "--family", "other", "--parameters", '{"m": 3}']) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_notebook_runs_for_a_family_and_is_fit_for_the_book(three_names, capsys):
    write_notebook(
        three_names / "notebooks/01_x.ipynb",
        "import sys\nprint('seen on the page', n)\nprint('noise', file=sys.stderr)\nprint(family)",
    )
    out = notebooks.run_notebook("01_x", "other", parameters={"n": 3})
    assert out == three_names / "book/_executed/other/01_x.ipynb"
    nb = nbformat.read(out, 4)
    assert nb.cells[0].source == "# A page (other)"
    tagged = [c for c in nb.cells if notebooks.PARAMETER_TAGS & set(c.metadata.get("tags", []))]
    assert len(tagged) == 2 and all("remove-cell" in c.metadata["tags"] for c in tagged)
    text = "".join(o.text for o in nb.cells[-1].outputs)
    assert text == "seen on the page 3\nother\n"
    assert "noise" in capsys.readouterr().err
    assert str(three_names) not in out.read_text()
    assert list(out.parent.iterdir()) == [out]
    again = out.read_bytes()
    notebooks.run_notebook("01_x", "other", parameters={"n": 3})
    assert out.read_bytes() == again
    assert html.check_pages() == (1, [])


def test_a_failing_notebook_leaves_the_old_page_and_says_where(three_names):
    source = write_notebook(three_names / "notebooks/01_x.ipynb", "1 + 1")
    out = notebooks.run_notebook("01_x", "other")
    before = out.read_bytes()
    write_notebook(source, "1 / 0")
    with pytest.raises(RuntimeError, match=r"01_x.ipynb failed .*ZeroDivisionError"):
        notebooks.run_notebook("01_x", "other")
    assert out.read_bytes() == before and list(out.parent.iterdir()) == [out]


def test_tidy_drops_times_and_keeps_a_figure_with_its_words():
    figure = new_output("display_data", {"image/svg+xml": "<svg/>"}, metadata={"image/svg+xml": {"alt": "A line."}})
    nb = new_notebook(
        cells=[new_markdown_cell("Intro\n\n# Title"), new_code_cell("x", outputs=[figure])],
        metadata={**KERNEL, "papermill": {"duration": 1}, "language_info": {"name": "python", "version": "3.11.7"}},
    )
    nb.cells[1].metadata.update(papermill={"start_time": "now"}, execution={"a": "b"})
    notebooks.tidy(nb, "fam")
    assert nb.cells[0].source == "Intro\n\n# Title (fam)"
    assert nb.cells[1].metadata == {"tags": ["hide-input"]} and nb.cells[1].outputs == [figure]
    assert set(nb.metadata) == {"kernelspec"}


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
        if path.stem in notebooks.notebook_names()[0]:
            assert {"family", "corpora", "seed"} <= set(notebooks.parameter_defaults(path))

    def test_papermill_knows_every_parameter(self, path, caplog):
        from papermill import inspect_notebook

        assert set(inspect_notebook(str(path))) == set(notebooks.parameter_defaults(path)) and not caplog.records

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


@pytest.mark.parametrize(
    "path", sorted(Path(notebooks.__file__).parents[2].glob("notebooks/*.md")), ids=lambda p: p.stem
)
def test_a_page_leaves_one_table_open(path):
    """What else it has is folded or in a CSV; pages once stood on up to twelve open tables."""
    code = "\n".join(c.source for c in jupytext.read(path).cells if c.cell_type == "code")
    calls = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "table"]
    unfolded = [c for c in calls if "fold" not in {word.arg for word in c.keywords}]
    assert len(unfolded) <= OPEN.get(path.stem, 1), [c.lineno for c in unfolded]
