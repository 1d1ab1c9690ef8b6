"""Links to pages by their names, wherever a run put them: {run-page}`WORDS <PAGE#HEADING>`, and
"page 14".

Pages of results lie in book/_executed/FAMILY/PAGE. A link leads to the page of the same family
where there is one, from other pages to the default family's. Where a page was not run its words
stand alone.
"""

import html
import re
from functools import lru_cache
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.roles import XRefRole
from sphinx.util.nodes import make_refnode

DEFAULT = "nano-pythia"
PAGE = re.compile(r"book/_executed/(?P<family>[^/]+)/(?P<page>(?!families$)[^/]+)")
NUMBERED = re.compile(r"\b[Pp]ages?(?:,?\s(?:and |or |to )?\d\d\b(?![.,]?\d))+")
NUMBER = re.compile(r"(?:[Pp]age\s)?(\d\d)")
# in texts and tables of a run, where a notebook alone shows its words; without any the page's title
SPAN = re.compile(r'<span data-page="([\w./#-]+)">')
NAMED = re.compile(r'<span data-page="([\w./#-]+)">(.*?)</span>', re.S)
UNTOUCHED = (
    nodes.reference,
    nodes.literal,
    nodes.literal_block,
    nodes.title,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.caption,
    nodes.citation,
    addnodes.pending_xref,
)


# ---- which pages there are


@lru_cache(maxsize=1)
def executed_pages(env):
    """{page: {family: document}} of all that were executed."""
    pages = {}
    for match in filter(None, map(PAGE.fullmatch, sorted(env.found_docs))):
        pages.setdefault(match["page"], {})[match["family"]] = match[0]
    return pages


def number(page):
    """The number of a page by its name, 02 of 02_top1_law; empty where it has none."""
    return page[:2] if page[0].isdigit() else ""


def find(env, name, docname):
    """The document of a page by its name, as a document sees it; None where there is none."""
    here = PAGE.fullmatch(docname)
    executed = executed_pages(env).get(name, {})
    families = (here["family"] if here else DEFAULT, "all", DEFAULT, *executed)
    candidates = [f"book/_executed/{family}/{name}" for family in families]
    candidates += [f"book/{name}", f"book/derivations/{name}"]
    return next((document for document in candidates if document in env.found_docs), None)


# ---- links


def link(page, *words):
    """A link to a page by its name, set when all titles are known; without words by its title."""
    inner = nodes.inline("", "", *(words or [nodes.Text(page)]))
    return addnodes.pending_xref(
        "", inner, refdomain="", reftype="run-page", reftarget=page, refexplicit=bool(words)
    )


def resolve(app, env, node, inner):
    """The link that stands for a pending one; its words where the page is not here."""
    if node["reftype"] != "run-page":
        return None
    name, _, anchor = node["reftarget"].partition("#")
    here = node.get("refdoc", env.docname)
    document = find(env, name, here)
    if document is None:
        return nodes.emphasis("", inner.astext())
    if not node["refexplicit"]:
        inner = nodes.inline("", title(env, document))
    return make_refnode(app.builder, here, document, anchor, inner)


def title(env, document):
    """The title of a page, without the family that stands behind it."""
    here = PAGE.fullmatch(document)
    words = env.titles[document].astext()
    return words.removesuffix(f" ({here['family']})") if here else words


def link_numbers(app, doctree):
    """Let "page 14", and each number of "pages 01 and 11", lead there, but for the page's own."""
    pages = {number(name): name for name in executed_pages(app.env)}
    here = PAGE.fullmatch(app.env.docname)
    pages.pop(number(here["page"]) if here else "", None)

    def to_page(match):
        return [link(pages[match[1]], nodes.Text(match[0]))] if match[1] in pages else []

    replace_words(doctree, NUMBERED, lambda match: split(match[0], NUMBER, to_page))


def link_spans(app, doctree):
    """Let what a sentence names lead there."""
    for start in list(doctree.findall(nodes.raw)):
        span = SPAN.fullmatch(start.astext())
        if span:
            line, first = start.parent, start.parent.index(start)
            last = next(i for i in range(first, len(line)) if line[i].astext() == "</span>")
            line[first : last + 1] = [link(span[1], *line[first + 1 : last])]


def link_tables(app, doctree, docname):
    """Give what a table of claims names its link."""

    def anchor(span):
        name, sign, part = span[1].partition("#")
        document = find(app.env, name, docname)
        words = span[2] or html.escape(title(app.env, document) if document else name)
        if document is None or (document == docname and not part):
            return words
        page = app.builder.get_relative_uri(docname, document) if document != docname else ""
        return f'<a href="{page}{sign}{part}">{words}</a>'

    # in every piece of raw HTML that names a page
    for part in doctree.findall(nodes.raw):
        if NAMED.search(part.astext()):
            set_raw(part, NAMED.sub(anchor, part.astext()))


# ---- words of a doctree


def split(text, pattern, make):
    """A text as nodes: `make` gives those of a match, none for one that stays as it is."""
    parts, end = [], 0
    for match in pattern.finditer(text):
        if new := make(match):
            parts += [nodes.Text(text[end : match.start()]), *new]
            end = match.end()
    return [*parts, nodes.Text(text[end:])]


def replace_words(tree, pattern, make):
    """Put what `make` gives in the place of what a pattern finds in sentences, as `split` does."""
    for text in list(tree.findall(nodes.Text)):
        outer = text.parent
        while outer and not isinstance(outer, UNTOUCHED):
            outer = outer.parent
        if not outer and pattern.search(text):
            text.parent.replace(text, split(str(text), pattern, make))


def put_file(env, name, text):
    """Have a file written into the site; its address, as the page that is being read sees it."""
    env.metadata[env.docname].setdefault("rbp_files", {})[name] = text
    return "../" * env.docname.count("/") + name


def write_files(app, builder):
    """Write the files of all pages, also of those that were read before."""
    for about in app.env.metadata.values():
        for name, text in about.get("rbp_files", {}).items():
            path = Path(app.outdir, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def raw(text):
    return nodes.raw("", text, format="html")


def set_raw(node, text):
    """Give a piece of raw HTML another text."""
    node[:], node.rawsource = [nodes.Text(text)], text


def setup(app):
    app.add_role("run-page", XRefRole(innernodeclass=nodes.inline))
    app.connect("doctree-read", link_spans, priority=450)
    app.connect("doctree-read", link_numbers, priority=450)
    app.connect("missing-reference", resolve)
    app.connect("doctree-resolved", link_tables)
    app.connect("write-started", write_files)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
