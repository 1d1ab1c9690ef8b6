"""Numbers, tokens and tables on a page: sentences that carry a run's own numbers, and text made harmless.

Everything here returns or displays Markdown or HTML. Text that people gave (of a corpus or tokenizer, titles, notes,
names of files) is no markup: it goes through `token` or `shown`, and tables and figures turn its references back.
"""

import html
import json
import math
import unicodedata
from collections import Counter

import numpy as np

from rbplib.laws.uncertainty import EXPLAINED
from rbplib.ranks.exchange import imported_tables
from rbplib.settings import Corpus, InputError, load_family

WORD = 24  # characters up to which a cell without a space stays on one line
TALL = 30  # rows from which a table scrolls in a box of its own
LONG = 40  # characters from which a table cell may break into lines
_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}


def plain(text):
    """Any text as inline text that means nothing in Markdown or HTML: character references but for letters and digits.

    Control and direction characters are shown by their code point.
    """
    return "".join(ch if ch.isascii() and ch.isalnum() else _reference(ch) for ch in str(text))


def shown(text):
    """Words of people, such as a title or a note, as `plain` text on one line."""
    return " ".join(map(plain, str(text).split()))


def _reference(ch):
    hidden = unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Co", "Cn")
    return f"&#60;U+{ord(ch):04X}&#62;" if hidden else f"&#{ord(ch)};"


def token(text):
    """A token as it stands in the text, with its spaces and line ends made visible, as safe HTML."""
    return f'<code class="token">{plain("".join(_VISIBLE.get(ch, ch) for ch in str(text)))}</code>'


def number(x, digits=3):
    """A number for a sentence: significant digits, thousands apart, never a bare exponent for everyday sizes."""
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
    mantissa, power = f"{x:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(power)}".replace("-", "−")


def interval(ends, digits=3):
    """[lo, hi] with both ends to the same digits."""
    lo, hi = ends
    return f"[{number(lo, digits)}, {number(hi, digits)}]"


class Shown(float):
    """A number that a sentence shows in so many significant digits, {x} or {x:2}, or in percent, {x:%}."""

    def __format__(self, how):
        if math.isnan(self):
            return "no value"
        return f"{number(100 * float(self), 2)}%" if how == "%" else number(float(self), int(how or 3))


class Values:
    """What a sentence can say of one number, name or interval of the cases: {name}, {name.low}, {name.told}, ..."""

    def __init__(self, values):
        numbers = np.array([v for v in values if np.ndim(v) == 0 and not isinstance(v, str) and np.isfinite(v)], float)
        self.low, self.middle, self.high = map(Shown, np.quantile(numbers if len(numbers) else [np.nan], [0, 0.5, 1]))
        self.found = len(numbers)
        self.told = f"{len(numbers)} of {len(values)}"
        self.zeros, self.others = (f"{np.sum((numbers == 0) == zero)} of {len(numbers)}" for zero in (True, False))
        names = Counter(v for v in values if isinstance(v, str))
        self.names = ", ".join(sorted(names))
        known = sorted(names, key=[*EXPLAINED, *sorted(names)].index)
        self.counts = ", ".join(f"{name} {names[name]}" for name in known) + f" of {len(values)}"
        ends = sorted((v for v in values if np.ndim(v)), key=lambda ends: ends[1] - ends[0])
        self.narrowest, self.widest = (interval(ends[i]) if ends else "–" for i in (0, -1))

    @property
    def range(self):
        return self.between("")

    def between(self, how):
        """Both ends; one number where there is one alone."""
        low, high = (format(end, how) for end in (self.low, self.high))
        return "no value" if not self.found else low if low == high else f"{low} to {high}"

    def __format__(self, how):
        between = self.between(how)
        return f"median {self.middle:{how}}, {between}" if " to " in between else between


def predictions(errors, inside):
    """A sentence on predictions of held-out models: how many 95% intervals held, and on which side the errors lie.

    Args:
        errors: predicted over observed loss, minus 1. inside: of those with an interval, whether it held.
    """
    errors, inside = np.asarray(errors, float), np.asarray(inside, bool)
    errors = errors[np.isfinite(errors)]
    if not len(errors):
        return "No model could be held out and predicted."
    held = (
        f"95% of the intervals should hold, {number(100 * inside.mean(), 2)}% did ({inside.sum()} of {len(inside)}). "
    )
    low, high = (errors < 0).sum(), (errors > 0).sum()
    return (
        f"The predicted loss is off by {number(100 * np.median(np.abs(errors)), 2)}% in the median and "
        f"{number(100 * np.abs(errors).max(), 2)}% at worst. "
        + (held if len(inside) else "")
        + f"It was too low {low} times, too high {high} times"
        + (": the errors lean to one side." if max(low, high) >= 5 and min(low, high) * 4 <= max(low, high) else ".")
    )


def say(markdown, name=None, numbers=None):
    """Display a sentence built by the run, as Markdown: `say(f"The exponent is {number(law.alpha)}.")`.

    name: under which other pages show it, by run-words of `book/_ext/rbpfront.py`. numbers: kept for `reference`.
    """
    from IPython.display import Markdown, display

    if markdown:
        display(Markdown(markdown), metadata={k: v for k, v in {"rbp": name, "rbp_numbers": numbers}.items() if v})


def imported_words(*families):
    """Where the numbers of those families come from that were not measured here; empty where all were."""
    said = []
    for family in (f for f in map(load_family, families) if f.counts):
        ((table, *_),) = imported_tables(family, [Corpus(family.corpora[0])], None).values()
        told, record = {k: plain(v) for k, v in table.record["imported"].items()}, table.record
        libraries = record["libraries"].items() if isinstance(record.get("libraries"), dict) else ()
        made = [record.get("platform"), *(f"{name} {version}" for name, version in libraries)]
        said.append(
            f"**Imported.** {plain(family.name)} was measured elsewhere, as {told['was']}, by "
            f"{told['by'] or 'someone who left no name'}, and exported on {told['exported']}. Its counts are here (in "
            f"{told['file']}, SHA-256 {told['sha256']}, with the record and digest of every rank table); its models "
            f"and its text are not. Made with: {plain(', '.join(str(m) for m in made if m)) or 'not told'}."
        )
    return " ".join(said)


def within(ks, tables):
    """Those of `ks` that the vocabulary of {corpus: rank tables} holds; the page says which are left out.

    Raises InputError: none is left.
    """
    V = min(int(t.record["vocab_size"]) for found in tables.values() for t in found)
    used, beyond = ([int(k) for k in dict.fromkeys(ks) if (k <= V) == fits] for fits in (True, False))
    if not used:
        raise InputError(f"none of ks = {list(ks)} is a rank among {V:,} tokens: give at least one k from 1 to {V}.")
    if beyond:
        say(f"Left out: $k$ = {', '.join(map(str, beyond))}, beyond this family's vocabulary of {V:,} tokens.")
    return used


def table(frame, caption="", download=None, digits=3, safe=()):
    """Display a data frame without its index as a table that sorts by a click on a heading, numbers as numbers.

    download: a file name under which the whole frame is offered as CSV, made from the page itself, with all digits.
    digits: significant digits shown. safe: columns that already hold safe HTML, such as `token(...)`.
    """
    from IPython.display import HTML, display

    display(HTML(table_html(frame, caption, download, digits, safe)))


def table_html(frame, caption="", download=None, digits=3, safe=()):
    told = frame.map(lambda x: html.unescape(x) if isinstance(x, str) else x)
    frame = told.assign(**{name: frame[name] for name in safe})
    rows = (zip(frame.columns, record, strict=True) for record in frame.itertuples(index=False))
    body = "".join(f"<tr>{''.join(_cell(x, digits, name in safe) for name, x in row)}</tr>" for row in rows)
    body = body or f'<tr><td colspan="{max(1, len(frame.columns))}">nothing to show</td></tr>'
    head = "".join(f'<th scope="col">{html.escape(str(c))}</th>' for c in frame.columns)
    title = f"<caption>{html.escape(html.unescape(caption))}</caption>" if caption else ""
    link = ""
    if download:
        data, name = html.escape(json.dumps(frame.to_csv(index=False))), html.escape(download)
        link = f'<p><a href="#" class="rbp-csv" data-name="{name}" data-csv="{data}">Download as CSV</a></p>'
    wrap = "rbp-table-wrap" + " tall" * (len(frame) > TALL)
    return (
        f'<div class="{wrap}"><table class="rbp-table">{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>{link}</div>"
    )


def _cell(value, digits, safe):
    """One cell: a number with the whole of it to sort by, or text; a short name is not broken at its hyphen."""
    if hasattr(value, "__float__") and not isinstance(value, (bool, str)):
        return f'<td class="num" data-sort="{float(value)!r}">{number(value, digits)}</td>'
    text = str(value)
    kind = "long" if len(text) > LONG and not safe else "text word" if len(text) <= WORD and " " not in text else "text"
    return f'<td class="{kind}">{text if safe else html.escape(text)}</td>'


def share_read(record):
    """What share of a corpus's characters the windows of a rank table hold, as the end of a sentence."""
    read, characters = record.get("read_characters"), record.get("characters")
    return f", in windows that hold {read / characters:.0%} of their characters" if read and characters else ""
