"""What pages are asked for: what they cannot take is one sentence, before anything runs."""

import subprocess
import sys

import pytest

from paper.show.parameters import check_parameters
from rbplib.families import InputError
from tests.conftest import ROOT
from workflow import book as workflow
from workflow import page as notebooks

REFUSED = [  # (notebook, parameters, what the sentence must say)
    ("01_metric", {"n_bootstrap": "abc"}, "n_bootstrap must be a whole number, not 'abc'"),
    ("02_top1_law", {"n_bootstrap": 1e9}, "n_bootstrap must be a whole number, not 1000000000.0"),
    ("02_top1_law", {"n_bootstrap": 10**9}, "n_bootstrap must be from 100 to 1,000,000, not 1,000,000,000"),
    ("02_top1_law", {"n_bootstrap": 1}, "n_bootstrap must be from 100 to 1,000,000, not 1"),
    ("02_top1_law", {"n_bootstrap": 0}, "n_bootstrap must be from 100"),
    ("03_moderate_k", {"n_bootstrap": -5}, "n_bootstrap must be from 100 to 1,000,000, not -5"),
    ("03_moderate_k", {"n_bootstrap": True}, "n_bootstrap must be a whole number, not True"),
    ("03_moderate_k", {"n_bootstrap": None}, "n_bootstrap must be a whole number, not None"),
    ("03_moderate_k", {"n_bootstrap": [1000]}, "n_bootstrap must be a whole number, not [1000]"),
    ("04_large_k", {"seed": -1}, "seed must be from 0 to 4,294,967,295, not -1"),
    ("04_large_k", {"seed": 2**32}, "seed must be from 0 to"),
    ("04_large_k", {"seed": 1.5}, "seed must be a whole number, not 1.5"),
    ("04_large_k", {"seed": "42"}, "seed must be a whole number, not '42'"),
    ("05_k_dependence", {"ks": 1}, "ks must be a list, not 1"),
    ("05_k_dependence", {"ks": "1,10"}, "ks must be a list, not '1,10'"),
    ("02_top1_law", {"ks": []}, "ks is empty: give at least one, as in ks = [1]"),
    ("03_moderate_k", {"ks": []}, "ks is empty: give at least one, as in ks = [10, 50, 100]"),
    ("06_emergence", {"ks": []}, "ks is empty"),
    ("08_rank_distribution", {"ks": []}, "ks is empty"),
    ("01_metric", {"ks": [0]}, "each of ks must be 1 or more, not 0"),
    ("01_metric", {"ks": [1, -3]}, "each of ks must be 1 or more, not -3"),
    ("01_metric", {"ks": [1.5]}, "each of ks must be a whole number, not 1.5"),
    ("01_metric", {"ks": ["1"]}, "each of ks must be a whole number, not '1'"),
    ("01_metric", {"ks": [True]}, "each of ks must be a whole number, not True"),
    ("01_metric", {"ks": [[1]]}, "each of ks must be a whole number, not [1]"),
    *((name, {"ks": [99_999]}, "k = 99,999 is beyond the vocabulary of nano-pythia, 4,096 tokens: give smaller ks")
      for name in ("01_metric", "02_top1_law", "03_moderate_k", "04_large_k", "05_k_dependence", "06_emergence",
                   "08_rank_distribution", "11_precision")),
    ("05_k_dependence", {"ks": [1, 4097]}, "k = 4,097 is beyond the vocabulary"),
    ("06_emergence", {"lengths": []}, "lengths is empty"),
    ("06_emergence", {"lengths": [0]}, "each of lengths must be 1 or more"),
    ("06_emergence", {"lengths": 5}, "lengths must be a list, not 5"),
    ("06_emergence", {"lengths": ["5"]}, "each of lengths must be a whole number"),
    ("02_top1_law", {"corpora": "docs"}, "corpora must be a list, not 'docs'"),
    ("02_top1_law", {"corpora": [3]}, "each of corpora must be text, not 3"),
    ("02_top1_law", {"corpora": [""]}, "each of corpora must be text, not ''"),
    ("02_top1_law", {"corpora": {"docs": 1}}, "corpora must be a list"),
    ("07_two_laws", {"corpora": ["dcos"]}, "did you mean 'docs'"),
    ("08_rank_distribution", {"corpora": ["docs", "/none/at/all.txt"]}, "/none/at/all.txt"),
    ("02_top1_law", {"family": 3}, "family must be text, not 3"),
    ("02_top1_law", {"family": ["nano-pythia"]}, "family must be text"),
    ("02_top1_law", {"family": ""}, "family must be text, not ''"),
    ("02_top1_law", {"family": "nano-pithya"}, "did you mean 'nano-pythia'"),
    ("02_top1_law", {"protocol": "papr"}, "did you mean 'paper'"),
    ("02_top1_law", {"protocol": 1}, "protocol must be text, not 1"),
    ("02_top1_law", {"n_botstrap": 1000}, "no parameter 'n_botstrap': did you mean 'n_bootstrap'"),
    ("02_top1_law", {"lengths": [1]}, "no parameter 'lengths'"),
    ("09_families", {"families": "nano-pythia"}, "families must be a list"),
    ("09_families", {"families": ["nano-pithya"]}, "did you mean 'nano-pythia'"),
    ("09_families", {"family": "nano-pythia"}, "no parameter 'family': did you mean 'families'"),
    ("13_findings", {"families": [1]}, "each of families must be text, not 1"),
    ("18_authors_figures", {"n_tokens": "many"}, "n_tokens must be a number, not 'many'"),
    ("20_published_tokens", {"losses": []}, "losses is empty"),
    ("11_precision", {"documents": 0}, "documents must be 1 or more, not 0"),
    ("12_train_your_own", {"rungs": "4"}, "rungs must be a whole number"),
    ("12_train_your_own", {"tokens": 0}, "tokens must be 1 or more"),
    ("14_coverage", {"k": 0}, "k must be 1 or more, not 0"),
    ("14_coverage", {"resamples": 1}, "resamples must be from 20"),
    ("15_appendix", {"mu": "x"}, "mu must be a number"),
]  # fmt: skip
ACCEPTED = [
    ("02_top1_law", {"n_bootstrap": 100, "seed": 0, "ks": [1, 4096], "corpora": ["docs", "code"], "protocol": "full"}),
    ("04_large_k", {"ks": [], "corpora": []}),
    ("05_k_dependence", {"ks": []}),
    ("10_published", {"families": ["bloom"]}),  # of the published numbers: no file of a family
    ("18_authors_figures", {"n_tokens": 300_000}),
    ("20_published_tokens", {"losses": ["ptb"], "tasks": ["coqa"], "along": "pythia-deduped"}),
    ("15_appendix", {"mu": -60, "ks": [20_000]}),
]


def cell(name):
    return notebooks.parameters_cell(name)


@pytest.fixture(autouse=True)
def checkout(monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(ROOT))


@pytest.mark.parametrize(("name", "given", "said"), REFUSED, ids=lambda x: x if isinstance(x, str) else str(x)[:40])
def test_a_bad_parameter_is_one_sentence_before_anything_runs(name, given, said, monkeypatch):
    monkeypatch.setattr(notebooks, "_execute", lambda *a: pytest.fail("it ran"))
    with pytest.raises(InputError) as error:
        notebooks.run_notebook(name, parameters=given)
    assert said in str(error.value) and len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(("name", "given"), ACCEPTED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_a_page_can_take_is_taken(name, given):
    check_parameters(cell(name), given, name)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_every_page_takes_its_own_defaults_and_checks_itself(path):
    names = {}
    exec(cell(path.stem), names)
    check_parameters(cell(path.stem), {n: v for n, v in names.items() if n[0] != "_"}, path.stem)
    assert "parameters.check()" in path.read_text()


def test_the_workflow_says_it_in_one_line(capsys):
    assert workflow.main(["notebook", "02_top1_law", "--parameters", '{"seed": -1}']) == 2
    assert capsys.readouterr().err == "rbp: seed must be from 0 to 4,294,967,295, not -1.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["-p", "n_bootstrap", "abc"], "rbp: n_bootstrap must be a whole number, not 'abc'."),
        (["-p", "n_botstrap", "1000"], "rbp: this page has no parameter 'n_botstrap': did you mean 'n_bootstrap'?"),
        (["-y", "corpora: docs"], "rbp: corpora must be a list, not 'docs'."),
    ],
)
def test_plain_papermill_shows_the_sentence_in_place_of_a_traceback(tmp_path, given, said):
    import nbformat

    out = tmp_path / "out.ipynb"
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks" / "02_top1_law.ipynb"), str(out), *given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode and said in done.stderr
    outputs = [o for c in nbformat.read(out, 4).cells if c.cell_type == "code" for o in c.outputs]
    assert [o.traceback for o in outputs if o.output_type == "error"] == [[said]]


def test_texts_of_pages_and_of_the_book_are_found_from_any_folder(tmp_path, monkeypatch):
    """A path is made whole before a page runs in the root; `rbp book` hands every page the same texts."""
    (tmp_path / "my notes.txt").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    seen = {}
    monkeypatch.setattr(notebooks, "_execute", lambda source, ran, given: seen.update(given) or pytest.skip)
    monkeypatch.setattr(notebooks, "tidy", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        notebooks.run_notebook("08_rank_distribution", parameters={"corpora": ["docs", "my notes.txt"]})
    assert seen["corpora"] == ["docs", str(tmp_path / "my notes.txt")]
    monkeypatch.setattr(workflow, "run", lambda arguments, *a: seen.update(arguments=arguments) or {})
    workflow.make_book(["nano-opt"], corpora=["docs", "my notes.txt"], show=False)
    assert f'corpora=["docs", "{tmp_path}/my notes.txt"]' in seen["arguments"]
    with pytest.raises(InputError, match="did you mean 'docs'"):
        workflow.make_book(corpora=["dcos"])
