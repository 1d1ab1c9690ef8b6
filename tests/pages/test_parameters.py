"""What pages are asked for: what they cannot take is one sentence, before anything runs."""

import re

import nbformat
import pytest
from papermill import PapermillExecutionError, execute_notebook

from rbplib import InputError
from tests.degenerate import ROOT
from workflow import book, page

# (notebook, parameter, value, what the sentence must say): each kind of value, each kind of fault
REFUSED = [
    ("02_top1_law", "n_bootstrap", "abc", "n_bootstrap must be a whole number, not 'abc'"),
    ("02_top1_law", "n_bootstrap", 99, "n_bootstrap must be from 100 to 1,000,000, not 99"),
    ("02_top1_law", "n_bootstrap", True, "n_bootstrap must be a whole number, not True"),
    ("02_top1_law", "ks", 1, "ks must be a list, not 1"),
    ("03_moderate_k", "ks", [], "ks is empty: give at least one, as in ks = [10, 50, 100]"),
    ("01_metric", "ks", [1, -3], "each of ks must be 1 or more, not -3"),
    ("02_top1_law", "corpora", [""], "each of corpora must be text, not ''"),
    ("08_rank_distribution", "corpora", ["docs", "/none/at/all.txt"], "/none/at/all.txt"),
    ("02_top1_law", "family", "", "family must be text, not ''"),
    ("02_top1_law", "family", "nano-pithya", "did you mean 'nano-pythia'"),
    ("02_top1_law", "protocol", "papr", "did you mean 'paper'"),
    ("02_top1_law", "n_botstrap", 1000, "no parameter 'n_botstrap': did you mean 'n_bootstrap'"),
]


@pytest.fixture(autouse=True)
def checkout(monkeypatch):
    """The checkout as the root, where a page that would run fails with what it was asked for."""
    monkeypatch.setenv("RBP_ROOT", str(ROOT))
    monkeypatch.setattr(page, "execute", lambda source, asked, out: pytest.fail(str(asked)))


@pytest.mark.parametrize(("notebook", "name", "value", "message"), REFUSED)
def test_a_bad_parameter_is_one_sentence_before_anything_runs(notebook, name, value, message):
    with pytest.raises(InputError) as error:
        page.run_notebook(notebook, parameters={name: value})
    assert message in str(error.value) and len(str(error.value).splitlines()) == 1


def test_a_family_is_among_the_families_of_a_page_or_refused():
    with pytest.raises(pytest.fail.Exception, match="'families': .'nano-opt'"):
        page.run_notebook("11_families", "nano-opt")
    with pytest.raises(InputError, match="no parameter 'family'"):
        page.run_notebook("12_published", "nano-opt")


@pytest.mark.slow
def test_plain_papermill_shows_the_sentence_in_place_of_a_traceback(tmp_path):
    source = ROOT / "notebooks/02_top1_law.ipynb"
    message = "rbp: corpora must be a list, not 'docs'."
    with pytest.raises(PapermillExecutionError, match=message):
        execute_notebook(source, tmp_path / "out.ipynb", {"corpora": "docs"})
    cells = nbformat.read(tmp_path / "out.ipynb", 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert [o.traceback for o in outputs if o.output_type == "error"] == [[message]]


def test_texts_of_pages_and_of_the_book_are_found_from_any_folder(tmp_path, monkeypatch):
    """A path is made whole before a page runs in the root; `rbp book` hands every page the same
    texts."""
    (tmp_path / "my notes.txt").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.fail.Exception, match=f"'docs', '{tmp_path}/my notes.txt'"):
        page.run_notebook("08_rank_distribution", parameters={"corpora": ["docs", "my notes.txt"]})
    monkeypatch.setattr(
        book, "run", lambda arguments, *a: pytest.fail(" ".join(map(str, arguments)))
    )
    with pytest.raises(pytest.fail.Exception, match=f'corpora=."docs", "{tmp_path}/my notes.txt"'):
        book.make_book(["nano-opt"], corpora=["docs", "my notes.txt"], show=False)
    with pytest.raises(InputError, match="did you mean 'docs'"):
        book.make_book(corpora=["dcos"])


def test_a_page_follows_from_each_file_that_it_reads():
    for notebook in (ROOT / "notebooks").glob("[0-9]*.md"):
        files = page.inputs(notebook.stem)
        for path in [notebook, *files & {*(ROOT / "paper").rglob("*.py")}]:
            for words in re.findall(r'\bheld\(("[^)]*")\)', path.read_text()):
                place = ROOT.joinpath(*re.findall(r'"(.*?)"', words))
                assert any(file.is_relative_to(place) for file in files), f"{path}: {place}"
