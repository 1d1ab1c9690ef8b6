"""Sentences and tables on a page that carry a run's own numbers, and text made harmless.

Everything here returns or displays Markdown or HTML. Text that people gave (of a corpus or
tokenizer, titles, notes, names of files) is no markup: it goes through `token` or `plain.shown`,
and tables and figures turn its references back.
"""

import html
import json
import re
from functools import cache, partial

import numpy as np

from paper.show import numbers
from paper.show.numbers import interval, number, p_value
from paper.show.plain import FORMULA, corpus_title, plain, shown
from rbplib.families import InputError, default_corpora, held, load_corpus, load_family
from rbplib.table import Ladder, by_size, read_table, records_of

MOST = 6  # columns that fit the text of a page beside its side bars
WORD = 24  # characters up to which a cell without a space stays on one line
TALL = 30  # rows from which a table scrolls in a box of its own
LONG = 40  # characters from which a table cell may break into lines
MARKED = ("status", "verdict")
MARKS = {"ok": "✓", "agrees": "✓", "differs": "✗", "mixed": "◐", "open": "?"}  # else "!"
MARKS |= {"yes": "✓", "no": "✗", "partly": "◐"}
VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"})


def token(text):
    """A token as it stands in the text, its spaces and line ends made visible, as safe HTML."""
    return f'<code class="token">{plain(str(text).translate(VISIBLE))}</code>'


# ---- sentences


FILTERS = {
    "digits": numbers.digits,
    "range": partial(numbers.digits, how=3),
    "pct": partial(numbers.digits, how="%"),
    "p": p_value,
    "median": np.median,
    "plain": shown,
    "title": corpus_title,
}
FILTERS |= {name: getattr(numbers, name) for name in numbers.FILTERS}


def in_words(value):
    """How a sentence shows a value: three digits, an interval, the range of many, text as it is."""
    if isinstance(value, str):
        return value.strip()  # of a macro
    if isinstance(value, tuple) and len(value) == 2:
        return interval(value)
    return numbers.digits(value, 3)


@cache
def templates():
    """Jinja as pages use it, with the macros of notebooks/words.md as `words`."""
    import jinja2

    options = {"trim_blocks": True, "lstrip_blocks": True, "finalize": in_words}
    # Markdown has its own {#name}
    options |= {"comment_start_string": "{##", "comment_end_string": "##}"}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, **options)
    environment.filters |= FILTERS
    environment.tests["finite"] = lambda value: np.isfinite(np.array(value, float)).all()
    macros = held("notebooks", "words.md").read_text(encoding="utf-8")
    environment.globals["words"] = environment.from_string(macros).module
    return environment


def fill(text, names):
    """Markdown with its numbers, from {variable: value}; an unknown variable is an error."""
    filled = templates().from_string(text).render(names)
    return re.sub(r"\n{3,}", "\n\n", filled).strip()


def say(markdown, name=None, numbers=None):
    """Display a sentence built by the run, as Markdown.

    name: under which other pages show it, by `run-words` of rbprun. numbers: kept for `verify`.
    """
    from IPython.display import Markdown, display

    about = {"rbp": name, "rbp_numbers": numbers}
    if markdown:
        display(Markdown(markdown), metadata={key: x for key, x in about.items() if x})


def imported_words(*families, corpora=()):
    """Where the numbers of those families come from that were not measured here;
    empty where all were. corpora: the page's texts, by default each family's own."""
    words = []
    for family in map(load_family, families):
        texts = {load_corpus(corpus).name for corpus in corpora or default_corpora(family)}
        records = [pair for pair in records_of(family.name) if pair[1]["corpus"] in texts]
        tables = by_size([read_table(path) for path, _ in records])
        # models whose ranks leave the same open share a sentence, each named once
        sentences = {}
        for table in tables:
            if "definition" in table.record:
                # all candidates at least as good share the probability: no more than 1 / p are
                most = np.floor(np.exp(-table.logprob.astype(float)) * (1 + 1e-6))
                bounds = np.mean(most <= 1), np.mean(table.rank() == 1)
                facts = {"record": table.record, "bounds": bounds}
                rest = fill("{{ words.reported(record) }}", facts)
                model = fill("{{ words.reported_model(record, bounds) }}", facts)
                sentences.setdefault(rest, {})[model] = True
        about = {"about": tables[0].record.get("imported") if tables else None}
        about |= {"name": family.name, "sentences": sentences}
        words.append(fill("{{ words.imported(name, about, sentences) }}", about))
    return " ".join(filter(None, words))


def within(ks, tables):
    """Those of `ks` that the vocabulary of {corpus: rank tables} holds;
    the page says which are left out.

    Raises InputError: none is left.
    """
    V = min(Ladder(ranks).vocab_size for ranks in tables.values())
    ks = [int(k) for k in dict.fromkeys(ks)]
    used = [k for k in ks if k <= V]
    if not used:
        message = f"none of ks = {ks} is a rank among {V:,} tokens"
        raise InputError(f"{message}: give at least one k from 1 to {V}.")
    if len(used) < len(ks):
        beyond = ", ".join(str(k) for k in ks if k > V)
        say(f"Left out: $k$ = {beyond}, beyond this family's vocabulary of {V:,} tokens.")
    return used


def table(*args, **options):
    """Display a data frame as `table_html` writes it: a click on a heading sorts by it."""
    from IPython.display import HTML, display

    display(HTML(table_html(*args, **options)))


def table_html(
    frame, caption="", download=None, digits=3, safe=(), columns=None, fold=False, keep=None
):
    """A data frame without its index as HTML; columns `X: low` and `X: high` are one, status first,
    and corpora go by their titles.

    download: a file name for the whole frame as CSV, with all digits; else one of the caption.
    digits: significant digits shown. safe: {column: safe HTML in its place, as `token(...)`, per
    row}. columns: those to show, by default the first MOST. fold: show the
    caption until it is clicked. keep: bool per row, the rows to show; all are in the CSV.
    """
    if "corpus" in frame:
        frame = frame.assign(corpus=frame.corpus.map(corpus_title))
    frame = frame.map(lambda x: html.unescape(x) if isinstance(x, str) else x)
    shown = joined(frame.assign(**dict(safe)))
    wide = len(shown.columns)
    if keep is not None:
        shown = shown[np.asarray(keep, bool)]
    columns = columns or list(shown)[:MOST]
    shown = shown[[name for name in shown if name in columns]]

    # head and rows
    head = "".join(f'<th scope="col">{html.escape(str(name))}</th>' for name in shown)
    body = ""
    for row in shown.to_dict("records"):
        body += f"<tr>{''.join(cell(row[name], name, digits, name in safe) for name in row)}</tr>"
    body = body or f'<tr><td colspan="{max(1, len(shown.columns))}">nothing to show</td></tr>'

    # what stands below: the whole frame as a file
    note, caption = "", html.escape(html.unescape(caption))
    hidden = [f"{len(frame)} rows"] if len(shown) < len(frame) else []
    hidden += [f"{len(frame.columns)} columns"] if len(shown.columns) < wide else []
    if download or hidden:
        whole = f" with all {' and '.join(hidden)}" if hidden else ""
        link = csv_link(frame, download or file_name(caption), f"Download as CSV{whole}")
        note += f"<p>{link}</p>"
    tall = " tall" if len(shown) > TALL else ""
    title = f"<caption>{caption}</caption>" if caption and not fold else ""
    text = f"{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    text = f'<table class="rbp-table">{text}</table>{note}'
    text = f'<div class="rbp-table-wrap{tall}">{text}</div>'
    summary = f'<details class="rbp-fold"><summary>{caption}</summary>'
    return f"{summary}{text}</details>" if fold else text


def csv_link(frame, name, words):
    """A frame as a CSV of this name with all digits, behind a link of these words."""
    # no value is an empty cell, and no text is a spreadsheet's formula
    cells = frame.replace("–", "").replace(FORMULA, "'", regex=True)
    data = html.escape(json.dumps(cells.to_csv(index=False)))
    name = html.escape(name)
    return f'<a href="#" class="rbp-csv" data-name="{name}" data-csv="{data}">{words}</a>'


def file_name(caption):
    """A name of a file by the first words of a caption, in plain letters."""
    words = re.findall("[a-z0-9]+", html.unescape(caption).lower())
    return f"{'-'.join(words)[:36].strip('-') or 'table'}.csv"


def joined(frame):
    """A frame with its intervals in one column, {of what: (low, high)} a row,
    and its status first."""
    lows = [name for name in map(str, frame) if re.fullmatch("(.*: )?low", name)]
    if lows:
        names = [name[:-3].rstrip(": ") for name in lows]
        pairs = [frame[[low, f"{low[:-3]}high"]].itertuples(index=False, name=None) for low in lows]
        cells = [dict(zip(names, row, strict=True)) for row in zip(*pairs, strict=True)]
        gone = [f"{low[:-3]}high" for low in lows] + lows[1:]
        frame = frame.assign(**{lows[0]: cells}).drop(columns=gone)
        frame = frame.rename(columns={lows[0]: "intervals"})
    return frame[sorted(frame, key=lambda name: name != "status")]


def cell(value, name, digits, safe):
    """One cell: a number with the whole of it to sort by, or text that breaks where it is long."""
    if isinstance(value, dict):
        return intervals(value, digits)
    if hasattr(value, "__float__") and not isinstance(value, bool | str):
        text = number(value, digits)
        if re.match(r"p\b", name):
            text = re.sub("^p (= )?", "", p_value(value))
        return f'<td class="num" data-sort="{float(value)!r}">{html.escape(text)}</td>'
    text, kind, mark = "–" if value is None else str(value), "text", ""
    if len(text) > LONG and not safe:
        kind = "long"
    elif len(text) <= WORD and " " not in text:
        kind = "text word"
    if name in MARKED:
        sign = MARKS.get(text.partition(",")[0], "!")
        kind, mark = f"{kind} rbp-mark", f'<span aria-hidden="true">{sign}</span> '
    # no break in an interval, but in one of powers of ten, which is wide
    unbroken = r"<span>\g<0></span>"
    shown = text if safe else re.sub(r"\[[^][a-z×]*]", unbroken, html.escape(text))
    return f'<td class="{kind}">{mark}{shown}</td>'


def intervals(ends, digits):
    """A cell of {of what: (low, high)}, a line for each that is known."""
    lines = ""
    for name, pair in ends.items():
        if np.isfinite(pair).any():
            name = re.sub(".*, (?=and )", "", name)  # of what stands above it
            name = name if lines or not name.startswith("and ") else f"text {name}"
            name = html.escape(name)
            lines += f"<div>{name} <span>{interval(pair, digits)}</span></div>"
    low = float(next(iter(ends.values()))[0])
    return f'<td class="num many" data-sort="{low!r}">{lines or "–"}</td>'
