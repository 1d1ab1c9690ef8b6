"""Figures that move: the one script that draws them comes out of an installed wheel at build time, and stands once in
the book, loaded only by pages that have such a figure. Print, and readers without scripts, get a picture of how each
first looks, drawn by the same wheel.
"""

import html
import json
import os
import re
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from docutils import nodes
from rbpteach import MOVING, RunFigure, executed, numbered

SCRIPT = "vendor/vega.js"
SPEC = re.compile(
    r"<figcaption>(?P<words>(?:(?!</figcaption>).)*)</figcaption>"
    r'<script type="application/json">(?P<spec>.*?)</script>',
    re.S,
)
WIDE = 640  # pixels
TAG, SPARED = (
    re.compile(r"<[^>]*>"),
    re.compile(r"(\.\d\d)\d+"),
)  # digits below a hundredth of a pixel


def load_moving(app):
    """Ask for the script on pages with a moving figure, and put a still picture beside each, drawn by a process beside
    this one, for the wheel holds up all threads of its own while it draws."""
    alone = get_context("spawn")  # a copy of a process that has drawn would hang
    artist, drawn = ProcessPoolExecutor(1, alone, initializer=end_with_parent), {}

    def load(app, pagename, templatename, context, doctree):
        if MOVING not in context.get("body", ""):
            return
        app.add_js_file(SCRIPT, loading_method="defer")
        context["body"] = SPEC.sub(lambda match: with_still(match, pagename), context["body"])

    def with_still(match, pagename):
        told = html.escape(first_set(json.loads(match["spec"]).get("params", ())))
        picture = f"_images/still-{sha256(match['spec'].encode()).hexdigest()[:16]}.svg"
        if picture not in drawn:
            drawn[picture] = artist.submit(draw, match["spec"], Path(app.outdir) / picture)
        words = html.escape(html.unescape(TAG.sub("", match["words"])))
        image = (
            f'<img class="rbp-figure" src="{"../" * pagename.count("/")}{picture}" alt="{words}">'
        )
        return f"<noscript>{image}<p>{told}</p></noscript>{match[0]}"

    def finish(app, error):
        artist.shutdown(cancel_futures=bool(error))
        for picture in () if error else drawn.values():
            picture.result()

    app.connect("html-page-context", load)
    app.connect("build-finished", finish)


def end_with_parent():
    """End when the process that started this one has ended, killed or not."""
    Thread(target=lambda: (parent_process().join(), os._exit(1)), daemon=True).start()


def draw(spec, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(still(json.loads(spec)), encoding="utf-8")


def still(spec):
    """A moving figure as it first looks: SVG, in black on white."""
    from vl_convert import vegalite_to_svg

    look = spec.get("config", {}) | {"font": "sans-serif"}
    svg = vegalite_to_svg(spec | {"width": WIDE, "background": "white", "config": look})
    return TAG.sub(lambda tag: SPARED.sub(r"\1", tag[0]), svg)  # texts keep theirs


def first_set(params):
    """What the lists and sliders of a moving figure are set to at first, as a sentence."""
    told = []
    for param in params:
        bind = param.get("bind", {})
        words = dict(zip(bind.get("options", ()), bind.get("labels", ()), strict=False))
        if (
            bind.get("input") in ("select", "range") and param["name"] != "step"
        ):  # whose place says nothing
            told.append(f"{bind['name']}: {words.get(param['value'], param['value'])}")
    first = f" ({'; '.join(told)})" if told else ""
    return f"It moves where scripts may run; here it stands as it first looks{first}."


def copy_vega(app, error):
    if error or app.builder.format != "html":
        return
    from vl_convert import javascript_bundle

    target = Path(app.outdir) / "_static" / SCRIPT
    target.parent.mkdir(parents=True, exist_ok=True)
    # a function of its own: the names of the bundle are those of other scripts too, and a module loads from no file
    target.write_text(f"(function () {{\n{javascript_bundle()}\n}})();\n", encoding="utf-8")


class RunMove(RunFigure):
    """{run-move} PAGE WORDS: the page's first moving figure; what {run-figure} shows where it has none."""

    def run(self):
        place = executed(self.env, self.arguments[0])
        figures = (
            (at, "".join(o["data"].get("text/html", "")))
            for at, o in (numbered(place) if place else ())
        )
        at, moving = next((figure for figure in figures if MOVING in figure[1]), (0, ""))
        if not moving or getattr(self.env.app.builder, "format", "") != "html":
            return super().run()
        low = re.sub(
            r'"height":\d+', '"height":170', moving, count=1
        )  # it stands beside words, on one screen
        return [nodes.raw("", low, format="html"), self.source(place, at)]


def setup(app):
    app.add_directive("run-move", RunMove)
    load_moving(app)
    app.connect("build-finished", copy_vega)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
