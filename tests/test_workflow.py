"""The workflow on a small root: what runs, what runs again after an edit, what it refuses."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from notebookfiles import write_notebook
from smallmodels import save_model, tokenizer

from rbplib import InputError
from rbplib.doors import export_family
from rbplib.measuring import measured
from tests.commands import ROOT, take
from workflow import book, html, page

PER_FAMILY = "family: str = 'demo'  # a name\ncorpora: list = []"
TOGETHER = "families: list = []  # names\ncorpora: list = []"
SETTINGS = {"families": ["demo", "other"], "corpora": ["notes"]}
MEASURE = """
from rbplib.measuring import measured
tables = measured(family, corpora)
print({name: [len(t) for t in ts] for name, ts in tables.items()})
"""
CONFIG = """
title: Small
execute: {execute_notebooks: "off"}
exclude_patterns: [_build, "**/all/09_all.ipynb"]
sphinx: {config: {include_patterns: ["book/**"], suppress_warnings: [etoc.toctree]}}
"""


def write_root(place):
    """Two families of three tiny models, one text and three notebooks."""
    for folder in ("families", "notebooks", "book"):
        (place / folder).mkdir()
    for folder in ("rbplib", "paper", "corpora"):
        shutil.copytree(
            ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__", "*.yml")
        )

    # three tiny models, two families of them, one text
    words = tokenizer()
    for number in range(3):
        save_model(place / f"models/m{number}", seed=number, words=words)
    for family, numbers in {"demo": (0, 1), "other": (2,)}.items():
        models = ", ".join(f"models/m{n}" for n in numbers)
        entry = f"title: The {family} family\ncontext: 32\ndtype: float32\nmodels: [{models}]\n"
        (place / f"families/{family}.yml").write_text(entry)
    lines = [json.dumps({"text": f"document number {i} of the notes"}) for i in range(6)]
    (place / "notes.jsonl").write_text("\n".join(lines) + "\n")
    (place / "corpora/notes.yml").write_text("title: Notes\npath: notes.jsonl\n")

    # a page of tables, one that uses a module of paper/, one of all families
    write_notebook(place / "notebooks/01_first.ipynb", MEASURE, PER_FAMILY)
    write_notebook(place / "notebooks/02_steps.ipynb", "import paper.steps", PER_FAMILY)
    write_notebook(place / "notebooks/09_all.ipynb", "print(families)", TOGETHER)
    (place / "_config.yml").write_text(CONFIG)
    (place / "_toc.yml").write_text("format: jb-book\nroot: book/intro\n")
    (place / "book/intro.md").write_text("# Small\n")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A small root, measured, run and built once."""
    place = tmp_path_factory.mktemp("flow")
    write_root(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(place))
        patch.setenv("PYTHONPATH", str(ROOT))
        measured("demo", ["notes"], progress=False)  # here, without the start; `other` by its step
        book.make_book(**SETTINGS, show=False)
        yield place


def planned(place, **settings):
    """Names of the steps that a dry run would do: "measure demo", "demo/01_first", "html"."""
    from snakemake import cli

    steps, errors = set(), []

    class Listener(logging.Handler):
        def emit(self, record):
            if getattr(record, "event", None) == "job_info" and record.rule_name != "all":
                output = Path(next(iter(record.output)))
                name = f"{output.parent.name}/{output.stem}"
                measured = record.rule_name.startswith("measure")
                steps.add(f"measure {output.parts[-3]}" if measured else name)
            elif record.levelno >= logging.ERROR:
                errors.append(record.getMessage())

    logger, here = logging.getLogger("snakemake"), os.getcwd()
    logger.handlers = [Listener()]
    page.imported_files.cache_clear()
    values = [f"{key}={json.dumps(value)}" for key, value in (SETTINGS | settings).items()]
    arguments = ["--snakefile", ROOT / "workflow/Snakefile", "--directory", place, "--cores", 1]
    arguments += ["--profile", ROOT / "workflow/profiles/default", "-n", "--quiet", "all"]
    try:
        cli.main([*map(str, arguments), "--config", *values])
    except SystemExit as end:
        if end.code:
            raise InputError("\n".join(errors)) from None
    finally:
        logger.handlers = []
        os.chdir(here)
    return steps


STEPS = {"demo/02_steps", "other/02_steps"}
PAGES = STEPS | {"demo/01_first", "other/01_first", "all/09_all"}
DEMO = {"demo/01_first", "demo/02_steps", "all/09_all"}
FRONT = {"html/index"}
FIRST = {"demo/01_first"} | FRONT
OTHER = {"measure other", "other/01_first", "other/02_steps", "all/09_all"} | FRONT


def append(path, text):
    path.write_text(path.read_text() + text)


def comment_in_notebook(place):
    notebook = nbformat.read(place / "notebooks/02_steps.ipynb", 4)
    notebook.cells[-1].source += "\n# a comment"
    nbformat.write(notebook, place / "notebooks/02_steps.ipynb")
    # one of its pages was made by a clock that ran ahead
    os.utime(place / "book/_executed/demo/02_steps.ipynb", (2**32, 2**32))


def family_title(place):
    path = place / "families/demo.yml"
    path.write_text(path.read_text().replace("The demo family", "Another"))


def new_time(place):
    for path in (
        *place.glob("notebooks/*"),
        *place.glob("rbplib/*.py"),
        *place.glob("results/ranks/*/*/*"),
    ):
        os.utime(path)


RUN = "logs/runs/demo-01_first.json"
EDITS = {  # what is edited: (how, the steps that run again)
    "nothing": (lambda place: None, set()),
    "a touched file": (new_time, set()),
    "a comment in a notebook": (comment_in_notebook, STEPS | FRONT),
    "a module of one page": (
        lambda place: append(place / "paper/steps.py", "# a remark\n"),
        STEPS | FRONT,
    ),
    "a module of all": (
        lambda place: append(place / "rbplib/law.py", "# a remark\n"),
        PAGES | FRONT,
    ),
    "a family's YAML": (family_title, DEMO | FRONT),
    "a table": (
        lambda place: next(place.glob("results/ranks/other/m2/*")).unlink(),
        OTHER,
    ),
    "a cut record of a run": (
        lambda place: append(place / RUN, "}"),
        FIRST,
    ),
    "a folder in place of a record of a run": (
        lambda place: (place / RUN).unlink() or (place / RUN).mkdir(),
        FIRST,
    ),
    "a page": (
        lambda place: append(place / "book/_executed/demo/01_first.ipynb", " "),
        FIRST,
    ),
    "a page of HTML": (
        lambda place: append(place / "_build/html/index.html", "<p>more</p>"),
        FRONT,
    ),
    "a page run alone": (
        lambda place: page.run_notebook("01_first", "demo", {"corpora": ["notes"]}),
        FIRST,
    ),
}
REPLACED = {  # what is edited: (how, the steps that measure again where that is asked for)
    "a corpus": (
        lambda place: append(place / "corpora/notes.yml", "documents: 4\n"),
        {"measure demo", "measure other"} | PAGES | FRONT,
    ),
    "a weight": (
        lambda place: save_model(place / "models/m2", seed=9, words=tokenizer()),
        OTHER,
    ),
}


@pytest.fixture
def place(request, built, tmp_path, monkeypatch):
    """A copy of the root as a fresh clone with copied results has it, of new times and without
    records of Snakemake, or whole."""
    clone = getattr(request, "param", True)
    ignore = shutil.ignore_patterns(".snakemake", "triggers") if clone else None
    copy = shutil.copyfile if clone else shutil.copy2
    place = shutil.copytree(built, tmp_path / "copy", ignore=ignore, copy_function=copy)
    monkeypatch.setenv("RBP_ROOT", str(place))
    return place


@pytest.mark.parametrize("place", [True, False], indirect=True)
@pytest.mark.parametrize("edit", EDITS)
def test_what_runs_again_after_an_edit(place, edit):
    change, steps = EDITS[edit]
    change(place)
    assert planned(place) == steps


@pytest.mark.parametrize("edit", REPLACED)
def test_a_table_of_another_record_is_measured_again_only_where_asked(place, edit):
    change, steps = REPLACED[edit]
    change(place)
    with pytest.raises(InputError, match="replace"):
        planned(place)
    assert planned(place, replace=True) == steps


def test_a_book_with_a_warning_leaves_the_one_before_in_its_place(place):
    before = html.manifest(None)["html"]
    append(place / "book/intro.md", "\n{doc}`nowhere`\n")
    with pytest.raises(RuntimeError, match="nowhere"):
        html.build_html()
    assert html.manifest(None)["html"] == before


def test_two_runs_give_the_same_pages(place, built, monkeypatch):
    # the second by a kernel that dies the first time, as where another process takes its port
    begin = f"mkdir once 2>&- && exit; exec {sys.executable} -m ipykernel_launcher $@"
    words = ["sh", "-c", begin, "sh", "-f", "{connection_file}"]
    about = {"argv": words, "display_name": "once", "language": "python"}
    page.write_text(place / "kernels/python3/kernel.json", json.dumps(about))
    monkeypatch.setenv("JUPYTER_PATH", str(place))
    monkeypatch.chdir(place)  # as the workflow runs
    before = page.page_path("01_first", "demo").read_bytes()
    page.page_path("01_first", "demo").unlink()
    given = page.kept(built / "logs/triggers/book-_executed-demo-01_first.ipynb.json")
    page.run_notebook("01_first", "demo", parameters=given["parameters"], given=given)
    assert page.page_path("01_first", "demo").read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"n_bootstrp": 9}, "n_bootstrp"),
        ({"families": ["dmo"]}, "dmo"),
        ({"corpora": ["nots"]}, "nots"),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(place, settings, names):
    with pytest.raises(InputError, match=names):
        planned(place, **settings)


def test_fewer_than_one_core_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        book.main(["--jobs", "0"])
    assert "--jobs cannot be 0: give 1 or more" in capsys.readouterr().err


def test_a_named_family_joins_the_embedded_ones_and_changes_none_of_their_pages(place):
    append(place / "families/demo.yml", "embedded: true\ncorpora: [notes]\n")
    for name in ("11_families", "17_findings"):
        write_notebook(place / f"notebooks/{name}.ipynb", "print(families)", TOGETHER)
    page.parameter_defaults.cache_clear()

    def shown(name):
        given = page.kept(place / f"logs/triggers/book-_executed-{name}.ipynb.json")
        own = given["parameters"].get("families")
        return given["families"], own, len(given["tables"]), given["corpora"]

    alone = planned(place, families=[], corpora=[])
    apart = shown("all-11_families"), shown("all-17_findings")
    assert planned(place, families=["other"], corpora=["notes"]) >= {"other/11_families"} | alone
    assert apart == (shown("all-11_families"), shown("all-17_findings"))
    assert apart[0][:3] == (["demo"], None, 2)
    assert shown("other-11_families")[:3] == (["demo", "other"], ["demo", "other"], 3)
    given = page.kept(place / "logs/triggers/book-_executed-all-17_findings.ipynb.json")
    assert not [path for path in given["pages"] if "/other/" in path]
    assert (
        planned(place, families=["demo"], corpora=[]) == alone
    )  # an embedded one is there already
    given = page.kept(place / "logs/triggers/book-_executed-other-11_families.ipynb.json")
    joined = page.run_notebook("11_families", "other", given["parameters"], given)
    assert joined == place / "book/_executed/other/11_families.ipynb"
    assert "(other)" in joined.read_text() and page.is_current(joined, given)
    assert not [s for s in planned(place, families=["other"], only=True) if s.startswith("demo")]
    assert shown("all-11_families")[:2] == (["other"], ["other"])
    # repeats are measured on every text asked for, and shown on the family's own alone
    shutil.copy(place / "corpora/notes.yml", place / "corpora/more.yml")
    shutil.copy(place / "families/other.yml", place / "families/again.yml")
    append(place / "families/demo.yml", "repeats: again\n")
    planned(place, families=[], corpora=[])
    apart = shown("all-11_families")
    planned(place, families=["other"], corpora=["more"])
    assert apart[0] == ["demo", "again"] and shown("all-11_families") == apart
    # a label of a text that is not here
    take(export_family("demo", place / "demo.ranks", ["notes"]), "theirs")
    (place / "corpora/notes.yml").unlink()
    steps = planned(place, families=["theirs"], corpora=["notes"], only=True)
    assert "theirs/01_first" in steps
    assert page.found(["notes"], "theirs") == ["notes"]


def test_a_page_on_a_model_of_others_is_there_once_one_is_measured(place):
    real = 'real: str = "families/third.yml"  # whose largest model is compared'
    write_notebook(place / "notebooks/17_real.ipynb", "print(real)", real)
    third = (place / "families/other.yml").read_text().replace("other", "third")
    (place / "families/third.yml").write_text(third)
    left = place / "book/_executed/all/17_real.ipynb"  # of a run before
    left.write_text("{}")
    page.parameter_defaults.cache_clear()
    assert "all/17_real" not in planned(place) and left.exists()  # a plan removes nothing
    shutil.copytree(place / "results/ranks/other", place / "results/ranks/third")
    assert "all/17_real" in planned(place)


def test_each_command_has_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    tell = "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); sys.stdin.read()"
    command = [sys.executable, "-m", "workflow.gpus", "2", sys.executable, "-c", tell]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    first, second = (subprocess.Popen(command, **pipes) for _ in range(2))
    numbers = [process.stdout.readline().strip() for process in (first, second)]
    assert sorted(numbers) == ["3", "5"]
    third = subprocess.Popen(command, **pipes)
    first.communicate()  # its end frees its GPU
    assert third.stdout.readline().strip() == numbers[0]
    third.communicate()
    second.communicate()


def test_a_family_by_path_leaves_no_folder_on_its_page(place, capfd):
    mine = place / "else where/mine.yml"
    mine.parent.mkdir()
    shutil.copy(place / "families/demo.yml", mine)
    notes = place / "else where/own.yml"
    shutil.copy(place / "corpora/notes.yml", notes)
    write_notebook(place / "notebooks/03_plain.ipynb", "print(1)", PER_FAMILY)
    assert page.main(["03_plain", "--family", str(mine), "--corpus", str(notes)]) == 0
    printed = capfd.readouterr()
    text = Path(printed.out.strip()).read_text()
    assert "else where" not in text and text.count("mine.yml") == text.count("own.yml") == 2
    assert printed.err == ""  # no word of the kernel's


def test_steps_that_the_system_kills_are_named(place):
    for process in ("getppid", "getpid"):  # of the page, and its kernel
        kill = f"import os, signal\nos.killpg(0, 0)\nos.kill(os.{process}(), signal.SIGKILL)"
        write_notebook(place / f"notebooks/03_{process}.ipynb", kill, PER_FAMILY)
    with pytest.raises(RuntimeError) as error:
        book.make_book(["demo"], show=False, corpora=["notes"], jobs=2)
    named = re.findall(r"running 03_(\w+) for demo.*killed", str(error.value))
    assert sorted(named) == ["getpid", "getppid"]


def test_pages_are_forks_of_one_process_that_ends_with_a_killed_book(place):
    wait = "import os, time\nopen(f'page-{os.getpid()}-{os.getppid()}', 'w')\n"
    wait += "while not os.path.exists('go'):\n    time.sleep(0.1)"
    for name in ("03_one", "04_two"):
        write_notebook(place / f"notebooks/{name}.ipynb", wait, PER_FAMILY)
    code = "from workflow.book import make_book; make_book(['demo'], ['notes'], False, 2)"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    while process.poll() is None and len(list(place.glob("page-*"))) < 2:
        time.sleep(0.1)
    pids = [int(pid) for path in place.glob("page-*") for pid in path.name.split("-")[1:]]
    processes = [psutil.Process(pid) for pid in pids]
    (parent,) = {page.parent() for page in processes[1::2]}
    process.kill()
    (place / "go").touch()
    assert psutil.wait_procs([parent, *processes], timeout=60)[1] == []


def test_a_page_says_itself_what_it_cannot_import(place):
    (place / "papermill.py").write_text("import nothing_here")
    write_notebook(place / "notebooks/03_one.ipynb", "1", PER_FAMILY)
    with pytest.raises(RuntimeError, match="No module named 'nothing_here'"):
        book.make_book(["demo"], show=False, corpora=["notes"])


def test_a_book_that_is_stopped_blames_no_step(place, monkeypatch):
    monkeypatch.setenv("BOOK_PROCESS", str(os.getpid()))
    stop = "import os, signal, time\nos.kill(int(os.environ['BOOK_PROCESS']), signal.SIGTERM)\n"
    write_notebook(place / "notebooks/03_bad.ipynb", stop + "time.sleep(60)", PER_FAMILY)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    others = set(psutil.Process().children(recursive=True))
    try:
        with pytest.raises(KeyboardInterrupt):
            book.make_book(["demo"], show=False, corpora=["notes"])
    finally:
        for number, action in before.items():
            signal.signal(number, action)
    steps = set(psutil.Process().children(recursive=True)) - others
    assert psutil.wait_procs(steps, timeout=30)[1] == []


def test_a_book_where_a_page_fails_is_made_of_the_rest_and_leaves_nothing_outside(
    place, tmp_path, monkeypatch
):
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("TMPDIR", "JUPYTER_RUNTIME_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(outside))
    left = place / "logs/tmp/snakemake0/kernel-1.json"  # of a book that was killed
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    # a page says where it writes what it does not keep, and ends with its whole book
    kill = "import os, tempfile\nopen('where', 'w').write(tempfile.mkdtemp())\n"
    kill += "open('runtime', 'w').write(os.environ['JUPYTER_RUNTIME_DIR'])\n1 / 0"
    write_notebook(place / "notebooks/03_bad.ipynb", kill, PER_FAMILY)
    (place / "_build/html/index.html").unlink()
    # of a run before, where a model of others was here
    real = 'real: str = "families/other.yml"  # whose largest model is compared'
    write_notebook(place / "notebooks/17_real.ipynb", "print(real)", real)
    shutil.rmtree(place / "results/ranks/other")
    absent = place / "book/_executed/all/17_real.ipynb"
    absent.write_text("{}")
    page.parameter_defaults.cache_clear()
    with pytest.raises(RuntimeError, match="03_bad.*ZeroDivisionError"):
        book.make_book(["demo"], show=False, corpora=["notes"], keep_going=True, jobs=1)
    assert not absent.exists() and not page.page_path("03_bad", "demo").exists()
    assert (place / "_build/html/index.html").is_file()
    said = [(place / name).read_text() for name in ("where", "runtime")]
    assert all(s.startswith(str(place / "logs/tmp")) for s in said)
    assert not (place / "logs/tmp").exists() and os.environ["TMPDIR"] == str(outside)
    assert not [p for p in outside.rglob("*") if p.is_file() and "snakemake" in str(p)]


def test_a_link_in_place_of_the_temporary_folder_is_told_and_followed_by_none(empty_root):
    (empty_root / "logs").mkdir()
    (empty_root / "logs/tmp").symlink_to(empty_root / "families")
    with pytest.raises(InputError, match="logs/tmp cannot be made anew"):
        book.make_book()
    assert (empty_root / "families").is_dir()


def test_a_step_that_names_the_command_is_not_named_twice(capsys):
    def step():
        raise RuntimeError("rbp: there is no text.\nThe whole log is book.log")

    assert page.ended(step) == 1
    assert capsys.readouterr().err == "rbp: there is no text.\nThe whole log is book.log\n"


def test_one_page_leads_to_every_page_of_every_family(built):
    text = (built / "_build/html/book/_executed/all/families.html").read_text()
    article = text.split("<article", 1)[1].split("</article>")[0]
    links = re.findall(r'href="../(\w+/\w+).html"', article)
    assert links == sorted(PAGES - {"all/09_all"}) and "The demo family" in article


@pytest.mark.parametrize("name", ["a{b}", "a;b"])
def test_names_that_are_read_as_more_are_refused(monkeypatch, tmp_path, name):
    monkeypatch.setenv("RBP_ROOT", str(tmp_path / name))
    with pytest.raises(InputError, match="takes no"):
        book.refuse_names(r"[{};]")
