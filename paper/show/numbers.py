"""Numbers as a sentence and a table show them: two or three digits, powers of ten as such, a p-value, a percentage."""

import math
from collections import Counter

import numpy as np

from paper.laws import EXPLAINED

ZERO = 1e-9  # differences of float64 numbers leave as much
NO_INTERVAL = "(no interval)"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(x, digits=3):
    """A number for a sentence: significant digits, thousands apart, powers of ten as such; below ZERO it is 0."""
    if x is None or (isinstance(x, float) and math.isnan(x)):
        return "–"
    if isinstance(x, bool) or not hasattr(x, "__float__"):
        return str(x)
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    if float(x).is_integer() and abs(x) < 1e15:
        return f"{int(x):,}".replace("-", "−")
    if 1e-4 <= abs(x) < 1e6:
        places = max(0, digits - 1 - math.floor(math.log10(abs(x))))
        return f"{x:,.{places}f}".replace("-", "−")
    if abs(x) < ZERO:
        return "0"
    mantissa, power = f"{x:.{digits - 1}e}".split("e")
    return f"{mantissa} × 10{str(int(power)).translate(RAISED)}".replace("-", "−")


def short(x):
    """A count in at most three digits: 656k, 1.9M."""
    for unit in ("", "k", "M", "B"):
        if abs(x) < 999.5:
            return f"{x:.3g}{unit}"
        x /= 1000
    return f"{x:.3g}T"


def raised(text):
    """Text, an expression of Vega, in which a number such as 8e-4 stands as pages set it: 8 × 10⁻⁴."""
    power = f"replace(split({text}, 'e')[1], /[+]/, '')"
    for sign in "0123456789-−":
        power = f"replace({power}, /{sign}/g, '{sign.replace('−', '-').translate(RAISED)}')"
    mantissa = f"(test(/^1e/, {text}) ? '' : split({text}, 'e')[0] + ' × ')"
    return f"(test(/^[0-9.]+e[-+−]?[0-9]+$/, {text}) ? {mantissa} + '10' + {power} : {text})"


def interval(ends, digits=3):
    """[lo, hi] with both ends to the same digits, or that there is none."""
    lo, hi = ends
    told = f"[{number(lo, digits)}, {number(hi, digits)}]"
    return NO_INTERVAL if told == "[–, –]" else told


def share(part, whole):
    """So many of so many, in words; of nothing there is no case."""
    return f"{part} of {whole}" if whole else "no case"


def p_value(p):
    """A p-value in two digits, never nearer to 0 than resampling could tell."""
    return "p < 0.001" if p < 0.001 else f"p = {number(p, 2)}"


class Shown(float):
    """A number that a sentence shows in so many significant digits, {x} or {x:2}, in percent, {x:%}, or as a p."""

    def __format__(self, how):
        if math.isnan(self):
            return "no value"
        if how == "p":
            return p_value(float(self))
        return (
            f"{number(100 * float(self), 2)}%" if how == "%" else number(float(self), int(how or 3))
        )


class Values:
    """What a sentence can say of one number, name or interval of the cases: {name}, {name.low}, {name.told}, ...

    around: the interval of each, which then stands beside the ends of the range.
    """

    def __init__(self, values, around=()):
        numbers = np.array(
            [v for v in values if np.ndim(v) == 0 and not isinstance(v, str) and np.isfinite(v)],
            float,
        )
        self.low, self.middle, self.high = map(
            Shown, np.quantile(numbers if len(numbers) else [np.nan], [0, 0.5, 1])
        )
        self.found = len(numbers)
        self.told, self.around = (
            share(len(numbers), len(values)),
            dict(zip(values, around, strict=False)),
        )
        self.zeros, self.others = (
            share(np.sum((numbers == 0) == zero), len(numbers)) for zero in (True, False)
        )
        names = Counter(v for v in values if isinstance(v, str))
        self.names = ", ".join(sorted(names))
        known = sorted(names, key=[*EXPLAINED, *sorted(names)].index)
        self.counts = ", ".join(f"{name} in {names[name]}" for name in known) + f" of {len(values)}"
        ends = sorted((v for v in values if np.ndim(v) and np.isfinite(v).all()), key=np.ptp)
        self.narrowest, self.widest = (
            interval(ends[i] if ends else (np.nan, np.nan)) for i in (0, -1)
        )

    @property
    def range(self):
        return self.between("")

    @property
    def p(self):
        return self.between("p")

    def between(self, how):
        """Both ends; one number where there is one alone."""
        low, high = (
            format(end, how)
            + (f" {interval(self.around[end], int(how or 3))}" if end in self.around else "")
            for end in (self.low, self.high)
        )
        return "no value" if not self.found else low if low == high else f"{low} to {high}"

    def __format__(self, how):
        between = self.between(how)
        return f"{between} (median {self.middle:{how}})" if " to " in between else between
