"""The findings page: each statement by the evidence that judges it,
and the guards of what an author says of it.

book/findings.yml lists the statements, each with its claims; the basis of a claim says which kind
of evidence it rests on.
"""

import html
import re
from collections import Counter
from dataclasses import replace

import pandas as pd

from paper.gpt2 import VOCABULARY as VOCABULARY
from paper.show.claims import AGREES, DIFFERS, NAME, OPEN, RANKS, all_claims, collected
from paper.show.claims import keep_numbers as keep_numbers
from paper.show.prose import MARKS, csv_link, table
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
HOLDS, FAILS, SPLIT = "holds", "fails", "mixed"  # of a statement
DOT = (
    '<a href="#{row}"><b class="rbp-dot" title="{title}">'
    "{mark} <i>{claim.said}<br>{kind}</i></b></a>"
)
TO = '<span data-page="{}">{}</span>'  # a link to a page or a part of it, which the book resolves
# of the table of evidence: no verdict stands before a sentence that it denies
WORDS = {"claim": "title", "the paper": "paper", "found": "finding", "verdict": "said"}
WORDS |= {"rule": "rule", "what would change it": "changes"}


def kind(claim):
    """Which kind of evidence a Claim rests on."""
    return BASIS.get(claim.basis, LADDERS)


# ---- the claims of all pages


def all_judged(here, families):
    """{name: Claim} of every claim, in the order of the book: those that a page judges itself, else
    what its own page keeps.

    here: [Claim]. families: names, and "all".
    """
    here, judged = {claim.name: claim for claim in here}, {}
    for name, words in all_claims().items():
        page = next(at for at in words.pages if "/" not in at)  # rows of what is proved, too
        judged[name] = here.get(name) or collected(name, page, families)
    return judged


def by_authors():
    """{name: Claim} on the executed pages of the authors' ranks, their evidence, by
    the rules of those pages: one case is enough."""
    judged = {}
    for name, words in all_claims().items():
        finding = collected(name, words.pages[0], [NAME])
        # a page of several families has cases of the others too
        if "family" in finding.rows and (theirs := finding.rows["family"] == NAME).any():
            judged[name] = replace(finding, rows=finding.rows[theirs], enough=1, basis=AUTHORS)
    return judged


def without_ladders(judged):
    """The same without the cases of our ladders, for a page of the authors' ranks alone."""
    none = {name: replace(claim, rows=claim.rows[:0]) for name, claim in judged.items()}
    return judged | {name: claim for name, claim in none.items() if kind(claim) == LADDERS}


def written_for(judged, **verdicts):
    """Is every claim judged so here, by that kind of evidence? The guard of what an author wrote.

    verdicts: "KIND: VERDICT" by claim, such as `top1_line="our ladders: agrees"`.
    """
    here = {name: f"{kind(one)}: {one.verdict}" for name, one in judged.items() if len(one.rows)}
    return verdicts.items() <= here.items()


# ---- statements, by kinds of evidence


def statements(whose, *every):
    """(statement, {kind of evidence: Claim}) of book/findings.yml, of claims with a case here,
    or a proof.

    A kind has one Claim: the cases of its claims together. whose: "paper" or "ours". every:
    {name: Claim} of all claims, and of `by_authors`.
    """
    for statement, names in read_yaml(held("book", "findings.yml"))[whose].items():
        parts = {}
        for claim in [judged[name] for name in names for judged in every if name in judged]:
            if not (len(claim.rows) or claim.proved):
                continue
            first = parts.setdefault(kind(claim), claim)
            if first is not claim and not first.proved:
                rows = pd.concat([first.rows, claim.rows], ignore_index=True)
                about = {"rows": rows, "enough": min(first.enough, claim.enough)}
                about["joins"] = (*(first.joins or [first]), claim)
                parts[kind(claim)] = replace(first, **about)
        yield statement, parts


def show_matrix(whose, *every, download):
    """Show the `statements` by kinds of evidence as a table.

    A cell holds the verdict of each kind of evidence: on the page a mark, which is a link to its
    row in the table of `show_evidence`, and has its words where a pointer rests. download: file
    name of its CSV.
    """
    rows, dots = [], {title: [] for title in COLUMNS}
    for statement, parts in statements(whose, *every):
        row = {"statement": statement}
        for title, kinds in COLUMNS.items():
            claims, marks = [parts[name] for name in kinds if name in parts], ""
            for claim in claims:
                label = html.escape(f"{claim.said}: {joined(claim, 'title')}")
                about = {"kind": kind(claim), "title": label, "row": row_of(claim)}
                marks += DOT.format(claim=claim, mark=MARKS[claim.verdict], **about)
            row[title] = ", ".join(claim.said for claim in claims) or "–"
            dots[title].append(marks or "–")
        rows.append(row)
    # kinds without a dot take no room
    dots = {title: marks for title, marks in dots.items() if {*marks} != {"–"}}
    frame = pd.DataFrame(rows)[["statement", *dots]]
    table(frame, safe=dots, columns=list(frame), download=download)


def show_evidence(whose, *every, caption):
    """Show what stands behind each mark of `show_matrix` as a folded table: a row a mark, with its
    claims, their cases as CSV, and links to where they are judged and to the code."""
    rows, cells = [], []
    for statement, parts in statements(whose, *every):
        for title, claim in parts.items():
            row = {words: joined(claim, name) for words, name in WORDS.items()}
            row |= {"verdict": claim.said, "statement": statement, "kind of evidence": title}
            rows.append(row | {"holds in": claim.count})
            ident, lines = row_of(claim), "<br>".join(map(links_of, claim.joins or [claim]))
            cases = csv_link(claim.rows, f"{ident}.csv", "cases") if len(claim.rows) else ""
            cells.append(f'<a id="{ident}"></a>{lines}<br><small>{title}: {cases}</small>')
    frame = pd.DataFrame(rows)
    table(frame, caption, safe={"claim": cells}, columns=[*WORDS][:5], fold=True)


def row_of(claim):
    """The id of a claim's row in the table of evidence."""
    return re.sub(r"\W+", "-", f"{kind(claim)}-{claim.name}")


def joined(claim, name):
    """What a Claim says under a name, and all that its kind of evidence counts with it."""
    words = dict.fromkeys(getattr(part, name) for part in claim.joins or [claim])
    return "; ".join(words) or "a proof decides"


def links_of(claim):
    """A claim with links to its proof, or to its line on each page that judged it and the code of
    its rule, as safe HTML."""
    pages = claim.judged_on or ["_executed/all/17_findings"]
    links = [(f"{page}#claim-{claim.name}", page.split("/")[1]) for page in pages]
    links = [(to, "" if words == "all" else words) for to, words in links]
    links = (
        [(claim.pages[0], "")]
        if claim.proved
        else [*links, (f"{pages[0]}#code-{claim.name}", "code")]
    )
    links = ", ".join(TO.format(*link) for link in links)
    return f"{html.escape(claim.title)} <small>({links})</small>"


def disagreements(*every):
    """[(statement, "one kind of evidence: agrees; another: differs")] where one kind agrees and
    another differs."""
    rows = []
    for statement, parts in statements("paper", *every):
        verdicts = {title: claim.verdict for title, claim in parts.items()}
        if {AGREES, DIFFERS} <= {*verdicts.values()}:
            rows.append((statement, "; ".join(": ".join(pair) for pair in verdicts.items())))
    return rows


def tally(whose, *every):
    """Counter of statements that have evidence here: holds where no kind that decides differs or is
    mixed, fails where none agrees or is mixed, open where none decides, else mixed."""
    whole = {frozenset(): OPEN, frozenset([AGREES]): HOLDS, frozenset([DIFFERS]): FAILS}
    counts = Counter()
    for _, parts in statements(whose, *every):
        verdicts = frozenset(claim.verdict for claim in parts.values()) - {OPEN}
        counts.update([whole.get(verdicts, SPLIT)] if parts else [])
    return counts
