"""What pages are asked for: what they cannot take is one sentence, before anything runs."""

import re

import nbformat
import pytest

from paper.show.parameters import check_parameters
from rbplib import InputError
from tests.degenerate import ROOT
from workflow import book, pages

# (parameter, value, what the sentence must say): each kind of value, each kind of fault
REFUSED = [
    ("n_bootstrap", True, "must be a whole number, not True"),
    ("n_bootstrap", 99, "from 100 to 1,000,000"),
    ("ks", [], "as in ks = [1, 3, 10, 100]"),
    ("ks", [1, -3], "each of ks must be 1 or more"),
    ("corpora", ["/none/at/all.txt"], "/none/at/all.txt"),
    ("families", ["nano-pithya"], "did you mean 'nano-pythia'"),
    ("protocol", "papr", "did you mean 'paper'"),
    ("n_botstrap", 1000, "did you mean 'n_bootstrap'"),
]


@pytest.fixture(autouse=True)
def checkout(monkeypatch):
    """The checkout as the root."""
    monkeypatch.setenv("RBP_ROOT", str(ROOT))


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_a_bad_parameter_is_one_sentence_before_anything_runs(name, value, message):
    with pytest.raises(InputError) as error:
        pages.pages(**{name: value})
    assert message in str(error.value) and len(str(error.value).splitlines()) == 1


def test_text_may_be_empty_where_its_comment_says_what_for():
    cells = {page: pages.parameters_cell(pages.notebooks()[page]) for page in pages.notebooks()}
    check_parameters(cells["10_gpt2"], {"raw": ""}, "page 10")
    with pytest.raises(InputError, match="precise must be text, not ''"):
        check_parameters(cells["16_trust"], {"precise": ""}, "page 16")


@pytest.mark.slow
def test_plain_papermill_shows_the_sentence_in_place_of_a_traceback(tmp_path):
    from papermill import PapermillExecutionError, execute_notebook

    source = ROOT / "notebooks/02_top1_law.ipynb"
    message = "rbp: corpora must be a list, not 'docs'."
    with pytest.raises(PapermillExecutionError, match=message):
        execute_notebook(source, tmp_path / "out.ipynb", {"corpora": "docs"})
    cells = nbformat.read(tmp_path / "out.ipynb", 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert [o.traceback for o in outputs if o.output_type == "error"] == [[message]]


def test_texts_of_the_book_are_found_from_any_folder(tmp_path, monkeypatch):
    """A path is made whole before anything runs in the root; every page gets the same texts."""
    (tmp_path / "my notes.txt").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(book, "alone", lambda: 3)
    monkeypatch.setattr("snakemake.cli.main", lambda words: pytest.fail(" ".join(words)))
    with pytest.raises(pytest.fail.Exception, match=f'corpora=."docs", "{tmp_path}/my notes.txt"'):
        book.start(["nano-opt"], ["docs", "my notes.txt"])
    with pytest.raises(InputError, match="did you mean 'docs'"):
        book.start(corpora=["dcos"])


def test_a_page_follows_from_each_file_that_it_reads():
    for name, notebook in pages.notebooks().items():
        files = pages.follows(notebook)
        for path in [notebook.with_suffix(".md"), *files & {*(ROOT / "paper").rglob("*.py")}]:
            for words in re.findall(r'\bheld\(("[^)]*")\)', path.read_text()):
                path = ROOT.joinpath(*re.findall(r'"(.*?)"', words))
                assert any(file.is_relative_to(path) for file in files), f"{name}: {path}"


def test_a_page_of_a_named_folder_is_of_that_folder():
    with pytest.raises(InputError, match="no page 09_appendix of nano-gpt2"):
        pages.run_pages(["nano-gpt2"], page="09_appendix")
