"""The findings page: each statement by the evidence that judges it, and the guards of what an author says of it.

book/findings.yml lists the statements, each with its claims; the basis of a claim says which kind of
evidence it rests on.
"""

import html

import pandas as pd

from paper.show.claims import AGREES, DIFFERS, MIXED, OPEN, by_side
from paper.show.prose import MARKS
from rbplib.families import held, read_yaml

KINDS = {
    "authors": "authors' counts",
    "published": "published models",
    "ladders": "our ladders",
    "grid": "our grid",
    "exact": "proofs and exact sums",
}
BASIS = {  # of a claim: its kind of evidence
    "authors' counts": "authors",
    "inference from figures": "authors",
    "published results": "published",
    "proved": "exact",
    "exact sums": "exact",
}


DOT = (
    '<span data-page="{page}"><b class="rbp-dot" title="{title}">{mark} '
    "<i>{verdict}<br>{kind}</i></b></span>"
)


def kind(words):
    """Which of KINDS a Claim rests on."""
    on_grid = words.pages[0].startswith("19")
    return BASIS.get(words.basis, "grid" if on_grid else "ladders")


def by_kind(names, judged):
    """{kind of evidence: [Judged]} of the claims of these names that have a case here, or a proof."""
    parts = {}
    for finding in filter(None, map(judged.get, names)):
        if len(finding.rows) or finding.words.proved:
            parts.setdefault(kind(finding.words), []).append(finding)
    return parts


def matrix(whose, judged):
    """The table of statements by kinds of evidence: (data frame, {column: safe HTML}).

    Args:
        whose: "paper" or "ours". judged: {name: Judged} of all claims.
    A cell holds the verdict of each claim; the HTML has a dot for each, a link to its page.
    """
    rows, cells = [], []
    for statement, names in read_yaml(held("book", "findings.yml"))[whose].items():
        parts = by_kind(names, judged)
        row, dots = {"statement": statement}, {}
        for name, title in KINDS.items():
            found = parts.get(name, [])
            row[title] = ", ".join(finding.verdict for finding in found) or "–"
            dots[title] = "".join(dot(finding, title) for finding in found)
        rows.append(row)
        cells.append(dots)
    return pd.DataFrame(rows), {title: [row[title] for row in cells] for title in KINDS.values()}


def dot(finding, title):
    """The mark of a verdict as a link to its page, with the claim where a pointer rests."""
    verdict = finding.verdict
    return DOT.format(
        page=finding.words.pages[0],
        title=html.escape(f"{verdict}{finding.but}: {finding.title}"),
        mark=MARKS[verdict],
        verdict=verdict,
        kind=title,
    )


def apart(judged):
    """[(statement, {kind of evidence: its verdicts})] where one kind agrees and another differs."""
    rows = []
    for statement, names in read_yaml(held("book", "findings.yml"))["paper"].items():
        parts = {}
        for name, found in by_kind(names, judged).items():
            parts[KINDS[name]] = {finding.verdict for finding in found}
        if {AGREES} in parts.values() and {DIFFERS} in parts.values():
            rows.append((statement, parts))
    return rows


def counts(judged):
    """A row for the paper's claims and one for ours: how many there are, and their verdicts."""
    rows = []
    for title, side in by_side(judged).items():
        verdicts = pd.Series([finding.verdict for finding in side], dtype=str).value_counts()
        rows.append({"of": title[0].lower() + title[1:], "claims": len(side), **verdicts})
    order = ["of", "claims", AGREES, MIXED, DIFFERS, OPEN]
    return pd.DataFrame(rows).reindex(columns=order).fillna(0)


def written_for(judged, **verdicts):
    """Is every claim judged so here, by that kind of evidence? The guard of what an author wrote.

    verdicts: "KIND: VERDICT" by claim, such as `top1_line="ladders: agrees"`.
    """
    found = {name: judged[name] for name in verdicts if name in judged and len(judged[name].rows)}
    return verdicts == {
        name: f"{kind(finding.words)}: {finding.verdict}" for name, finding in found.items()
    }
