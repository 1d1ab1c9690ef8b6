"""What leads through the book: the switch for family on pages run for each, and sentences that other pages said."""

import html
import json

from docutils import nodes
from docutils.statemachine import StringList
from rbpmade import PAGE, executed_pages
from rbpmath import set_math
from rbpteach import executed
from sphinx.util.docutils import SphinxDirective

EVERY = "book/_executed/all/families"


def switch(app, pagename, templatename, context, doctree):
    """Below the heading of a family's page: links to the same page of the other families."""
    here = PAGE.fullmatch(pagename)
    if not here or here["family"] == "all":
        return
    found = sorted(executed_pages(app.env)[here["page"]].keys() - {"all"})
    items = ""
    for family in found:
        place = app.builder.get_relative_uri(pagename, f"book/_executed/{family}/{here['page']}")
        link = 'aria-current="page"' if family == here["family"] else f'href="{html.escape(place)}"'
        items += f"<li><a {link}>{html.escape(family)}</a></li>"
    if EVERY in app.env.found_docs:
        items += f'<li><a href="{app.builder.get_relative_uri(pagename, EVERY)}">all pages</a></li>'
    nav = f'<nav class="rbp-families" aria-label="This page for another family"><span>Family</span><ul>{items}</ul></nav>'
    context["body"] = context["body"].replace("</h1>", f"</h1>\n{nav}", 1)


class RunWords(SphinxDirective):
    """{run-words} PAGE NAME: the sentence that a page's run said under that name, the default family's first.

    A sentence stands in its place where the page was not run, or said nothing of the name.
    """

    required_arguments = 2

    def run(self):
        page, name = self.arguments
        place = executed(self.env, page)
        said = f"*This copy of the book was built without what the page {page} says here.*"
        if place:
            said = words(place, name) or said
        box = nodes.container(classes=["rbp-said"])
        self.state.nested_parse(StringList(said.splitlines(), str(place)), 0, box)
        return [set_math(box)]


def words(page, name):
    """Markdown of the output of an executed notebook that carries the name; empty without one."""
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    outputs = [
        o for c in cells for o in c.get("outputs", ()) if o.get("metadata", {}).get("rbp") == name
    ]
    return "\n\n".join("".join(o["data"]["text/markdown"]) for o in outputs)


def setup(app):
    app.connect("html-page-context", switch)
    app.add_directive("run-words", RunWords)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
