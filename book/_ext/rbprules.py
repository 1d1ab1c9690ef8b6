"""What each claim of a page rests on, as book/claims.yml says it: what would change it, and other pages."""

import html
from functools import cache
from pathlib import Path

import yaml
from docutils import nodes
from rbpmath import math_html

SURE = "How sure, and what would change it"  # the heading under which the claims of a page are gone through


@cache
def read_yaml(place):
    """What a YAML file holds, read once in a build: PyYAML takes a tenth of a second for the claims."""
    return yaml.safe_load(place.read_text(encoding="utf-8"))


def link_to(page):
    """A link that `link_pages` completes when it knows all pages and their titles."""
    return f'<span data-page="{html.escape(page)}"></span>'


def sure(app, page):
    """What each claim of a page rests on, what would change its verdict, its proof and its neighbours' pages."""
    place = Path(app.srcdir) / "book" / "claims.yml"
    app.env.note_dependency(str(place))
    alike = {}  # {other pages: {what would change it and basis: claims}}: a sentence stands once
    for rule in read_yaml(place).values():
        if page in rule["pages"]:
            k = rule.get("k", [])
            claim = rule["claim"].replace("{k}", ", ".join(f"{x:,}" for x in (k if isinstance(k, list) else [k])))
            others = ", ".join(link_to(p) for p in rule["pages"] if p != page)
            verdict = f", {html.escape(rule['proved'])}" if rule.get("proved") else ""
            told = f' (basis of the verdict: <span class="rbp-basis">{html.escape(rule["basis"])}</span>{verdict})'
            told += f"; what would change it: {html.escape(rule['changes'])}" if rule.get("changes") else ""
            alike.setdefault(others, {}).setdefault(told, []).append(f"<em>{math_html(claim)}</em>")
    items = ""
    for others, found in alike.items():
        said = " ".join(f"{', and '.join(claims)}{told}." for told, claims in found.items())
        items += f"<li>{said} See also {others}.</li>" if others else f"<li>{said}</li>"
    return [nodes.raw("", f"<ul>{items}</ul>", format="html")] if items else []
