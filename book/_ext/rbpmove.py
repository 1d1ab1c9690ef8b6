"""Figures that move: the one script that draws them comes out of an installed wheel at build time, and stands once in
the book, loaded only by pages that have such a figure.
"""

from pathlib import Path

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
    target.write_text(javascript_bundle(), encoding="utf-8")


def setup(app):
    app.connect("html-page-context", load)
    app.connect("build-finished", copy_vega)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
