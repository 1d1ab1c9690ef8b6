"""The findings page: each statement by the evidence that judges it,
and the guards of what an author says of it.

book/findings.yml lists the statements, each with its claims; the basis of a claim says which kind
of evidence it rests on.
"""

import html
from collections import Counter
from dataclasses import replace

import pandas as pd

from paper.show.claims import AGREES, DIFFERS, NAME, OPEN, RANKS, all_claims, collected
from paper.show.prose import MARKS, table
from rbplib.families import held, read_yaml

AUTHORS, FIGURES = "authors' counts", "their printed figures"
PUBLISHED, EXACT = "published models", "proofs and exact sums"
LADDERS, GRID = "our ladders", "our grid"
COLUMNS = {title: (title,) for title in (PUBLISHED, LADDERS, GRID, EXACT)}  # of the matrix: kinds
COLUMNS = {"authors' counts and figures": (AUTHORS, FIGURES)} | COLUMNS
BASIS = {  # of a claim: its kind of evidence
    "authors' counts": AUTHORS,
    RANKS: AUTHORS,
    "inference from figures": FIGURES,
    "published results": PUBLISHED,
    "proved": EXACT,
    "exact sums": EXACT,
    "measured on our grid": GRID,
}
DOT = (
    '<span data-page="{of.words.pages[0]}"><b class="rbp-dot" title="{title}">{mark} '
    "<i>{of.said}<br>{kind}</i></b></span>"
)


def kind(words):
    """Which kind of evidence a Claim rests on."""
    return BASIS.get(words.basis, LADDERS)


def by_authors():
    """{name: Judged} of claims on the executed pages of the authors' ranks, their evidence, by
    the rules of those pages: one case is enough."""
    judged = {}
    for name, words in all_claims().items():
        page, finding = words.pages[0], collected(name, words.pages[0], [NAME])
        # a page of several families has cases of the others too
        if "family" in finding.rows and (theirs := finding.rows["family"] == NAME).any():
            words = replace(words, basis=AUTHORS, pages=[f"_executed/{NAME}/{page}"])
            judged[name] = replace(finding, words=words, rows=finding.rows[theirs], enough=1)
    return judged


def statements(whose, *every):
    """(statement, {kind of evidence: [Judged]}) of book/findings.yml, of claims with a case here,
    or a proof.

    Args:
        whose: "paper" or "ours". every: {name: Judged} of all claims, and of `by_authors`.
    """
    for statement, names in read_yaml(held("book", "findings.yml"))[whose].items():
        parts = {}
        findings = [judged.get(name) for name in names for judged in every]
        for finding in filter(None, findings):
            if len(finding.rows) or finding.words.proved:
                parts.setdefault(kind(finding.words), []).append(finding)
        yield statement, parts


def show_matrix(whose, *every, download):
    """Show the `statements` by kinds of evidence as a table.

    A cell holds the verdict of each kind of evidence: on the page a mark, which is a link to the
    page that judges its first claim, and has its words where a pointer rests. download: file name
    of its CSV.
    """
    rows, dots = [], {title: [] for title in COLUMNS}
    for statement, parts in statements(whose, *every):
        row = {"statement": statement}
        for title, kinds in COLUMNS.items():
            findings, marks = [one(parts[name]) for name in kinds if name in parts], ""
            for finding in findings:
                label = html.escape(f"{finding.said}: {finding.title}")
                about = {"kind": kind(finding.words), "title": label}
                marks += DOT.format(of=finding, mark=MARKS[finding.verdict], **about)
            row[title] = ", ".join(finding.said for finding in findings) or "–"
            dots[title].append(marks)
        rows.append(row)
    # kinds without a dot take no room
    dots = {title: marks for title, marks in dots.items() if any(marks)}
    frame = pd.DataFrame(rows)[["statement", *dots]]
    table(frame, safe=dots, columns=list(frame), download=download)


def apart(*every):
    """[(statement, "one kind of evidence: agrees; another: differs")] where one kind agrees and
    another differs."""
    rows = []
    for statement, parts in statements("paper", *every):
        verdicts = {title: one(findings).verdict for title, findings in parts.items()}
        if {AGREES, DIFFERS} <= {*verdicts.values()}:
            rows.append((statement, "; ".join(": ".join(of) for of in verdicts.items())))
    return rows


def written_for(judged, **verdicts):
    """Is every claim judged so here, by that kind of evidence? The guard of what an author wrote.

    verdicts: "KIND: VERDICT" by claim, such as `top1_line="our ladders: agrees"`.
    """
    here = {}
    for name in verdicts:
        if name in judged and len(judged[name].rows):
            here[name] = f"{kind(judged[name].words)}: {judged[name].verdict}"
    return here == verdicts


def without_ladders(judged):
    """The same without the cases of our ladders, for a page that has none."""
    mine = {name for name, of in judged.items() if kind(of.words) == LADDERS}
    return {n: replace(of, rows=of.rows[:0]) if n in mine else of for n, of in judged.items()}


# ---- over the kinds of evidence

HOLDS, FAILS, SPLIT = "holds", "fails", "mixed"  # of a statement


def one(findings):
    """The Judged of one kind of evidence on one statement: the cases of its claims together."""
    first = findings[0]
    if len(findings) == 1 or first.words.proved:
        return first
    rows = pd.concat([finding.rows for finding in findings], ignore_index=True)
    return replace(first, rows=rows, enough=min(finding.enough for finding in findings))


def overall(parts):
    """Of {kind of evidence: Judged}: holds where no kind that decides differs or is mixed, fails
    where none agrees or is mixed, open where none decides, else mixed."""
    verdicts = frozenset(finding.verdict for finding in parts.values()) - {OPEN}
    whole = {frozenset(): OPEN, frozenset([AGREES]): HOLDS, frozenset([DIFFERS]): FAILS}
    return whole.get(verdicts, SPLIT)


def tally(whose, *every):
    """Counter of `overall` over the statements that have evidence here."""
    counts = Counter()
    for _, parts in statements(whose, *every):
        merged = {kind_of: one(findings) for kind_of, findings in parts.items()}
        counts.update([overall(merged)] if merged else [])
    return counts
