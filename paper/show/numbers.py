"""Numbers as sentences and tables show them: in few digits, powers of ten, p-values, percents."""

import math
from collections import Counter

import numpy as np

from paper.laws import EXPLAINED

ZERO = 1e-9  # differences of float64 numbers leave as much
NO_INTERVAL = "(no interval)"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(x, digits=3):
    """A number for a sentence: significant digits, thousands apart; what is below ZERO is 0."""
    # what is no number
    if x is None or (isinstance(x, float) and math.isnan(x)):
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


def raised(text):
    """Text, an expression of Vega, in which a number such as 8e-4 stands as pages set it:
    8 × 10⁻⁴."""
    power = f"replace(split({text}, 'e')[1], /[+]/, '')"
    for sign in "0123456789-−":
        power = f"replace({power}, /{sign}/g, '{sign.replace('−', '-').translate(RAISED)}')"
    mantissa = f"(test(/^1e/, {text}) ? '' : split({text}, 'e')[0] + ' × ')"
    return f"(test(/^[0-9.]+e[-+−]?[0-9]+$/, {text}) ? {mantissa} + '10' + {power} : {text})"


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


class Shown(float):
    """A number that a sentence shows in so many digits, {x} or {x:2}, in percent, {x:%},
    or as p."""

    def __format__(self, how):
        if math.isnan(self):
            return "no value"
        if how == "%":
            return f"{number(100 * float(self), 2)}%"
        return p_value(float(self)) if how == "p" else number(float(self), int(how or 3))


class Values:
    """What a sentence can say of one number, name or interval of the cases: {name}, {name.low}, ...

    told: how many numbers are known; others: how many of them are not 0. names,
    counts: of words. narrowest: of intervals. around: the interval of each number, which then
    stands beside the ends of the range.
    """

    def __init__(self, values, around=()):
        import pandas as pd

        single = [x for x in values if np.ndim(x) == 0 and not pd.isna(x)]
        # numbers
        numbers = [x for x in single if not isinstance(x, str) and np.isfinite(x)]
        ends = np.quantile(np.array(numbers or [np.nan], float), [0, 0.5, 1])
        self.low, self.middle, self.high = map(Shown, ends)
        self.found = len(numbers)
        self.told = share(self.found, len(values))
        self.others = share(sum(x != 0 for x in numbers), self.found)
        self.around = dict(zip(values, around, strict=False))
        # words
        words = Counter(x for x in single if isinstance(x, str))
        self.names, order = ", ".join(sorted(words)), [*EXPLAINED, *sorted(words)]
        known = [f"{word} in {words[word]}" for word in sorted(words, key=order.index)]
        self.counts = f"{', '.join(known)} of {len(values)}"
        # intervals
        intervals = [x for x in values if np.ndim(x) and np.isfinite(x).all()]
        self.narrowest = interval(min(intervals, key=np.ptp, default=(np.nan, np.nan)))

    @property
    def range(self):
        return self.between("")

    @property
    def percent(self):
        return self.between("%")

    def between(self, how):
        """Both ends; one number where there is one alone."""
        if not self.found:
            return "no value"
        low, high = (self.end(end, how) for end in (self.low, self.high))
        return low if low == high else f"{low} to {high}"

    def end(self, value, how):
        """One end, with its interval where it has one."""
        text = format(value, how)
        return f"{text} {interval(self.around[value])}" if value in self.around else text

    def __format__(self, how):
        between = self.between(how)
        return f"{between} (median {self.middle:{how}})" if " to " in between else between
