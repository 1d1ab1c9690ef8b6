"""Ours against the paper: every claim of book/claims.yml judged by its one rule, on a page's cases or on all of them.

A case is one fit, or one family on one corpus. A claim `agrees` where it holds in at least four fifths of the cases,
`differs` where in at most one fifth, and is `mixed` between. Cases come as lists, one per kind: `laws=` (Law), `runs=`
(RunGap), `far=`, `rises=`, `pairs=`, `contests=` (records of `evidence`); the head of claims.yml says the rest.
"""

import html
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd

from paper.show.numbers import share
from paper.show.prose import MARKS, Values, say
from paper.show.recorded import judged_numbers
from paper.show.rules import CASES, CONDITIONS, Claim, all_claims
from rbplib.families import InputError, load_family
from rbplib.noise import EXPLAINED, NOT_TESTED

AGREES, DIFFERS, MIXED, OPEN = "agrees", "differs", "mixed", "cannot be told"
SEEN = ("verdict", "claim", "paper", "ours")  # those that a page has room for


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
    fails: str = ""  # count of the cases that do not hold
    but: str = ""  # what stands beside the verdict


def beyond_noise(case):
    """The end nearer to 0 of the interval of a difference; 0 where it takes 0 in, NaN where there is none."""
    low, high = case.interval if hasattr(case, "interval") else ci_known(case)
    return low if not low <= 0 else high if not high >= 0 else 0.0


def direction(case):
    """`beyond_noise` over families; no number where it is 0, or noise alone may be all of it."""
    return np.nan if case.noise_p >= 0.05 else beyond_noise(case) or np.nan


def not_rejected(case):
    """Does no noise reject how the models leave the law: 1 or 0; NaN where what is left may be a noise not known."""
    return {EXPLAINED[3]: 0.0, EXPLAINED[4]: np.nan, NOT_TESTED: np.nan}.get(case.explained_by, 1.0)


def text_not_rejected(case):
    """As `not_rejected`, by the choice of documents or sources alone; NaN where that was not tested."""
    return np.nan if case.explained_by == NOT_TESTED else float(case.explained_by in EXPLAINED[:2])


def ci_known(case):
    """The 95% interval of the exponent, or difference: over other text and trainings, over other text where unknown."""
    return case.ci_trainings if np.isfinite(case.ci_trainings).all() else case.ci_tokens


def noise_known(cases):
    """What the intervals of `ci_known` are over, in words."""
    known = {bool(np.isfinite(case.ci_trainings).all()) for case in cases if hasattr(case, "ci_trainings")}
    return "other text" + (", and trainings where known" if len(known) > 1 else " and trainings" * (True in known))


def told_alpha(case):
    """The end nearer to 0 of the exponent's interval (over other sizes, where no other is known); NaN if 0 is in it."""
    known = ci_known(case)
    chosen = known if np.isfinite(known).all() else getattr(case, "ci_models", known)
    return beyond_noise(SimpleNamespace(interval=chosen)) or np.nan


def above_one(case):
    """Does the interval of a ratio lie above 1: 1 or 0; NaN where there is none."""
    return float(case.around[0] > 1) if np.isfinite(case.around).all() else np.nan


def ladder_tokens(case):
    """How many tokens each model of a measured ladder saw in training; NaN where not known, or not one number."""
    try:
        return float(*{model.tokens or np.nan for model in load_family(case.family).models})
    except (AttributeError, InputError, TypeError):
        return np.nan


def times_around(case):
    """The interval of `runs.RunGap.times`."""
    return np.power(10.0, case.interval)


def covers(case, of="share"):
    """Do as many 95% intervals hold as they say: 1, 2 if too many, or 0; NaN where tests tell neither 95% nor 90%."""
    from scipy.stats import binom

    held, n = round(getattr(case, of) * case.left_out), case.left_out
    many = sum(binom.sf(held - 1, n, share) < 0.05 for share in (0.9, 0.95))
    return 0.0 if binom.cdf(held, n, 0.95) < 0.05 else float(many) or np.nan


# Numbers that are no field of a case.
_FUNCTIONS = (beyond_noise, direction, not_rejected, text_not_rejected, times_around, ci_known, above_one)
COMPUTED = {f.__name__: f for f in (*_FUNCTIONS, ladder_tokens, told_alpha)}
COMPUTED |= {n: lambda case, n=n: getattr(case, n, np.nan) for n in ("grid_alpha", "grid_tokens")}
for _name, _of in (("covers", "share"), ("line_covers", "line_share")):
    COMPUTED[_name] = lambda case, of=_of: covers(case, of)
    COMPUTED[f"{_name}_wide"] = lambda case, of=_of: covers(case, of) - 1
    COMPUTED[f"{_name}_few"] = lambda case, of=_of: float(np.isnan(covers(case, of)))


def measure(name, case):
    """One number of one case: a field of it, or one of COMPUTED."""
    if name in COMPUTED:
        return COMPUTED[name](case)
    try:
        return getattr(case, name)
    except AttributeError:
        raise InputError(f"book/claims.yml asks a case for {name!r}, which it does not have.") from None


def holds(rule, case):
    """Does a case meet every condition of a rule? None where those it meets are not all and the rest have no number."""
    told = []
    for name, conditions in rule.items():
        value = float(measure(name, case))
        told += [bool(CONDITIONS[w](value, bound)) for w, bound in conditions.items()] if np.isfinite(value) else [None]
    return False if False in told else None if None in told else True


def verdict(held, enough=CASES, untold=0):
    """agrees, differs or mixed by the share of all cases in which a claim holds, or fails; too few cannot tell."""
    if len(held) < enough:
        return OPEN
    holding, n = sum(held), len(held) + untold
    return AGREES if holding >= 0.8 * n else DIFFERS if len(held) - holding >= 0.8 * n else MIXED


def judged(rule, cases, short=False):
    """Judged: a claim on those of the cases that it is about; the short sentence is the one of a page's own list."""
    cases = [c for c in cases if (not rule.ks or c.k in rule.ks) and (rule.N is None or rule.N == c.N)]
    if rule.among:
        cases = [c for c in cases if holds(rule.among, c)]
    hidden = [rule.apart and measure(next(iter(rule.holds)), c) == 0 for c in cases]  # by noise: neither way
    found = [None if no else holds(rule.holds, c) for no, c in zip(hidden, cases, strict=True)] if rule.holds else []
    held = [h for h in found if h is not None]
    count, fails = (share(sum(h == told for h in held), len(held) + sum(hidden)) for told in (True, False))
    grown = [h for h, c in zip(found, cases, strict=False) if hasattr(c, "grid_alpha") and h is not None]
    words = Words(
        cases,
        count=count,
        grid_count=share(sum(grown), len(grown)),
        fails=fails,
        noise=noise_known(cases),
        k=", ".join(map("{:,}".format, rule.ks)),
    )
    decided = rule.proved or verdict(held, rule.enough, sum(hidden))
    beside = [text.format_map(words) for n, text in (rule.but or {}).items() if any(measure(n, c) > 0 for c in cases)]
    return Judged(
        rule=rule,
        cases=cases,
        held=held,
        claim=rule.claim.format_map(words),
        ours=(short and rule.short or rule.found).format_map(words),
        count=count,
        verdict=decided,
        fails=fails,
        but="".join((", but " if decided == AGREES else ", ") + one for one in beside),
    )


class Words(dict):
    """What a claim's sentence is filled from: what is given, and numbers of the cases, with intervals, as Values."""

    def __init__(self, cases, **given):
        super().__init__(given)
        self.cases = cases

    def __missing__(self, name):
        name, _, around = name.partition(" with ")
        return Values(*([measure(n, case) for case in self.cases] for n in (name, around) if n))


def judge(page, **evidence):
    """Say, claim by claim of a page, what the paper says, what was found here, and on how many cases it holds.

    evidence: lists of cases by kind, as claims.yml names them in `of`; a claim whose kind is not there, or that none of
    the cases is about, is passed over. A claim that says {k} takes a line for each.
    """
    rules = [r for r in all_claims().values() if page in r.pages and (r.of in evidence or not r.of)]
    leads = {r.of: r.name for r in reversed(rules)}.values()  # the first of each kind: a page shows a few at its top
    parts = [p for r in rules for p in ([replace(r, k=k) for k in r.ks] if "{k}" in r.claim else [r])]
    parts.sort(key=lambda p: (all_claims()[p.name].ks.index(p.k) if "{k}" in p.claim else 0, p.name not in leads))
    told = [judged(part, evidence.get(part.of, []), short=True) for part in parts]
    told = [found for found in told if found.cases or not found.rule.of]  # a proof needs no case
    nothing = "No case was measured on which a claim could be judged."
    bounds = [None, *(found.rule.bound for found in told)]
    said = [line(found, found.rule.bound == before) for found, before in zip(told, bounds, strict=False)]
    say("\n".join(said) or nothing, name="answer", numbers=judged_numbers(told))


def line(found, again=False):
    """One claim in a page's answer; again: its rule is that of the line before."""
    places = [getattr(case, "corpus", None) for case in found.cases]
    each = "on {} corpora" if None not in places and len(set(places)) == len(places) else "in {} cases"
    counted = found.rule.holds and found.rule.enough > 1  # one case alone needs no count
    end = f"holds {each.format(found.count)}" if counted else f"basis: {found.rule.basis}"
    if counted and found.verdict == OPEN:
        end = f"holds in {found.count}, too few to decide" if found.held else "no case decides"
    paper = "Our question" if found.rule.ours else f"The paper: {found.rule.paper}"
    rule = f"; rule: {'the same' if again else found.rule.bound}" * bool(found.rule.bound)
    told = f"{MARKS[found.verdict]} **{found.verdict}{found.but}.**"
    return f"- {told} {found.claim}. {paper}; here: {found.ours}; {end}{rule}."


def findings(part, evidence):
    """Judged claims of one part of the findings page ("law", "use" or "theory") from cases by kind."""
    rules = [rule for rule in all_claims().values() if rule.part == part]
    return [judged(rule, [*evidence.get(rule.of, []), *evidence.get(rule.also, [])]) for rule in rules]


def finding_frame(found):
    """The table of the page, plain: its columns are those of the CSV."""
    return pd.DataFrame(
        {
            "verdict": f.verdict + f.but,
            "claim": f.claim,
            "rule": f.rule.bound,
            "paper": f"{f.rule.paper} ({f.rule.place})",
            "ours": f.ours + f"; holds in {f.count}" * (bool(f.rule.holds) and "{count}" not in f.rule.found),
            "basis": f.rule.basis,
            "what would change it": f.rule.changes,
            "page": f.rule.pages[0],
        }
        for f in found
    )


def linked(frame):
    """The claims of a `finding_frame` with their rules as safe HTML; the book resolves the names of pages."""
    rules = [f"<br><small>rule: {html.escape(rule)}</small>" * bool(rule) for rule in frame["rule"]]
    claims = zip(frame["page"], frame["claim"], rules, strict=True)
    return [f'<span data-page="{page}">{html.escape(claim)}</span>{rule}' for page, claim, rule in claims]
