"""The book's extensions, and what makes a build of many alike pages quick.

A build may begin with what the last one read (see `workflow.book`): pages whose files have other
contents now are read, and all are written.
"""

import gc
import sysconfig
from functools import cache
from pathlib import Path

from pybtex import plugin
from sphinx.highlighting import PygmentsBridge
from sphinx.search.en import SearchEnglish

from rbplib.families import digest, file_digest

PARTS = ("rbplinks", "rbppage", "rbprun", "rbpoffline", "rbpterms", "rbplight")
# names and versions of what is installed
PACKAGES = sorted(path.stem for path in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))


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


def highlighted_once(highlight):
    """The same, as families share their pages' code."""
    made = {}

    def once(self, source, lang, location=None, **how):
        key = source, lang, repr(how)
        if key not in made:
            made[key] = highlight(self, source, lang, location=location, **how)
        return made[key]

    return once


def drop_outputs(app, error):
    """Remove MyST-NB's copies of notebooks, and the pictures of pages as they were before."""
    for path in Path(app.outdir).parent.glob("jupyter_execute/**/*"):
        if path.is_file() and str(path.relative_to(app.srcdir)) not in app.env.images:
            path.unlink()


def read_from(env, docname):
    """Digests of what a page is read from, its own file and those that it shows, and by what."""
    names = [env.doc2path(docname), *env.dependencies[docname]]
    files = {n: file_digest(path) for n in names if (path := Path(env.srcdir, n)).is_file()}
    return digest([files, PACKAGES])


def keep_contents(app, doctree):
    docname = app.env.docname
    app.env.metadata[docname]["rbp_read"] = read_from(app.env, docname)


def forget_changed(app, env, *_):
    """Pages that were read from other contents. What they said is forgotten before one of them is
    read again: a label may have moved from one to another."""
    changed = [n for n in env.all_docs if read_from(env, n) != env.metadata[n]["rbp_read"]]
    for name in changed:
        app.emit("env-purge-doc", env, name)
        env.clear_doc(name)
    return changed


def setup(app):
    # pages are trees of small parts, and looking through them for rubbish takes long
    gc.set_threshold(100_000, 50, 50)
    # of a word and a piece of code of all pages, and a style of references, once
    SearchEnglish.stem = cache(SearchEnglish.stem)
    PygmentsBridge.highlight_block = highlighted_once(PygmentsBridge.highlight_block)
    plugin.entry_points = cache(plugin.entry_points)
    make_contents_once(app)
    for part in PARTS:
        app.setup_extension(part)
    # a title with a formula stands in the contents of pages without one
    app.set_html_assets_policy("always")
    app.connect("autodoc-process-docstring", show_as_written)
    app.connect("builder-inited", share_translators)
    app.connect("doctree-read", keep_contents, priority=900)  # when all are noted
    app.connect("env-get-outdated", forget_changed)
    app.connect("build-finished", drop_outputs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
