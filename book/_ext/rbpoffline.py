"""Scripts of a book that reads offline, out of their installed wheels: MathJax, and Vega, which the
page's script asks for when a moving figure comes into sight.

Of MathJax only what pages use is copied (2 MB of 24). Readers without scripts, and print, get a
picture of how each moving figure first looks, drawn by the same wheel; it gives the place that is
kept for the figure until then.
"""

import html
import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile

import vl_convert
from docutils import nodes
from rbplinks import set_raw
from rbprun import MOVING, SPEC, picture
from sphinx.util.fileutil import copy_asset

MATHJAX = "sphinx-mathjax-offline"  # its import name has hyphens
FILES = """startup.js core.js input/tex.js input/tex/extensions output/chtml.js
output/chtml/fonts/tex.js output/chtml/fonts/woff-v2 a11y/assistive-mml.js""".split()
VEGA = "vendor/vega.js"
TAG = re.compile(r"<[^>]*>")
CAPTION = re.compile(r"<figcaption>(.*?)</figcaption>", re.S)
HEIGHT = re.compile(r'<svg[^>]*\bheight="([\d.]+)"')
EMPTY = '<div class="rbp-controls"></div><div class="rbp-plot"></div>'
PLACE = """<div class="rbp-controls">{knobs}</div>
<div class="rbp-plot" style="min-height:{height}px"><noscript>{still}</noscript></div>"""
STILL = "<p>It moves where scripts may run; here it stands as it first looks.</p>"
WIDE = 640  # pixels of a still picture


def add_stills(app, doctree):
    """Fill the place of each moving figure: how it first looks, for readers without scripts, and as
    much room as it will take."""
    for node in doctree.findall(nodes.raw):
        if MOVING not in node.astext():
            continue
        data = SPEC.search(node.astext())[1]
        svg, words = still(data), TAG.sub("", CAPTION.search(node.astext())[1])
        image = picture(app.env, svg, html.unescape(words), "still")
        knobs = "".join(map(knob, json.loads(data).get("params", ())))
        frame = PLACE.format(knobs=knobs, height=HEIGHT.search(svg)[1], still=image + STILL)
        set_raw(node, node.astext().replace(EMPTY, frame))


@cache
def still(data):
    """A moving figure as it first looks: SVG, in black on white."""
    spec = json.loads(data)
    look = spec.get("config", {}) | {"font": "sans-serif"}
    return vl_convert.vegalite_to_svg(spec | {"width": WIDE, "background": "white", "config": look})


def knob(param):
    """A field of a moving figure as it stands until the figure is drawn."""
    bind = param.get("bind", {})
    if "input" not in bind:
        return ""
    field = f'<input type="{bind["input"]}" disabled>'
    if "max" in bind:
        field += f"<span>{param['value']}</span>"
    if bind["input"] == "select":
        labels = dict(zip(bind["options"], bind.get("labels", bind["options"]), strict=True))
        chosen = html.escape(str(labels[param["value"]]))
        longest = html.escape(max(map(str, labels.values()), key=len))
        # as wide as the longest
        field = f'<select disabled><option>{chosen}</option><option label="{longest}"></select>'
    name = f'<span class="vega-bind-name">{html.escape(bind["name"])}</span>'
    return f'<div class="vega-bind"><label>{name}{field}</label></div>'


def copy_scripts(app, error):
    """Copy MathJax and Vega into the site."""
    if error or app.builder.format != "html":
        return
    source = Path(find_spec(MATHJAX).origin).parent / "static" / "mathjax"
    vendor = Path(app.outdir, "_static", "vendor")
    for name in FILES:
        part, target = source / name, vendor / "mathjax" / name
        copy_asset(str(part), str(target if part.is_dir() else target.parent))
    # a function of its own: the names of the bundle are those of other scripts too, and a module
    # loads from no file; the wheel takes a second to give it, so it stays with what was read
    vega = Path(app.doctreedir, f"vega-{vl_convert.__version__}.js")
    if not vega.is_file():
        text = f"(function () {{\n{vl_convert.javascript_bundle()}\n}})();\n"
        vega.write_text(text, encoding="utf-8")
    copyfile(vega, Path(app.outdir, "_static", VEGA))


def setup(app):
    app.connect("doctree-read", add_stills, priority=450)
    app.connect("build-finished", copy_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
