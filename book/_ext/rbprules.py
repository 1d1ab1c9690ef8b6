"""What each claim of a page rests on, as book/claims.yml says it, what would change it; and the lines of its answer."""

import html
import re
from functools import cache
from pathlib import Path

import yaml
from docutils import nodes
from rbpmath import math_html

SURE = "How sure, and what would change it"  # the heading under which the claims of a page are gone through
MOST = 15  # claims that stand open under it


@cache
def read_yaml(place):
    """What a YAML file holds, read once in a build: PyYAML takes a tenth of a second for the claims."""
    return yaml.safe_load(place.read_text(encoding="utf-8"))


def link_to(page):
    """A link that `link_pages` completes when it knows all pages and their titles."""
    return f'<span data-page="{html.escape(page)}"></span>'


def judged_claims(cells):
    """{claim of claims.yml: ranks it was judged at} of a page's outputs, so that it is sure of what it states alone."""
    found = {}
    for output in (o for cell in cells for o in cell.get("outputs", ())):
        for name in output.get("metadata", {}).get("rbp_numbers", ()):
            if told := re.fullmatch(r"claim (\w+)(?: at k = (.*))?", name):
                found.setdefault(told[1], []).extend(map(int, re.findall(r"\d+", told[2] or "")))
    return found


def sure(app, page, cells):
    """What each claim that a page's run judged rests on, what would change its verdict, its proof, other pages.

    More than a page has room for stand in a fold.
    """
    place = Path(app.srcdir) / "book" / "claims.yml"
    app.env.note_dependency(str(place))
    alike = {}  # {other pages: {what would change it and basis: claims}}: a sentence stands once
    judged = judged_claims(cells)
    for name, words in read_yaml(place).items():
        if name not in judged:
            continue
        claim = words["claim"].replace("{k}", ", ".join(f"{k:,}" for k in sorted(judged[name])))
        others = ", ".join(link_to(p) for p in words["pages"] if p != page)
        basis = f'<span class="rbp-basis">{html.escape(words.get("basis", "measured"))}</span>'
        verdict = f", {html.escape(words['proved'])}" if "proved" in words else ""
        reason = f" (basis of the verdict: {basis}{verdict})"
        if "changes" in words:
            reason += f"; what would change it: {html.escape(words['changes'])}"
        claims = alike.setdefault(others, {}).setdefault(reason, [])
        claims.append(f"<strong>{math_html(claim)}</strong>")
    items = ""
    for others, reasons in alike.items():
        also = f" See also {others}." if others else ""
        for reason, (first, *more) in reasons.items():
            items += f"<li>{first}{reason}.{also}</li>"
            items += "".join(f"<li>{name}: as for the claim above.</li>" for name in more)
    text = f"<ul>{items}</ul>"
    if len(judged) > MOST:
        text = f'<details class="rbp-fold"><summary>What each of {len(judged)} claims rests on</summary>{text}</details>'
    return [nodes.raw("", text, format="html")] if items else []


def beside(said):
    """The proofs and the pages of results next to one, as book/pages.yml lists them."""
    listed = said.get("beside", ()) if said else ()
    proofs, near = (
        ", ".join(link_to(p) for p in listed if p[0].isdigit() == of) for of in (False, True)
    )
    told = f"What is proved: {proofs}. " * bool(
        proofs
    ) + f"To read beside this page: {near}." * bool(near)
    return [nodes.raw("", f"<p>{told}</p>", format="html")] if told else []


def said_lines(part):
    """The lines of what was said: each item of a list as a list of its own, anything else as it is."""
    if isinstance(
        part, nodes.container
    ):  # of an output in each of its forms, of which plain text is the poorest
        parts = [child for child in part.children if child.get("mime_type") != "text/plain"]
        return [line for child in parts for line in said_lines(child)]
    items = part.children if isinstance(part, nodes.bullet_list) else []
    return [nodes.bullet_list("", item, **part.attributes) for item in items] or [part]


def joined(lines):
    """Lines of an answer with neighbouring items in one list again."""
    parts = []
    for line in lines:
        if (
            parts
            and isinstance(line, nodes.bullet_list)
            and isinstance(parts[-1], nodes.bullet_list)
        ):
            parts[-1] += line.children
        else:
            parts.append(line)
    return parts
