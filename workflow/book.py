"""`rbp book`: the whole workflow in one call; and its last step, the HTML out of executed pages.

jupyter-book builds beside the book that is here, every warning an error, and only where the sources
or the pages are others than those of the manifest. The two then change places. What it read stays
for the next build, which reads pages that changed; after anything else that changed, it reads all.
"""

import ctypes
import fcntl
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from paper.show.plain import shown
from rbplib.cli import Parser, ended, names
from rbplib.families import (
    InputError,
    argument,
    file_digest,
    load_corpus,
    load_family,
    one_at_a_time,
    one_each,
    root,
    telling,
    write_text,
)
from rbplib.table import missing, resolve
from workflow.forks import Failed, step
from workflow.pages import (
    CHECKOUT,
    DEFAULT_FAMILY,
    MEASURING,
    TOGETHER,
    follows,
    pages,
    reads,
    stale,
)

MANIFEST = "manifest.json"  # what the built book is made of, and its digests
READ_PAGES = "_build/new-html"  # what a build read, beside what it wrote
BUILT = ("_build/html", READ_PAGES)
READ = ("_config.yml", "_toc.yml", "benchmarks/README.md", "CITATION.cff")
HEAD = """---
orphan: true
---

# Every family, every page

:::{{container}} rbp-scope
Families that were run: {}. Each page says under its title which models and which text it
rests on.
:::

"""


# ---- the HTML


def executed():
    return sorted((root() / "book" / "_executed").glob("*/[!.]*.ipynb"))


def families_page():
    """Write the page that leads to every family's pages: the contents hold those of one alone.

    Returns:
        name of that family: the default one, or the first where no page of it was run.
    """
    first = {path.parent.name: path for path in reversed(executed())}
    first.pop(TOGETHER, None)
    names = sorted(first)
    text = HEAD.format(len(names)) + "\n".join(family_part(first[name]) for name in names)
    write_text(root() / "book" / "_executed" / TOGETHER / "families.md", text)
    return DEFAULT_FAMILY if DEFAULT_FAMILY in names else [*names, DEFAULT_FAMILY][0]


def family_part(page):
    """Markdown on the family of a page: what its file says, where that is here, and its pages."""
    name, words = page.parent.name, []
    with suppress(InputError, LookupError):
        record = json.loads(page.read_text(encoding="utf-8"))["metadata"]["rbp"]
        family = load_family(record["parameters"].get("family", name))
        words = [shown(text) for text in (family.title, family.note) if text not in ("", name)]
    # search and the theme's print view take a heading for HTML: a title of people stands below it
    pages = f"```{{toctree}}\n:glob:\n:titlesonly:\n\n../{name}/*\n```\n"
    return "\n\n".join([f"## {name}", *words, pages])


def manifest(folders=("book", *BUILT)):
    """Digests of what a book is built of, of the book that is here, and of what its build read."""
    files = {Path(__file__), *map(root().joinpath, READ)}
    files = files.union(*map(follows, (root() / "book/_ext").glob("*.py")))
    for folder in folders:
        files |= {*(root() / folder).rglob("*")}
    files = [path for path in files if path.is_file() and "__pycache__" not in path.parts]
    return {str(path).removeprefix(f"{root()}/"): file_digest(path) for path in sorted(files)}


def others():
    """{file: whether the pages that were read can stay} of those that are others now than as the
    book that is here was built: of its own files, and of pages that only changed."""
    before, now = {}, manifest()
    with suppress(OSError, ValueError, TypeError):
        before |= json.loads((root() / "_build" / MANIFEST).read_text(encoding="utf-8"))
    both = before.keys() & now.keys()
    return {
        name: name.startswith("_build/html/") or name in both and name.endswith((".md", ".ipynb"))
        for name in before | now
        if before.get(name) != now.get(name)
    }


def is_whole(changed):
    """Whether of `others` none is of the book that is here: what its build read may go."""
    return all(name.startswith(READ_PAGES) for name in changed)


def build(builder, strict=("-W", "--keep-going", "-n"), kept=False):
    """Have jupyter-book build, every warning an error; the folder of what it made.

    kept: whether pages that have not changed need not be read again (see book/_ext/rbpbook.py).
    All are written: links, numbers and contents are those of a build from nothing, and so are the
    warnings, as of what was read there were none.
    """
    folder = root() / "_build" / f"new-{builder}"
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
    # the contents show one family's pages
    contents = folder / "contents.yml"
    toc = (root() / "_toc.yml").read_text(encoding="utf-8")
    write_text(contents, toc.replace(DEFAULT_FAMILY, families_page()))
    # build
    command = [Path(sys.executable).with_name("jupyter-book"), "build", root(), "-q"]
    command += ["--toc", contents, "--path-output", folder, "--builder", builder, *strict]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root())
    if run.returncode:
        raise Failed(f"the book has warnings, and each is an error:\n{run.stderr}")
    return folder / "_build" / builder


def exchange(new, old):
    """Let two folders change places at once, where the system can."""
    with suppress(AttributeError):  # of Linux, with its AT_FDCWD and RENAME_EXCHANGE
        if not ctypes.CDLL(None).renameat2(-100, bytes(new), -100, bytes(old), 2):
            return
    shutil.rmtree(old, ignore_errors=True)
    new.rename(old)


def build_html():
    """Put a new book in the place of the one that is here, where that is of something else."""
    html = root() / "_build" / "html"
    with one_at_a_time(html):
        families_page()
        changed = others()
        if not is_whole(changed):
            with step("html", "the book"):
                # what is edited during a build is built by the next one
                before = manifest(["book"])
                new = build("html", kept=all(changed.values()))
                exchange(new, html)
                shutil.rmtree(new, ignore_errors=True)
                write_text(html.with_name(MANIFEST), json.dumps(manifest(BUILT) | before))


# ---- what there is to do


planned = None  # the Plan of this process, which its Snakefile takes


class Plan:
    """What a book is made of, and what of it is not here yet.

    settings: of `pages`, and of measuring. Raises InputError: what `pages` and `missing` refuse.
    """

    def __init__(self, settings):
        self.how = {name: settings.get(name) for name in MEASURING}
        self.pages = pages(**settings)
        # {folder: {name: family}} that its pages read, by which pages, and on which texts
        self.read, readers, texts = {}, {}, {}
        for page in self.pages:
            read = self.read.setdefault(page.folder, {})
            for family, corpora in reads(page.families, page.corpora):
                read[family.name] = family
                readers.setdefault(family.name, []).append(page)
                texts.setdefault(family.name, {}).update(dict.fromkeys(map(argument, corpora)))
        every = {name: family for read in self.read.values() for name, family in read.items()}
        # {part of the measuring: [(family, model, texts) without a table]}: small models together
        self.repeats = {family.repeats for family in every.values()}
        self.parts, self.tables = {}, 0
        for name, family in every.items():
            on = list(texts[name])
            absent = [] if family.imported else missing(family, on, **self.how)
            self.tables += len(absent)
            for model in dict.fromkeys(model for model, _ in absent):
                part = "small" if self.is_small(family) else f"{name}/{model}"
                self.parts.setdefault(part, []).append((family, model, on))
        # pages that are to run: stale, of tables to come, or, if any runs, of all pages before them
        old = [page for page, _ in stale(self.pages)]
        for rows in self.parts.values():
            for family, *_ in rows:
                old += readers[family.name]
        self.stale = [page for page in self.pages if page in old or old and page.after]
        # pages of a run before: of no notebook, and beside families alone of all others
        names = {page.name for page in self.pages if not settings.get("only")}
        self.left = {path for path in executed() if path.stem not in names}
        self.left -= {page.path for page in self.pages}

    def is_current(self):
        """Whether nothing is to do."""
        return not (self.stale or self.parts or self.left) and is_whole(others())

    def is_small(self, family):
        """Whether a family's models are embedded ones, or such trained again."""
        return family.embedded or family.name in self.repeats

    def steps(self):
        """{step: folders whose pages it runs}: one for all that read small models alone."""
        steps = {}
        for folder, read in self.read.items():
            small = all(map(self.is_small, read.values()))
            steps.setdefault("embedded" if small else folder, []).append(folder)
        return steps

    def measured_for(self, folders):
        """Parts of the measuring that the pages of folders wait for."""
        names = {name for folder in folders for name in self.read[folder]}
        rows = [(part, row[0].name) for part in self.parts for row in self.parts[part]]
        return list(dict.fromkeys(part for part, name in rows if name in names))


# ---- all of it


def alone():
    """Be the one process that makes this root's book, as long as it or one that it starts runs.
    Raises InputError: another one is."""
    path = root() / "logs" / ".book.lock"
    with telling(f"{path.parent} cannot be written: change its permissions"):
        path.parent.mkdir(exist_ok=True)
        lock = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError("another process makes this book: wait for its end.") from None
    os.set_inheritable(lock, True)


def start(families=(), corpora=(), jobs=None, gpus=1, **settings):
    """Have Snakemake run the whole workflow, and end this process, or say that the book is what it
    would be; arguments as of the command line.

    The lock of the book goes with this process, however it ends.
    Raises InputError: an unknown name, or another process that makes this book.
    """
    families = one_each(map(load_family, families), "families")
    corpora = resolve(*families[:1], None, corpora)[2] if families and corpora else corpora
    settings["families"] = list(map(argument, families))
    settings["corpora"] = [argument(load_corpus(corpus)) for corpus in corpora]
    config = [f"{key}={json.dumps(value)}" for key, value in settings.items() if value]
    flow, temporary = CHECKOUT / "workflow", root() / "logs" / "tmp"
    command = ["--snakefile", flow / "Snakefile", "--directory", root()]
    command += ["--profile", flow / "profiles/default", "--cores", jobs or "all"]
    command += ["--resources", f"gpu={gpus}", "--config", f"gpus={gpus}", *config]
    command += ["--runtime-source-cache-path", temporary / "sources"]
    global planned
    alone()
    planned = Plan(settings)
    if planned.is_current():
        return print(f"first page: {root() / '_build/html/index.html'}, as it was")
    # what a killed book left here the next one removes
    shutil.rmtree(temporary, ignore_errors=True)
    with telling(f"{temporary} cannot be made anew, move it away"):
        temporary.mkdir(parents=True)
    os.environ |= dict.fromkeys(("TMPDIR", "IPYTHONDIR"), str(temporary))
    from snakemake.cli import main as snakemake  # half a second

    snakemake([*map(str, command)])


def main(argv=None):
    parser = Parser(prog="rbp book", description="Measure, run the notebooks, build the HTML book.")
    several = {"action": "extend", "type": names, "default": []}
    add = parser.add_argument
    add("--family", dest="families", help="beside the embedded: names or YAML", **several)
    add("--corpus", dest="corpora", help="texts of these families' pages, or of all", **several)
    add("--only", action="store_true", help="these families without the embedded")
    add("--replace", action="store_true", help="measure tables of another record again")
    add("--jobs", type=int, help="cores (default: all)")
    add("--gpus", type=int, default=1, help="GPUs, with --device cuda a model on each")
    add("--device", help="cpu, cuda, mps, or auto (spread over devices)")
    add("--dtype", help="of the weights, as of `rbp measure`")
    add("--html", action="store_true", help="build the HTML alone, of the pages that are there")
    options = vars(parser.parse_args(argv))
    for name in ("jobs", "gpus"):
        if options[name] is not None and options[name] < 1:
            parser.error(f"--{name} cannot be {options[name]}: give 1 or more")
    if options.pop("html"):
        return ended(build_html)
    return ended(partial(start, **options))


if __name__ == "__main__":
    from workflow import book  # as the Snakefile knows it

    sys.exit(book.main())
