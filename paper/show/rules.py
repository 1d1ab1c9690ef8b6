"""The claims of book/claims.yml, read and checked; `claims` judges by them."""

import operator
from dataclasses import MISSING, dataclass, fields
from functools import cache
from string import Formatter

import numpy as np

from paper.show.numbers import number
from rbplib.families import InputError, given, held, nearest, read_yaml

CASES = 3  # fewer cases than this decide nothing, where a claim does not say otherwise
NUMBERS = {  # of a rule, in words
    "r2": "R²",
    "r2_drop": "the fall of R²",
    "log_size_r2": "R² against log S",
    "lead_of_log_size": "its lead over R² against S",
    "alpha": "the exponent",
    "told_alpha": "the exponent with its 95% interval",
    "in_widths": "the change of the exponent over the width of its interval",
    "slope": "the slope",
    "in_tokens": "the exponent in tokens",
    "growth": "the exponent at the most tokens over that at the fewest",
    "local_ratio": "the ratio of local exponents",
    "misfit": "the largest miss of RBP_k",
    "lack_of_fit_p": "p of the scatter",
    "noise_p": "p of the noise",
    "p_of_one_curve": "p of one curve through all models",
    "lead_kept": "the part of the printed lead that is left",
    "lean": "the error of the line, on the side that the claim names,",
    "given": "the part of the difference that the form gives",
    "better_beyond_the_spread": "it is better by more than the spread",
    "sum_over_product": "the error of the sum over that of the product",
    "kaplan_over_sum": "the error of Kaplan's form over that of the sum",
    "told_trend": "the rank correlation, where its p is below 0.05,",
    "not_rejected": "no noise known rejects it at 5%",
    "text_not_rejected": "the choice of text does not reject it at 5%",
    "beyond_noise": "the 95% interval of the difference",
    "direction": "what noise and the spread of families leave of the mean",
    "covers": (counted := "fewer than 95% not shown, and more than 90% shown, by one-sided binomial tests at 5%"),
    "line_covers": counted,
    "ratio": "the ratio of exponents",
    "nearer": "the step of the ratio towards 1",
    "beyond": "the fall beyond two standard errors",
    "error_20": "the error of -log p_1 by Eqs. 16 and 20 in percent",
    "error_21": "that of the entropy by Eq. 21",
}
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
    also: str = ""
    k: object = None
    N: int | None = None
    among: dict | None = None
    holds: dict | None = None
    enough: int = CASES
    apart: bool = False
    proved: str = ""
    short: str = ""
    but: dict | None = None
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

    @property
    def bound(self):
        """What `holds` asks, in words; a mark that must be 1 is its name alone, and nothing where a proof decides."""

        def ends(word, bound):
            low, *high = (number(x, 1) if "e" in f"{x:g}" else f"{x:g}".replace("-", "−") for x in np.atleast_1d(bound))
            return f"taking in {low}" if [low] == high else " and ".join([f"{word} {low}", *high])

        told = []
        for name, conditions in (self.holds or {}).items():
            words = " and ".join(ends(*one) for one in conditions.items())
            told.append(NUMBERS.get(name, name.replace("_", " ")) + f" {words}" * (conditions != {"at least": 1}))
        return ", ".join(told) + "; a case within its noise counts among all and neither holds nor fails" * self.apart


@cache
def all_claims():
    """{name: Claim} in the order of book/claims.yml; InputError: an entry is no claim, in one sentence."""
    path = held("book", "claims.yml")
    return {name: read_claim(name, entry, path) for name, entry in read_yaml(path).items()}


def read_claim(name, entry, path):
    """One entry of the file at `path` as a Claim, checked: fields, conditions and the places in its sentences."""
    if not isinstance(entry, dict):
        raise InputError(f"{path}: {name!r} holds no fields: the head of the file lists them.")
    entry = given(entry, Claim, path, f"the claim {name!r}")
    if lacking := [f.name for f in fields(Claim) if f.default is MISSING and f.name not in (*entry, "name")]:
        raise InputError(f"{path}: the claim {name!r} lacks {lacking[0]!r}.")
    for number_name, conditions in {**entry.get("among", {}), **entry.get("holds", {})}.items():
        if not isinstance(conditions, dict):
            raise InputError(f"{path}: {number_name!r} of {name!r} needs a condition, such as {{at least: 0.9}}.")
        for word, bound in conditions.items():
            check_condition(word, bound)
    try:
        for words in (entry["claim"], entry["found"], entry.get("short", ""), *(entry.get("but") or {}).values()):
            list(Formatter().parse(words))
    except ValueError as error:
        raise InputError(f"{path}: a sentence of {name!r} is malformed ({error}).") from None
    return Claim(name=name, **entry)


def check_condition(word, bound):
    if word not in CONDITIONS:
        raise InputError(f"book/claims.yml has a condition {word!r}: {nearest(word, CONDITIONS)}")
    bounds = bound if word == "between" and isinstance(bound, list) else [bound]
    if len(bounds) != 1 + (word == "between") or not all(type(b) in (int, float) for b in bounds):
        raise InputError(f"book/claims.yml bounds {word!r} by {bound!r}: give a number, or [low, high] of between.")
