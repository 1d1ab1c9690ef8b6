"""What hand-written pages show of runs: sentences, figures, the bundle for a class; and fields that
check an answer."""

import html
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from rbplinks import find, link, put_file, raw
from rbplinks import number as number_of
from rbpmath import aloud, set_math
from sphinx.util.docutils import SphinxDirective, SphinxRole

MOVING = 'class="rbp-move"'
SPEC = re.compile(r'<script type="application/json">(.*?)</script>', re.S)
LABS = "labs"  # the folder of the bundle in the site
CHECK = re.compile(
    r"(?P<label>.+?) = (?P<value>[-+\d.e]+) ± (?P<within>[\d.e-]+)(?: (?P<unit>.+))?"
)


FIELD = """<span class="rbp-check" role="group" aria-label="Your answer: {label}"
 data-value="{value}" data-within="{within}"><label for="{ident}">{label}</label>
 <input id="{ident}" type="text" inputmode="decimal" autocomplete="off"
 aria-describedby="{ident}-how"> <span id="{ident}-how">({terms})</span>
 <button type="button">Check</button> <output for="{ident}" aria-live="polite"></output></span>"""


class Check(SphinxRole):
    """{check}`exponent = 0.0606 ± 0.0005`: a labelled field.

    The page's own script says whether the number is right.
    """

    def run(self):
        answer = CHECK.fullmatch(self.text).groupdict("")
        parts = {name: html.escape(part) for name, part in answer.items()}
        terms = [parts["unit"]] if parts["unit"] else []
        terms.append(f"within {parts['within']}" if float(parts["within"]) else "exact")
        ident = f"check-{self.env.new_serialno('check')}"
        return field(FIELD, ident=ident, terms=", ".join(terms), **parts)


CHOICE = """<span class="rbp-choice" role="radiogroup" aria-label="{label}"><b>{label}</b>{options}
<output aria-live="polite"></output></span>"""
OPTION = '<label><input type="radio" name="{ident}" data-right="{right}"> {text}</label>'


class Choice(SphinxRole):
    """{choice}`What is R²? a share | *a ratio* | a slope`: one answer of several, the right one
    between stars."""

    def run(self):
        label, _, answers = self.text.partition("? ")
        ident, options = f"choice-{self.env.new_serialno('choice')}", ""
        for answer in answers.split(" | "):
            text = html.escape(answer.strip("*"))
            options += OPTION.format(ident=ident, text=text, right=int(answer[0] == "*"))
        return field(CHOICE, label=html.escape(f"{label}?"), options=options)


def field(form, **parts):
    """What a role gives for a field."""
    return [raw(form.format(**parts).replace("\n", ""))], []


# ---- what a run said and drew


def outputs(env, page):
    """Outputs of the executed page of that name, the default family's before others; none where it
    was not run."""
    document = find(env, page, env.docname)
    path = Path(env.doc2path(document)) if document else Path()
    if path.suffix != ".ipynb":
        return []
    env.note_dependency(str(path))
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    shown = (output for cell in cells for output in cell.get("outputs", ()))
    return [output for output in shown if "data" in output]


class RunWords(SphinxDirective):
    """{run-words} PAGE NAME: what a page's run said under that name, or a sentence where it did
    not."""

    required_arguments = 2

    def run(self):
        page, name = self.arguments
        # every output that bears the name
        words = [
            "".join(output["data"]["text/markdown"])
            for output in outputs(self.env, page)
            if output["metadata"].get("rbp") == name
        ]
        words = words or [f"*This copy of the book was built without what page {page} says here.*"]
        box = nodes.container(classes=["rbp-said"])
        self.state.nested_parse(StringList("\n\n".join(words).splitlines(), page), 0, box)
        return [set_math(box)]


class RunFigure(SphinxDirective):
    """{run-figure} PAGE WORDS: the first figure of a page, still or moving, that has these words in
    its description.

    A sentence stands in its place where the page was not run, or has no such figure.
    """

    required_arguments = 2
    final_argument_whitespace = True

    def run(self):
        page, words = self.arguments
        number = 0
        # figures are counted as the page counts them
        for output in outputs(self.env, page):
            data, about = output["data"], output["metadata"].get("image/svg+xml", {})
            svg, moving = ("".join(data.get(kind, "")) for kind in ("image/svg+xml", "text/html"))
            if not svg and MOVING not in moving:
                continue
            number += 1
            words_of = about.get("alt", moving)
            if words in words_of:
                still = svg and picture(self.env, svg, words_of)
                figure = f'<div class="rbp-still">{still}</div>' if svg else moving
                source = nodes.Text(f"Fig. {number_of(page)}.{number}, from the page: ")
                source = nodes.paragraph("", "", source, link(page), classes=["rbp-from"])
                return [raw(figure), source]
        words = f"This copy of the book was built without this figure of the page {page}."
        return [nodes.paragraph("", words)]


def picture(env, svg, alt, kind="figure"):
    """A picture in a file of its own, as HTML."""
    name = f"_images/{kind}-{sha256(svg.encode()).hexdigest()[:16]}.svg"
    address, alt = put_file(env, name, svg), html.escape(aloud(alt))
    return f'<img alt="{alt}" class="rbp-figure" src="{address}">'


# ---- the bundle for a class


def start_labs(app):
    """Begin to make the bundle beside the pages, in a process of its own while they are read."""
    program = Path(app.srcdir, "book", "labs", "bundle.py")
    if app.builder.name == "html" and program.is_file():
        command = [sys.executable, program, "--output", Path(app.outdir, LABS)]
        how = {"env": os.environ | {"RBP_ROOT": os.path.abspath(app.srcdir)}, "cwd": app.srcdir}
        how |= {"capture_output": True, "text": True}
        app.labs = ThreadPoolExecutor(1).submit(subprocess.run, command, **how)


class LabsBundle(SphinxDirective):
    """{labs-bundle} FILE WORDS: a link to a file of the bundle, or why there is none."""

    required_arguments = 2
    final_argument_whitespace = True

    def run(self):
        app, (name, words) = self.env.app, self.arguments
        if not hasattr(app, "labs"):
            return [nodes.paragraph("", f"{words}: on this page of the book as a site.")]
        # the bundle, or why there is none
        self.env.note_reread()
        bundle = app.labs.result()
        if bundle.returncode == 2:
            reason = bundle.stderr.removeprefix("rbp: ")
            words = f"This copy of the book was built without {name}: {reason}"
            return [nodes.paragraph("", words)]
        if bundle.returncode:
            raise RuntimeError(f"the bundle for a class could not be made: {bundle.stderr}")
        # where it lies, and its size
        address = f"{'../' * self.env.docname.count('/')}{LABS}/{name}"
        size = Path(app.outdir, LABS, name).stat().st_size / 1e3
        anchor = f'<a href="{address}" download>{html.escape(words)}</a> ({size:,.0f} kB)'
        return [raw(f"<p>{anchor}</p>")]


def setup(app):
    app.add_role("check", Check())
    app.add_role("choice", Choice())
    app.add_directive("run-words", RunWords)
    app.add_directive("run-figure", RunFigure)
    app.add_directive("labs-bundle", LabsBundle)
    app.connect("builder-inited", start_labs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
