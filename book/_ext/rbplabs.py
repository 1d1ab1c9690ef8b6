"""The bundle for a class and the teacher's copies: `book/labs/bundle.py` makes them beside the pages, into the site."""

import html
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

PLACE = "labs"  # in the site
MARKS = {of: f"<!-- what book/labs/bundle.py made for {of} -->" for of in ("students", "teachers")}


class LabsBundle(Directive):
    """{labs-bundle} students, or teachers: links to what the bundle has for them, or why there is none."""

    required_arguments = 1

    def run(self):
        return [
            nodes.raw(
                "", f'<div class="rbp-bundle">{MARKS[self.arguments[0]]}</div>', format="html"
            )
        ]


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
    """Say on the pages that ask for it what came of it."""
    for of, mark in MARKS.items():
        if mark in context.get("body", ""):
            context["body"] = context["body"].replace(mark, told(app, pagename, of))


def told(app, pagename, of):
    if app.builder.name != "html":
        return "<p>The bundle stands on this page of the book as a site.</p>"
    said = "its program is not here."
    if made := getattr(app, "labs", None):
        made.said = made.communicate()[1] if made.returncode is None else made.said
        said = made.said
        if made.returncode not in (0, 2):
            raise RuntimeError(f"the bundle for a class could not be made: {said}")
    place = app.builder.get_relative_uri(pagename, "index").removesuffix("index.html") + PLACE
    return WORDS[of](Path(app.outdir) / PLACE, place, said.removeprefix("rbp: ").strip())


def end(app, error):
    """Leave nothing running."""
    if made := getattr(app, "labs", None):
        made.kill() if error else made.wait()


def download(path, place, words):
    size = path.stat().st_size
    told = f"{size / 1e6:.1f} MB" if size > 1e6 else f"{size / 1e3:.0f} kB"
    return f'<a href="{place}/{path.name}" download>{words}</a> ({told})'


def for_students(out, place, said):
    """HTML of the links to the bundle and the sheets in a folder of the site; where there is no bundle, why."""
    if (bundle := out / "labs.zip").is_file():
        with zipfile.ZipFile(bundle) as z:
            families = " and ".join(
                Path(name).stem for name in z.namelist() if name.endswith(".counts")
            )
        told = (
            f"{download(bundle, place, 'Download the bundle')}: counts of {html.escape(families)}, "
        )
        told += "the lab sheets without solutions, a reader and a codebook."
    else:
        told = f"This copy of the book was built without the bundle: {html.escape(said)}"
    sheets = sorted(out.glob("*.html"))
    links = ", ".join(f'<a href="{place}/{s.name}">{s.stem.replace("_", " ")}</a>' for s in sheets)
    return f"<p>{told}</p>" + f"<p>The sheets, to read or print: {links}.</p>" * bool(links)


def for_teachers(out, place, said):
    """The same of the teacher's copies."""
    if (bundle := out / "labs-teacher.zip").is_file():
        return f"<p>{download(bundle, place, 'Download the teacher’s copies')}: every sheet with its solutions.</p>"
    return (
        f"<p>This copy of the book was built without the teacher's copies: {html.escape(said)}</p>"
    )


WORDS = dict(zip(MARKS, (for_students, for_teachers), strict=True))


def setup(app):
    app.add_directive("labs-bundle", LabsBundle)
    app.connect("builder-inited", start)
    app.connect("html-page-context", show)
    app.connect("build-finished", end)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
