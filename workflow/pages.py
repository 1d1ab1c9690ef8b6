"""The pages of the book: papermill runs each notebook, and the executed page carries a digest of
all that it follows from.

    notebook + modules of paper/ + rbplib + definitions + tables  --made_of-->  digest

    python -m workflow.pages nano-pythia all        the pages of a family, and those of several
    python -m workflow.pages --page 02_top1_law     one page of nano-pythia

A page whose digest is that of what is here now is left alone: contents decide, times do not. Pages
are forks of one process that has imported what they need, and their cells run in it, without a
kernel. Plain papermill runs a notebook by a kernel as ever, and what it shows is the same.
"""

import argparse
import ast
import io
import json
import logging
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import matplotlib
import nbformat
import papermill
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from matplotlib_inline.backend_inline import configure_inline_support
from papermill.engines import Engine, papermill_engines
from traitlets import Type
from traitlets.config import Config

from paper.book import as_words
from paper.show.parameters import DECLARED, check_parameters
from paper.show.plain import texts as titles
from rbplib.families import (
    InputError,
    argument,
    check_choice,
    digest,
    held,
    list_corpora,
    list_families,
    load_family,
    one_each,
    root,
    telling,
    write_text,
)
from rbplib.models import file_digest
from rbplib.table import asked, read_record, table_paths
from workflow.forks import ended, run_all, step

CHECKOUT = Path(__file__).resolve().parents[1]
TOGETHER = "all"  # folder of the pages that show several families
DEFAULT_FAMILY = "nano-pythia"  # its pages tell the story in the contents
# by names without their numbers
JOINED = {"families"}  # once more on the families that a reader named
LAST = {"findings"}  # they read all pages before them
NO_TABLE = {"train_your_own"}  # it takes a family, and trains models
AUTHORS = "gpt2-authors"  # evidence of its own: only Findings shows it beside others
MEASURING = ("device", "dtype", "replace")  # settings of the workflow that pages have no part in
CODE = ("paper.", "training.")  # whose modules are followed from a notebook
EVERY = ["rbplib/*.py", "workflow/pages.py", "notebooks/words.md"]
EVERY += ["book/claims.yml", "book/findings.yml", "published/*.csv"]  # what every page follows from
READS = {  # what modules of paper/ read, but by `held` of names
    "moving": "paper/show/charts/*.yml",
    "probes": "published/probes/*/*.csv",
    "tables_here": "published/ranks/*.*",
    "verify": "book/reference.csv",
}
HELD = re.compile(r"\bheld\(((?:\"[^\"]*\"[, ]*)+)\)")
PARAMETERS = {"parameters", "injected-parameters"}
SHOWN = {"show-input", "hide-cell", "hide-input", "remove-input", "remove-cell"}
TITLE = re.compile(r"^\s*# (.*?)\s*$", re.M)
FOLDERS = re.compile(r"(?<=[\"'])/(?:[^\"'/\n]+/)+(?=[^\"'/\n]+[\"'])")  # of a file given by path
NO_PYTHON = re.compile(r"\A%%[\s\S]*|^[%!].*", re.M)  # a cell of words, or a line for the shell
WARM = ("paper.evidence", "paper.show.figures", "paper.show.moving")  # slow to import
INLINE = "module://matplotlib_inline.backend_inline"  # which a kernel has
LIBRARIES = ("numpy", "scipy", "pandas", "statsmodels")


# ---- which pages there are


@dataclass(frozen=True)
class Page:
    """A notebook with what it is asked for; `folder` is its family's name, or `all`."""

    name: str
    folder: str
    parameters: dict = field(default_factory=dict)
    families: tuple = ()  # whose tables it reads
    corpora: tuple = ()
    after: tuple = ()  # executed pages that it reads

    @property
    def path(self):
        return root() / "book" / "_executed" / self.folder / f"{self.name}.ipynb"


def notebooks():
    """{name: path} of the notebooks that have an opening in book/pages.yml, in order of names."""
    opened = re.findall(r"^(\w+):", held("book", "pages.yml").read_text(encoding="utf-8"), re.M)
    paths = sorted((root() / "notebooks").glob("*.ipynb"))
    return {path.stem: path for path in paths if path.stem in opened}


def plain(name):
    """The name of a notebook without its number."""
    return re.sub(r"^\d+_", "", name)


@cache
def parameters_cell(path):
    """Source of the cell that says what a notebook may be asked for; empty without one."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    tagged = [c["source"] for c in cells if "parameters" in c["metadata"].get("tags", [])]
    return "\n".join(map("".join, tagged))


def defaults(name):
    """{parameter: its default} of a notebook."""
    declared = DECLARED.findall(parameters_cell(notebooks()[name]))
    return {parameter: ast.literal_eval(default) for parameter, _, default in declared}


def pages(families=(), corpora=(), only=False, **settings):
    """Every page of the book, those that read others last.

    families: beside the embedded ones, or alone with `only`. corpora: of their pages, or of all.
    settings: parameters of notebooks; each gets those that it has. The rest says how to measure.
    Raises InputError: an unknown name, or a value that a notebook cannot take.
    """
    settings = {key: value for key, value in settings.items() if key not in MEASURING}
    taken = dict.fromkeys(key for name in notebooks() for key in defaults(name))
    for key in settings:
        check_choice(key, taken, "parameter of a page")
    list_corpora()  # one that is damaged is told before anything runs
    embedded = [family for family in list_families() if family.embedded]
    named = one_each(map(load_family, families), "families")
    beside = [] if only and named else embedded
    shown = one_each([*beside, *named], "families")
    own = [family for family in named if beside and family not in beside]

    def page(name, folder, several, corpora):
        known_here = defaults(name)
        given = {key: value for key, value in settings.items() if key in known_here}
        check_parameters(parameters_cell(notebooks()[name]), given, f"notebook {name}")
        reads = "family" in known_here or known_here.get("families") == []
        if corpora and known_here.get("corpora") == []:
            given["corpora"] = list(map(argument, asked(several[0], None, corpora)[2]))
        if "family" in known_here and folder != TOGETHER:
            given["family"] = argument(several[0])
        elif known_here.get("families") == [] and several != embedded:
            given["families"] = list(map(argument, several))
        return Page(name, folder, given, tuple(several if reads else ()), tuple(corpora))

    # of each family, then of several
    book = []
    each = [name for name in notebooks() if not is_once(name)]
    for family in shown:
        texts = corpora if family in own or not own else ()
        book += [page(name, family.name, [family], texts) for name in each]
    for name in filter(is_once, notebooks()):
        apart = [f for f in own if f.name != AUTHORS or plain(name) != "findings"]
        several = [family for family in shown if family not in apart] or shown
        book.append(page(name, TOGETHER, several, () if own else corpora))
        if plain(name) in JOINED and own:
            book.append(page(name, own[0].name, shown, () if own[0].imported else corpora))
    # a page on a model of others is none while no table of it is here
    book = [page for page in book if "real" not in defaults(page.name) or here(page, "real")]
    first = [page for page in book if plain(page.name) not in LAST]
    for page in sorted((page for page in book if page not in first), key=lambda page: page.name):
        apart = {f.name for f in own if f.name != AUTHORS or plain(page.name) != "findings"}
        after = tuple(before.path for before in first if before.folder not in apart)
        first.append(replace(page, after=after))
    return first


def is_once(name):
    """Whether one page of a notebook is enough: it takes no family, or the book's contents have it
    among the pages of several."""
    entries = re.findall(r"book/_executed/(\S+)", held("_toc.yml").read_text(encoding="utf-8"))
    listed = any(fnmatch(f"{TOGETHER}/{name}", entry) for entry in entries)
    return listed or "family" not in defaults(name)


# ---- what a page follows from


@cache
def corpora_of(family, corpora):
    """Corpora of a family, by its path: its own, or those named."""
    return asked(family, None, corpora)[2]


def texts(page, family):
    """Corpora of a page, as a family has them."""
    return corpora_of(family.path, page.corpora)


def with_repeats(families):
    """Families, and those that are their models trained again."""
    repeats = [load_family(family.repeats) for family in families if family.repeats]
    return [*families, *repeats]


def here(page, parameter):
    """The family that a page's parameter names; None where it, or any table of it, is not here."""
    with suppress(InputError):
        family = load_family((defaults(page.name) | page.parameters)[parameter])
        return family if table_paths(family.name) else None


def tables(page):
    """Paths of the rank tables that a page reads, of families trained again too."""
    if plain(page.name) in NO_TABLE:
        return []
    wanted, paths = defaults(page.name) | page.parameters, []
    others = [here(page, key) for key in ("real", "raw") if key in wanted]
    for family in filter(None, [*page.families, *others]):
        names = {wanted.get("fetched"), *(corpus.name for corpus in texts(page, family))}
        for ladder in with_repeats([family]):
            paths += [p for p in table_paths(ladder.name) if p.name.split(".")[0] in names]
    return paths


def brought(pattern):
    """Files that the repository brings: in the root or, for a root of one's own, in the
    checkout."""
    return set(root().glob(pattern)) or set(CHECKOUT.glob(pattern))


@cache
def followed(path):
    """Files of the repository that a notebook or module imports or reads, wherever in it."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(source)["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        source = "\n".join(NO_PYTHON.sub("", cell) for cell in code)
    # `import name`, and of `from module import name` both, as the name may be a module
    names = set()
    with telling(f"{path} is not Python"):
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", "")
            names.update([module, *(f"{module}.{alias.name}" for alias in node.names)])
    names = {name.strip(".") for name in names if name.strip(".").startswith(CODE)}
    files = set().union(*(brought(f"{name.replace('.', '/')}.py") for name in names))
    for words in HELD.findall(source):
        place = "/".join(re.findall(r'"(.*?)"', words))
        files |= brought(place) | brought(f"{place}/*")
    return {file for file in files if file.is_file()}


def follows(path):
    """The same, with all that the modules among them follow from."""
    files, new = set(), {path}
    while new:
        files |= new
        code = [file for file in new if file.suffix in (".py", ".ipynb")]
        new = set().union(*map(followed, code)) - files
    for pattern in [*EVERY, *(READS[file.stem] for file in files if file.stem in READS)]:
        files |= brought(pattern)
    return files


@cache
def table_digest(path):
    """Digest of a rank table's columns by its record."""
    return read_record(path)["columns_sha256"]


def made_of(page):
    """A digest of all that a page follows from."""
    files = follows(notebooks()[page.name]).union(page.after)
    for family in page.families:
        for one in with_repeats([family]):
            files |= {one.path, *brought(f"published/ranks/{one.name}.parquet")}
        places = [corpus.file or corpus.path for corpus in texts(page, family)]
        files.update(map(Path, filter(None, places)))  # of a label neither
    here = f"{root()}/"
    contents = {str(f).removeprefix(here): file_digest(f) for f in files if f.is_file()}
    tables_here = list(map(table_digest, tables(page)))
    return digest([page.name, page.folder, page.parameters, contents, tables_here])


def is_current(page, made):
    """Whether the executed page is of that digest, and whole."""
    try:
        notebook = json.loads(page.path.read_text(encoding="utf-8"))
        record = notebook["metadata"]["rbp"]
        return record["made_of"] == made and record["cells"] == digest(notebook["cells"])
    except (OSError, ValueError, LookupError, TypeError):
        return False


def stale(book):
    """[(page, its digest)] of those that are of something else than what is here now."""
    now = [(page, made_of(page)) for page in book]
    return [(page, made) for page, made in now if not is_current(page, made)]


# ---- run one


class Shown(DisplayHook):
    """Keeps the value of a cell's last line."""

    def write_output_prompt(self):
        """Nothing: it is no terminal."""

    def write_format_data(self, data, metadata=None):
        keep(self.shell, "execute_result", data=data, metadata=metadata or {})


class Display(DisplayPublisher):
    """Keeps what a cell displays."""

    def publish(self, data, metadata=None, **_):
        keep(self.shell, "display_data", data=data, metadata=metadata or {})

    def clear_output(self, wait=False):
        self.shell.shown.clear()


class Shell(InteractiveShell):
    """IPython, whose cells' outputs are kept in the order in which they come, as a kernel's are."""

    displayhook_class = Type(Shown)
    display_pub_class = Type(Display)
    shown = ()

    def ask_exit(self):
        raise SystemExit  # of exit() and quit()


class Printed(io.TextIOBase):
    """Standard output of cells."""

    def write(self, text):
        shown = Shell.instance().shown
        if not text:
            return 0
        if shown and shown[-1].output_type == "stream":
            shown[-1].text += text
        else:
            keep(Shell.instance(), "stream", name="stdout", text=text)
        return len(text)


def keep(shell, kind, **parts):
    shell.shown.append(nbformat.v4.new_output(kind, **parts))


class InProcess(Engine):
    """Papermill's engine without a kernel: cells run in this process, which serves one page."""

    @classmethod
    def execute_managed_notebook(cls, manager, kernel_name, **_):
        shell = Shell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        matplotlib.use(INLINE)
        matplotlib.interactive(True)
        configure_inline_support(shell, INLINE)
        for index, cell in enumerate(manager.nb.cells):
            if cell.cell_type != "code" or not cell.source.strip():
                continue
            manager.cell_start(cell, index)
            shell.shown = cell.outputs = []
            with redirect_stdout(Printed()):
                result = shell.run_cell(cell.source, store_history=True)
            for part in (cell, *cell.outputs):
                if "execution_count" in part:
                    part.execution_count = result.execution_count
            if not result.success:
                error = result.error_before_exec or result.error_in_exec
                raise error if isinstance(error, InputError) else failure(manager.nb, cell, error)
            manager.cell_complete(cell, index)


def failure(notebook, cell, error):
    """What a failed cell raises; the notebook as far as it ran is kept."""
    path = root() / "logs" / f"failed-{os.getpid()}.ipynb"
    write_text(path, nbformat.writes(notebook))
    number = cell.metadata.get("cell", "of the parameters")
    why = f"{type(error).__name__}: {error}"
    return RuntimeError(f"failed in cell {number} ({why}); the notebook as far as it ran is {path}")


papermill_engines.register("in-process", InProcess)


def run(page, made):
    """Run a page with papermill and write it to its place, whole and tidied."""
    with step("page", f"{page.folder}/{page.name}"):
        began = time.monotonic()
        executed = execute(page)
        tidy(executed, None if page.folder == TOGETHER else page.folder)
        executed.metadata["rbp"] = {
            "notebook": page.name,
            "parameters": json.loads(FOLDERS.sub("", json.dumps(page.parameters))),
            "texts": titles(page.parameters),
            "source": file_digest(notebooks()[page.name]),
            "made_of": made,
            "tables": {label(path): table_digest(path) for path in tables(page)},
        }
        cells = json.loads(nbformat.writes(executed))["cells"]
        executed.metadata["rbp"]["cells"] = digest(cells)
        write_text(page.path, nbformat.writes(executed) + "\n")

        # when and with what it ran: beside the page, as the same run gives the same page
        ran = {"page": file_digest(page.path), "seconds": round(time.monotonic() - began)}
        path = root() / "logs" / "runs" / f"{page.folder}-{page.name}.json"
        write_text(path, json.dumps(ran | circumstances()))


def execute(page):
    """The notebook as papermill ran it, in the root."""
    os.chdir(root())
    logging.getLogger("papermill").setLevel(logging.ERROR)
    notebook = for_family(notebooks()[page.name], page.parameters.get("family"))
    options = {"engine_name": "in-process", "progress_bar": False}
    return papermill.execute_notebook(notebook, None, page.parameters, **options)


def label(path):
    """FAMILY/MODEL/TEXT of a rank table."""
    return "/".join(path.with_suffix("").parts[-3:])


def circumstances():
    """When, where and with what something runs; no commit where there is no git."""
    git = f"git -C {shlex.quote(str(root()))} describe --always --dirty 2>/dev/null"
    libraries = [f"{name} {version(name)}" for name in LIBRARIES]
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": subprocess.getoutput(git),
        "platform": platform.platform(),
        "versions": ", ".join([f"Python {platform.python_version()}", *libraries]),
    }


def for_family(source, family=None):
    """The notebook as it runs for a family, for an imported one without what needs its text; its
    code cells know their number, which the captions of figures give."""
    notebook = nbformat.read(source, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        cell.metadata["cell"] = number
    # what needs text or models
    if family and load_family(family).imported:
        kept = [c for c in notebook.cells if "runs-models" not in c.metadata.get("tags", [])]
        if len(kept) < len(notebook.cells):
            note = "What needs the text or models of this family is left out: they are not here."
            kept.insert(1, nbformat.v4.new_markdown_cell(note))
        notebook.cells = kept
    return notebook


def tidy(page, family=None):
    """Make an executed notebook fit for the book, in place: the same run gives the same bytes.

    Templates are Markdown, parameter cells hidden, other code is folded, the first heading names
    the family unless it is the default or named already; run times, paths and stderr are dropped.
    """
    as_words(page)
    for number, cell in enumerate(page.cells):
        tags = set(cell.metadata.get("tags", []))
        if tags & PARAMETERS:
            cell.source = FOLDERS.sub("", cell.source)
            tags.add("remove-cell")
        elif cell.cell_type == "code" and not tags & SHOWN:
            tags.add("hide-input")
        cell.metadata["tags"] = sorted(tags)
        cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    # what papermill and a kernel tell of the run
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


# ---- run several


def run_pages(folders=(), page="", family="", corpus="", book=None, last=False, jobs=1):
    """Run the pages that are stale, each in a fork; arguments as of the command line.

    Raises InputError: the book has no such page. RuntimeError: one failed.
    """
    named = {"families": [family] if family else None, "corpora": [corpus] if corpus else None}
    settings = (book or {}) | {key: value for key, value in named.items() if value}
    chosen = [one for one in pages(**settings) if bool(one.after) == last or one.name == page]
    if page:
        check_choice(page, notebooks(), "notebook")
        together = is_once(page) and not family
        folders = [TOGETHER if together else load_family(family or DEFAULT_FAMILY).name]
        chosen = [one for one in chosen if one.name == page]
    chosen = [one for one in chosen if one.folder in (folders or [one.folder])]
    if page and not chosen:
        raise InputError(f"the book has no page {page} of {folders[0]}.")

    # those that read all others one after the other, as each may read those before it
    failed = []
    for several in [[one] for one in chosen] if last else [chosen]:
        waiting = sorted(stale(several), key=lambda pair: pair[0].folder != TOGETHER)
        for name in WARM if waiting else ():
            with suppress(ImportError):  # a page tells best what it lacks
                import_module(name)
        steps = [(f"{one.folder}/{one.name}", run, (one, made)) for one, made in waiting]
        failed += run_all(steps, jobs)
    if failed:
        raise RuntimeError(f"not made: {', '.join(failed)}")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m workflow.pages")
    add = parser.add_argument
    add("folders", nargs="*", help="families, or `all`; every one by default")
    add("--page", help="one notebook alone")
    add("--family", help="a name or YAML path, beside the embedded ones")
    add("--corpus", help="a text, in place of the family's own")
    add("--jobs", type=int, default=1, help="at once")
    add("--book", type=json.loads, help="settings of the workflow, as JSON")
    add("--last", action="store_true", help="those that read all pages before them")
    options = vars(parser.parse_args(argv))
    return ended(lambda: run_pages(**options))


if __name__ == "__main__":
    sys.exit(main())
