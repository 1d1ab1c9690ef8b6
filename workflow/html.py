"""The HTML book out of executed pages: the page of all families, then jupyter-book.

`python -m workflow.html` builds it from what lies executed.
"""

import json
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from paper.show.plain import shown
from rbplib.families import InputError, load_family, root, write_text
from workflow.page import DEFAULT_FAMILY, TOGETHER, digests, ended, executed_pages, kept

READ = ("_config.yml", "_toc.yml", "benchmarks/README.md")  # beside what lies in book/
MANIFEST = "manifest.json"  # what the built book is made of, and its digests


def families_page():
    """Write the page that leads to every family's pages: the contents hold those of one alone.

    Returns:
        name of that family: the default one, or the first where no page of it was run.
    """
    first = {}  # page of each family
    for path in executed_pages():
        first.setdefault(path.parent.name, path)
    first.pop(TOGETHER, None)
    text = "\n".join(map(family_part, first.values()))
    write_text(
        root() / "book" / "_executed" / TOGETHER / "families.md",
        f"""---
orphan: true
---

# Every family, every page

:::{{container}} rbp-scope
Families that were run: {len(first)}. Each page says under its title which models and which text it
rests on.
:::

{text}""",
    )
    return DEFAULT_FAMILY if DEFAULT_FAMILY in first else next(iter(first), DEFAULT_FAMILY)


def family_part(page):
    """Markdown on the family of a page: what its file says, where that is here, and its pages."""
    name, words = page.parent.name, []
    with suppress(InputError):
        family = load_family(kept(page, "metadata", "rbp", "parameters", "family") or name)
        words = [shown(text) for text in (family.title, family.note) if text not in ("", name)]
    # search and the theme's print view take a heading for HTML: a title of people stands below it
    pages = f"```{{toctree}}\n:glob:\n:titlesonly:\n\n../{name}/*\n```\n"
    return "\n\n".join([f"## {name}", *words, pages])


def sources():
    """Digests of what the book is built of beside its pages, and of what builds it."""
    files = [Path(__file__), *map(root().joinpath, READ), *(root() / "book").rglob("*")]
    return digests(f for f in files if not {"_executed", "__pycache__"} & set(f.parts))


def manifest(files):
    """What the book here is: of which sources and executed pages, and digests of its own files."""
    html = (root() / "_build" / "html").rglob("*")
    return {"sources": files, "pages": digests(executed_pages()), "html": digests(html)}


def is_current():
    """Whether the book that is here was built of what is here now, and is whole."""
    return kept(root() / "_build" / MANIFEST) == manifest(sources())


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
        raise RuntimeError(f"the book has warnings, and each is an error:\n{run.stderr}")
    return place / "_build" / builder


def build_html():
    """Build the book beside the one that is here and put it in its place; its first page."""
    html, files = root() / "_build" / "html", sources()
    new = build("html")
    shutil.rmtree(html, ignore_errors=True)
    new.rename(html)
    shutil.rmtree(new.parents[1])
    write_text(html.with_name(MANIFEST), json.dumps(manifest(files)))
    return html / "index.html"


if __name__ == "__main__":
    raise SystemExit(ended(lambda: f"first page: {build_html()}"))
