"""One page of the book: what it follows from, papermill's run of its notebook, and the tidying
after it.

    notebook + modules of paper/ + rbplib + definitions + tables  --made_of-->  digest
    papermill runs the notebook; the executed page carries that digest

A page is current where the digest that it carries is the one that its inputs give now. Contents
decide and times do not, so a fresh clone with copied results runs nothing again.
"""

import argparse
import ast
import json
import logging
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import nbformat
import papermill
from nbclient.exceptions import DeadKernelError

from paper.book import as_words
from paper.show.parameters import DECLARED, check_parameters
from paper.show.plain import texts
from rbplib.families import (
    InputError,
    argument,
    check_choice,
    digest,
    load_corpus,
    load_family,
    root,
    write_text,
)
from rbplib.models import file_digest
from rbplib.table import asked, read_record

CHECKOUT = Path(__file__).resolve().parents[1]
DEFAULT_FAMILY = "nano-pythia"  # its pages tell the story in the contents
TOGETHER = "all"  # folder of the pages that show every family at once
ONCE = {"18_train_your_own"}  # it takes a family, and one is enough
UNNUMBERED = "real_model"  # in the book where that model was fetched
CODE = ("paper/", "training/")  # folders whose modules are followed from a notebook
RUNNER = (  # of every page
    "rbplib/*.py",
    "workflow/page.py",
    "book/claims.yml",
    "book/findings.yml",
    "published/*.csv",
    "notebooks/words.md",
)
READS = {  # {module of paper/, or page: files that it reads beside tables}
    "14_text_and_compute": "models/checks.json",
    "authors": "families/gpt2.yml",
    "moving": "paper/show/charts/*.yml",
    "probes": "published/probes/*.csv",
    "tables_here": "published/ranks/*.*",
    "tokens": "published/ranks/*.*",
    "verify": "book/reference.csv",
}
TITLE = re.compile(r"^\s*# (.*?)\s*$", re.M)
FOLDERS = re.compile(r"(?<=[\"'])/(?:[^\"'/\n]+/)+(?=[^\"'/\n]+[\"'])")  # of a file given by path
NO_PYTHON = re.compile(r"\A%%[\s\S]*|^[%!].*", re.M)  # a cell of words, or a line for the shell
PARAMETER_TAGS = {"parameters", "injected-parameters"}
SHOWN = {"show-input", "hide-cell", "hide-input", "remove-input", "remove-cell"}
RUNS_MODELS = "runs-models"  # tag of a cell that needs text or models


# ---- which pages there are


def notebooks():
    """{name: path} of the notebooks, in the order of the book."""
    folder = root() / "notebooks"
    paths = [*folder.glob("[0-9]*.ipynb"), *folder.glob(f"{UNNUMBERED}.ipynb")]
    return {path.stem: path for path in sorted(paths)}


def notebook_path(name):
    """The notebook of that name (`02_top1_law`); unknown names suggest the nearest."""
    return notebooks()[check_choice(name, notebooks(), "notebook")]


def notebook_names():
    """(run for every family, run once), each in the order of the book."""
    once = [n for n in notebooks() if n in ONCE or "family" not in parameter_defaults(n)]
    return [n for n in notebooks() if n not in once], once


@cache
def parameter_defaults(name):
    """{parameter: source of its default} of a notebook's parameters cell."""
    return {parameter: default for parameter, _, default in DECLARED.findall(parameters_cell(name))}


def parameters_cell(name):
    """Source of the cell that says what a notebook may be asked for; empty without one."""
    cells = nbformat.read(notebook_path(name), 4).cells
    tagged = [c.source for c in cells if "parameters" in c.metadata.get("tags", [])]
    return "\n".join(tagged)


def page_path(name, family=None):
    """Where the executed page of a notebook lies; `family` is a name, None for a page that runs
    once."""
    return root() / "book" / "_executed" / (family or TOGETHER) / f"{name}.ipynb"


def executed_pages():
    return sorted((root() / "book" / "_executed").glob("*/[!.]*.ipynb"))


def found(corpora, family=None):
    """Texts as another process finds them: names, whole paths, or labels of what a family was
    measured on."""
    texts = asked(family, None, corpora)[2] if family and corpora else map(load_corpus, corpora)
    return list(map(argument, texts))


# ---- what a page follows from


def brought(pattern):
    """Files that the repository brings: in the root or, for a root of one's own, in the
    checkout."""
    return list(root().glob(pattern)) or list(CHECKOUT.glob(pattern))


@cache
def imported_files(path):
    """Files of the modules of CODE that a module or a notebook imports, wherever in it."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [c.source for c in nbformat.reads(source, 4).cells if c.cell_type == "code"]
        source = "\n".join(NO_PYTHON.sub("", cell) for cell in cells)
    # `import name`, and of `from module import name` both, as the name may be a module
    paths = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", "")
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            paths.update(name.strip(".").replace(".", "/") for name in names)
    return {file for path in paths if path.startswith(CODE) for file in brought(f"{path}.py")}


def inputs(name):
    """Every file but tables and definitions that a page follows from: a set."""
    # all modules that it imports, directly or not: two may import each other inside functions
    files, new = set(), {notebook_path(name)}
    while new:
        files |= new
        new = set().union(*map(imported_files, new)) - files
    patterns = [*RUNNER, *(READS[path.stem] for path in files if path.stem in READS)]
    return files.union(*map(brought, patterns))


def digests(paths):
    """Sorted [path in the root, SHA-256] of those that are files; a file is read once in a
    process, unless it changes."""
    here = f"{root()}/"
    return sorted([str(p).removeprefix(here), file_digest(p)] for p in paths if p.is_file())


def table_digests(given):
    """{"FAMILY/MODEL/CORPUS": digest of the table's columns}."""
    return {label: table_digest(path) for label, path in given.get("tables", {}).items()}


@cache
def table_digest(path):
    """Digest of a rank table's columns by its record."""
    return read_record(path)["columns_sha256"]


def made_of(name, given):
    """A digest of all that a page follows from: the contents of `inputs`, and what it is given.

    given: a mapping, which the workflow keeps in a file of JSON. families, corpora: names or paths.
    parameters: {name: value}. tables: {"FAMILY/MODEL/CORPUS": path} of rank tables. pages: paths of
    other executed pages, for one that reads them all.
    """
    # what families and corpora are: the files that define them, or text as it is
    definitions = [load_family(family).path for family in given["families"]]
    definitions += [Path(c.file or c.path) for c in map(load_corpus, given["corpora"])]
    return digest(
        {
            "files": digests([*inputs(name), *definitions]),
            "parameters": given["parameters"],
            "tables": table_digests(given),
            "pages": digests(map(root().joinpath, given["pages"])),
        }
    )


def is_current(path, given):
    """Whether an executed page is of all that it would be made of now."""
    record, run = kept(path, "metadata", "rbp", "made_of"), run_path(path)
    if not record or run.exists() and kept(run, "page") != file_digest(path):
        return False  # no page, or another than the run left
    return record == made_of(path.stem, given)


def run_path(page):
    """Where it is kept when and with what an executed page ran."""
    return root() / "logs" / "runs" / f"{page.parent.name}-{page.stem}.json"


def kept(path, *keys):
    """What a file of JSON holds at the keys, one inside the other; None where that cannot be
    read."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
        for key in keys:
            value = value[key]
        return value
    except (OSError, ValueError, LookupError, TypeError):
        return None


# ---- run a notebook


def run_notebook(name, family=None, parameters=(), given=()):
    """Run one notebook with papermill and write it to its place in the book, whole and tidied.

    Args:
        name: in `notebooks/`. family: name or YAML path; None for a notebook that runs once.
        parameters: {name: value}; papermill alone would only log an unknown one.
        given: what the workflow gave it, see `made_of`: its digest is kept with the page.
    Returns:
        path of the executed file.
    Raises:
        InputError: unknown notebook, a parameter that it cannot take, or what a cell refused.
        RuntimeError: a cell failed; the message says which.
    """
    source, parameters, given = notebook_path(name), dict(parameters), dict(given)
    family = family and load_family(family)
    if family and parameter_defaults(name).get("families") == "[]":
        parameters.setdefault("families", [argument(family)])
    elif family:
        parameters["family"] = argument(family)
    check_parameters(parameters_cell(name), parameters, f"notebook {name}")
    if "corpora" in parameters:  # the page runs in another folder
        parameters["corpora"] = found(parameters["corpora"], family)
    label = family and family.name
    out = page_path(name, label)

    # run, and make it fit for the book
    began = time.monotonic()
    page = execute(source, parameters, out)
    tidy(page, label)
    page.metadata["rbp"] = {
        "notebook": name,
        "parameters": json.loads(FOLDERS.sub("", json.dumps(parameters))),
        "texts": texts(parameters),
        "source": file_digest(source),
        "made_of": made_of(name, given) if given else None,
        "tables": table_digests(given),
    }
    write_text(out, nbformat.writes(page) + "\n")

    # when and with what it ran: beside the page, as the same run gives the same page
    run = {"page": file_digest(out), "seconds": round(time.monotonic() - began)}
    write_text(run_path(out), json.dumps(run | circumstances()))
    return out


def execute(source, parameters, out):
    """The executed notebook; one that failed stays in logs/ as far as it ran."""
    # quietly, in the root
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    logging.getLogger("papermill").setLevel(logging.ERROR)
    failed = root() / "logs" / f"{out.parent.name}-{out.stem}.ipynb"
    run = failed.with_stem(f"{failed.stem}-{os.getpid()}")
    run.parent.mkdir(parents=True, exist_ok=True)
    # by a kernel that ends at once, and looks for garbage once in a million objects
    options = {
        "kernel_name": "python3",
        "cwd": str(root()),
        "progress_bar": False,
        "stderr_file": sys.stderr,
        "request_save_on_cell_execute": False,
        "shutdown_kernel": "immediate",
        "extra_arguments": [
            "--log-level=ERROR",  # that it speaks TCP is known
            "--IPKernelApp.exec_lines=__import__('gc').set_threshold(10**6)",
        ],
    }
    notebook = for_family(source, parameters.get("family"))
    # a cell that fails is named
    begin = partial(papermill.execute_notebook, notebook, run, parameters, **options)
    try:
        try:
            begin()
        except RuntimeError as error:  # as where another process took a port of the kernel first
            if "before replying" not in str(error):
                raise
            begin()
    except DeadKernelError:
        raise RuntimeError(
            f"running {out.stem} for {out.parent.name}: "
            "its kernel was killed by the system, as for want of memory."
        ) from None
    except papermill.PapermillExecutionError as error:
        run.replace(failed)
        if error.ename == "InputError":
            raise InputError(error.evalue) from None
        raise RuntimeError(
            f"{source.name} failed in cell {error.exec_count} ({error.ename}: {error.evalue}); "
            f"the notebook as far as it ran is {failed}"
        ) from None
    page = nbformat.read(run, 4)
    run.unlink()
    return page


def for_family(source, family=None):
    """The notebook as it runs for a family, for an imported one without what needs its text; its
    code cells know their number, which the captions of figures give."""
    notebook = nbformat.read(source, 4)
    # numbers of the code cells
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        cell.metadata["cell"] = number
    # what needs text or models
    if family and load_family(family).imported:
        cells = [c for c in notebook.cells if RUNS_MODELS not in c.metadata.get("tags", [])]
        if len(cells) < len(notebook.cells):
            note = "What needs the text or models of this family is left out: they are not here."
            cells.insert(1, nbformat.v4.new_markdown_cell(note))
        notebook.cells = cells
    return notebook


def tidy(page, family=None):
    """Make an executed notebook fit for the book, in place: the same run gives the same bytes.

    Templates are Markdown, parameter cells hidden, other code is folded, the first heading names
    the family unless it is the default or named already; run times, paths and stderr are dropped.
    """
    as_words(page)
    for number, cell in enumerate(page.cells):
        tags = set(cell.metadata.get("tags", []))
        if tags & PARAMETER_TAGS:
            cell.source = FOLDERS.sub("", cell.source)
            tags.add("remove-cell")
        elif cell.cell_type == "code" and not tags & SHOWN:
            tags.add("hide-input")
        cell.metadata["tags"] = sorted(tags)
        cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    # what papermill and the kernel tell of the run
    for part in [page, *page.cells]:
        for name in ("papermill", "execution", "language_info"):
            part.metadata.pop(name, None)

    # the first heading names the family
    headings = [c for c in page.cells if c.cell_type == "markdown" and TITLE.search(c.source)]
    if not headings:
        raise InputError("the notebook has no heading: begin its first cell with '# Title'.")
    title = TITLE.search(headings[0].source)[1]
    if family not in (None, DEFAULT_FAMILY, *re.findall(r"[^\s()]+", title)):
        headings[0].source = TITLE.sub(rf"# \1 ({family})", headings[0].source, count=1)


def circumstances():
    """When, where and with what something runs."""
    # empty where there is no git, or nothing of it here
    command = f"git -C {shlex.quote(str(root()))} describe --always --dirty 2>/dev/null"
    libraries = [f"{name} {version(name)}" for name in ("numpy", "scipy", "pandas", "statsmodels")]
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": subprocess.getoutput(command),
        "platform": platform.platform(),
        "versions": ", ".join([f"Python {platform.python_version()}", *libraries]),
    }


def ended(run):
    """Exit code of a program that is a function without arguments: what it returns is printed, or
    why it did not come to its end."""
    try:
        print(run())
        return 0
    except (InputError, RuntimeError) as error:
        # a step's own words begin so already
        print("rbp: " + str(error).removeprefix("rbp: "), file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("rbp: stopped; run the same command again to go on from here.", file=sys.stderr)
        return 130


def main(argv=None):
    """`python -m workflow.page NAME --family F`: one page of the book, as the workflow runs it."""
    parser = argparse.ArgumentParser(prog="python -m workflow.page", description=main.__doc__)
    parser.add_argument("name", help="of the notebook")
    parser.add_argument("--family", help="a name or YAML path, for a notebook that takes one")
    parser.add_argument("--corpus", action="append", help="a text, in place of the family's own")
    parser.add_argument("--given", type=kept, default={}, help="file of the workflow's")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # as the workflow asks, or the command line
    parameters = options.given.get("parameters", {})
    if options.corpus:
        parameters["corpora"] = options.corpus
    return ended(lambda: run_notebook(options.name, options.family, parameters, options.given))


if __name__ == "__main__":
    raise SystemExit(main())
