"""What each claim of a page rests on, as book/claims.yml says it: its rule, what would change it, other pages."""

import html
from pathlib import Path

import yaml
from docutils import nodes
from rbpmath import math_html

SURE = "How sure, and what would change it"  # the heading under which the claims of a page are gone through
NUMBERS = {  # of a case, as claims.yml names them
    "r2": "R²",
    "alpha": "the exponent",
    "explained": "1 where some noise is enough, 0 where none is,",
    "beyond_noise": "what the noise of the text leaves of the difference",
    "share": "the share of intervals that hold",
    "ratio": "the ratio of exponents",
    "zipf_lead": "the lead over a power law, in nats,",
}


def link_to(page):
    """A link that `link_pages` completes when it knows all pages and their titles."""
    return f'<a href="page:{html.escape(page)}"></a>'


def sure(app, page):
    """What each claim of a page rests on, what would change its verdict, its proof and its neighbours' pages."""
    place = Path(app.srcdir) / "book" / "claims.yml"
    app.env.note_dependency(str(place))
    items = ""
    for rule in yaml.safe_load(place.read_text(encoding="utf-8")).values():
        if page in rule["pages"]:
            k = rule.get("k", "")
            claim = rule["claim"].replace("{k}", ", ".join(map(str, k)) if isinstance(k, list) else str(k))
            others = ", ".join(link_to(p) for p in rule["pages"] if p != page)
            items += f"<li><em>{math_html(claim)}</em>: {html.escape(rule['basis'])}{rule_words(rule)}"
            items += f"; what would change it: {html.escape(rule['changes'])}" if rule.get("changes") else ""
            items += f". See also {others}.</li>" if others else ".</li>"
    return [nodes.raw("", f"<ul>{items}</ul>", format="html")] if items else []


def rule_words(rule):
    """By which numbers a claim of claims.yml is judged, as a part of a sentence."""
    if rule.get("proved") or not rule.get("holds"):
        return "; a derivation decides" if rule.get("proved") else "; no number decides"

    def told(conditions):
        one = (f"{how} {' and '.join(map(str, x)) if isinstance(x, list) else x}" for how, x in conditions.items())
        return " and ".join(one)

    said = (f"{NUMBERS.get(name, name.replace('_', ' '))} {told(how)}" for name, how in rule["holds"].items())
    return "; the rule: " + math_html(", ".join(said))
