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
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import nbformat

from paper.show.parameters import DECLARED, check_parameters
from paper.show.plain import texts as titles
from rbplib.cli import ended
from rbplib.families import (
    InputError,
    argument,
    check_choice,
    digest,
    file_digest,
    held,
    list_corpora,
    list_families,
    load_family,
    one_each,
    root,
    write_text,
)
from rbplib.table import kept_columns, read_record, read_table, resolve, table_paths
from workflow.forks import Failed, run_all, step

CHECKOUT = Path(__file__).resolve().parents[1]
TOGETHER = "all"  # folder of the pages that show several families
DEFAULT_FAMILY = "nano-pythia"  # its pages tell the story in the contents
# by names without their numbers
JOINED = "families"  # once more on the families that a reader named
LAST = "findings"  # it reads all pages before it
NO_TABLE = "train_your_own"  # it takes a family, and trains models
AUTHORS = "gpt2-authors"  # evidence of its own: only Findings shows it beside others
MEASURING = ("device", "dtype", "replace")  # settings of the workflow that pages have no part in
EVERY = ["rbplib/*.py", "notebooks/words.md"]  # what every page follows from
EVERY += ["workflow/pages.py", "workflow/engine.py"]
EVERY += ["book/claims.yml", "book/findings.yml", "paper/show/charts/*.yml"]
EVERY += ["published/*.csv", "published/ranks/*.*", "published/probes/*/*.csv"]
IMPORT = re.compile(r"(?:from|import) ((?:paper|training)[.\w]*)(?: import (\([^)]*\)|.*))?")
HELD = re.compile(r"\bheld\(((?:\"[^\"]*\"[, ]*)+)\)")
PARAMETERS = {"parameters", "injected-parameters"}
SHOWN = {"show-input", "hide-cell", "hide-input", "remove-input", "remove-cell"}
TITLE = re.compile(r"^\s*# (.*?)\s*$", re.M)
FOLDERS = re.compile(r"(?<=[\"'])/(?:[^\"'/\n]+/)+(?=[^\"'/\n]+[\"'])")  # of a file given by path
WARM = "workflow.engine paper.evidence paper.show.moving scipy.stats".split()  # slow to import
IMPORTS = "logs/imports"  # what a page of each notebook imported
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
            given["corpora"] = list(map(argument, resolve(several[0], None, corpora)[2]))
        if "family" in known_here and folder != TOGETHER:
            given["family"] = argument(several[0])
        elif known_here.get("families") == [] and several != embedded:
            given["families"] = list(map(argument, several))
        return Page(name, folder, given, tuple(several if reads else ()), tuple(corpora))

    # of each family, then of several
    book = []
    for family in shown:
        texts = corpora if family in own or not own else ()
        each = [name for name in notebooks() if not is_once(name)]
        book += [page(name, family.name, [family], texts) for name in each]
    for name in filter(is_once, notebooks()):
        late = plain(name) == LAST
        several = [f for f in shown if f not in own or late and f.name == AUTHORS]
        book.append(page(name, TOGETHER, several, () if own else corpora))
        if plain(name) == JOINED and own:
            book.append(page(name, own[0].name, shown, () if own[0].imported else corpora))
    # a page on a model of others is none while no table of it is here
    book = [page for page in book if "real" not in defaults(page.name) or here(page, "real")]
    # the last reads the executed pages of its families
    first = [page for page in book if plain(page.name) != LAST]
    last = [page for page in book if page not in first]
    for page in last:
        folders = {TOGETHER, *(family.name for family in page.families)}
        after = tuple(before.path for before in first if before.folder in folders)
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
def ladders_of(path, corpora):
    """[(family, Corpora)] of a family by its path and of its models trained again; the corpora are
    the family's own for both, or those named."""
    family, _, corpora = resolve(path, None, corpora)
    ladders = [family, load_family(family.repeats)] if family.repeats else [family]
    return [(ladder, corpora) for ladder in ladders]


def reads(families, corpora):
    """`ladders_of` families, one after the other."""
    return [row for family in families for row in ladders_of(family.path, corpora)]


def here(page, parameter):
    """The family that a page's parameter names; None where it, or any table of it, is not here."""
    with suppress(InputError):
        family = load_family((defaults(page.name) | page.parameters)[parameter])
        return family if table_paths(family.name) else None


def tables(page):
    """Paths of the rank tables that a page reads, of families trained again too."""
    if plain(page.name) == NO_TABLE:
        return []
    wanted, paths = defaults(page.name) | page.parameters, []
    others = [here(page, key) for key in ("real", "raw") if key in wanted]
    for family, corpora in reads(filter(None, [*page.families, *others]), page.corpora):
        names = {wanted.get("fetched"), *(corpus.name for corpus in corpora)}
        paths += [p for p in table_paths(family.name) if p.name.split(".")[0] in names]
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
        source = "\n".join("".join(cell["source"]) for cell in json.loads(source)["cells"])
    files = set()
    for module, names in IMPORT.findall(source):
        # of `from module import name` both, as the name may be a module
        for name in [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))]:
            files |= brought(f"{name.replace('.', '/')}.py")
    for words in HELD.findall(source):
        path = "/".join(re.findall(r'"(.*?)"', words))
        files |= brought(path) | brought(f"{path}/*")
    return {file for file in files if file.is_file()}


def follows(path):
    """The same, with all that the modules among them follow from."""
    files, new = set(), {path}
    while new:
        files |= new
        code = [file for file in new if file.suffix in (".py", ".ipynb")]
        new = set().union(*map(followed, code)) - files
    return files.union(*map(brought, EVERY))


@cache
def table_digest(path):
    """Digest of a rank table's columns by its record."""
    return read_record(path)["columns_sha256"]


def made_of(page):
    """A digest of all that a page follows from."""
    files = follows(notebooks()[page.name]).union(page.after)
    for family, corpora in reads(page.families, page.corpora):
        files |= {family.path, *brought(f"published/ranks/{family.name}.parquet")}
        places = [corpus.file or corpus.path for corpus in corpora]
        files.update(map(Path, filter(None, places)))  # of a label neither
    here = f"{root()}/"
    contents = {str(f).removeprefix(here): file_digest(f) for f in files if f.is_file()}
    columns = list(map(table_digest, tables(page)))
    return digest([page.name, page.folder, page.parameters, contents, columns])


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


def run(page, made):
    """Run a page with papermill and write it to its place, whole and tidied."""
    with step("page", f"{page.folder}/{page.name}"):
        began, before = time.monotonic(), {*sys.modules}
        executed = execute(page)
        imported = [name for name in sys.modules if name not in before]
        write_text(root() / IMPORTS / page.name, "\n".join(imported))
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
    from workflow import engine

    os.chdir(root())
    notebook = for_family(notebooks()[page.name], page.parameters.get("family"))
    return engine.execute(notebook, page.parameters)


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
    the family unless it is the default or named already; run times and paths are dropped.
    """
    from paper.book import as_words

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
    # what papermill and a kernel tell of the run
    for part in [page, *page.cells]:
        for name in ("papermill", "execution", "language_info"):
            part.metadata.pop(name, None)

    # the first heading names the family
    for cell in page.cells:
        if cell.cell_type == "markdown" and (title := TITLE.search(cell.source)):
            if family not in (None, DEFAULT_FAMILY, *re.findall(r"[^\s()]+", title[1])):
                cell.source = TITLE.sub(rf"# \1 ({family})", cell.source, count=1)
            break


# ---- run several


def prepare():
    """Import and set up what all pages need, for the forks of this process: words, and drawing."""
    from matplotlib import pyplot

    from paper.show.prose import templates
    from paper.show.style import svg_of

    for name in WARM:
        import_module(name)
    templates()
    svg_of(pyplot.figure())
    pyplot.close()


def warm(page, made, several):
    """`run` of a page as a step; what a page of the same notebook imported is imported here, and
    of several pages what their family's read is read, once for all."""
    path = root() / IMPORTS / page.name
    for name in path.read_text(encoding="utf-8").split() if path.is_file() else ():
        with suppress(Exception):  # a page tells best what it lacks
            import_module(name)
    for path in tables(page) if several else ():
        with suppress(InputError):
            read_table(path)
    return partial(run, page, made)


def run_pages(folders=(), page="", family="", corpus="", book=None, last=False, jobs=1):
    """Run the pages that are stale, each in a fork; arguments as of the command line.

    Raises InputError: the book has no such page. Failed: one did.
    """
    named = {"families": [family], "corpora": [corpus]}
    book = (book or {}) | {key: value for key, value in named.items() if any(value)}
    chosen = pages(**book)
    if page:
        check_choice(page, notebooks(), "notebook")
        folder = load_family(family or DEFAULT_FAMILY).name
        folders = folders or [TOGETHER if is_once(page) and not family else folder]
        chosen = [one for one in chosen if one.name == page]
    chosen = [one for one in chosen if one.folder in (folders or [one.folder])]
    if page and not chosen:
        raise InputError(f"the book has no page {page} of {folders[0]}.")
    with kept_columns():
        for after in [False, True][: 1 + bool(last or page)]:
            run_stale([one for one in chosen if bool(one.after) == after], jobs)


def run_stale(chosen, jobs):
    """Run those that are stale, those of several families first, as they take longest."""
    waiting = sorted(stale(chosen), key=lambda pair: pair[0].folder != TOGETHER)
    several = len(waiting) > 1
    with suppress(Exception):  # a page tells best what it lacks
        if several:
            prepare()
    steps = ((f"{one.folder}/{one.name}", warm(one, made, several)) for one, made in waiting)
    if failed := run_all(steps, jobs):
        raise Failed(f"not made: {', '.join(failed)}")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m workflow.pages")
    add = parser.add_argument
    add("folders", nargs="*", help="families, or `all`; every one by default")
    add("--page", help="one notebook alone")
    add("--family", help="a name or YAML path, beside the embedded ones")
    add("--corpus", help="a text, in place of the family's own")
    add("--jobs", type=int, default=1, help="at once")
    add("--book", type=json.loads, help="settings of the workflow, as JSON")
    add("--last", action="store_true", help="then those that read all pages")
    options = vars(parser.parse_args(argv))
    return ended(partial(run_pages, **options))


if __name__ == "__main__":
    sys.exit(main())
