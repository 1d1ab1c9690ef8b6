"""Notebooks run by papermill and made fit for the book: what stands on a page, and where the page lies."""

import json
import logging
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import nbformat
import papermill

from paper.show.parameters import check_parameters
from paper.show.plain import texts
from rbplib.families import InputError, argument, load_corpus, load_family, nearest, root, write_text
from rbplib.inputs import digest, one_at_a_time

DEFAULT_FAMILY = "nano-pythia"  # its pages tell the story in the contents, which name it too; a test compares them
TOGETHER = "all"  # folder of the pages that show every family at once
ONCE = frozenset({"11_precision", "12_train_your_own"})  # they take a family, and one is enough

TITLE = r"^\s*# (.*?)\s*$"  # the first heading, and what it says
HIDE = "remove-cell"
FOLD = "hide-input"  # the page reads as a paper; the code of each figure is one click away
SHOWN = {"show-input", "hide-cell", "hide-input", "remove-input", "remove-cell"}
RUNS_MODELS = "runs-models"  # the tag of a cell that needs text or models
PARAMETER_TAGS = {"parameters", "injected-parameters"}


def notebook_path(name):
    """The notebook of that name (`02_top1_law`); unknown names suggest the nearest."""
    path = root() / "notebooks" / f"{name}.ipynb"
    if not path.is_file():
        names = sorted(p.stem for p in path.parent.glob("*.ipynb"))
        raise InputError(f"there is no notebook {str(name)!r}: {nearest(name, names)}")
    return path


def notebook_names():
    """(run for every family, run once): names in the order of the book. Without the parameter `family` it runs once."""
    paths = sorted((root() / "notebooks").glob("[0-9]*.ipynb"))
    once = [p.stem for p in paths if p.stem in ONCE or "family" not in parameter_defaults(p)]
    return [p.stem for p in paths if p.stem not in once], once


def executed(family=None):
    """The folder of a family's executed notebooks; of those that run once, without a family."""
    return root() / "book" / "_executed" / (load_family(family).name if family else TOGETHER)


def definition(family):
    """A hash of what a family's file says, wherever it and its models lie: another one makes other pages."""
    family = load_family(family)
    said = replace(family, path=None, models=tuple(replace(m, local=None) for m in family.models))
    return sha256(repr(said).encode()).hexdigest()


def parameter_defaults(notebook):
    """Names of the parameters cell with the source of their defaults: {name: text}."""
    return {name: p["default"] for name, p in papermill.inspect_notebook(str(notebook)).items()}


def parameters_cell(notebook):
    """Source of the cell that says what a notebook may be asked for; empty without one."""
    cells = (c for c in nbformat.read(notebook, 4).cells if "parameters" in c.metadata.get("tags", []))
    return next((c.source for c in cells), "")


def run_notebook(notebook, family=None, out=None, parameters=None, made_of=None):
    """Run one notebook with papermill and write it, fit for the book. What its cells say on stderr goes to stderr.

    Args:
        notebook: name in `notebooks/`. family: name or YAML path; None for a notebook that runs once.
        out: path of the executed file, by default its place in the book. It appears whole or not at all.
        parameters: {name: value}; papermill alone would only log an unknown one and run the default.
        made_of: the workflow's hash of all that goes into the page, kept with it.
    Returns:
        path of the executed file.
    Raises:
        InputError: unknown notebook, a parameter that it cannot take, or what a cell refused.
        RuntimeError: a cell failed; the message says which.
    """
    source, parameters = notebook_path(notebook), dict(parameters or {})
    if family is not None:
        parameters["family"] = argument(load_family(family))
    check_parameters(parameters_cell(source), parameters, f"notebook {source.stem}")
    if corpora := parameters.get("corpora"):  # the page runs in another folder
        parameters["corpora"] = [argument(load_corpus(c)) for c in corpora]
    out = Path(out) if out else executed(family) / f"{source.stem}.ipynb"
    ran = root() / "logs" / f"{out.parent.name}-{out.stem}.ipynb"
    with one_at_a_time(out), one_at_a_time(ran):
        began = time.monotonic()
        page = _execute(source, ran, parameters)
        tidy(page, family and load_family(family).name)
        record = {"notebook": source.stem, "parameters": parameters, "family": family and definition(family)}
        record["texts"] = texts(parameters)
        write_page(page, out, record | {"source": cells_digest(nbformat.read(source, 4)), "made_of": made_of})
        said = {"page": page.metadata["rbp"]["page"], "seconds": round(time.monotonic() - began)} | circumstances()
        write_text(root() / "logs" / "runs" / f"{out.parent.name}-{out.stem}.json", json.dumps(said))
    return out


def circumstances():
    """When, where and with what something runs; kept beside a page, as the same run gives the same page."""
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=root(), capture_output=True, text=True)
    made = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "pandas", "statsmodels"))
    said = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "commit": git.stdout.strip() or None}
    return said | {"platform": platform.platform(), "versions": f"Python {platform.python_version()}, {made}"}


def write_page(page, out, record):
    """Write an executed page with its record, its place and a digest of all that."""
    page.metadata["rbp"] = record | {"place": [out.parent.name, out.stem]}
    page.metadata["rbp"]["page"] = page_digest(json.loads(nbformat.writes(page)))
    write_text(out, nbformat.writes(page) + "\n")


def for_family(source, family=None):
    """The notebook as it runs for a family; of an imported one, cells that need its text or models are left out."""
    nb = nbformat.read(source, 4)
    if family and load_family(family).counts:
        kept = [c for c in nb.cells if RUNS_MODELS not in c.metadata.get("tags", [])]
        note = "What needs the text or the models of this family is left out of this page: they are not here."
        nb.cells = [kept[0], *([nbformat.v4.new_markdown_cell(note)] if len(kept) < len(nb.cells) else []), *kept[1:]]
    return nb


def _execute(source, ran, parameters):
    """The executed notebook as an object; a failed one stays at `ran` for reading."""
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    logging.getLogger("papermill").setLevel(logging.ERROR)
    settings = {"kernel_name": "python3", "cwd": str(root()), "progress_bar": False, "stderr_file": sys.stderr}
    settings["request_save_on_cell_execute"] = False  # a failed one is written at its end, once
    try:
        papermill.execute_notebook(for_family(source, parameters.get("family")), ran, parameters, **settings)
    except papermill.PapermillExecutionError as error:
        if error.ename == "InputError":
            raise InputError(error.evalue) from None
        raise RuntimeError(
            f"{source.name} failed in cell {error.exec_count} ({error.ename}: {error.evalue}); "
            f"the notebook as far as it ran is {ran}"
        ) from None
    page = nbformat.read(ran, 4)
    ran.unlink()
    return page


def tidy(nb, family=None):
    """Make an executed notebook fit for the book, in place: the same run gives the same bytes.

    Both parameter cells are hidden, other code is folded, the first heading names the family unless it is the default
    or named already, run times and paths are dropped, and stderr is taken off the page.
    """
    for i, cell in enumerate(nb.cells):
        tags = set(cell.metadata.get("tags", []))
        if tags & PARAMETER_TAGS:
            tags.add(HIDE)
        elif cell.cell_type == "code" and not tags & SHOWN:
            tags.add(FOLD)
        cell.metadata = {k: v for k, v in cell.metadata.items() if k not in ("papermill", "execution", "tags")}
        if tags:
            cell.metadata["tags"] = sorted(tags)
        cell.id = f"cell-{i}"
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if not (o.output_type == "stream" and o.name == "stderr")]
    nb.metadata = {k: v for k, v in nb.metadata.items() if k in ("kernelspec", "jupytext")}
    heading = next((c for c in nb.cells if c.cell_type == "markdown" and re.search(TITLE, c.source, re.M)), None)
    if heading is None:
        raise InputError("the notebook has no heading: begin its first Markdown cell with '# Title'.")
    if family not in (None, DEFAULT_FAMILY, *re.findall(r"[^\s()]+", re.search(TITLE, heading.source, re.M)[1])):
        heading.source = re.sub(r"^(\s*# .*?)\s*$", rf"\1 ({family})", heading.source, count=1, flags=re.M)


def cells_digest(nb):
    """sha256 of what a notebook's cells say and show."""
    return digest([[c.cell_type, c.source, c.get("outputs", [])] for c in nb.cells])


def page_digest(said):
    """sha256 of what the JSON of an executed page holds, but the digest that it carries itself."""
    record = {key: value for key, value in said["metadata"]["rbp"].items() if key != "page"}
    return digest(said | {"metadata": said["metadata"] | {"rbp": record}})
