"""What teaching pages need: number fields that check an answer, figures of executed pages, how to cite the book."""

import html
import json
import re
from pathlib import Path

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.util.docutils import SphinxDirective, SphinxRole

CHECK = re.compile(r"(?P<label>.+?) = (?P<value>[-+\d.e]+) ± (?P<within>[\d.e-]+)(?: (?P<unit>.+))?")


class Check(SphinxRole):
    """{check}`exponent = 0.0606 ± 0.0005`: a labelled field; the page's own script says whether the number is right."""

    def run(self):
        if not (said := CHECK.fullmatch(self.text)):
            message = (
                f"{self.text!r} is no field: it reads 'LABEL = NUMBER ± TOLERANCE UNIT', the unit where there is one"
            )
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

    A sentence stands in its place where the page was not run, or has no such figure.
    """

    required_arguments = 2
    final_argument_whitespace = True

    def run(self):
        page, words = self.arguments
        root = Path(self.env.srcdir)
        place = next(iter(sorted(root.glob(f"book/_executed/*/{page}.ipynb"), key=default_first)), None)
        if place:
            self.env.note_dependency(str(place))
        data, alt = next((f for f in (svgs(place) if place else ()) if words in f[1]), ("", ""))
        if not data:
            return [nodes.paragraph("", f"This copy of the book was built without this figure of the page {page}.")]
        if getattr(self.env.app.builder, "format", "") != "html":
            return [nodes.paragraph("", alt)]
        name = f"slide-{page}-{self.env.new_serialno('run-figure')}.svg"
        folder = Path(self.env.app.outdir) / "_images"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(data, encoding="utf-8")
        up = "../" * self.env.docname.count("/")
        image = f'<img class="rbp-figure" src="{up}_images/{name}" alt="{html.escape(alt)}">'
        family = f" ({place.parent.name})" if place.parent.name != "all" else ""
        title = f"From the page: {page.partition('_')[2].replace('_', ' ')}{family}"
        docname, said = place.relative_to(root).with_suffix("").as_posix(), nodes.Text(title)
        if docname in self.env.found_docs:
            said = nodes.reference("", "", said, internal=True, refuri=f"{up}{docname}.html")
        return [nodes.raw("", image, format="html"), nodes.paragraph("", "", said, classes=["rbp-from"])]


def default_first(path):
    return path.parent.name not in ("nano-pythia", "all"), path.parent.name


def svgs(page):
    """[(SVG, its words)] of the figures of an executed notebook, in order."""
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    outputs = (o for c in cells for o in c.get("outputs", ()) if "image/svg+xml" in o.get("data", {}))
    return [
        ("".join(o["data"]["image/svg+xml"]), o["metadata"].get("image/svg+xml", {}).get("alt", "")) for o in outputs
    ]


class CiteBook(Directive):
    """{cite-book}: BibTeX of the book and of the paper, from CITATION.cff."""

    def run(self):
        env = self.state.document.settings.env
        path = Path(env.srcdir) / "CITATION.cff"
        if not path.is_file():
            return [
                nodes.paragraph("", "This copy of the book was built without the file CITATION.cff, which says how.")
            ]
        env.note_dependency(str(path))
        book = yaml.safe_load(path.read_text(encoding="utf-8"))
        paper = book["preferred-citation"] | {"key": "yue2025relative"}
        year = {"year": book.get("date-released", env.config.copyright)[:4]}
        texts = [bibtex(paper), bibtex(book | year | {"key": "rbplib"})]
        return [nodes.literal_block(text, text, language="bibtex") for text in texts]


def bibtex(entry):
    """One entry of CITATION.cff as BibTeX."""
    people = (
        f"{{{p['name']}}}" if "name" in p else f"{p['family-names']}, {p['given-names']}" for p in entry["authors"]
    )
    fields = {"title": f"{{{entry['title']}}}", "author": " and\n            ".join(people), "year": entry["year"]}
    fields |= {key: entry[key] for key in ("journal", "version", "url", "doi") if key in entry}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@{entry['type']}{{{entry['key']},\n{lines}}}"


def setup(app):
    app.add_role("check", Check())
    app.add_directive("run-figure", RunFigure)
    app.add_directive("cite-book", CiteBook)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
