"""The book's extensions, and what makes a build of many alike pages quick."""

import gc
from functools import cache

from sphinx.search.en import SearchEnglish

PARTS = ("rbplinks", "rbppage", "rbprun", "rbpoffline", "rbpterms", "rbplight")


def share_translators(app):
    """sphinx-exercise registers its own handlers for "singlehtml", which hide those others gave for
    "html"."""
    handlers = app.registry.translation_handlers
    if "singlehtml" in handlers:
        handlers["singlehtml"] = {**handlers.get("html", {}), **handlers["singlehtml"]}


def show_as_written(app, what, name, thing, options, lines):
    """Give the page of the library's names each docstring as it stands in the source."""
    lines[:] = [".. code-block:: text", "", *(f"   {line}" for line in lines)]


def make_contents_once(app):
    """Give templates `kept(make)`, which makes the contents beside a page once: for itself if they
    lead to it, else for all pages of its folder, as those of families are."""
    # {(place, how): contents}
    made = {}

    def give(app, pagename, templatename, context, doctree):
        docname = pagename if pagename in app.builder.relations else pagename.rpartition("/")[0]

        # made the first time, kept for the others
        def kept(make):
            def once(**how):
                key = docname, repr(how)
                if key not in made:
                    made[key] = str(make(**how))
                return made[key]

            return once

        context["kept"] = kept

    app.connect("html-page-context", give, priority=400)  # the theme tries its templates at 500


def setup(app):
    # pages are trees of small parts, and looking through them for rubbish takes long
    gc.set_threshold(100_000, 50, 50)
    SearchEnglish.stem = cache(SearchEnglish.stem)  # of a word of all pages, once
    make_contents_once(app)
    for part in PARTS:
        app.setup_extension(part)
    # a title with a formula stands in the contents of pages without one
    app.set_html_assets_policy("always")
    app.connect("autodoc-process-docstring", show_as_written)
    app.connect("builder-inited", share_translators)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
