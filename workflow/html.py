"""The HTML book out of executed pages: the page of all families, then jupyter-book.

`python -m workflow.html` builds it from what lies executed.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

from paper.show.plain import shown
from rbplib.families import InputError, load_family, root, write_text
from workflow.page import (
    DEFAULT_FAMILY,
    TITLE,
    TOGETHER,
    content,
    digest,
    executed_pages,
    page_path,
    page_record,
)

MANIFEST = "manifest.json"  # what the built book is made of, and its digests


def pages_of_families():
    """{family: [names of its executed pages]}, and {page: its title}."""
    pages, titles = {}, {}
    for path in executed_pages():
        family, name = path.parent.name, path.stem
        if family == TOGETHER:
            continue
        pages.setdefault(family, []).append(name)
        if name not in titles:
            cells = nbformat.read(path, 4).cells
            text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
            titles[name] = TITLE.search(text)[1].removesuffix(f" ({family})")
    return pages, titles


def families_page():
    """Write the page that leads to every family's pages: the contents hold those of one alone.

    Returns:
        name of that family: the default one, or the first where no page of it was run.
    """
    for old in root().glob("book/_executed/*/*.md"):
        old.unlink()  # of an earlier run, or of nobody's
    pages, titles = pages_of_families()

    # a table of links: families by pages
    heads = ["family", *(name[:2] for name in sorted(titles))]
    lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
    for family, names in pages.items():
        links = [f"[{n[:2]}](../{family}/{n}.ipynb)" if n in names else "–" for n in sorted(titles)]
        lines.append(" | ".join([f"`{family}`", *links]))
    table = (
        "".join(f"| {line} |\n" for line in lines) if pages else "No page of a family was run.\n"
    )

    # what the numbers mean, what each family's file says, and the contents
    key = "".join(f"- {name[:2]}: {titles[name]}\n" for name in sorted(titles))
    about = "".join(family_words(family, names[0]) for family, names in pages.items())
    entries = [
        f"/book/_executed/{family}/{name}\n" for family, names in pages.items() for name in names
    ]
    text = f"---\norphan: true\n---\n\n# Every family, every page\n\n{table}\n{key}\n{about}"
    if entries:
        text += f"```{{toctree}}\n:hidden:\n\n{''.join(entries)}```\n"
    write_text(root() / "book" / "_executed" / TOGETHER / "families.md", text)
    return DEFAULT_FAMILY if DEFAULT_FAMILY in pages else next(iter(pages), DEFAULT_FAMILY)


def family_words(name, page):
    """What a family's file says of it, under a heading of its own; the heading alone without
    one."""
    record = page_record(page_path(page, name)) or {}
    words = []
    try:
        family = load_family(record.get("parameters", {}).get("family", name))
        words = [
            shown(text) for text in (family.title, family.note) if text not in ("", family.name)
        ]
    except InputError:
        pass  # the page stays readable without the file that it was made from
    # search and the theme's print view take a heading for HTML: a title of people stands below it
    return "\n\n".join([f"## {name}", *words, ""])


def made_of(paths):
    """A digest of the files that the book is built of beside its pages, and of what builds it."""
    files = sorted({*map(str, paths), str(Path(__file__))})
    return digest({"/".join(Path(p).parts[-2:]): content(p) for p in files})


def is_current(files):
    """Whether the book that is here was built of these files and of the pages as they are, and is
    whole."""
    try:
        manifest = json.loads((root() / "_build" / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return manifest == {"made_of": files, "pages": page_digests(), "html": html_digests()}


def page_digests():
    """{FAMILY/NAME: digest that the executed page carries}."""
    records = {f"{p.parent.name}/{p.stem}": page_record(p) for p in executed_pages()}
    return {name: record and record["page"] for name, record in records.items()}


def html_digests():
    """{path: SHA-256} of every page of the built book."""
    html = root() / "_build" / "html"
    return {p.relative_to(html).as_posix(): content(p) for p in sorted(html.rglob("*.html"))}


def build_html(files=None):
    """Build the book from what lies executed, every warning an error; the path of its first page.

    files: digest of what it is built of beside pages, from `made_of`; kept in the manifest.

    Always from nothing: an incremental build keeps stale contents and forgets earlier warnings.
    """
    for path in executed_pages():
        if page_record(path) is None:
            raise InputError(f"{path} is not as its run left it: remove it and run `make book`.")
    html = root() / "_build" / "html"
    shutil.rmtree(html.parent, ignore_errors=True)

    # the contents show one family's pages
    contents, story = html.parent / "contents.yml", families_page()
    toc = (root() / "_toc.yml").read_text(encoding="utf-8")
    write_text(contents, toc.replace(DEFAULT_FAMILY, story))

    # build
    command = [Path(sys.executable).with_name("jupyter-book"), "build", root(), "--toc", contents]
    command += ["--path-output", root(), "--all", "-W", "--keep-going", "-n", "-q"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root())
    first = html / "index.html"
    if run.returncode or not first.is_file():
        lines = (run.stdout + run.stderr).splitlines()
        faults = [x for x in lines if re.search(r"WARNING|ERROR|[Ee]xception", x)] or lines[-15:]
        shutil.rmtree(html, ignore_errors=True)
        faults = "\n".join(dict.fromkeys(faults))
        raise RuntimeError(f"the book has warnings, and each is an error:\n{faults}")
    manifest = {"made_of": files, "pages": page_digests(), "html": html_digests()}
    write_text(root() / "_build" / MANIFEST, json.dumps(manifest))
    return first


def main():
    try:
        files = None
        if len(sys.argv) > 1:  # the workflow's file of what the book is to be made of
            files = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["made_of"]
        print("first page:", build_html(files))
    except (InputError, RuntimeError) as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
