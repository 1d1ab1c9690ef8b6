"""What runs again after one change: on a small root whose tables and pages are planted by dry runs."""

import json
import logging
import os
import re
import shlex
import shutil
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebookfiles import KERNEL

from corpora import make as packages
from rbplib import families as settings
from rbplib import identity
from rbplib.texts import sample_path, texts_digest
from workflow import html, notebooks

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {  # name: (its parameters, what it imports)
    "01_first": ("family: str = 'demo'\ncorpora: list = []\nn_bootstrap: int = 9", "rbplib.law"),
    "02_models": ("family: str = 'demo'\ncorpora: list = []", "rbplib.windows, rbplib.models"),
    "09_families": ("families: list = []\ncorpora: list = []", "paper.evidence"),
    "10_published": ("seed: int = 1", "paper.published"),
    "11_precision": ("family: str = 'demo'\ncorpora: list = []", "paper.precision"),
    "12_train_your_own": ("family: str = 'demo'\nseed: int = 1", "training.live"),
}
CONFIG = ["--config", "corpora=docs,notes"]


class Jobs(logging.Handler):
    """The jobs that Snakemake tells: {"notebook demo/01_first", "measure demo/small", ...}."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.found, self.inputs, self.made_of, self.needs = set(), {}, {}, {}
        self.words, self.commands = [], []

    def emit(self, record):
        if getattr(record, "event", None) == "job_info" and record.rule_name != "all":
            rule, output = record.rule_name.split("__")[0], Path(list(record.output)[0])
            parts = output.parts[-3:-1] if rule == "measure" else (output.parent.name, output.stem)
            name = "/".join(parts)
            self.found.add(rule if rule == "html" else f"{rule} {name}")
            self.needs[name] = {**dict(record.resources.items()), "threads": record.threads}
            self.commands.append(record.shellcmd or "")
            self.inputs[output.stem] = [str(p).split(" ")[0] for p in record.input]
            self.made_of[name] = m[1] if (m := re.search(r"--made-of (\S+)", record.shellcmd or "")) else None
        elif record.levelno >= logging.ERROR:
            self.words.append(record.getMessage())


def flow(place, *more):
    from snakemake import cli

    jobs, logger, here = Jobs(), logging.getLogger("snakemake"), os.getcwd()
    logger.handlers = [jobs]
    profile = ["--profile", ROOT / "workflow/profiles/default", "--cores", "2", "--quiet", "all", "--nolock"]
    try:
        cli.main(list(map(str, ["--snakefile", ROOT / "workflow/Snakefile", "--directory", place, *profile, *more])))
    except SystemExit as end:
        assert not end.code, jobs.words
    finally:
        logger.handlers = []
        os.chdir(here)
    return jobs


def page(place, family, name):
    return place / "book/_executed" / family / f"{name}.ipynb"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A root with two families, models trained again, texts of two kinds, and everything made once."""
    pytest.importorskip("snakemake")
    place, patch = tmp_path_factory.mktemp("reruns"), pytest.MonkeyPatch()
    for folder in ("families", "corpora", "notebooks", "book", "published", "models/local"):
        (place / folder).mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "rbplib", place / "library/rbplib", ignore=ignored)
    shutil.copytree(ROOT / "training", place / "training", ignore=ignored)
    for name in ("_config.yml", "_toc.yml", "published/lambada.csv", "book/claims.yml", "book/glossary.md"):
        shutil.copy(ROOT / name, place / name)
    (place / "models/local/config.json").write_text('{"model_type": "gpt2"}')
    models = [{"id": "a/small"}, {"id": "a/middle"}, {"id": "models/local", "name": "large"}]
    said = {"embedded": True, "title": "A", "note": "n", "context": 256, "models": models}
    (place / "families/demo.yml").write_text(yaml.safe_dump(said | {"repeats": "again"}))
    (place / "families/other.yml").write_text(yaml.safe_dump(said))
    (place / "families/again.yml").write_text(yaml.safe_dump({"context": 256, "models": [{"id": "b/s1"}]}))
    (place / "corpora/docs.yml").write_text("source: embedded\nkind: docs\ntitle: Docs\n")
    (place / "corpora/notes.yml").write_text("path: notes.txt\ntitle: Notes\n")
    (place / "notes.txt").write_text("Some words.\n\nMore words.\n")
    for name, (said, modules) in NOTEBOOKS.items():
        cell = new_code_cell(said, metadata={"tags": ["parameters"]})
        cells = [new_markdown_cell("# T"), cell, new_code_cell(f"import {modules}")]
        nbformat.write(new_notebook(cells=cells, metadata=KERNEL), place / f"notebooks/{name}.ipynb")
    patch.setenv("RBP_ROOT", str(place))
    patch.setenv("RBP_RESULTS", str(place / "results"))
    patch.setattr(settings, "__file__", str(place / "library/rbplib/families.py"))
    patch.setattr(notebooks, "_execute", lambda source, ran, given: notebooks.for_family(source))
    kept = sample_path(settings.load_corpus("docs"))
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"texts": ["words"], "digest": texts_digest(["words"])}))
    for family in ("demo", "other", "again"):
        expect = identity.expected(*identity.asked(family, None, ["docs", "notes"]))
        for path in (identity.ranks_path(e) for of_model in expect.values() for e in of_model):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    first = flow(place, *CONFIG, "-n")
    for name in (job.split(" ")[1] for job in first.found if job.startswith(("notebook", "together"))):
        family = name.split("/")[0]
        notebooks.run_notebook(name.split("/")[1], None if family == "all" else family, made_of=first.made_of[name])
    (place / "_build/html").mkdir(parents=True)
    (place / "_build/html/index.html").touch()
    flow(place, *CONFIG, "--touch", "--forceall")
    yield place
    patch.undo()


def test_nothing_changed_runs_nothing(built):
    assert flow(built, *CONFIG, "-n").found == set()


def test_a_root_that_was_moved_runs_no_page(built, monkeypatch, tmp_path):
    moved = shutil.copytree(built, tmp_path / "elsewhere", copy_function=shutil.copy2)
    monkeypatch.setenv("RBP_ROOT", str(moved))
    monkeypatch.setenv("RBP_RESULTS", str(moved / "results"))
    monkeypatch.setattr(settings, "__file__", str(moved / "library/rbplib/families.py"))
    assert flow(moved, *CONFIG, "-n").found <= {"html"}


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path.name} does not say {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def in_yaml(path, change):
    said = yaml.safe_load(path.read_text())
    change(said)
    path.write_text(yaml.safe_dump(said))


def in_page(path, change):
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))


def remark(path):
    path.write_text(path.read_text(encoding="utf-8") + "\n# another line\n", encoding="utf-8")


def family(name, change):
    return f"families/{name}.yml", lambda path: in_yaml(path, change)


def corpus(name, change):
    return f"corpora/{name}.yml", lambda path: in_yaml(path, change)


def library(name):
    return f"library/rbplib/{name}.py", remark


def of(family):
    """The pages of a family, and those of all families with it."""
    return {f"notebook {family}/01_first", f"notebook {family}/02_models", *TOGETHER}


TOGETHER = {f"together all/{name}" for name in ("09_families", "11_precision", "12_train_your_own")}
FREE = {"together all/10_published"}
BOTH = of("demo") | of("other")
ALL = BOTH | FREE
AGAIN = {"measure again/s1"}
MODELS = {f: {f"measure {f}/small", f"measure {f}/large"} for f in ("demo", "other")}
LAW = {"notebook demo/01_first", "notebook other/01_first"}
RUN = {"notebook demo/02_models", "notebook other/02_models"}
LAW |= {"together all/09_families", *FREE}
ONE = {"notebook demo/01_first"}
SMALL = {f: {f"measure {f}/small"} for f in ("demo", "other")}
EVERY = MODELS["demo"] | MODELS["other"] | AGAIN
PAGE = "book/_executed/demo/01_first.ipynb"
CHANGES = {  # what changes: (file, how, the jobs that run again but html)
    "a family's title": (*family("demo", lambda f: f.update(title="B")), of("demo")),
    "a family's note": (*family("demo", lambda f: f.update(note="more")), of("demo")),
    "a model's size": (*family("other", lambda f: f["models"][0].update(nonembedding_params=9)), of("other")),
    "a dtype": (*family("other", lambda f: f["models"][0].update(dtype="Q8_0")), SMALL["other"] | of("other")),
    "a model's revision": (*family("demo", lambda f: f["models"][0].update(revision="r")), SMALL["demo"] | of("demo")),
    "a family's window": (*family("other", lambda f: f.update(context=128)), MODELS["other"] | of("other")),
    "a model less": (*family("other", lambda f: f["models"].pop(1)), of("other")),
    "a model more": (*family("other", lambda f: f["models"].append("a/more")), {"measure other/more"} | of("other")),
    "models in another order": (*family("other", lambda f: f["models"].reverse()), of("other")),
    "which are trained again": (*family("demo", lambda f: f.pop("repeats")), of("demo")),
    "the title of those trained again": (*family("again", lambda f: f.update(title="C")), of("demo")),
    "a model trained again": (*family("again", lambda f: f["models"][0].update(revision="r")), AGAIN | of("demo")),
    "weights here": ("models/local/config.json", lambda p: p.write_text("{}"),
                     {"measure demo/large", "measure other/large"} | BOTH),
    "a corpus's title": (*corpus("docs", lambda c: c.update(title="D")), BOTH),
    "a corpus's note": (*corpus("notes", lambda c: c.update(note="n")), BOTH),
    "a corpus's licence": (*corpus("notes", lambda c: c.update(licence="mine")), BOTH),
    "a corpus's group": (*corpus("docs", lambda c: c.update(group="{a}")), EVERY | BOTH),
    "the text in a file": ("notes.txt", remark, EVERY | BOTH),
    "published numbers": ("published/lambada.csv", remark, ALL),
    "another file of published numbers": ("published/new.csv", lambda p: p.write_text("a\n1\n"), ALL),
    "the claims": ("book/claims.yml", remark, ALL),
    "the law": (*library("laws/law"), LAW),
    "a module behind the law": (*library("laws/losses"), LAW),
    "what reads tables": (*library("ranks/table"), LAW | {"together all/11_precision"}),
    "what counts tables": (*library("ranks/stored"), LAW | {"together all/11_precision"}),
    "windows of text": (*library("text/windows"), RUN | {"together all/11_precision"}),
    "what loads models": (*library("models/load"), RUN | {"together all/11_precision"}),
    "what measures": (*library("ranks/engine"), {"together all/11_precision"}),
    "what tidies pages": (*library("pages/notebooks"), ALL),
    "the recipe of training": ("training/train.py", remark, {"together all/12_train_your_own"}),
    "what plans": (*library("ranks/plan"), set()),
    "what runs the steps": (*library("pages/workflow"), set()),
    "what makes HTML": (*library("pages/html"), {"html"}),
    "a page of the book": ("book/glossary.md", remark, {"html"}),
    "the contents": ("_toc.yml", remark, {"html"}),
    "a remark in a family's file": ("families/demo.yml", remark, set()),
    "a remark in a corpus's file": ("corpora/docs.yml", remark, set()),
    "a notebook": ("notebooks/02_models.ipynb", lambda p: edit(p, "# T", "# U"), RUN),
    "an executed page's words": (PAGE, lambda p: edit(p, "# T", "# U"), ONE),
    "an executed page's tags": (PAGE, lambda p: edit(p, "remove-cell", "hide-cell"), ONE),
    "an executed page's record": (PAGE, lambda p: edit(p, '"made_of": "', '"made_of": "0'), ONE),
    "an executed page for another's": (PAGE, lambda p: shutil.copy(p.parents[1] / "other" / p.name, p), ONE),
    "half an executed page": (PAGE, lambda p: p.write_text(p.read_text()[:99]), ONE),
    "no executed page": (PAGE, Path.unlink, ONE),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_one_change_runs_what_follows_from_it(built, what):
    name, change, jobs = CHANGES[what]
    path = built / name
    before = (path.read_bytes(), path.stat()) if path.is_file() else None
    try:
        change(path)
        found = flow(built, *CONFIG, "-n").found
    finally:
        path.unlink(missing_ok=True)
        if before:
            path.write_bytes(before[0])
            os.utime(path, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))
    print(f"{what}: {len(found)} jobs, {len([j for j in found if j.startswith('measure')])} of them measure")
    assert found == jobs | ({"html"} if jobs else set())


def test_the_measuring_code_s_number_measures_every_table(built, monkeypatch):
    monkeypatch.setattr(identity, "MEASURING", identity.MEASURING + 1)
    assert flow(built, *CONFIG, "-n").found == EVERY | BOTH | {"html"}


def test_a_text_on_record_is_believed_as_it_was_drawn_alone(built, monkeypatch):
    """A corpus that asks for another sample, its digest left as it was, is measured, and not by the pages."""
    monkeypatch.setattr(packages, "evaluation_documents", lambda *how: [("unit", "other words")])
    path = built / "corpora/docs.yml"
    before, at = path.read_bytes(), path.stat()
    in_yaml(path, lambda c: c.update(seed=7, digest=texts_digest(["words"])))
    with pytest.warns(UserWarning, match="differs from the one on record"):
        found = flow(built, *CONFIG, "-n").found
    path.write_bytes(before)
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert found == EVERY | BOTH | {"html"}


def test_a_parameter_runs_the_pages_that_have_it(built):
    assert flow(built, *CONFIG, "n_bootstrap=500", "-n").found == LAW - {"together all/09_families", *FREE} | {"html"}


@pytest.mark.parametrize("lost", [True, False])
def test_a_lost_or_new_table_runs_what_reads_it(built, lost):
    table = next((built / "results/ranks/other/small").glob("docs-*"))
    before = table.stat()
    table.unlink() if lost else table.write_bytes(b"other rows")
    found = flow(built, *CONFIG, "-n").found
    table.write_bytes(b"")
    os.utime(table, ns=(before.st_atime_ns, before.st_mtime_ns))
    read = of("other") - {"together all/12_train_your_own"} | {"html"}
    assert found == (read | {"measure other/small"} if lost else read)


def test_a_page_of_another_run_is_not_published(built):
    """An older page in the place of a newer one fits its own digest, but not what the workflow makes it of."""
    path, expected = built / PAGE, html.expected_pages()
    settings.write_text(expected, json.dumps({PAGE: "of this law"}))
    before = path.read_bytes()
    try:
        notebooks.run_notebook("01_first", "demo", made_of="of another law")
        assert html.changed(path) is None
        with pytest.raises(settings.InputError, match=r"demo/01_first\.ipynb was changed or exchanged .* `make book`"):
            html.build_html()
        assert (built / "_build/html/index.html").is_file()
    finally:
        path.write_bytes(before)
        expected.unlink()


def test_a_large_model_asks_for_what_the_plan_says(built):
    """Memory, time, cores and a GPU follow from the model's size; the small embedded ones share a core."""
    path = built / "families/large.yml"
    models = [{"id": "c/one", "nonembedding_params": 10**8}, {"id": "c/twelve", "nonembedding_params": 12 * 10**9}]
    path.write_text(yaml.safe_dump({"context": 512, "models": models}))
    try:
        jobs = flow(built, "--config", "corpora=notes", "families=large", "device=a100", "-n", "--cores", "64")
    finally:
        path.unlink()
    small, large = (jobs.needs[f"large/{name}"] for name in ("one", "twelve"))
    assert large["mem_mb"] > 24_000 > 4_000 > small["mem_mb"] and large["runtime"] >= small["runtime"] >= 30
    assert (small["gpu"], large["gpu"], large["threads"]) == (1, 1, 64)


HOSTILE = ["$(touch ran)", "a 'b' \"c\" `touch ran`;&", "{output} {x}"]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("what", ["root", "results", "corpus", "family"])
def test_no_name_is_ever_a_command(built, monkeypatch, tmp_path, what, name):
    """Whatever a checkout, a results folder or a file is called, each step gets it whole and runs nothing of it."""
    root, own = built, tmp_path / name
    own.mkdir()
    more = ["corpora=docs", "families=other"]
    if what == "root":
        root = own / "root"
        shutil.copytree(built, root, ignore=shutil.ignore_patterns("library", "_executed", ".snakemake", "ranks"))
        monkeypatch.setenv("RBP_ROOT", str(root))
    if what in ("root", "results"):
        monkeypatch.setenv("RBP_RESULTS", str(own / "results"))
        shutil.copytree(built / "results/corpora", own / "results/corpora")
    if what == "corpus":
        shutil.copy(built / "notes.txt", own / f"{name}.txt")
        more[0] = f"corpora={json.dumps([str(own / f'{name}.txt')])}"
    if what == "family":
        text = (built / "families/other.yml").read_text().replace("models/local", str(built / "models/local"))
        (own / f"{name}.yml").write_text(f"name: own\n{text}")
        more[1] = f"families={json.dumps([str(own / f'{name}.yml')])}"
    if what in ("root", "results") and "{" in name:  # Snakemake would take it for a wildcard
        with pytest.raises(AssertionError, match=r"takes no \S+ in a name"):
            flow(root, "--config", *more, "-n")
        return
    jobs = flow(root, "--config", *more, "-n", "-p", "--forceall")
    assert len(jobs.commands) > 8
    steps = [shlex.split(command) for command in jobs.commands]
    assert not [w for words in steps for w in words if w.startswith(("$", "`", ";", "&")) or w == "touch"]
    held = [w for words in steps for w in words if name in w]
    assert all(w.endswith((f"{name}.yml", f"{name}.txt", "]}")) for w in held)
    assert held or what in ("root", "results")
