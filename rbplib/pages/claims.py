"""Ours against the paper: every claim of book/claims.yml judged by its one rule, on a page's cases or on all of them.

A case is one fit, or one family on one corpus. A claim `agrees` where it holds in at least four fifths of the cases,
`differs` where in at most one fifth, and is `mixed` between. Cases come as lists, one per kind: `laws=` (Law), `runs=`
(RunGap), `far=`, `rises=`, `pairs=`, `contests=` (records of `evidence`); the head of claims.yml says the rest.
"""

import html
import operator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from rbplib.pages.prose import interval, number, say
from rbplib.settings import InputError, nearest, read_yaml, root

AGREES, DIFFERS, MIXED, OPEN = "agrees", "differs", "mixed", "cannot be told"
BASIS = ("measured", "published results", "inference from figures", "proved")
CASES = 3  # fewer cases than this decide nothing, where a claim does not say otherwise
LINKED = ("claim", "ours")  # columns of `finding_frame` that hold safe HTML
CONDITIONS = {
    "at least": operator.ge,
    "above": operator.gt,
    "at most": operator.le,
    "below": operator.lt,
    "between": lambda value, ends: ends[0] <= value <= ends[1],
}


@dataclass(frozen=True)
class Claim:
    """One entry of claims.yml; the head of that file explains the fields."""

    name: str
    claim: str
    paper: str
    found: str
    basis: str
    pages: list
    section: object = None
    ours: bool = False
    part: str = ""
    of: str = ""
    k: object = None
    N: int | None = None
    among: dict | None = None
    holds: dict | None = None
    enough: int = CASES
    proved: str = ""
    reading: str = ""
    short: str = ""
    changes: str = ""

    @property
    def place(self):
        """Where the paper makes it."""
        kind = "appendix" if str(self.section)[0].isalpha() else "section"
        return "our question" if self.ours else f"{kind} {self.section}"

    @property
    def ks(self):
        """The ranks that it is about; none where it is about all."""
        return self.k if isinstance(self.k, list) else [] if self.k is None else [self.k]


@dataclass(frozen=True)
class Judged:
    """A claim beside the cases that were measured: which hold, what was found in a sentence, the verdict."""

    rule: Claim
    cases: list
    held: list  # of bool, for the cases that can be judged
    claim: str
    ours: str
    count: str  # of the cases that hold
    verdict: str


@cache
def all_claims():
    """{name: Claim} in the order of book/claims.yml."""
    path = root() / "book" / "claims.yml"
    try:
        return {name: Claim(name=name, **entry) for name, entry in read_yaml(path).items()}
    except TypeError as error:
        raise InputError(f"{path} holds an entry that is no claim ({error}): its head lists the fields.") from error


def beyond_noise(case):
    """The end nearer to 0 of the interval of a difference; 0 where it takes 0 in, NaN where there is none."""
    low, high = case.interval
    return low if not low <= 0 else high if not high >= 0 else 0.0


def measure(name, case):
    """One number of one case: a field of it, or how far the interval of a difference lies from 0."""
    return beyond_noise(case) if name == beyond_noise.__name__ else getattr(case, name)


def holds(rule, case):
    """Does a case meet every condition of a rule? None where those it meets are not all and the rest have no number."""
    told = []
    for name, conditions in rule.items():
        if unknown := [word for word in conditions if word not in CONDITIONS]:
            raise InputError(f"book/claims.yml has a condition {unknown[0]!r}: {nearest(unknown[0], CONDITIONS)}")
        value = float(measure(name, case))
        told += [bool(CONDITIONS[w](value, bound)) for w, bound in conditions.items()] if np.isfinite(value) else [None]
    return False if False in told else None if None in told else True


def verdict(held, enough=CASES):
    """agrees, differs or mixed by the share of cases in which a claim holds; too few cases cannot tell."""
    if len(held) < enough:
        return OPEN
    share = np.mean(held)
    return AGREES if share >= 0.8 else DIFFERS if share <= 0.2 else MIXED


def judged(rule, cases, short=False):
    """Judged: a claim on those of the cases that it is about; the short sentence is the one of a page's own list."""
    cases = [c for c in cases if (not rule.ks or c.k in rule.ks) and (rule.N is None or rule.N == c.N)]
    if rule.among:
        cases = [c for c in cases if holds(rule.among, c)]
    found = [holds(rule.holds, c) for c in cases] if rule.holds else []
    held = [h for h in found if h is not None]
    count = f"{sum(held)} of {len(held)}"
    words = Words(cases, count=count, k=", ".join(map(str, rule.ks)))
    return Judged(
        rule=rule,
        cases=cases,
        held=held,
        claim=rule.claim.format_map(words),
        ours=(short and rule.short or rule.found).format_map(words),
        count=count,
        verdict=rule.proved or rule.reading or verdict(held, rule.enough),
    )


class Shown(float):
    """A number that a sentence shows in so many significant digits: {x} or {x:2}."""

    def __format__(self, digits):
        return number(float(self), int(digits or 3))


class Words(dict):
    """What a claim's sentence is filled from: what is given, and any number of the cases as Values."""

    def __init__(self, cases, **given):
        super().__init__(given)
        self.cases = cases

    def __missing__(self, name):
        return Values([measure(name, case) for case in self.cases])


class Values:
    """What a sentence can say of one number, name or interval of the cases: {name}, {name.low}, {name.told}, ..."""

    def __init__(self, values):
        numbers = np.array([v for v in values if np.ndim(v) == 0 and not isinstance(v, str) and np.isfinite(v)], float)
        self.low, self.middle, self.high = map(Shown, np.quantile(numbers if len(numbers) else [np.nan], [0, 0.5, 1]))
        self.range = f"{self.low} to {self.high}" if len(numbers) else "no value"
        self.told = f"{len(numbers)} of {len(values)}"
        self.zeros, self.others = (f"{np.sum((numbers == 0) == zero)} of {len(numbers)}" for zero in (True, False))
        self.names = ", ".join(sorted({v for v in values if isinstance(v, str)}))
        ends = sorted((v for v in values if np.ndim(v)), key=lambda ends: ends[1] - ends[0])
        self.narrowest, self.widest = (interval(ends[i]) if ends else "–" for i in (0, -1))

    def __format__(self, _):
        return f"median {self.middle}, {self.range}" if self.range != "no value" else self.range


def judge(page, **evidence):
    """Say, claim by claim of a page, what the paper says, what was found here, and on how many cases it holds.

    evidence: lists of cases by kind, as claims.yml names them in `of`; a claim whose kind is not there, or that none of
    the cases is about, is passed over. A claim that says {k} takes a line for each.
    """
    for rule in all_claims().values():
        if page not in rule.pages or rule.of not in evidence:
            continue
        for part in [replace(rule, k=k) for k in rule.ks] if "{k}" in rule.claim else [rule]:
            if (found := judged(part, evidence[rule.of], short=True)).cases:
                say(line(found))


def line(found):
    """One claim in a page's list."""
    places = [getattr(case, "corpus", None) for case in found.cases]
    each = "on {} corpora" if None not in places and len(set(places)) == len(places) else "in {} cases"
    end = f"agrees {each.format(found.count)}" if found.rule.holds else f"{found.verdict} ({found.rule.basis})"
    paper = "Our question" if found.rule.ours else f"The paper: {found.rule.paper}"
    return f"- {found.claim}. {paper}; here: {found.ours}; {end}."


def findings(part, evidence):
    """Judged claims of one part of the findings page ("law", "use" or "theory") from cases by kind."""
    return [judged(rule, evidence.get(rule.of, [])) for rule in all_claims().values() if rule.part == part]


def finding_frame(found, family):
    """The table of the page; claims on measurements link to the pages of `family`. LINKED columns are safe HTML."""

    def wide(text, ems):
        return f'<div style="min-width:{ems}em">{text}</div>'

    return pd.DataFrame(
        {
            "claim": wide(f'<a href="{link(f.rule.pages[0], family)}">{html.escape(f.claim)}</a>', 10),
            "paper": f"{f.rule.paper} ({f.rule.place})",
            "ours": wide(html.escape(f.ours), 15),
            "verdict": f"{f.verdict} ({f.rule.basis})",
            "what would change it": f.rule.changes,
        }
        for f in found
    )


def link(page, family):
    """Where a page lies, seen from the once-only pages: 01 to 08 are those of a family."""
    if page.startswith("derivations/"):
        return f"../../{page}.html"
    return f"../{family}/{page}.html" if page < "09" else f"{page}.html"
