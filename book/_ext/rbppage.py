"""The parts that every page of results has: its opening, the answer of its run, its code in one fold, how it was made.

The notebooks keep their order. When HTML is made, what a run said under a name, `say(..., name="answer")`, is lifted to
the top of the page and hidden code is gathered at its end; the opening comes from `book/pages.yml`, the rest from the
page's own record. Exercises are numbered here too: 02.1 is the first of page 02, on every family's.
"""

import html
import json
import re
from pathlib import Path

from docutils import nodes
from rbpmade import PAGE, executed_pages, made, raw, read
from rbpmath import aloud, pieces, set_html, set_math, set_table, set_thousands
from rbprules import SURE, beside, joined, link_to, read_yaml, said_lines, sure
from rbpteach import MOVING

NAMED = re.compile(
    r'<span data-page="([\w./-]+)">(.*?)</span>', re.S
)  # in a notebook alone its words, no link
NUMBERED = re.compile(r"\b[Pp]ages?(?:,?\s(?:and |or |to )?\d\d\b(?![.,]?\d))+")
LEFT = re.compile(r"<(/?)(?:a|pre|code|script|summary|button|h\d)\b")
DEFAULT = "nano-pythia"
LINES = 4  # of an answer that stand open at the top of a page
LONGEST = 300  # characters of an alternative text that stands as a caption too


def fold(title, inside, kind):
    """A collapsed part of the page that the keyboard opens."""
    return [
        raw(f'<details class="rbp-fold {kind}"><summary>{html.escape(title)}</summary>'),
        *inside,
        raw("</details>"),
    ]


def build_parts(app, doctree):
    """Give a page its opening, and an executed one its other parts, before the contents of the page are collected."""
    here, listed = PAGE.fullmatch(app.env.docname), Path(app.srcdir) / "book" / "pages.yml"
    page = next((n for n in doctree.children if isinstance(n, nodes.section)), None)
    if page is None:
        return
    set_thousands(doctree)
    said = None
    if listed.is_file():
        app.env.note_dependency(str(listed))
        said = read_yaml(listed).get(page_name(app.env.docname))
        title = page.first_child_matching_class(nodes.title)
        page[title + 1 : title + 1] = open_page(said, here and here["page"][:2])
    path = Path(app.env.doc2path(app.env.docname))
    if not here or path.suffix != ".ipynb":
        return
    notebook = read(path.read_text(encoding="utf-8"))
    outputs = shown(doctree, notebook["cells"])
    tell_figures(outputs, here["page"].partition("_")[0])
    set_said(outputs)
    answer = lift_answer(outputs)
    for section in doctree.findall(nodes.section):
        if section[0].astext() == SURE:
            section[1:1] = sure(app, here["page"], notebook["cells"])
            section += beside(said)
    number_exercises(doctree, here["page"].partition("_")[0])
    code = gather_code(doctree)
    first = next(
        (i for i, n in enumerate(page.children) if is_cell(n) or isinstance(n, nodes.section)),
        len(page),
    )
    page.children[first:first] = answer
    end = fold("The code of this page", code, "rbp-code") if code else []
    how = made(Path(app.srcdir), notebook, "/".join(here.groups()))
    page.children += end + (fold("How this page was made", how, "rbp-footer") if how else [])
    if (
        len(texts := notebook["metadata"].get("rbp", {}).get("texts", ())) > 1
    ):  # the switch offers those that are shown
        page.append(raw(f'<div data-texts="{html.escape(json.dumps(texts))}" hidden></div>'))
    for node in page.children:
        node.parent = page


def is_cell(node):
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def page_name(docname):
    """What book/pages.yml calls a page: its path in book/, without the family that it was run for."""
    return re.sub(r"^book/(_executed/[^/]+/)?", "", docname)


def open_page(said, number=None):
    """The question in a line; what the reader will know, what it needs, how long it takes; of results its number."""
    if not said:
        return []
    needs = {
        p: p[0].isdigit() or not number for p in said["needs"]
    }  # else a proof, which results do not rest on
    before, proofs = (
        [link_to(p) for p, first in needs.items() if first == page] for page in (True, False)
    )
    needs = (", ".join(before) or "nothing before it") + (
        "; for the proofs: " + ", ".join(proofs)
    ) * bool(proofs)
    goals = "".join(f"<li>{html.escape(goal)}</li>" for goal in said["goals"])
    time = (
        f"{minutes} minutes."
        if (minutes := said["minutes"]) < 120
        else f"{minutes / 60:.0f} hours."
    )
    time += f" This is page {number}." * bool(number)  # other pages name it so
    return [
        raw(
            f'<div class="rbp-opening"><p class="rbp-question">{html.escape(said["question"])}</p>'
            f"<p>After this page you can</p><ul>{goals}</ul><p>Needs: {needs}. About {time}</p></div>"
        )
    ]


def shown(doctree, cells):
    """[(output, its node)] of all that the cells show."""
    found = []
    for cell in list(doctree.findall(is_cell)):
        outputs = [o for o in cells[cell["cell_index"]].get("outputs", ()) if "data" in o]
        bundles = list(
            cell.findall(
                lambda n: isinstance(n, nodes.container) and n.get("nb_element") == "mime_bundle"
            )
        )
        found += zip(outputs, bundles, strict=True)
    return found


def tell_figures(pairs, page):
    """Give each figure the page's number and its own, 02.1, what to see, and its own alternative text.

    What to see is what was shown with it for that, or the alternative text unless that is long. MyST-NB gives one
    alternative text to all figures of a cell. A figure that wants to be in a fold goes there with its words. What is
    of some texts alone is marked so.
    """
    count = 0
    for (output, bundle), (after, words) in zip(pairs, [*pairs[1:], ({}, None)], strict=True):
        about, images = output.get("metadata", {}), list(bundle.findall(nodes.image))
        moving = [n for n in bundle.findall(nodes.raw) if MOVING in n.astext()]
        words = words if (images or moving) and after.get("metadata", {}).get("see") else None
        count += bool(images or moving)
        for picture in moving:
            text = picture.astext().replace(
                "<figcaption>", f"<figcaption><strong>Fig. {page}.{count}.</strong> ", 1
            )
            picture[:], picture.rawsource = [nodes.Text(text)], text
        for image in images:
            alt = about.get("image/svg+xml", {}).get("alt") or image.get("alt", "")
            image["alt"] = aloud(alt)
            if not words:
                image.parent += nodes.paragraph(
                    "", "", *(pieces(alt) if len(alt) <= LONGEST else [])
                )
            said = next(words.findall(nodes.paragraph)) if words else image.parent[-1]
            said["classes"].append("rbp-caption")
            said[:0] = [nodes.strong("", f"Fig. {page}.{count}."), nodes.Text(" ")]
            holder, at = image.parent, image.parent.index(image)
            holder[at : at + 1] = [nodes.container("", image, classes=["rbp-still"])]
        place, whole = bundle.parent.index(bundle), [bundle, words] if words else [bundle]
        inside = fold(about["fold"], whole, "rbp-more") if "fold" in about else whole
        if "of" in about:
            inside = [
                raw(f'<div data-of="{html.escape(json.dumps(about["of"]))}">'),
                *inside,
                raw("</div>"),
            ]
        bundle.parent[place : place + len(whole)] = inside


def set_said(pairs):
    """Set the formulas in what a run said, in tables of claims (they link to pages), in heads of all tables."""
    for _, bundle in pairs:
        for part in set_math(bundle).findall(nodes.raw):
            if '<table class="rbp-table"' in (text := part.astext()):
                part.rawsource = text = (set_html if NAMED.search(text) else set_table)(text)
                part[:] = [nodes.Text(text)]


def lift_answer(pairs):
    """Take what the run said under a name out of its place."""
    found = []
    for output, bundle in pairs:
        if (
            output.get("metadata", {}).get("rbp", "slide") != "slide"
        ):  # said for a slide, it stays in its place
            found.append(bundle)
            bundle.parent.remove(bundle)
    if not found:
        return []
    lines = [line for bundle in found for line in said_lines(bundle)]
    box = nodes.container(classes=["rbp-answer"])
    box += [
        nodes.paragraph("", "The answer of this run", classes=["rbp-answer-title"]),
        *joined(lines[:LINES]),
    ]
    if more := joined(lines[LINES:]):
        box += fold("The rest of the answer", more, "rbp-rest")
    return [box]


def number_exercises(doctree, page):
    """Give each exercise of a page, and the solution that follows it, the page's number and its own: 02.1."""
    count = 0
    for box in doctree.findall(nodes.admonition):
        title = box[0].astext()
        if title in ("Exercise", "Solution"):
            count += title == "Exercise"
            said = f"{'Solution to exercise' if title == 'Solution' else title} {page}.{count}"
            box[0].clear()
            box[0] += nodes.Text(said)
            if title == "Exercise":
                box["ids"].append(f"exercise-{page}-{count}")


def gather_code(doctree):
    """Take the hidden source of every cell out of its place, in order; cells and sections left empty go."""
    found = []
    for cell in list(doctree.findall(is_cell)):
        source = next((n for n in cell.children if n.get("nb_element") == "cell_code_source"), None)
        if source is not None and cell.get("hide_mode") == "input":
            cell.remove(source)
            del cell["hide_mode"]
            found.append(source)
        for part in [
            n for n in cell.children if n.get("nb_element") == "cell_code_output" and not n.children
        ]:
            cell.remove(part)
        if not cell.children:
            section = cell.parent
            section.remove(cell)
            if all(isinstance(n, nodes.title) for n in section.children):
                section.parent.remove(section)
    return found


def link_pages(app, pagename, templatename, context, doctree):
    """Link words to the page that they name, the same family's where it has one, and "page 14" to that of the number.

    Words without any text take the title of the page.
    """
    if "body" not in context:
        return
    here = PAGE.fullmatch(pagename)
    family = here["family"] if here else DEFAULT  # the book as one page is a page of no family

    def link(match):
        found = place(match[1])
        if not found:
            return match[2] or match[1]
        title = html.escape(app.env.titles[found].astext().removesuffix(f" ({family})"))
        return f'<a href="{html.escape(app.builder.get_relative_uri(pagename, found))}">{match[2] or title}</a>'

    def place(page):
        folders = (
            "_executed",
            f"_executed/{family}",
            "_executed/all",
            f"_executed/{DEFAULT}",
            "",
            "derivations",
        )
        names = [f"book/{folder}/{page}".replace("//", "/") for folder in folders]
        names += executed_pages(app.env).get(page, {}).values()
        return next((name for name in names if name in app.env.found_docs), None)

    numbers = {page[:2]: page for page in executed_pages(app.env)}
    numbers.pop(here["page"][:2] if here else "", None)  # a page does not lead to itself
    named = {
        n: html.escape(app.builder.get_relative_uri(pagename, place(page)))
        for n, page in numbers.items()
    }
    context["body"] = link_numbers(NAMED.sub(link, context["body"]), named)


def link_numbers(body, places):
    """HTML in which what stands as "page 14" or "pages 01 and 11" leads there; places: {number: address}."""

    def each(match):
        address = places.get(match[0][-2:])
        return f'<a href="{address}">{match[0]}</a>' if address else match[0]

    def linked(match):
        return re.sub(r"(?:[Pp]age\s)?\d\d", each, match[0])

    parts, inside = (
        re.split(r"(<[^>]*>)", body),
        0,
    )  # inside: how many elements whose words stay as they are
    for i, part in enumerate(parts):
        if part.startswith("<"):
            inside += (-1 if tag[1] else 1) if (tag := LEFT.match(part)) else 0
        elif not inside and "age" in part:
            parts[i] = NUMBERED.sub(linked, part)
    return "".join(parts)


def setup(app):
    app.connect("doctree-read", build_parts, priority=400)
    app.connect("html-page-context", link_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
