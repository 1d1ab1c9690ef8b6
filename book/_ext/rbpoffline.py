"""Scripts of a book that reads offline, out of their installed wheels: MathJax, and Vega on pages
with a moving figure.

Of MathJax only what pages use is copied (2 MB of 24). Readers without scripts, and print, get a
picture of how each moving figure first looks, drawn by the same wheel.
"""

import html
import json
import re
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from rbplinks import set_raw
from rbprun import MOVING
from sphinx.util.fileutil import copy_asset
from vl_convert import javascript_bundle, vegalite_to_svg

MATHJAX = "sphinx-mathjax-offline"  # its import name has hyphens
FILES = ("tex-chtml.js", "output/chtml/fonts/woff-v2", "input/tex/extensions")
VEGA = "vendor/vega.js"
TAG = re.compile(r"<[^>]*>")
CAPTION = re.compile(r"<figcaption>(.*?)</figcaption>", re.S)
SPEC = re.compile(r'<script type="application/json">(.*?)</script>', re.S)
WIDE = 640  # pixels of a still picture


def add_stills(app, doctree):
    """Put a picture beside each moving figure: how it first looks, for readers without scripts."""
    folder, up = Path(app.outdir, "_images"), "../" * app.env.docname.count("/")
    for node in doctree.findall(nodes.raw):
        if MOVING not in node.astext():
            continue
        data = SPEC.search(node.astext())[1]
        spec = json.loads(data)
        name = f"still-{sha256(data.encode()).hexdigest()[:16]}.svg"
        folder.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text(still(data), encoding="utf-8")
        first = "; ".join(first_choices(spec.get("params", ())))
        words = f"It moves where scripts may run; here it stands as it first looks. {first}"
        alt = TAG.sub("", CAPTION.search(node.astext())[1]).replace('"', "&quot;")
        image = f'<img class="rbp-figure" src="{up}_images/{name}" alt="{alt}">'
        note = f"<noscript>{image}<p>{html.escape(words)}</p></noscript>"
        set_raw(node, note + node.astext())


@cache
def still(data):
    """A moving figure as it first looks: SVG, in black on white."""
    spec = json.loads(data)
    look = spec.get("config", {}) | {"font": "sans-serif"}
    return vegalite_to_svg(spec | {"width": WIDE, "background": "white", "config": look})


def first_choices(params):
    """What the lists of a moving figure are set to at first."""
    for param in params:
        bind = param.get("bind", {})
        if bind.get("input") == "select":
            labels = dict(zip(bind["options"], bind.get("labels", bind["options"]), strict=True))
            yield f"{bind['name']}: {labels[param['value']]}"


def load_vega(app, pagename, templatename, context, doctree):
    """Ask for the script on pages with a moving figure alone."""
    if MOVING in context.get("body", ""):
        app.add_js_file(VEGA, loading_method="defer")


def copy_scripts(app, error):
    """Copy MathJax and Vega into the site."""
    if error or app.builder.format != "html":
        return
    source = Path(find_spec(MATHJAX).origin).parent / "static" / "mathjax"
    vendor = Path(app.outdir, "_static", "vendor")
    for name in FILES:
        target = vendor / "mathjax" / name
        copy_asset(
            str(source / name), str(target if source.joinpath(name).is_dir() else target.parent)
        )
    # a function of its own: the names of the bundle are those of other scripts too, and a module
    # loads from no file
    vega = f"(function () {{\n{javascript_bundle()}\n}})();\n"
    Path(app.outdir, "_static", VEGA).write_text(vega, encoding="utf-8")


def setup(app):
    app.connect("doctree-read", add_stills, priority=450)
    app.connect("html-page-context", load_vega)
    app.connect("build-finished", copy_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
