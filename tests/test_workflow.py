"""The workflow on a small root: what runs, what runs again after an edit, what it refuses."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from notebookfiles import write_notebook
from smallmodels import save_model, tokenizer

from rbplib import InputError
from rbplib.doors import export_family
from rbplib.families import load_family
from rbplib.table import read_table, write_table
from tests.commands import ROOT, python, take
from workflow import book, pages

PER_FAMILY = "family: str = 'demo'  # a name\ncorpora: list = []"
TOGETHER = "families: list = []  # names\ncorpora: list = []"
SETTINGS = {"families": ["demo", "other"], "corpora": ["notes"], "only": True}
ALONE = ["--family", "demo", "--corpus", "notes"]
WORDS = ["--family", "demo,other", "--corpus", "notes", "--only"]
MEASURE = """
from rbplib.measuring import measured
tables = measured(family, corpora)
print({name: [len(t) for t in ts] for name, ts in tables.items()})
"""
THREADS = """
import os
names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
print("each has one thread:", {os.environ[name] for name in names} == {"1"})
"""
CONFIG = """
title: Small
execute: {execute_notebooks: "off"}
exclude_patterns: [_build, "**/all/*.ipynb"]
sphinx:
  config:
    include_patterns: ["book/**"]
    suppress_warnings: [etoc.toctree]
    html_theme: basic
    html_theme_options: {}
"""


def add_page(clone, name, code, parameters=PER_FAMILY):
    """A notebook that is a page of the book, by its opening in book/pages.yml."""
    write_notebook(clone / f"notebooks/{name}.ipynb", code, parameters)
    append(clone / "book/pages.yml", f"{name}:\n  question: What?\n")


def append(path, text):
    path.write_text((path.read_text() if path.exists() else "") + text)


def write_root(clone):
    """Two families of three tiny models, one text and three notebooks."""
    for folder in ("families", "notebooks", "book"):
        (clone / folder).mkdir()
    for folder in ("rbplib", "paper", "corpora"):
        shutil.copytree(
            ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__", "*.yml")
        )

    # three tiny models, one text, an embedded family, whose models are measured together, and one
    words = tokenizer()
    for number in range(3):
        save_model(clone / f"models/m{number}", seed=number, words=words)
    for family, numbers in {"demo": (0, 1), "other": (2,)}.items():
        models = ", ".join(f"models/m{n}" for n in numbers)
        entry = f"title: The {family} family\ncontext: 32\ndtype: float32\nmodels: [{models}]\n"
        (clone / f"families/{family}.yml").write_text(entry)
    append(clone / "families/demo.yml", "embedded: true\ncorpora: [notes]\n")
    lines = [json.dumps({"text": f"document number {i} of the notes"}) for i in range(6)]
    (clone / "notes.jsonl").write_text("\n".join(lines) + "\n")
    (clone / "corpora/notes.yml").write_text("title: Notes\npath: notes.jsonl\n")

    # a page of tables, one that uses a module of paper/, one of all families; one that is no page
    add_page(clone, "01_first", MEASURE)
    add_page(clone, "steps", "import paper.steps", TOGETHER)
    add_page(clone, "09_all", THREADS, TOGETHER)
    write_notebook(clone / "notebooks/draft.ipynb", "1 / 0", PER_FAMILY)
    (clone / "_config.yml").write_text(CONFIG)
    (clone / "_toc.yml").write_text("format: jb-book\nroot: book/intro\n")
    (clone / "book/intro.md").write_text("# Small\n")


def make(clone, *words, **environment):
    """`rbp book` on a root, to its end."""
    environment |= {"RBP_ROOT": str(clone), "PYTHONPATH": str(ROOT)}
    return python("-m", "rbplib", "book", *(words or WORDS), **environment)


def measure_small(clone):
    """What embedded models lack is measured, in forks of this process, which has imported torch."""
    from workflow import measure

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(clone))
        measure.measure("small", SETTINGS, 2)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A small root, measured, run and built once, and what that printed."""
    clone = tmp_path_factory.mktemp("flow")
    write_root(clone)
    measure_small(clone)
    done = make(clone)
    assert done.returncode == 0, done.stdout + done.stderr
    return clone, done.stdout


@pytest.fixture
def clone(built, tmp_path, monkeypatch):
    """A copy of the root as a fresh clone with copied results has it: of new times, and without
    records of Snakemake or of runs."""
    ignore = shutil.ignore_patterns(".snakemake", "logs")
    clone = shutil.copytree(built[0], tmp_path / "c", ignore=ignore, copy_function=shutil.copyfile)
    monkeypatch.setenv("RBP_ROOT", str(clone))
    monkeypatch.chdir(clone)
    forget()
    return clone


def forget():
    for kept in (pages.parameters_cell, pages.ladders_of, pages.followed, pages.table_digest):
        kept.cache_clear()


def planned(replace=False, **settings):
    """(tables that would be measured, pages that would run, whether the HTML would be built)."""
    forget()
    plan = book.Plan({**SETTINGS, "replace": replace, **settings})
    names = {f"{page.folder}/{page.name}" for page in plan.stale}
    return plan.tables, names, not plan.is_current()


def test_a_line_tells_of_each_table_and_page_as_it_begins_and_ends(built):
    lines = built[1].splitlines()
    names = ["html the book", *(f"page {name}" for name in sorted(PAGES)), "table other/m2/notes"]
    for word in ("begun", "done"):
        steps = re.findall(rf"^\[\d of 6\] {word}: (.*?)(?:, \d+ s)?$", built[1], re.M)
        assert sorted(steps) == names
    assert lines[-2].startswith("[6 of 6] done: html") and "/_build/html/index.html" in lines[-1]
    page = (built[0] / "book/_executed/all/09_all.ipynb").read_text()
    assert "each has one thread: True" in page
    assert len((built[0] / "logs/steps.jsonl").read_text().splitlines()) == 6


# ---- what runs again

STEPS = {"all/steps"}
ALL = STEPS | {"all/09_all"}
DEMO, OTHER = ALL | {"demo/01_first"}, ALL | {"other/01_first"}
PAGES = DEMO | OTHER


def comment_in_notebook(clone):
    notebook = nbformat.read(clone / "notebooks/steps.ipynb", 4)
    notebook.cells[-1].source += "\n# a comment"
    nbformat.write(notebook, clone / "notebooks/steps.ipynb")
    # one of its pages was made by a clock that ran ahead
    os.utime(clone / "book/_executed/all/steps.ipynb", (2**32, 2**32))


def change(name, old, new):
    def edit(clone):
        path = clone / name
        path.write_text(path.read_text().replace(old, new, 1))

    return edit


def new_times(clone):
    for pattern in ("notebooks/*", "rbplib/*.py", "results/ranks/*/*/*", "book/_executed/*/*"):
        for path in clone.glob(pattern):
            os.utime(path)


def another_table(clone):
    table = read_table(next(clone.glob("results/ranks/other/m2/*.parquet")))
    columns = dict(table.columns) | {"logprob": table.logprob - 0.01}
    write_table(table.path, columns, table.record)


MATRIX = {  # what is edited: (how; tables, pages and HTML that are made again)
    "nothing": (lambda clone: None, 0, set(), False),
    "touched files": (new_times, 0, set(), False),
    "a notebook": (comment_in_notebook, 0, STEPS, True),
    "a module of one page": (change("paper/steps.py", '"""', '"""A'), 0, STEPS, True),
    "a module of all": (change("rbplib/law.py", '"""', '"""A'), 0, PAGES, True),
    "a file that all read": (
        lambda clone: append(clone / "notebooks/words.md", "x"), 0, PAGES, True),
    "a family": (change("families/demo.yml", "The demo", "A"), 0, DEMO, True),
    "a table": (another_table, 0, OTHER, True),
    "a table that is gone": (
        lambda clone: next(clone.glob("results/ranks/other/*/*.parquet")).unlink(), 1, OTHER, True),
    "a page by hand": (
        change("book/_executed/demo/01_first.ipynb", "notes", "Notes"), 0, {"demo/01_first"}, True),
    "a cut page": (
        lambda clone: (clone / "book/_executed/demo/01_first.ipynb").write_text("{"),
        0, {"demo/01_first"}, True),
    "a page of no notebook": (
        lambda clone: shutil.copy(clone / "book/_executed/demo/01_first.ipynb",
                                  clone / "book/_executed/all/17_old.ipynb"), 0, set(), True),
    "HTML": (lambda clone: append(clone / "_build/html/index.html", " "), 0, set(), True),
    "prose": (lambda clone: append(clone / "book/intro.md", "More."), 0, set(), True),
}  # fmt: skip
REPLACED = {  # the same, where tables of another record are measured again
    "a corpus": (lambda clone: append(clone / "corpora/notes.yml", "documents: 4\n"), 3, PAGES),
    "a weight": (
        lambda clone: save_model(clone / "models/m2", seed=9, words=tokenizer()), 1, OTHER),
}  # fmt: skip


@pytest.mark.parametrize("edit", MATRIX)
def test_what_runs_again_after_an_edit(clone, edit):
    how, *expected = MATRIX[edit]
    how(clone)
    assert planned() == tuple(expected)


@pytest.mark.parametrize("texts", [(), ("docs",)])
def test_models_trained_again_are_read_on_the_texts_of_their_family(texts):
    (family, corpora), repeats = pages.ladders_of(load_family("nano-gpt2").path, texts)
    assert corpora and repeats == (load_family(family.repeats), corpora)


def test_an_unchanged_book_is_named_without_snakemake(clone, capsys, monkeypatch):
    monkeypatch.setattr("snakemake.cli.main", lambda words: 1 / 0)
    assert book.main(WORDS) == 0 and "as it was" in capsys.readouterr().out


def test_embedded_models_that_lack_a_table_are_measured_in_forks(clone, built):
    for path in clone.glob("results/ranks/demo/m0/*.parquet"):
        path.unlink()
    measure_small(clone)
    assert contents(clone / "results/ranks") == contents(built[0] / "results/ranks")


@pytest.mark.parametrize("edit", REPLACED)
def test_a_table_of_another_record_is_measured_again_only_where_asked(clone, edit):
    how, *expected = REPLACED[edit]
    how(clone)
    with pytest.raises(InputError, match="replace"):
        planned()
    assert planned(replace=True) == (*expected, True)


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder): path.read_bytes() for path in files}


# ---- pages without a kernel

EVERYTHING = r"""
print("one"); import sys; print("two", file=sys.stderr)
display({"text/plain": "shown"}, raw=True); print("three")
import pandas; display(pandas.DataFrame({"a": [1]}))
!echo four
x = await __import__("asyncio").sleep(0, "five"); x"""
FIGURE = "from matplotlib import pyplot\npyplot.plot([1, 2]);"


def test_a_page_in_a_fork_shows_what_a_kernel_shows(clone):
    """Prints, displays, values, figures, another program's output, in their order."""
    add_page(clone, "03_all", EVERYTHING)
    path = clone / "notebooks/03_all.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells += [nbformat.v4.new_code_cell(FIGURE), nbformat.v4.new_code_cell("__name__")]
    nbformat.write(notebook, path)
    # a process of its own: here other tests may have chosen where figures go
    run = python("-m", "workflow.pages", "--page", "03_all", *ALONE)
    assert run.returncode == 0, run.stderr
    made = nbformat.read(clone / "book/_executed/demo/03_all.ipynb", 4)
    import papermill

    options = {"parameters": {"corpora": ["notes"], "family": "demo"}, "progress_bar": False}
    papermill.execute_notebook(pages.for_family(path), clone / "out.ipynb", **options)
    by_kernel = nbformat.read(clone / "out.ipynb", 4)
    for cell in by_kernel.cells:
        if cell.cell_type == "code":  # which a fork's goes to its log
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    pages.tidy(by_kernel, "demo")
    del made.metadata["rbp"]
    assert nbformat.writes(made) == nbformat.writes(by_kernel)
    kinds = [output.output_type for cell in made.cells for output in cell.get("outputs", ())]
    values = "stream execute_result display_data execute_result".split()
    assert kinds == ["stream", "display_data", "stream", "display_data", *values]


FAULTS = {  # code of a page: what is said of it
    "1 / 0": "failed in cell 2 (ZeroDivisionError: division by zero)",
    "import sys; sys.exit()": "failed in cell 2 (SystemExit: )",
    "exit()": "failed in cell 2 (SystemExit: )",
    "import os; os._exit(0)": "ended before its end, with exit code 0",
    "import os; os.kill(os.getpid(), 9)": "was killed by the system",
    "x = (": "failed in cell 2 (SyntaxError: ",
    "raise ValueError('a\\x1b[2Jb\\x07')": "(ValueError: a?[2Jb?)",
    "import os; os.write(2, b'\\x1b[2Jnone'); os._exit(3)": "?[2Jnone",
    "from rbplib import InputError; raise InputError('no \\x1b!')": "no ?!",
}


def test_a_page_that_does_not_come_to_its_end_says_why_and_is_none(clone, capfd, monkeypatch):
    for number, code in enumerate(FAULTS):
        add_page(clone, f"bad{number}", code)
    (clone / "book/_executed/demo/01_first.ipynb").unlink()
    monkeypatch.setattr(pages, "prepare", lambda: None)  # which changes this process
    assert pages.main(["demo", "--book", json.dumps(SETTINGS)]) == 1
    out, err = capfd.readouterr()
    names, end = [f"demo/bad{number}" for number in range(len(FAULTS))], 0
    for words in FAULTS.values():
        end = err.index(words, end) + 1
    assert err.endswith(f"rbp: not made: {', '.join(names)}\n")
    assert all(f"rbp: {name}" in err for name in names)
    assert not re.search(r"Traceback|\x1b|\x07", out + err)
    assert [path.stem for path in clone.glob("book/_executed/demo/*")] == ["01_first"]


def test_a_family_by_path_leaves_no_folder_on_its_page(clone):
    (clone / "else where").mkdir()
    add_page(clone, "03_one", "import paper.steps")
    words = ["--page", "03_one"]
    for option, source in {
        "--family": "families/demo.yml",
        "--corpus": "corpora/notes.yml",
    }.items():
        path = clone / "else where" / f"my {Path(source).name}"
        shutil.copy(clone / source, path)
        append(path, f"name: {option[2:]}\n")
        words += [option, str(path)]
    assert pages.main(words) == 0
    text = (clone / "book/_executed/family/03_one.ipynb").read_text()
    assert "else where" not in text and text.count("my demo.yml") == text.count("my notes.yml") == 2


def test_a_named_family_joins_the_embedded_ones_and_changes_none_of_their_pages(clone):
    for name in ("09_families", "13_findings"):
        add_page(clone, name, "print(families)", TOGETHER)

    def listed(*families, only=False):
        forget()
        book = pages.pages(families=families, corpora=["notes"] if families else (), only=only)
        return {f"{p.folder}/{p.name}": (p, pages.made_of(p)) for p in book}

    alone, named, only = listed(), listed("other"), listed("other", only=True)
    assert {name: named[name] for name in alone} == alone
    assert named["other/09_families"][0].parameters["families"] == ["demo", "other"]
    assert not [path for path in named["all/13_findings"][0].after if path.parent.name == "other"]
    assert not [name for name in only if name.startswith("demo")]
    assert only["all/09_families"][0].parameters["families"] == ["other"]
    # a label of a text that is not here
    take(export_family("demo", clone / "demo.ranks", ["notes"]), "theirs")
    (clone / "corpora/notes.yml").unlink()
    page, _ = listed("theirs", only=True)["theirs/01_first"]
    assert page.parameters["corpora"] == ["notes"]


def test_a_page_on_a_model_of_others_is_there_once_one_is_measured(clone):
    real = 'real: str = "families/third.yml"  # whose largest model is compared'
    add_page(clone, "real_model", "print(real)", real)
    third = (clone / "families/other.yml").read_text().replace("other", "third")
    (clone / "families/third.yml").write_text(third)
    assert "all/real_model" not in planned()[1]
    shutil.copytree(clone / "results/ranks/other", clone / "results/ranks/third")
    assert "all/real_model" in planned()[1]


# ---- what is refused, and what befalls a book


@pytest.mark.parametrize("words", ["--family dmo", "--corpus nots", "--jobs 0", "--gpus -1"])
def test_bad_options_are_refused_before_anything_runs(clone, words, capsys):
    with pytest.raises(SystemExit) as end:
        sys.exit(book.main(words.split()))
    err = capsys.readouterr().err
    assert end.value.code == 2 and words.split()[1] in err and err.count("\n") == 1


def test_a_setting_that_no_page_has_is_refused_before_anything_runs(clone):
    with pytest.raises(InputError, match="n_bootstrp"):
        planned(n_bootstrp=9)


def test_folders_change_places_where_the_system_cannot_exchange_them(tmp_path, monkeypatch):
    new, old = tmp_path / "new", tmp_path / "old"
    for folder in (new, old):
        folder.mkdir()
        (folder / "page").write_text(folder.name)
    for words in ("new", "old"):
        book.exchange(new, old)
        assert (old / "page").read_text() == words
        monkeypatch.setattr(book.ctypes, "CDLL", lambda name: object())


WAIT = "import os, time\nopen(f'page-{os.getpid()}', 'w')\ntime.sleep(600)"


def stopped(clone, number, *words):
    """Exit code of a program that is ended by a signal while a page waits; of that page, and half
    written, nothing is there."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", *words]
    run = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    while run.poll() is None and not list(clone.glob("page-*")):
        time.sleep(0.1)
    if "book" in words:
        second = make(clone)  # beside a running one
        assert second.returncode == 2 and "another process makes this book" in second.stderr
    os.killpg(run.pid, number)
    assert run.wait() != 0
    assert not [path for path in clone.rglob("*.tmp") if "snakemake" not in str(path)]
    assert not list(clone.glob("book/_executed/*/03_wait.ipynb"))


def test_a_page_that_is_stopped_is_none(clone):
    add_page(clone, "03_wait", WAIT)
    stopped(clone, signal.SIGINT, "workflow.pages", "--page", "03_wait", *ALONE)


def test_a_book_that_is_stopped_leaves_whole_pages_and_another_goes_on(clone, built, monkeypatch):
    """After a kill, and edits of what it had made, by the same bytes; what cannot be built leaves
    the HTML of before in its place."""
    before = contents(clone / "_build/html")
    sources = {path: path.read_text() for path in (clone / "book").glob("*.*")}
    shutil.rmtree(clone / "book/_executed/all")
    add_page(clone, "03_wait", WAIT, TOGETHER)
    stopped(clone, signal.SIGKILL, "rbplib", "book", *WORDS, "--jobs", "2")
    # no process tidied up
    (clone / "notebooks/03_wait.ipynb").unlink()
    for edit in ("a page by hand", "a page of no notebook"):
        MATRIX[edit][0](clone)
    append(clone / "book/intro.md", "\n{doc}`nowhere`\n")
    done = make(clone)
    assert done.returncode == 1 and "nowhere" in done.stderr and "[0 of" in done.stdout
    assert contents(clone / "book/_executed") == contents(built[0] / "book/_executed")
    # a full disk: no file may grow beyond a few kB
    (clone / "book/intro.md").write_text("# Another\n")
    limit = ["-c", "import resource as r, runpy; r.setrlimit(r.RLIMIT_FSIZE, (4096, 4096)); "
             "runpy.run_module('workflow.book', run_name='__main__')", "--html"]  # fmt: skip
    assert python(*limit, cwd=ROOT).returncode == 1
    for path, text in sources.items():
        path.write_text(text)
    assert contents(clone / "_build/html") == before
    assert planned() == (0, set(), False)


def test_a_link_in_place_of_the_temporary_folder_is_told_and_followed_by_none(empty_root, capsys):
    (empty_root / "logs").mkdir()
    (empty_root / "logs/tmp").symlink_to(empty_root / "families")
    assert book.main([]) == 2
    assert "logs/tmp cannot be made anew" in capsys.readouterr().err
    assert (empty_root / "families").is_dir()


def test_each_command_has_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    tell = "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); sys.stdin.read()"
    command = [sys.executable, "-m", "workflow.gpus", "2", sys.executable, "-c", tell]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    running, numbers = [], []
    for _ in range(3):
        if running[1:]:
            running[0].communicate()  # its end frees its GPU
        running.append(subprocess.Popen(command, **pipes))
        numbers.append(running[-1].stdout.readline().strip())
    assert sorted(numbers[:2]) == ["3", "5"] and numbers[2] == numbers[0]
    for process in running[1:]:
        process.communicate()
