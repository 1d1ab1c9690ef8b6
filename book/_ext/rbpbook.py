"""The book's extensions, and what makes a build of many alike pages quick."""

import gc
import logging
from functools import cache
from types import SimpleNamespace

from myst_nb import sphinx_
from pybtex.plugin import find_plugin, register_plugin
from sphinx import events
from sphinx.search.en import SearchEnglish

PARTS = ("rbplinks", "rbppage", "rbprun", "rbpoffline", "rbpterms", "rbpapi", "rbplight")


def share_translators(app):
    """sphinx-exercise registers its own handlers for "singlehtml", which hide those others gave for
    "html"."""
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
    highlight, known = app.builder.highlighter.highlight_block, {}

    def highlighted(source, lang, opts=None, force=False, location=None, **how):
        key = source, lang, force, repr(opts), repr(how)
        if key not in known:
            known[key] = highlight(source, lang, opts, force, location, **how)
        return known[key]

    app.builder.highlighter.highlight_block = highlighted


def make_contents_once(app):
    """Give templates `kept(make)`, which makes the contents beside a page once: for itself if they
    lead to it, else for all pages of its folder, as those of families are."""
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
    """Tell pybtex its own backends: it looks through all installed packages for them at every
    citation."""
    for name in ("docutils", "plaintext"):
        register_plugin("pybtex.backends", name, find_plugin("pybtex.backends", name), force=True)


def setup(app):
    # pages are trees of small parts, and looking through them for rubbish takes long
    gc.set_threshold(100_000, 50, 50)
    # nobody reads MyST-NB's copies of the notebooks
    sphinx_.nbformat = SimpleNamespace(writes=lambda notebook: "")
    # shadows what writes each page out for a message of debugging, shown or not
    events.repr = lambda values: ""
    if not app.verbosity:
        logging.disable(logging.DEBUG)  # Sphinx makes a record of each event, and drops it
    find_backends_once()
    make_contents_once(app)
    for part in PARTS:
        app.setup_extension(part)
    # a title with a formula stands in the contents of pages without one
    app.set_html_assets_policy("always")
    app.connect("builder-inited", highlight_once)
    app.connect("builder-inited", share_translators)
    app.add_search_language(Words)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
