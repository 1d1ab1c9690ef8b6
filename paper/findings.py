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


def kind(words):
    """Which of KINDS a Claim rests on."""
    on_grid = words.pages[0].startswith("19")
    return BASIS.get(words.basis, "grid" if on_grid else "ladders")


def matrix(whose, judged):
    """The table of statements by kinds of evidence: (data frame, {column: safe HTML}).

    Args:
        whose: "paper" or "ours". judged: {name: Judged} of all claims.
    A cell holds the verdict of each claim; the HTML links it to its page.
    """
    rows, cells = [], []
    for statement, names in read_yaml(held("book", "findings.yml"))[whose].items():
        row, links = {"statement": statement}, {}
        for name in names:
            finding = judged.get(name)
            if finding is None or not (len(finding.rows) or finding.words.proved):
                continue
            verdict, title = finding.verdict, KINDS[kind(finding.words)]
            row[title] = ", ".join(filter(None, [row.get(title), verdict]))
            page = html.escape(finding.words.pages[0])
            link = f'<span data-page="{page}">{MARKS[verdict]} {verdict}</span>'
            links[title] = "<br>".join(filter(None, [links.get(title), link]))
        rows.append(row)
        cells.append(links)
    # columns in the order of KINDS, an empty cell where no claim is
    frame = pd.DataFrame(rows).reindex(columns=["statement", *KINDS.values()]).fillna("–")
    safe = {title: [links.get(title, "–") for links in cells] for title in KINDS.values()}
    return frame, safe


def counts(judged):
    """A row for the paper's claims and one for ours: how many there are, and their verdicts."""
    rows = []
    for title, side in by_side(judged).items():
        verdicts = pd.Series([finding.verdict for finding in side], dtype=str).value_counts()
        rows.append({"of": title[0].lower() + title[1:], "claims": len(side), **verdicts})
    order = ["of", "claims", AGREES, MIXED, DIFFERS, OPEN]
    return pd.DataFrame(rows).reindex(columns=order).fillna(0)


def written_for(judged, **verdicts):
    """Is every claim judged so here? The guard of a paragraph that an author wrote for a verdict."""
    return all(
        name in judged and len(judged[name].rows) and judged[name].verdict == verdict
        for name, verdict in verdicts.items()
    )
