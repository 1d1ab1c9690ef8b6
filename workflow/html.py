"""The HTML book out of executed pages: the page of all families, then jupyter-book.

`python -m workflow.html` builds it from what lies executed; the workflow names its file for this
step.
"""

import json
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from paper.show.plain import shown
from rbplib.families import InputError, digest, load_family, root, write_text
from workflow.page import (
    DEFAULT_FAMILY,
    TOGETHER,
    content,
    ended,
    executed_pages,
    kept,
    page_record,
)

MANIFEST = "manifest.json"  # what the built book is made of, and its digests


def families_page():
    """Write the page that leads to every family's pages: the contents hold those of one alone.

    Returns:
        name of that family: the default one, or the first where no page of it was run.
    """
    parts = {}
    # a part for each family of which a page was run
    for path in executed_pages():
        family = path.parent.name
        if family not in {TOGETHER, *parts}:
            parts[family] = family_part(family, page_record(path) or {})
    # the page
    text = "\n".join(parts.values()) or "No page of a family was run.\n"
    write_text(
        root() / "book" / "_executed" / TOGETHER / "families.md",
        f"""---
orphan: true
---

# Every family, every page

:::{{container}} rbp-scope
Families that were run: {len(parts)}. Each page says under its title which models and which text it
rests on.
:::

{text}""",
    )
    return DEFAULT_FAMILY if DEFAULT_FAMILY in parts else next(iter(parts), DEFAULT_FAMILY)


def family_part(name, record):
    """Markdown on one family: what its file says of it, where that is here, and its pages."""
    words = []
    with suppress(InputError):
        family = load_family(record.get("parameters", {}).get("family", name))
        words = [shown(text) for text in (family.title, family.note) if text not in ("", name)]
    # search and the theme's print view take a heading for HTML: a title of people stands below it
    pages = f"```{{toctree}}\n:glob:\n:titlesonly:\n\n../{name}/*\n```\n"
    return "\n\n".join([f"## {name}", *words, pages])


def made_of(paths):
    """A digest of the files that the book is built of beside its pages, and of what builds it."""
    files = sorted({*map(str, paths), str(Path(__file__))})
    return digest({"/".join(Path(p).parts[-2:]): content(p) for p in files})


def manifest(files):
    """What the book here is: of which files and executed pages, and the digest of every file."""
    html = root() / "_build" / "html"
    return {
        "made_of": files,
        "pages": {"/".join(p.parts[-2:]): content(p) for p in executed_pages()},
        "html": {str(p.relative_to(html)): content(p) for p in html.rglob("*") if p.is_file()},
    }


def is_current(files):
    """Whether the book that is here was built of these files and these pages, and is whole."""
    return kept(root() / "_build" / MANIFEST) == manifest(files)


def build(builder, strict=("-W", "--keep-going", "-n")):
    """Have jupyter-book build from nothing, every warning an error; the folder of what it made.

    An incremental build would keep stale contents and forget earlier warnings.
    """
    place = root() / "_build" / f"new-{builder}"
    shutil.rmtree(place, ignore_errors=True)

    # the contents show one family's pages
    contents = place / "contents.yml"
    toc = (root() / "_toc.yml").read_text(encoding="utf-8")
    write_text(contents, toc.replace(DEFAULT_FAMILY, families_page()))

    # build
    command = [Path(sys.executable).with_name("jupyter-book"), "build", root(), "--all", "-q"]
    command += ["--toc", contents, "--path-output", place, "--builder", builder, *strict]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root())
    if run.returncode:
        lines = (run.stdout + run.stderr).splitlines()
        faults = [x for x in lines if re.search(r"WARNING|ERROR|[Ee]xception", x)] or lines[-15:]
        faults = "\n".join(dict.fromkeys(faults))
        raise RuntimeError(f"the book has warnings, and each is an error:\n{faults}")
    return place / "_build" / builder


def build_html(files=None):
    """Build the book beside the one that is here and put it in its place; its first page.

    files: digest of what it is built of beside pages, from `made_of`; kept in the manifest.
    """
    html, new = root() / "_build" / "html", build("html")
    shutil.rmtree(html, ignore_errors=True)
    new.rename(html)
    shutil.rmtree(new.parents[1])
    write_text(html.with_name(MANIFEST), json.dumps(manifest(files)))
    return html / "index.html"


def main(given=None):
    files = given and kept(Path(given), "made_of")
    return f"first page: {build_html(files)}"


if __name__ == "__main__":
    raise SystemExit(ended(lambda: main(*sys.argv[1:])))
