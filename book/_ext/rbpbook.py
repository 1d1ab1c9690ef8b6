"""An offline book: MathJax is copied out of its installed wheel at build time, so nothing is fetched and nothing is
vendored in the repository. Only what the book's pages use is copied (2 MB of 24).
"""

import gc
import importlib.util
import logging
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from myst_nb import sphinx_
from pybtex.plugin import find_plugin, register_plugin
from sphinx import events
from sphinx.search.en import SearchEnglish
from sphinx.util.fileutil import copy_asset, copy_asset_file

WHEEL = "sphinx-mathjax-offline"  # its import name has hyphens
SCRIPT = "tex-chtml.js"
NOTE = """<noscript><p class="rbp-noscript">Scripts are off here: formulas stand as they are written in TeX, figures do
not move, and tables neither sort nor give their CSV.</p></noscript>"""
FOLDERS = ("output/chtml/fonts/woff-v2", "input/tex/extensions")


def copy_mathjax(app, error):
    if error or app.builder.format != "html":
        return
    source = Path(importlib.util.find_spec(WHEEL).origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "vendor" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    copy_asset_file(str(source / SCRIPT), str(target / SCRIPT))
    for folder in FOLDERS:
        copy_asset(str(source / folder), str(target / folder))


def tell_without_scripts(app, pagename, templatename, context, doctree):
    """Say below the heading of a page what it lacks where scripts are off; print has scripts."""
    if app.builder.name == "html" and "body" in context:
        context["body"] = context["body"].replace("</h1>", f"</h1>{NOTE}", 1)


def share_translators(app):
    """sphinx-exercise registers its own handlers for "singlehtml", which hide those others gave for "html"."""
    handlers = app.registry.translation_handlers
    if "singlehtml" in handlers:
        handlers["singlehtml"] = {**handlers.get("html", {}), **handlers["singlehtml"]}


class Words(SearchEnglish):
    """English whose words are stemmed once for all pages, not on each anew."""

    def init(self, options):
        super().init(options)
        self.stem = cache(self.stem)


def highlight_once(app):
    """Highlight each piece of code once: the pages of all families show the same."""
    highlight, found = app.builder.highlighter.highlight_block, {}

    def known(source, lang, opts=None, force=False, location=None, **how):
        key = source, lang, force, repr(opts), repr(how)
        if key not in found:
            found[key] = highlight(source, lang, opts, force, location, **how)
        return found[key]

    app.builder.highlighter.highlight_block = known


def make_contents_once(app):
    """Give templates `kept(make)`, which makes the contents beside a page once: for itself if they lead to it, else for
    all pages of its folder, as those of families are."""
    made = {}

    def give(app, pagename, templatename, context, doctree):
        place = pagename if pagename in app.builder.relations else pagename.rpartition("/")[0]

        def kept(make):
            def known(**how):
                key = place, repr(how)
                if key not in made:
                    made[key] = str(make(**how))
                return made[key]

            return known

        context["kept"] = kept

    app.connect("html-page-context", give, priority=400)  # the theme tries its templates at 500


def find_backends_once():
    """Tell pybtex its own backends: it looks through all installed packages for them at every citation."""
    for name in ("docutils", "plaintext"):
        register_plugin("pybtex.backends", name, find_plugin("pybtex.backends", name), force=True)


def setup(app):
    gc.set_threshold(
        100_000, 50, 50
    )  # pages are trees of small parts, and looking through them for rubbish takes long
    sphinx_.nbformat = SimpleNamespace(
        writes=lambda notebook: ""
    )  # nobody reads its copies of the notebooks
    events.repr = lambda values: (
        ""
    )  # shadows what writes each page out for a message of debugging, shown or not
    if not app.verbosity:
        logging.disable(
            logging.DEBUG
        )  # Sphinx makes a record of each event, and drops it where it is shown
    find_backends_once()
    make_contents_once(app)
    for part in (
        "rbpterms",
        "rbpteach",
        "rbpcite",
        "rbpfront",
        "rbpmove",
        "rbplabs",
        "rbplaunch",
        "rbppage",
    ):
        app.setup_extension(part)
    app.set_html_assets_policy(
        "always"
    )  # a title with a formula stands in the contents of pages without one
    app.connect("html-page-context", tell_without_scripts)
    app.connect("build-finished", copy_mathjax)
    app.connect("builder-inited", share_translators)
    app.connect("builder-inited", highlight_once)
    app.add_search_language(Words)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
