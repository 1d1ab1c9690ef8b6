"""The bundle for a class and the students' sheets: `book/labs/bundle.py` makes them beside the pages, into the site."""

import html
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

PLACE = "labs"  # in the site
MARK = "<!-- what book/labs/bundle.py made -->"


class LabsBundle(Directive):
    """{labs-bundle}: links to the bundle and to the students' sheets; a sentence where nothing was measured for one."""

    def run(self):
        return [nodes.raw("", f'<div class="rbp-bundle">{MARK}</div>', format="html")]


def start(app):
    """Begin to make the bundle, in a process of its own while the pages are read."""
    program = Path(app.srcdir) / "book" / "labs" / "bundle.py"
    if app.builder.name != "html" or not program.is_file():
        return
    out = Path(app.outdir) / PLACE
    command = [sys.executable, program, "--output", out / "labs.zip", "--sheets", out]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"RBP_ROOT": str(Path(app.srcdir).resolve())}
    app.labs = subprocess.Popen(command, cwd=app.srcdir, env=environment, **streams)


def show(app, pagename, templatename, context, doctree):
    """Say on the page that asks for it what came of it."""
    if MARK not in context.get("body", ""):
        return
    if app.builder.name != "html":
        context["body"] = context["body"].replace(MARK, "<p>The bundle stands on this page of the book as a site.</p>")
        return
    said = "its program is not here."
    if made := getattr(app, "labs", None):
        made.said = made.communicate()[1] if made.returncode is None else made.said
        said = made.said
        if made.returncode not in (0, 2):
            raise RuntimeError(f"the bundle for a class could not be made: {said}")
    place = app.builder.get_relative_uri(pagename, "index").removesuffix("index.html") + PLACE
    said = words(Path(app.outdir) / PLACE, place, said.removeprefix("rbp: ").strip())
    context["body"] = context["body"].replace(MARK, said)


def end(app, error):
    """Leave nothing running."""
    if made := getattr(app, "labs", None):
        made.kill() if error else made.wait()


def words(out, place, said):
    """HTML of the links to what is in a folder of the site; where there is no bundle, why."""
    if (bundle := out / "labs.zip").is_file():
        with zipfile.ZipFile(bundle) as z:
            families = " and ".join(Path(name).stem for name in z.namelist() if name.endswith(".counts"))
        size = f"{bundle.stat().st_size / 1e6:.1f} MB"
        told = (
            f'<a href="{place}/labs.zip" download>Download the bundle</a> ({size}): counts of {html.escape(families)}, '
        )
        told += "the lab sheets, a reader and a codebook."
    else:
        told = f"This copy of the book was built without the bundle: {html.escape(said)}"
    sheets = sorted(out.glob("*.html"))
    links = ", ".join(f'<a href="{place}/{s.name}">{s.stem.replace("_", " ")}</a>' for s in sheets)
    return f"<p>{told}</p>" + (
        f"<p>Students' sheets, to read or print, without solutions: {links}.</p>" if links else ""
    )


def setup(app):
    app.add_directive("labs-bundle", LabsBundle)
    app.connect("builder-inited", start)
    app.connect("html-page-context", show)
    app.connect("build-finished", end)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
