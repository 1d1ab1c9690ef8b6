"""Ours against the paper: a page judges each claim by a line of its own,
in words of book/claims.yml.

    laws = law_rows(fitted)
    claim("top1_line", laws, (laws.r2 >= 0.975) & (laws.sure_alpha > 0))

A row is a case: one fit, or one family on one corpus. A claim `agrees` where it holds in at least
four fifths of the cases, `differs` where it fails in as many, and is `mixed` where it does each in
more than a fifth. It stays open with fewer than `enough`, where cases within noise leave it so, or
where it is open at each of several k. Of a question of ours these are yes, no, partly and open. A
row decides nothing where a number that its rule asks for does not exist. The rows stay in the
executed page, where page 17 and `paper.verify` find them.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
import pandas as pd

from paper.show.numbers import share
from paper.show.prose import MARKS, fill, say
from rbplib.families import held, read_yaml, root

AGREES, DIFFERS, MIXED, OPEN = "agrees", "differs", "mixed", "open"
ANSWERS = {AGREES: "yes", MIXED: "partly", DIFFERS: "no", OPEN: OPEN}  # to a question of ours
AT_K = "{{ k }}"  # in the words of a claim that is about several k
WITHOUT_K = rf"^At k = {AT_K}, | at k = {AT_K}"
NAME = "gpt2-authors"  # the family of the authors' own ranks, see paper/authors.py
RANKS = "authors' ranks"  # the basis of what rests on them and not on counts or figures
CASES = 3  # fewer decide nothing, where a page does not say otherwise
ALONE = "; of the authors' ranks, one ladder on one text by design, one case is enough"


@dataclass(frozen=True)
class Claim:
    """A claim in its words, which the head of book/claims.yml explains, judged on its cases.

    ours: evidence on a question of ours, not on a statement of the paper. rows: of `cases`, with
    `holds` (boolean, NA: decides nothing) and `hidden` (within noise: decides nothing, but counts
    among all). enough: how many cases decide. judged_on: the executed pages whose rows these are.
    joins: the claims whose cases one kind of evidence counts together.
    """

    name: str
    claim: str = ""
    found: str = ""
    pages: tuple = ()
    paper: str = "not studied"
    basis: str = "measured"
    rule: str = ""
    proved: str = ""
    changes: str = ""
    ours: bool = False
    rows: pd.DataFrame | None = None
    enough: int = CASES
    judged_on: tuple = ()
    joins: tuple = ()

    @property
    def counts(self):
        """In how many rows the claim holds, in how many it fails, and how many it counts among."""
        holds, fails = self.rows["holds"].sum(), (~self.rows["holds"]).sum()
        return holds, fails, holds + fails + self.rows["hidden"].sum()

    @property
    def count(self):
        """In how many of them it holds, in words."""
        return share(*self.counts[::2])

    @property
    def fails(self):
        """In how many of them it does not."""
        return share(*self.counts[1:])

    @property
    def ranks(self):
        """The k that it was judged at."""
        return sorted(map(int, self.rows["k"].dropna().unique())) if "k" in self.rows else []

    @property
    def parts(self):
        """A Claim for each k, where its words name k; else itself alone."""
        if AT_K not in self.claim or not self.ranks:
            return [self]
        return [replace(self, rows=part) for _, part in self.rows.groupby("k")]

    @property
    def verdict(self):
        """agrees, differs or mixed by the share of all cases in which the claim holds, or fails.

        Not mixed but open where cases within noise could still turn it either way; open where its
        page, which has a line for each k, leaves every one of them open.
        """
        holds, fails, whole = self.counts
        if self.proved:
            return self.proved
        parts = self.parts
        all_open = len(parts) > 1 and {part.verdict for part in parts} == {OPEN}
        if all_open or holds + fails < self.enough:
            return OPEN
        if max(holds, fails) >= 0.8 * whole:
            return AGREES if holds > fails else DIFFERS
        return MIXED if min(holds, fails) > 0.2 * whole else OPEN

    @property
    def said(self):
        """The verdict as a reader meets it: of a question of ours an answer."""
        return ANSWERS[self.verdict] if self.ours else self.verdict

    def filled(self, sentence):
        """A sentence of claims.yml with the numbers of the rows in it."""
        words = {"count": self.count, "fails": self.fails, "noise": known_noise(self.rows)}
        words["k"] = ", ".join(f"{k:,}" for k in self.ranks)
        return fill(sentence, {**self.rows, **words})

    @property
    def title(self):
        """The claim, without its k where it was judged at none."""
        claim = self.filled(self.claim if self.ranks else re.sub(WITHOUT_K, "", self.claim))
        # a Greek letter is a quantity, whose capital would be another
        return (claim[0].upper() if claim[0].isascii() else claim[0]) + claim[1:]

    @property
    def finding(self):
        """What was found, in words."""
        nothing = self.rows.empty and "{" in self.found
        return "not measured here" if nothing else self.filled(self.found)

    @property
    def key(self):
        """What the executed page calls it: the claim, and the k that its words name."""
        ranks = f" at k = {', '.join(map(str, self.ranks))}"
        return f"claim {self.name}{ranks if AT_K in self.claim else ''}"

    def record(self, rows=True):
        """What the executed page keeps, as JSON holds it; rows: also the cases."""
        return {
            "verdict": self.said,
            "basis": self.basis,
            "cases that hold": self.count,
            "enough": self.enough,
            "rows": recordable(self.rows.to_dict("records")) if rows else [],
        }


@cache
def all_claims():
    """{name: Claim} without cases, in the order of book/claims.yml."""
    entries = read_yaml(held("book", "claims.yml"))
    listed = read_yaml(held("book", "findings.yml"))
    ours = {name for names in listed["ours"].values() for name in names}
    return {name: Claim(name, ours=name in ours, **entry) for name, entry in entries.items()}


def on_cases(name, rows, enough):
    """The Claim of a name with these rows, on another basis where they have a column `basis`;
    without words what `keep` has."""
    words = all_claims().get(name, Claim(name))
    basis = rows["basis"].iloc[0] if "basis" in rows else words.basis
    return replace(words, rows=rows, enough=enough, basis=basis)


def cases(records, columns=None):
    """Rows for `claim` of a list of {column: value}:
    a number that is none neither passes nor fails.

    columns: those to take, needed where there may be no record.
    """
    frame = pd.DataFrame(list(records), columns=columns)
    numbers = frame.select_dtypes("number").astype(float)
    return frame.assign(**numbers.where(np.isfinite(numbers)).astype("Float64"))


def lows_and_highs(intervals):
    """Both ends of the intervals of a column of n: float64, (2, n)."""
    return np.array([*intervals], float).reshape(-1, 2).T


def beyond(intervals):
    """Where each interval of a column lies, Float64: 1 above 0, -1 below, 0 where 0 is in it."""
    return inside(intervals, 0, np.inf)


def inside(intervals, low, high):
    """Where each interval of a column lies, Float64: 1 between low and high, -1 outside,
    0 across an end."""
    first, last = lows_and_highs(intervals)
    sides = 1.0 * ((first > low) & (last < high)) - ((first > high) | (last < low))
    return pd.Series(sides, intervals.index, dtype="Float64").where(finite(intervals))


def near_one(ratios, intervals, low, high):
    """Are two exponents nearly identical? Float64: 1 where the interval of their ratio includes 1
    and the ratio is between low and high, -1 where neither is so, 0 where the two disagree, or
    where the interval reaches beyond both bounds."""
    first, last = lows_and_highs(intervals)
    same, near = (first <= 1) & (last >= 1), ratios.between(low, high)
    near, wide = near.to_numpy(bool, na_value=False), (first < low) & (last > high)
    sides = (1.0 * (same & near) - (~same & ~near)) * ~wide
    return pd.Series(sides, intervals.index, dtype="Float64").where(finite(intervals))


def finite(intervals):
    """Whether each interval of a column is known."""
    return intervals.map(lambda ends: np.isfinite(ends).all()).astype(bool)


def known_interval(rows):
    """Column of the intervals over other text and trainings,
    over other text where that is unknown."""
    return rows["ci_trainings"].where(finite(rows["ci_trainings"]), rows["ci_tokens"])


def known_noise(rows):
    """What the intervals of `known_interval` are over, in words."""
    share = finite(rows["ci_trainings"]).mean() if "ci_trainings" in rows else 0
    if not share > 0:
        return "other text"
    return "other text and trainings" if share == 1 else "other text, and trainings where known"


def recordable(x):
    """Rows, numbers, truths, intervals and words as JSON holds them;
    None for a number that is none."""
    if isinstance(x, dict):
        return {name: recordable(value) for name, value in x.items()}
    if np.ndim(x):
        return [recordable(part) for part in x]
    if isinstance(x, str | bool):
        return x
    return float(x) if not pd.isna(x) and np.isfinite(x) else None


# ---- what a page says, and keeps


def enough_of(rows):
    """How many cases decide: CASES, and one where all are of the authors' ranks, a ladder on a
    text."""
    return 1 if set(rows.get("family", ())) == {NAME} else CASES


def judge(name, rows=None, holds=None, hidden=False, enough=None):
    """A Claim judged, and not shown.

    Args:
        name: in book/claims.yml. rows: of `cases`. holds: the rule, boolean per row, NA where a
        number of it does not exist; None where a proof decides, or nothing can. hidden:
        boolean per row, where noise may be all of it: such a row neither holds nor fails, but
        counts among all. enough: how many cases decide, by default `enough_of` the rows.
    """
    rows = cases([], ["k"]) if rows is None else rows
    holds = pd.Series(pd.NA if holds is None else holds, rows.index, dtype="boolean")
    hidden = pd.Series(hidden, rows.index, dtype="boolean").fillna(False)
    rows = rows.assign(holds=holds.mask(hidden), hidden=hidden)
    return on_cases(name, rows, enough or enough_of(rows))


def claim(*rule, show=True, **options):
    """`judge` a claim and show what the paper says, what was found here,
    and in how many cases it holds; arguments as there. show: else only keep it, for page 17.

    A claim about several k takes a line for each, or one where all have one verdict that decides;
    one without any case is passed over.
    """
    judged = judge(*rule, **options)
    parts = [part for part in judged.parts if len(part.rows) or part.proved]
    records = {part.key: part.record() for part in parts}
    if not show:
        return keep_numbers(records)
    verdicts = {OPEN, *(part.verdict for part in parts)}
    shown = [judged] if len(verdicts) == 2 else parts
    return say("\n".join(map(line, shown)), name="answer", numbers=records)


def keep(name, rows):
    """Keep rows in the executed page for page 17, and show nothing."""
    keep_numbers({f"rows {name}": {"rows": recordable(rows.to_dict("records"))}})


def keep_numbers(numbers):
    """Keep {name: record} in the executed page, for `paper.verify` too, and show nothing."""
    say(" ", name="kept", numbers=numbers)


def line(judged):
    """One claim in a page's answer, by the macro `claim` of words.md: what is claimed, what was
    found, the verdict, which stands before neither, and below it what it rests on, which the book
    folds. Of what was found stands in sight what comes before the first semicolon."""
    alone = ALONE if enough_of(judged.rows) == 1 else ""
    about = {"judged": judged, "mark": MARKS[judged.verdict], "alone": alone}
    return fill("{{ words.claim(judged, mark, alone) }}", about)


# ---- what executed pages keep


@lru_cache(maxsize=100)
def page_records(path):
    """{"claim NAME ...": record} of an executed page; none of a page that is not there."""
    if not path.is_file():
        return {}
    records = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            records |= output.get("metadata", {}).get("rbp_numbers", {})
    return records


def collected(name, page, families):
    """Claim with what `claim` or `keep` has under a name, of all executed pages of these families;
    "all" is that of pages of several."""
    rows, enough, judged_on = [], CASES, {}
    for family in families:
        records = page_records(root() / "book" / "_executed" / family / f"{page}.ipynb")
        for case, record in records.items():
            if case.split(" at k = ")[0] in (f"claim {name}", f"rows {name}"):
                rows += record["rows"]
                enough = record.get("enough", CASES)
                judged_on[f"_executed/{family}/{page}"] = True
    # intervals and truths as they were
    for row in rows:
        row |= {n: tuple(np.array(x, float)) for n, x in row.items() if isinstance(x, list)}
    rows = cases(rows, None if rows else ["holds", "hidden"])
    truths = rows.columns.intersection(["holds", "hidden"])
    judged = on_cases(name, rows.astype(dict.fromkeys(truths, "boolean")), enough)
    return replace(judged, judged_on=(*judged_on,))
