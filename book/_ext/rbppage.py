"""The parts that every page of results has: its opening, the answer of its run, how sure it is, how
it was made.

The notebooks keep their order. What a run said under a name, `say(..., name="answer")`, is lifted
to the top of the page; the opening comes from `book/pages.yml`, the rest from the page's own
record. Exercises are numbered here too: 02.1 is the first of page 02, on every family's.
"""

import html
import json
import re
from functools import cache
from itertools import groupby
from pathlib import Path

import yaml
from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from rbplinks import NAMED, PAGE, executed_pages, link, number, put_file, raw, set_raw
from rbpmade import made, read
from rbpmath import aloud, set_html, set_math, set_table, set_thousands
from rbprun import MOVING, SPEC
from sphinx.transforms.post_transforms import SphinxPostTransform

# headings above what is proved, and what to read beside a page
SURE = "How sure, and what would change it", "How the answers are judged"
ANSWER = ("answer", "kept")  # what the box of an answer takes
BELOW = "rule, numbers, what would change it"  # what a line of an answer folds
NOTE = """<noscript><p class="rbp-noscript">Scripts are off here: formulas stand as they are written
in TeX, figures do not move, and tables neither sort nor give their CSV.</p></noscript>"""
TEXTS = '<div class="rbp-families rbp-texts" data-texts="{}"></div>'
FORMULA = re.compile(r'(?:\(<|<)span class="math[^"]*">[^<]*</span>[.,;:?!)]+')


def fold(title, inside, kind=""):
    """A collapsed part of the page that the keyboard opens."""
    head = f'<details class="rbp-fold {kind}"><summary>{html.escape(title)}</summary>'
    return [raw(head), *inside, raw("</details>")]


def build_parts(app, doctree):
    """Give a page its opening, and an executed one its other parts, before the contents of the page
    are collected."""
    page = next((n for n in doctree.children if isinstance(n, nodes.section)), None)
    if page is None:
        return
    env, root = app.env, Path(app.srcdir)
    here, listed = PAGE.fullmatch(env.docname), root / "book" / "pages.yml"
    about = read_yaml(listed).get(page_name(env.docname), {}) if listed.is_file() else {}
    path = Path(env.doc2path(env.docname))
    set_thousands(doctree)
    scope, texts = [], ()
    if here and number(here["page"]):
        page[0].insert(0, nodes.Text(f"{number(here['page'])} · "))  # as other pages name it
    if here and path.suffix == ".ipynb":
        notebook = read(path.read_text(encoding="utf-8"))
        scope = build_results(app, page, notebook, here, about)
        texts = notebook["metadata"].get("rbp", {}).get("texts", ())
    # the page's script offers those that are shown
    chosen = [raw(TEXTS.format(html.escape(json.dumps(texts))))] if len(texts) > 1 else []
    page[1:1] = [raw(NOTE), *scope, *switch(env, here), *chosen, *open_page(about)]


def build_results(app, page, notebook, here, about):
    """The parts of an executed page: figures with numbers, its answer, how sure it is, how it was
    made. Returns what it rests on, for the top of the page."""
    outputs = shown(page, notebook["cells"])
    tell_figures(app, outputs, here)
    set_formulas(outputs)
    name_claims(outputs)
    scope = lift(outputs, "scope")
    answer = answer_box(lift(outputs, *ANSWER))
    for section in page.findall(nodes.section):
        if section[0].astext() in SURE:
            section += beside(about.get("beside", ()))
    number_exercises(page, number(here["page"]))
    gather_code(page)

    # the answer stands above the first cell or section
    body = (i for i, n in enumerate(page) if is_cell(n) or isinstance(n, nodes.section))
    first = next(body, len(page))
    page[first:first] = answer
    footer = made(app.env, notebook, "/".join(here.groups()))
    page += fold("How this page was made", footer, "rbp-footer") if footer else []
    return [nodes.container("", *scope, classes=["rbp-scope"])] if scope else []


# ---- the top of a page, and what stands beside it


@cache
def read_yaml(path):
    """What a YAML file holds, read once in a build: PyYAML takes a tenth of a second for the
    claims."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def sentence(*parts):
    """A paragraph of words, and of lists of pages as links with commas between them."""
    words = nodes.paragraph()
    for part in parts:
        if isinstance(part, str):
            words += nodes.Text(part)
            continue
        for page in part:
            words += [link(page), nodes.Text(", ")]
        words.pop()
    return words


def beside(pages):
    """The proofs and the pages of results next to one."""
    proofs = [page for page in pages if not page[0].isdigit()]
    near = [page for page in pages if page[0].isdigit()]
    words = ["What is proved: ", proofs, ". "] if proofs else []
    words += ["To read beside this page: ", near, "."] if near else []
    return sentence(*words)


def page_name(docname):
    """What book/pages.yml calls a page: its path in book/, without the family that it was run
    for."""
    return re.sub(r"^book/(_executed/[^/]+/)?", "", docname)


def switch(env, here):
    """Links to the same page of the other families, below the heading of a family's page."""
    if not here or here["family"] == "all":
        return []
    # an item a family, the current one without a link
    items = ""
    for family in sorted(executed_pages(env)[here["page"]]):
        target = f'href="../{family}/{here["page"]}.html"'
        if family == here["family"]:
            target = 'aria-current="page"'
        items += f"<li><a {target}>{html.escape(family)}</a></li>"
    if "book/_executed/all/families" in env.found_docs:
        items += '<li><a href="../all/families.html">all pages</a></li>'
    # as a list of its own
    label = 'class="rbp-families" aria-label="This page for another family"'
    return [raw(f"<nav {label}><span>Family</span><ul>{items}</ul></nav>")]


def open_page(about):
    """The question in a line; what the reader will know, what it needs, how long it takes."""
    if not about:
        return []
    minutes = about["minutes"]
    time = f"{minutes} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"
    question = nodes.paragraph("", about["question"], classes=["rbp-question"])
    goals = f"After this page you can {'. You can '.join(about['goals'])}. Needs: "
    after = sentence(goals, about["needs"] or "nothing before it", f". About {time}.")
    return [nodes.container("", question, after, classes=["rbp-opening"])]


# ---- what cells show


def gather_code(page):
    """Fold the code of a cell that shows nothing with that of the next cell of the page, across
    words and headings: every fold of code belongs to what it makes. A cell without either goes."""
    cells = list(page.findall(is_cell))
    coded = [c for c in cells if c.children and c[0].get("nb_element") == "cell_code_source"]
    below = None  # the next cell that keeps its code
    for cell in reversed(coded):
        if below and len(cell) == 1 and cell.get("hide_mode", 0) == below.get("hide_mode"):
            below[0][:0] = cell.pop(0).children
            below["ids"] += cell["ids"]
        else:
            below = cell
    for cell in cells:
        if not cell.children:
            cell.parent.remove(cell)


class CodeBelow(SphinxPostTransform):
    """Put a cell's fold of code below what the cell shows."""

    default_priority = 205  # after MyST-NB has made the folds
    formats = ("html",)

    def run(self, **options):
        for cell in self.document.findall(is_cell):
            if len(cell) > 1 and isinstance(cell[0], HideCodeCellNode):
                cell.append(cell.pop(0))


def is_cell(node):
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def is_bundle(node):
    return isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"


def shown(page, cells):
    """[(output, its node)] of all that the cells show; an output knows the number of its cell."""
    pairs = []
    for cell in page.findall(is_cell):
        source = cells[cell["cell_index"]]
        outputs = [o for o in source.get("outputs", ()) if "data" in o]
        for output in outputs:
            output["cell"] = source["metadata"].get("cell")
        pairs += zip(outputs, cell.findall(is_bundle), strict=True)
    return pairs


def tell_figures(app, pairs, here):
    """Give each figure the page's number and its own, 02.1, what to see, its own alternative text,
    and where it comes from.

    What to see is what was shown with it for that, or the words of its fold, or the alternative
    text. MyST-NB gives one alternative text to all figures of a cell. A
    figure that wants to be in a fold goes there with its words. What is of some texts alone is
    marked so.
    """
    count = 0
    for (output, bundle), (after, words) in zip(pairs, [*pairs[1:], ({}, None)], strict=True):
        about, inside = output.get("metadata", {}), [bundle]
        images = list(bundle.findall(nodes.image))
        moving = [n for n in bundle.findall(nodes.raw) if MOVING in n.astext()]
        if images or moving:
            count += 1
            at = f"{number(here['page'])}.{count}".lstrip(".")
            label, ident = f"Fig. {at}.", f"fig-{at.replace('.', '-')}"
            inside += [words] if after.get("metadata", {}).get("see") else []
        whole, index = len(inside), bundle.parent.index(bundle)

        # number and words
        for picture in moving:
            caption = f"<figcaption><strong>{label}</strong> "
            text = picture.astext().replace("<figcaption>", caption, 1)
            set_raw(picture, text.replace("<figure", f'<figure id="{ident}"', 1))
        for image in images:
            alt = image["alt"] = aloud(about["image/svg+xml"]["alt"])
            if whole == 1:
                image.parent += nodes.paragraph("", about.get("fold", alt))
            caption = next(inside[-1].findall(nodes.paragraph))
            caption["classes"].append("rbp-caption")
            caption[:0] = [nodes.strong("", label), nodes.Text(" ")]
            still = nodes.container("", image.deepcopy(), classes=["rbp-still"], ids=[ident])
            image.replace_self(still)

        # where it comes from, fold and mark
        inside += source(app, output, here, count) if images or moving else []
        inside = fold(about["fold"], inside, "rbp-more") if "fold" in about else inside
        if "of" in about:
            texts = html.escape(json.dumps(about["of"]))
            inside = [raw(f'<div data-of="{texts}">'), *inside, raw("</div>")]
        bundle.parent[index : index + whole] = inside


def source(app, output, here, count):
    """The line under a figure: the cell that drew it, and what it shows as a file."""
    data, kind = output["metadata"].get("data", ""), "csv"
    if spec := SPEC.search("".join(output["data"].get("text/html", ""))):
        data, kind = json.dumps(json.loads(spec[1])["data"]["values"]), "json"
    words = f"Cell {output['cell']} of <code>{here['page']}.ipynb</code>"
    if data:
        name = f"_downloads/figures/{here['family']}/{here['page']}-{count}.{kind}"
        address = html.escape(put_file(app.env, name, data))
        words += f' · <a href="{address}" download>its data</a>'
    return [raw(f'<p class="rbp-from">{words}</p>')]


def set_formulas(pairs):
    """Set the formulas in what a run said, in tables of claims (they link to pages), in heads of
    all tables."""
    for _, bundle in pairs:
        for part in set_math(bundle).findall(nodes.raw):
            text = part.astext()
            if '<table class="rbp-table"' in text:
                set_raw(part, set_html(text) if NAMED.search(text) else set_table(text))


def name_claims(pairs):
    """Give the line of each claim the id claim-NAME, and the cell that judges it code-NAME; a claim
    that is kept without a line has both at its cell."""
    for output, bundle in pairs:
        cell, keys = bundle.parent.parent, output.get("metadata", {}).get("rbp_numbers", ())
        for name in dict.fromkeys(key.split()[1] for key in keys if key.startswith("claim ")):
            line = next(bundle.findall(nodes.list_item), cell)
            line["ids"].append(f"claim-{name}")
            cell["ids"].append(f"code-{name}")


def lift(pairs, *names):
    """Take what the run said under these names out of its place."""
    lines = []
    for output, bundle in pairs:
        if output.get("metadata", {}).get("rbp") in names:
            parent = bundle.parent
            parent.remove(bundle)
            if not parent.children:
                parent.parent.remove(parent)
            # of an output in each of its forms plain text is the poorest
            forms = [n for n in bundle if n.get("mime_type") != "text/plain"]
            lines += [node for form in forms for node in form]
    return lines


def answer_box(parts):
    """The box of an answer, its first lines open, what stands below a line folded."""
    # the lines, whatever list they stand in
    lines = []
    for part in parts:
        lines += part if isinstance(part, nodes.bullet_list) else [part]
    if not lines:
        return []
    # what stands below a line is folded
    for line in lines:
        for below in list(line.findall(nodes.bullet_list)):
            index = line.index(below)
            line[index : index + 1] = fold(BELOW, below[0].children, "rbp-below")
    # what the page's author says of the run in sight, verdicts on claims folded
    words = [line for line in lines if not isinstance(line, nodes.list_item)]
    verdicts = [line for line in lines if isinstance(line, nodes.list_item)]
    if not words:  # a page that says nothing of its own shows its first verdict
        words, verdicts = listed(verdicts[:1]), verdicts[1:]
    box = nodes.container(classes=["rbp-answer"])
    box += nodes.paragraph("", "In short", classes=["rbp-answer-title"])
    box += words
    box += fold("Verdicts, rules and numbers", listed(verdicts)) if verdicts else []
    return [box]


def listed(lines):
    """Items that follow each other, as lists again."""
    parts = []
    for is_item, group in groupby(lines, lambda line: isinstance(line, nodes.list_item)):
        together = list(group)
        parts += [nodes.bullet_list("", *together)] if is_item else together
    return parts


# ---- exercises


def number_exercises(page, of_page):
    """Give each exercise of a page, and the solution that follows it, the page's number and its
    own: 02.1."""
    count = 0
    for box in page.findall(nodes.admonition):
        title = box[0].astext()
        if title == "Exercise":
            count += 1
            at = f"{of_page}.{count}".lstrip(".")
            box["ids"].append(f"exercise-{at.replace('.', '-')}")
            box[0][:] = [nodes.Text(f"Exercise {at}")]
        elif title == "Solution":
            box[0][:] = [nodes.Text(f"Solution to exercise {at}")]


def own_ids(app, doctree):
    """Give the content of each exercise an id of its own: sphinx-exercise gives all of a page the
    same."""
    for part in doctree.findall(nodes.section):
        if part["ids"] in (["exercise-content"], ["solution-content"]):
            part["ids"] = [f"{part.parent['ids'][0]}-content"]


def set_spaces(app, pagename, templatename, context, doctree):
    """End no line behind a formula that has a sign behind it."""
    if "body" in context:
        context["body"] = FORMULA.sub(r'<span class="rbp-whole">\g<0></span>', context["body"])


def setup(app):
    app.connect("doctree-read", build_parts, priority=400)
    app.connect("doctree-read", own_ids)
    app.connect("html-page-context", set_spaces)
    app.add_post_transform(CodeBelow)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
