"""Numbers as sentences and tables show them: in few digits, powers of ten, p-values, percents.

Of many numbers the first functions show one: `digits`, `low`, `middle`, `high`; those that are none
are left out. Each of these takes `how`: so many digits, "%" for percent, or "p" for a p-value.
"""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd

from rbplib.law import EXPLAINED

ZERO = 1e-9  # differences of float64 numbers leave as much
NO_INTERVAL, NO_VALUE = "(no interval)", "no value"
FILTERS = "short low middle high typical counted others names counts tally finite sides".split()
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(x, digits=3):
    """A number for a sentence: significant digits, thousands apart; what is below ZERO is 0."""
    # what is no number
    if pd.isna(x):
        return "–"
    if isinstance(x, bool) or not hasattr(x, "__float__"):
        return str(x)
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    # whole, plain, or with a power of ten
    if float(x).is_integer() and abs(x) < 1e15:
        return f"{int(x):,}".replace("-", "−")
    if 1e-4 <= abs(x) < 1e6:
        places = max(0, digits - 1 - math.floor(math.log10(abs(x))))
        return f"{float(x):,.{places}f}".replace("-", "−")
    if abs(x) < ZERO:
        return "0"
    mantissa, power = f"{float(x):.{digits - 1}e}".split("e")
    return f"{mantissa} × 10{str(int(power)).translate(RAISED)}".replace("-", "−")


def short(x):
    """A count in at most three digits: 656k, 1.9M."""
    for unit in ("", "k", "M", "B"):
        if abs(x) < 999.5:
            return f"{x:.3g}{unit}"
        x /= 1000
    return f"{x:.3g}T"


def interval(ends, digits=3):
    """[lo, hi] with both ends to the same digits, or that there is none."""
    lo, hi = ends
    text = f"[{number(lo, digits)}, {number(hi, digits)}]"
    return NO_INTERVAL if text == "[–, –]" else text


def share(part, whole):
    """So many of so many, in words; of nothing there is no case."""
    return f"{part} of {whole}" if whole else "no case"


def p_value(p):
    """A p-value in two digits, never nearer to 0 than resampling could tell."""
    return "p < 0.001" if p < 0.001 else f"p = {number(p, 2)}"


# ---- what a sentence says of many numbers, or of words


def finite(values):
    """Those of values that are finite numbers: list."""
    numbers = [x for x in values if not (isinstance(x, str) or pd.isna(x))]
    return [x for x in numbers if np.isfinite(x)]


def digits(value, how=2, around=()):
    """A number, or of many the smallest to the largest, each with its interval of `around`."""
    value = [*value] if isinstance(value, Iterator) else value
    if not np.ndim(value):
        if how == "%":
            return f"{number(100 * value, 2)}%"
        return p_value(value) if how == "p" else number(value, how)
    numbers = finite(value)
    if not numbers:
        return NO_VALUE
    # both ends; one number where there is one alone
    ends, around = [], dict(zip(value, around, strict=False))
    for end in (min(numbers), max(numbers)):
        ends.append(f"{digits(end, how)} {interval(around[end]) if around else ''}".strip())
    return " to ".join(dict.fromkeys(ends))


def quantile(q):
    """A filter: that quantile of the numbers among values."""

    def shown(values, how=3):
        numbers = finite(values)
        return digits(np.quantile(numbers, q), how) if numbers else NO_VALUE

    return shown


low, middle, high = map(quantile, (0, 0.5, 1))


def typical(values, how=3, around=()):
    """The smallest to the largest, and the median where these differ."""
    text = digits(values, how, around)
    return f"{text} (median {middle(values, how)})" if " to " in text else text


def counted(values):
    """How many of values are numbers."""
    values = [*values]
    return share(len(finite(values)), len(values))


def others(values):
    """How many of the numbers are not 0."""
    numbers = finite(values)
    return share(sum(x != 0 for x in numbers), len(numbers))


def names(values):
    """The words among values, each once, in order of letters."""
    return ", ".join(sorted({x for x in values if isinstance(x, str)}))


def counts(values):
    """How often each word is among values: "sources in 2, trainings in 1 of 3"."""
    values = [*values]
    words = Counter(x for x in values if isinstance(x, str))
    order = sorted(words, key=[*EXPLAINED, *sorted(words)].index)
    parts = [f"{word} in {words[word]}" for word in order]
    return f"{', '.join(parts)} of {len(values)}"


def tally(values):
    """The same of doubts, most frequent first: "2 × *too few sizes*"."""
    return ", ".join(f"{count} × *{name}*" for name, count in Counter(values).most_common())


def sides(laws, parameter):
    """[(what varies, intervals above 0, below 0, intervals)] of a parameter of laws."""
    ends = pd.DataFrame([law.sides(parameter) for law in laws])
    signs = ends.map(lambda pair: np.sign(pair).sum()).dropna(axis=1, how="all")
    return [(name, sum(x == 2), sum(x == -2), x.count()) for name, x in signs.items()]
