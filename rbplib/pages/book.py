"""Notebooks run by papermill and made fit for the book, family index pages, and the HTML.

`python -m rbplib.pages.book notebook NAME --family F` is what the workflow calls; rbplib.pages.workflow runs the whole.
"""

import argparse
import ast
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from rbplib.pages.prose import plain, say
from rbplib.pages.workflow import make_book
from rbplib.settings import InputError, family_names, load_family, nearest, root, write_text

__all__ = ["build_html", "check_pages", "family_index", "make_book", "run_notebook", "say", "tidy"]

DEFAULT_FAMILY = "nano-pythia"  # its pages tell the paper's story; the contents name it too, and a test compares them
TOGETHER = "all"  # folder of the pages that show every family at once
ONCE = frozenset({"09_families", "10_published", "11_precision", "12_train_your_own", "13_findings", "14_coverage"})

HIDE = "remove-cell"
FOLD = "hide-input"  # the page reads as a paper; the code of each figure is one click away
SHOWN = {"show-input", "hide-cell", "hide-input", "remove-input", "remove-cell"}
PARAMETER_TAGS = {"parameters", "injected-parameters"}


def notebook_path(name):
    """The notebook of that name (`02_top1_law`) or at that path; unknown names suggest the nearest."""
    if str(name).endswith(".ipynb"):
        path = Path(name)
        if not path.is_file():
            raise InputError(f"there is no notebook {str(name)!r}: check the path.")
        return path
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


def embedded_families():
    """Names of the families whose models lie in the checkout; the book's default selection."""
    return [name for name in family_names() if load_family(name).embedded]


def executed_path(name, family=None):
    """Where the executed notebook goes: book/_executed/FAMILY/NAME.ipynb, or under `all/` for one that runs once."""
    folder = load_family(family).name if family else TOGETHER
    return root() / "book" / "_executed" / folder / f"{Path(name).stem}.ipynb"


def parameter_defaults(notebook):
    """Names of the parameters cell with the source of their defaults: {name: text}."""
    import nbformat

    cells = nbformat.read(notebook, 4).cells
    tagged = [c for c in cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) > 1:
        raise InputError(f"{notebook} has {len(tagged)} cells tagged 'parameters': keep one.")
    found = {}
    for node in ast.parse(tagged[0].source).body if tagged else ():
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            found[node.target.id] = ast.unparse(node.value)
        elif isinstance(node, ast.Assign):
            found.update({t.id: ast.unparse(node.value) for t in node.targets if isinstance(t, ast.Name)})
    return found


def check_parameters(notebook, parameters):
    """Refuse a parameter that the notebook does not have; papermill alone would only log it and run the default."""
    known = parameter_defaults(notebook)
    for name in parameters:
        if name not in known:
            hint = nearest(name, known) if known else "it takes none."
            raise InputError(f"notebook {Path(notebook).stem} has no parameter {name!r}: {hint}")


def run_notebook(notebook, family=None, out=None, parameters=None, log=None):
    """Run one notebook with papermill and write it, fit for the book.

    Args:
        notebook: name in `notebooks/`, or a path.
        family: name or YAML path, handed over as the parameter `family`; None for a notebook that runs once.
        out: path of the executed file; by default its place in the book. It appears whole or not at all.
        parameters: {name: value}, each checked against the notebook's parameters cell before anything runs.
        log: where the cells' stderr goes (progress bars, warnings); it is not put on the page.
    Returns:
        path of the executed file.
    Raises:
        InputError: unknown notebook, family or parameter. RuntimeError: a cell failed; the message says which.
    """
    source = notebook_path(notebook)
    parameters = dict(parameters or {})
    title = None
    if family is not None:
        title = load_family(family).name
        parameters["family"] = str(Path(family).resolve()) if str(family).endswith((".yml", ".yaml")) else title
    check_parameters(source, parameters)
    out = Path(out) if out else executed_path(source.stem, family)

    import nbformat

    executed = _execute(source, out, parameters)
    errors = tidy(executed, title)
    executed.metadata["rbp"] = {
        "notebook": source.stem,
        "parameters": parameters,
        "source": cells_digest(nbformat.read(source, 4)),
        "page": cells_digest(executed),
    }
    if log:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        Path(log).write_text(errors, encoding="utf-8")
    write_text(out, nbformat.writes(executed) + "\n")
    return out


def _execute(source, out, parameters):
    """The executed notebook as an object; a failed one is kept beside `out` as NAME.failed.ipynb for reading."""
    import nbformat

    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    import papermill

    logging.getLogger("papermill").setLevel(logging.ERROR)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.stem}.{os.getpid()}.running.ipynb")
    failed = root() / "logs" / f"{out.parent.name}-{out.stem}.failed.ipynb"
    try:
        papermill.execute_notebook(
            source,
            part,
            parameters=parameters,
            kernel_name="python3",
            cwd=str(root()),
            progress_bar=False,
            log_output=False,
        )
        executed = nbformat.read(part, 4)
    except papermill.exceptions.PapermillExecutionError as error:
        failed.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, failed)
        raise RuntimeError(
            f"{source.name} failed in cell {error.exec_count} ({error.ename}: {error.evalue}); "
            f"the notebook as far as it ran is {failed}"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    failed.unlink(missing_ok=True)
    return executed


def tidy(nb, family=None):
    """Make an executed notebook fit for the book, in place: the same run gives the same bytes.

    Both parameter cells are hidden, other code is folded, the first heading names the family, run times and paths are
    dropped, stderr is taken off the page, and a figure's alternative text is handed on to the page.
    Returns:
        what the cells wrote to stderr.
    """
    errors = []
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
            _tidy_outputs(cell, errors)
    nb.metadata = {k: v for k, v in nb.metadata.items() if k in ("kernelspec", "jupytext")}
    heading = next((c for c in nb.cells if c.cell_type == "markdown" and re.search(r"^\s*# ", c.source, re.M)), None)
    if heading is None:
        raise InputError("the notebook has no heading: begin its first Markdown cell with '# Title'.")
    if family:
        heading.source = re.sub(r"^(\s*# .*?)\s*$", rf"\1: {family}", heading.source, count=1, flags=re.M)
    return "".join(errors)


def cells_digest(nb):
    """sha256 of what a notebook's cells say and show."""
    content = [[c.cell_type, c.source, c.get("outputs", [])] for c in nb.cells]
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_pages(results=None):
    """Compare every executed page with its record: (pages looked at, problems as sentences)."""
    import nbformat

    pages = sorted((root() / "book" / "_executed").glob("*/*.ipynb"))
    problems = []
    for page in pages:
        try:
            nb = nbformat.read(page, 4)
            record = nb.metadata["rbp"]
            source = root() / "notebooks" / f"{record['notebook']}.ipynb"
            if record["page"] != cells_digest(nb):
                problems.append(f"{page} was changed after it was made: run `make book`.")
            elif not source.is_file():
                problems.append(f"{page} comes from a notebook that is gone: remove the page.")
            elif record["source"] != cells_digest(nbformat.read(source, 4)):
                problems.append(f"{page} is older than its notebook: run `make book`.")
        except Exception as error:  # a damaged file fails in the reader's own many ways
            problems.append(f"{page} is not a page of the book ({type(error).__name__}): run `make book`.")
    return len(pages), problems


def _tidy_outputs(cell, errors):
    errors += [o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stderr"]
    cell.outputs = [o for o in cell.outputs if not (o.output_type == "stream" and o.name == "stderr")]
    for output in cell.outputs:
        alt = output.get("metadata", {}).get("image/svg+xml", {}).get("alt")
        if alt:
            cell.metadata.setdefault("mystnb", {})["image"] = {"alt": alt}
        if output.output_type == "display_data" and "image/svg+xml" in output.data:
            output.data.pop("image/png", None)


def title_of(notebook):
    import nbformat

    text = "\n".join(c.source for c in nbformat.read(notebook, 4).cells if c.cell_type == "markdown")
    return re.search(r"^\s*# (.*?)\s*$", text, re.M).group(1)


def family_index(family):
    """Write the index page of a family; by its glob a new notebook joins the contents without being listed.

    The default family's pages already stand in the paper's part, so its index only links them.
    """
    family = load_family(family)
    folder = executed_path("x", family).parent
    sizes = "".join(f"- `{m.name}`\n" for m in family.models)
    note = f"{family.note}\n\n" if family.note else ""
    if family.name == DEFAULT_FAMILY:
        pages = sorted(folder.glob("[0-9]*.ipynb"))
        links = "".join(f"- [{title_of(p)}]({p.name})\n" for p in pages)
        listing = f"Its pages tell the paper's story, section by section:\n\n{links}"
    else:
        listing = "```{toctree}\n:glob:\n:maxdepth: 1\n\n[0-9]*\n```\n"
    title = family.name if family.title in ("", family.name) else f"{family.name}: {plain(family.title)}"
    text = f"# {title}\n\n{note}{listing}\nModels, smallest first:\n\n{sizes}"
    page = folder / "index.md"
    write_text(page, text)
    return page


def build_html(out=None, quiet=True):
    """Build the book from what lies executed, from nothing each time, with every warning an error.

    An incremental build keeps stale contents and forgets earlier warnings, and saves seconds only.
    Returns:
        path of the first page.
    """
    base = Path(out) if out else root()
    html = base / "_build" / "html"
    shutil.rmtree(base / "_build", ignore_errors=True)
    script = Path(sys.executable).with_name("jupyter-book")
    command = [script, "build", root(), "--all", "-W", "--keep-going", "-n", *(["-q"] if quiet else [])]
    done = subprocess.run([*command, "--path-output", base], capture_output=quiet, text=True, cwd=root())
    first = html / "index.html"
    if done.returncode or not first.is_file():
        lines = ((done.stdout or "") + (done.stderr or "")).splitlines()
        marks = [x for x in lines if re.search(r"WARNING|ERROR|[Ee]xception", x)] or lines[-15:]
        shutil.rmtree(html, ignore_errors=True)
        raise RuntimeError("the book has warnings, and each is an error:\n" + "\n".join(dict.fromkeys(marks)))
    return first


def main(argv=None):
    """The workflow's own steps; people use `rbp book`."""
    parser = argparse.ArgumentParser(prog="python -m rbplib.pages.book", description=main.__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    one = steps.add_parser("notebook", help="run one notebook for the book")
    one.add_argument("name")
    one.add_argument("--family")
    one.add_argument("--out")
    one.add_argument("--log")
    one.add_argument("-p", "--parameter", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    index = steps.add_parser("index", help="write the index page of a family")
    index.add_argument("family")
    fits = steps.add_parser("fits", help="write the curves and fits of a family as CSV")
    fits.add_argument("family")
    fits.add_argument("--corpus", action="append")
    fits.add_argument("--n-bootstrap", type=int, default=10_000)
    figure = steps.add_parser("figure", help="draw the figure of the first page again")
    figure.add_argument("--out")
    html = steps.add_parser("html", help="build the HTML from what lies executed")
    html.add_argument("--out")
    a = parser.parse_args(argv)
    try:
        if a.step == "notebook":
            run_notebook(a.name, a.family, a.out, {k: _value(v) for k, v in a.parameter}, a.log)
        elif a.step == "index":
            family_index(a.family)
        elif a.step == "fits":
            from rbplib.pages.fits import write_fits

            write_fits(a.family, a.corpus, n_bootstrap=a.n_bootstrap)
        elif a.step == "figure":
            from rbplib.pages.frontpage import law_figure

            print(law_figure(embedded_families(), Path(a.out or root() / "book" / "_static" / "law.svg")))
        else:
            print(build_html(a.out))
    except InputError as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 1
    return 0


def _value(text):
    """A parameter from the command line: a Python literal where it reads as one, otherwise the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    raise SystemExit(main())
