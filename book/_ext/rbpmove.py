"""Figures that move: the one script that draws them comes out of an installed wheel at build time, and stands once in
the book, loaded only by pages that have such a figure.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from rbpteach import RunFigure

SCRIPT = "vendor/vega.js"
MARK = 'class="rbp-move"'


def load(app, pagename, templatename, context, doctree):
    if MARK in context.get("body", ""):
        app.add_js_file(SCRIPT, loading_method="defer")


def copy_vega(app, error):
    if error or app.builder.format != "html":
        return
    from vl_convert import javascript_bundle

    target = Path(app.outdir) / "_static" / SCRIPT
    target.parent.mkdir(parents=True, exist_ok=True)
    # a function of its own: the names of the bundle are those of other scripts too, and a module loads from no file
    target.write_text(f"(function () {{\n{javascript_bundle()}\n}})();\n", encoding="utf-8")


class RunMove(RunFigure):
    """{run-move} PAGE WORDS: what {run-figure} shows, which a reader's script replaces by the page's moving figure."""

    def run(self):
        still, *rest = super().run()
        places = Path(self.env.srcdir).glob(f"book/_executed/*/{self.arguments[0]}.ipynb")
        moving = next((figure for place in sorted(places) if (figure := moving_figure(place))), "")
        if not isinstance(still, nodes.raw) or not moving:
            return [still, *rest]
        both = re.sub(r"<noscript>.*?</noscript>", lambda _: f"<noscript>{still.astext()}</noscript>", moving, count=1)
        both = re.sub(r'"height":\d+', '"height":170', both, count=1)  # it stands beside words, on one screen
        return [nodes.raw("", both, format="html"), *rest]


def moving_figure(page):
    """HTML of the first moving figure of an executed notebook; empty without one."""
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    found = ("".join(o.get("data", {}).get("text/html", "")) for c in cells for o in c.get("outputs", ()))
    return next((text for text in found if MARK in text), "")


def setup(app):
    app.add_directive("run-move", RunMove)
    app.connect("html-page-context", load)
    app.connect("build-finished", copy_vega)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
