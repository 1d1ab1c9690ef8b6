"""What teaching pages need: fields that check an answer, figures of executed pages and links to them."""

import html
import json
import re
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from docutils.parsers.rst import directives
from rbpmath import aloud
from sphinx.util.docutils import SphinxDirective, SphinxRole

MOVING = 'class="rbp-move"'
FORMULA = re.compile(r'(?:\(<|<)span class="math[^"]*">[^<]*</span>[.,;:?!)]+')
CHECK = re.compile(
    r"(?P<label>.+?) = (?P<value>[-+\d.e]+) ± (?P<within>[\d.e-]+)(?: (?P<unit>.+))?"
)


class Check(SphinxRole):
    """{check}`exponent = 0.0606 ± 0.0005`: a labelled field; the page's own script says whether the number is right."""

    def run(self):
        if not (said := CHECK.fullmatch(self.text)):
            message = f"{self.text!r} is no field: it reads 'LABEL = NUMBER ± TOLERANCE UNIT', the unit where there is one"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]
        label, unit = html.escape(said["label"]), html.escape(said["unit"] or "")
        ident = f"check-{self.env.new_serialno('check')}"
        within = f"within {said['within']}" if float(said["within"]) else "exact"
        told = f"{unit}, {within}" if unit else within
        field = (
            f'<span class="rbp-check" role="group" aria-label="Your answer: {label}" data-value="{said["value"]}" '
            f'data-within="{said["within"]}"><label for="{ident}">{label}</label> '
            f'<input id="{ident}" type="text" inputmode="decimal" autocomplete="off" aria-describedby="{ident}-how"> '
            f'<span id="{ident}-how">({told})</span> <button type="button">Check</button> '
            f'<output for="{ident}" aria-live="polite"></output></span>'
        )
        return [nodes.raw("", field, format="html")], []


class RunFigure(SphinxDirective):
    """{run-figure} PAGE WORDS: the figure of the default family's executed page whose description has these words.

    With :first: its first row of panels, the whole in a fold where there are more. A sentence stands in its place where
    the page was not run, or has no such figure.
    """

    required_arguments = 2
    final_argument_whitespace = True
    option_spec = {"first": directives.flag}

    def run(self):
        page, words = self.arguments
        place = executed(self.env, page)
        data, alt, at = next(
            (f for f in (svgs(place) if place else ()) if words in f[1]), ("", "", 0)
        )
        if not data:
            return [
                nodes.paragraph(
                    "", f"This copy of the book was built without this figure of the page {page}."
                )
            ]
        if getattr(self.env.app.builder, "format", "") != "html":
            return [nodes.paragraph("", alt)]
        shown = self.image(data, alt)
        if "first" in self.options and (part := first_row(data)):
            fold = f'<details class="rbp-fold"><summary>More: all panels</summary>{shown}</details>'
            shown = self.image(part, f"The first row of: {alt}") + fold
        return [nodes.raw("", shown, format="html"), self.source(place, at)]

    def source(self, place, at):
        """Where the figure stands on its own page, with a link to that."""
        page, family = (
            self.arguments[0],
            f" ({place.parent.name})" if place.parent.name != "all" else "",
        )
        said = (
            f"Fig. {page.partition('_')[0]}.{at}, from the page: {heading(place) or page}{family}"
        )
        return nodes.paragraph("", "", link_to(self.env, place, said), classes=["rbp-from"])

    def image(self, data, alt):
        """HTML of a picture that is written beside the page."""
        name = f"slide-{self.arguments[0]}-{self.env.new_serialno('run-figure')}.svg"
        folder = Path(self.env.app.outdir) / "_images"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(data, encoding="utf-8")
        up = "../" * self.env.docname.count("/")
        return f'<img class="rbp-figure" src="{up}_images/{name}" alt="{html.escape(aloud(alt))}">'


class RunPage(SphinxRole):
    """{run-page}`WORDS <PAGE#HEADING>`: a link to the default family's page; the words alone where it was not run."""

    def run(self):
        words, page, anchor = re.fullmatch(r"(.+?) <(\w+)(#[\w-]+)?>", self.text).groups()
        place = executed(self.env, page)
        return [
            link_to(self.env, place, words, anchor or "") if place else nodes.emphasis("", words)
        ], []


def executed(env, page):
    """The executed notebook of that name, the default family's before others; None where there is none."""
    found = sorted(Path(env.srcdir).glob(f"book/_executed/*/{page}.ipynb"), key=default_first)
    if found:
        env.note_dependency(str(found[0]))
    return found[0] if found else None


def heading(place):
    """The title of an executed notebook, without the family that stands behind it; empty without one."""
    cells = json.loads(place.read_text(encoding="utf-8"))["cells"]
    found = (
        re.match(r"# (.+)", "".join(c["source"])) for c in cells if c.get("cell_type") == "markdown"
    )
    return next((m[1] for m in found if m), "").removesuffix(f" ({place.parent.name})")


def link_to(env, place, words, anchor=""):
    """Words that lead to an executed page where it is part of this book."""
    docname = place.relative_to(env.srcdir).with_suffix("").as_posix()
    if docname not in env.found_docs:
        return nodes.Text(words)
    uri = f"{'../' * env.docname.count('/')}{docname}.html{anchor}"
    return nodes.reference("", "", nodes.Text(words), internal=True, refuri=uri)


NUMBERS = r"(-?[\d.]+) (-?[\d.]+)"
BOX = re.compile(rf"\s*M ?{NUMBERS}\s*L ?{NUMBERS}\s*L ?{NUMBERS}\s*L ?{NUMBERS}\s*z\s*")
SVG = "{http://www.w3.org/2000/svg}"


def first_row(svg):
    """The first row of a figure's panels, with what stands above and below all; empty where it is the only one.

    A panel is a group that begins with the frame of its axes, as matplotlib draws it.
    """
    for prefix, uri in (("", SVG[1:-1]), ("xlink", "http://www.w3.org/1999/xlink")):
        ElementTree.register_namespace(prefix, uri)
    tree = ElementTree.fromstring(svg)
    (figure,) = tree.findall(f"{SVG}g")
    groups = [(group, next(group.iter(f"{SVG}path"), None)) for group in list(figure)[1:]]
    frames = {group: BOX.fullmatch(path.get("d", "")) for group, path in groups if path is not None}
    bottoms = {group: float(box[2]) for group, box in frames.items() if box}
    bottom = min(bottoms.values(), default=0)
    below = [group for group, at in bottoms.items() if at > bottom + 1]
    if not below:
        return ""
    width, height = (float(x) for x in tree.get("viewBox").split()[2:])
    end = (
        min(float(frames[group][6]) for group in below) - 18
    )  # where the titles of the next row begin
    for group in below:
        figure.remove(group)
        figure.extend(
            list(group.iter(f"{SVG}defs"))
        )  # letters and marks are drawn once and used everywhere
    others = {
        group: tops for group, _ in groups if group not in bottoms and (tops := heights(group))
    }
    for group, tops in others.items():
        if min(tops) > bottom:
            group.set("transform", f"translate(0 {end - min(tops) + 14:.1f})")
            end += max(tops) - min(tops) + 20
    figure[0].set("transform", f"scale(1 {end / height:.3f})")
    tree.set("viewBox", f"0 0 {width} {end:.1f}")
    tree.set("height", f"{end:.1f}pt")
    return ElementTree.tostring(tree, encoding="unicode")


def heights(group):
    """Where the texts of a group stand, from the top."""
    moves = (
        re.match(rf"translate\({NUMBERS}\)", part.get("transform", ""))
        for part in group.iter(f"{SVG}g")
    )
    return [float(move[2]) for move in moves if move]


def default_first(path):
    return path.parent.name not in ("nano-pythia", "all"), path.parent.name


def svgs(page):
    """[(SVG, its words, its number on the page)] of the still figures of an executed notebook, in order."""
    found = [(at, o) for at, o in numbered(page) if "image/svg+xml" in o["data"]]
    return [
        (
            "".join(o["data"]["image/svg+xml"]),
            o["metadata"].get("image/svg+xml", {}).get("alt", ""),
            at,
        )
        for at, o in found
    ]


def numbered(page):
    """(number on the page, output) of each figure of an executed notebook, the moving ones too."""
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    data = [(o["data"], o) for c in cells for o in c.get("outputs", ()) if "data" in o]
    figures = [
        o for d, o in data if "image/svg+xml" in d or MOVING in "".join(d.get("text/html", ""))
    ]
    return enumerate(figures, 1)


def own_ids(app, doctree):
    """Give the content of each exercise an id of its own: sphinx-exercise gives all of a page the same."""
    for part in doctree.findall(nodes.section):
        if part["ids"] in (["exercise-content"], ["solution-content"]):
            part["ids"] = [f"{part.parent['ids'][0]}-content"]


def set_spaces(app, pagename, templatename, context, doctree):
    """Put the space before the link of a solution, which sphinx-exercise begins with it; end no line behind a formula
    that has a sign behind it."""
    if "body" in context:
        body = re.sub(r"Solution to(<a [^>]*>) ", r"Solution to \1", context["body"])
        context["body"] = FORMULA.sub(r'<span class="rbp-whole">\g<0></span>', body)


def setup(app):
    app.connect("doctree-read", own_ids)
    app.connect("html-page-context", set_spaces)
    app.add_role("check", Check())
    app.add_role("run-page", RunPage())
    app.add_directive("run-figure", RunFigure)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
