"""Numbers, tokens and tables on a page: sentences that carry a run's own numbers, and text made harmless.

Everything here returns or displays Markdown or HTML. Text that people gave (of a corpus or tokenizer, titles, notes,
names of files) is no markup: it goes through `token` or `shown`, and tables and figures turn its references back.
"""

import html
import json
import re
import unicodedata

import numpy as np

from paper.show.numbers import NO_INTERVAL, interval, number, p_value
from paper.show.numbers import Values as Values
from paper.show.plain import FORMULA, plain
from paper.show.plain import shown as shown
from rbplib.families import InputError, load_family, results_dir
from rbplib.table import FileColumns, RankTable, by_size, record_here

MOST = 6  # columns that fit the text of a page beside its side bars
WORD = 24  # characters up to which a cell without a space stays on one line
TALL = 30  # rows from which a table scrolls in a box of its own
LONG = 40  # characters from which a table cell may break into lines
FIRST = ("status", "verdict")
MARKS = {
    "ok": "✓",
    "agrees": "✓",
    "differs": "✗",
    "mixed": "◐",
    "cannot be told": "?",
}  # any other word: "!"
_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}


def token(text):
    """A token as it stands in the text, with its spaces and line ends made visible, as safe HTML."""
    return f'<code class="token">{plain("".join(_VISIBLE.get(ch, ch) for ch in str(text)))}</code>'


def say(markdown, name=None, numbers=None, of=()):
    """Display a sentence built by the run, as Markdown: `say(f"The exponent is {number(law.alpha)}.")`.

    name: under which other pages show it, by `run-words` of rbprun. numbers: kept for `reference`. of: see `only`.
    """
    from IPython.display import Markdown, display

    about = {"rbp": name, "rbp_numbers": numbers, **only(of)}
    if markdown:
        display(Markdown(markdown), metadata={k: v for k, v in about.items() if v})


def only(of):
    """What marks something shown as of these corpora alone, titles or one, for the page's switch between texts."""
    return (
        {"of": [html.unescape(title) for title in ([of] if isinstance(of, str) else of)]}
        if of
        else {}
    )


def imported_words(*families):
    """Where the numbers of those families come from that were not measured here; empty where all were."""
    said = []
    for family in map(load_family, families):
        tables = first_tables(family)
        record = tables[0].record if tables else {}
        if "imported" in record:
            told = {key: plain(str(value)) for key, value in record["imported"].items()}
            libraries = record.get("libraries")
            libraries = libraries.items() if isinstance(libraries, dict) else ()
            made = [record.get("platform"), *(f"{name} {version}" for name, version in libraries)]
            said.append(
                f"**Imported.** {plain(family.name)} was measured elsewhere, as {told['was']}, and exported on "
                f"{told['exported']}. Its ranks are here (from {told['file']}, with the record and digest of every "
                "table); its models and its text are not. "
                f"Made with: {plain(', '.join(map(str, filter(None, made)))) or 'not told'}."
            )
        said += filter(None, map(engine_words, tables))
    return " ".join(said)


def first_tables(family):
    """A rank table of each model of a family that has one, on whatever text."""
    tables = {}
    for path in sorted((results_dir() / "ranks" / family.name).glob("*/*.parquet")):
        if record := record_here(path, {"family": family.name}):
            tables.setdefault(path.parent, RankTable(FileColumns(path), record))
    return by_size(tables.values())


def engine_words(table):
    """What ranks that others told leave open; "" for a table that was measured by `rbp measure`."""
    record = table.record
    if "definition" not in record:
        return ""
    name = plain(str(record["model"]))
    words = f"The ranks of {name} are those of others. "
    if "made_by" in record:
        made = {key: plain(str(value)) for key, value in record["made_by"].items()}
        words = (
            f"The ranks of {name} (revision {made['revision']}) were told by {made['engine']} {made['version']}, "
            f"whose head was in {plain(str(record['head_dtype']))}. "
        )
    if record.get("head_dtype", "float32") != "float32":
        words += half_words()
    if record["definition"] == "greater+ties":
        return f"{words}They count equal candidates, as the paper does; how many there were is not known."
    # all candidates at least as good share the probability: there are no more than 1 / p
    most = np.floor(np.exp(-table.logprob.astype(float)) * (1 + 1e-6))
    low, high = np.mean(most <= 1), np.mean(table.rank() == 1)
    return (
        f"{words}Ranks are one more than the candidates scored strictly above: ties are not known. The paper's "
        f"RBP₁ on {plain(str(record['corpus']))} is between {low:.4f} and {high:.4f}: no more candidates can "
        "stand at a token's score than its probability allows. Pages show the upper end."
    )


def half_words():
    """What page 11 of the book measured of half precision, by the book's own numbers."""
    from paper.verify import read_reference

    rows = read_reference()
    moved = rows["value"][(rows["page"] == "all/11_precision") & (rows["number"] == "in_widths")]
    return "".join(
        f"In embedded models half precision moved exponents by up to {float(width):.0%} of their interval's width (page 11). "
        for width in moved
    )


def within(ks, tables):
    """Those of `ks` that the vocabulary of {corpus: rank tables} holds; the page says which are left out.

    Raises InputError: none is left.
    """
    V = min(int(t.record["vocab_size"]) for found in tables.values() for t in found)
    used, beyond = (
        [int(k) for k in dict.fromkeys(ks) if (k <= V) == fits] for fits in (True, False)
    )
    if not used:
        raise InputError(
            f"none of ks = {list(ks)} is a rank among {V:,} tokens: give at least one k from 1 to {V}."
        )
    if beyond:
        say(
            f"Left out: $k$ = {', '.join(map(str, beyond))}, beyond this family's vocabulary of {V:,} tokens."
        )
    return used


def table(
    frame, caption="", download=None, digits=3, safe=(), columns=None, fold=False, keep=None, of=()
):
    """Display a data frame without its index as a table that sorts by a click on a heading, numbers as numbers.

    All columns `X: low` and `X: high` are one; a status comes first.
    download: a file name for the whole frame as CSV, made from the page itself, with all digits; else of its caption.
    digits: significant digits shown. safe: {column: safe HTML shown in its place, such as `token(...)`, per row}.
    columns: those to show, by default MOST that differ from row to row. fold: show the caption until it is clicked.
    keep: bool per row, the rows to show; all are in the CSV. of: see `only`.
    """
    from IPython.display import HTML, display

    display(
        HTML(table_html(frame, caption, download, digits, safe, columns, fold, keep)),
        metadata=only(of),
    )


def table_html(
    frame, caption="", download=None, digits=3, safe=(), columns=None, fold=False, keep=None
):
    frame = frame.map(lambda x: html.unescape(x) if isinstance(x, str) else x)
    seen = frame.assign(**dict(safe))
    rows = list(
        map(joined, (seen if keep is None else seen[np.asarray(keep, bool)]).to_dict("records"))
    )
    empty = [joined(dict.fromkeys(frame.columns))]
    chosen, alike = choose(rows or empty, columns, safe)
    body = "".join(
        f"<tr>{''.join(_cell(row[n], n, digits, n in safe) for n in chosen)}</tr>" for row in rows
    )
    body = body or f'<tr><td colspan="{max(1, len(chosen))}">nothing to show</td></tr>'
    head = "".join(f'<th scope="col">{html.escape(str(c))}</th>' for c in chosen)
    caption = html.escape(html.unescape(caption))
    title = f"<caption>{caption}</caption>" if caption and not fold else ""
    same = "; ".join(f"{n} {number(rows[0][n], digits)}" for n in alike)
    note = f"<p>In every row: {html.escape(same)}.</p>" * bool(alike)
    if download or len(rows) < len(frame) or len(chosen) + len(alike) < len(empty[0]):
        name = html.escape(download or file_name(html.unescape(caption)))
        # no value is an empty cell, and no text is a spreadsheet's formula
        cells = frame.replace("–", "").replace(FORMULA, "'", regex=True)
        data = html.escape(json.dumps(cells.to_csv(index=False)))
        more = [f"{len(frame)} rows"] * (len(rows) < len(frame))
        more += [f"{len(frame.columns)} columns"] * (len(chosen) < len(empty[0]))
        whole = f" with all {' and '.join(more)}" * bool(more)
        note += f'<p><a href="#" class="rbp-csv" data-name="{name}" data-csv="{data}">Download as CSV{whole}</a></p>'
    table = f'<table class="rbp-table">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    text = f'<div class="rbp-table-wrap{" tall" * (len(rows) > TALL)}">{table}{note}</div>'
    return (
        f'<details class="rbp-fold"><summary>{caption}</summary>{text}</details>' if fold else text
    )


def file_name(caption):
    """A name of a file by a caption: its first words in plain letters, as many as 40 characters hold."""
    words = "-".join(re.findall("[a-z0-9]+", unicodedata.normalize("NFKD", caption.lower())))
    return f"{(words if len(words) <= 36 else words[:37].rpartition('-')[0] or words[:36]) or 'table'}.csv"


def joined(row):
    """A row with its intervals but those over documents in one cell, {of what: (low, high)}, and its status first."""
    lows = [n for n in map(str, row) if re.fullmatch("(.*: )?low", n) and f"{n[:-3]}high" in row]
    ends = {
        n[:-3].rstrip(": "): (row[n], row[f"{n[:-3]}high"])
        for n in lows
        if not n.startswith("documents")
    }
    gone = {*lows[1:], *(f"{n[:-3]}high" for n in lows)}
    row = {
        "intervals" if n in lows else n: ends if n in lows else x
        for n, x in row.items()
        if n not in gone
    }
    return {n: row[n] for n in sorted(row, key=lambda n: n not in FIRST)}


def choose(rows, columns, safe):
    """(columns that a table shows, those left out as they say the same in every row) of rows that are alike."""
    if columns is not None or len(rows[0]) <= MOST:
        return [n for n in rows[0] if columns is None or n in columns], []
    alike = [
        n
        for n in rows[0]
        if rows[1:] and n not in (*safe, "intervals") and len({str(r[n]) for r in rows}) == 1
    ]
    return [n for n in rows[0] if n not in alike][:MOST], alike


def _cell(value, name, digits, safe):
    """One cell: a number with the whole of it to sort by, or text; a short name and an interval are not broken."""
    if isinstance(value, dict):
        known = [
            (of, told) for of, x in value.items() if (told := interval(x, digits)) != NO_INTERVAL
        ]
        if known and known[0][0].startswith("and "):  # nothing stands above it to add to
            known[0] = (f"text {known[0][0]}", known[0][1])
        known = [
            (re.sub(".*, (?=and )", "", of), told) for of, told in known
        ]  # of what stands above it
        known = [
            (of.replace(" ", "\u00a0") if len(of) < WORD / 1.5 else of, told) for of, told in known
        ]
        lines = (
            "".join(f"<div>{html.escape(of)} <span>{told}</span></div>" for of, told in known)
            or "–"
        )
        return f'<td class="num many" data-sort="{float(next(iter(value.values()))[0])!r}">{lines}</td>'
    if hasattr(value, "__float__") and not isinstance(value, (bool, str)):
        told = (
            p_value(value).removeprefix("p ").removeprefix("= ")
            if re.match(r"p\b", name)
            else number(value, digits)
        )
        return f'<td class="num" data-sort="{float(value)!r}">{html.escape(told)}</td>'
    text = "–" if value is None else str(value)
    kind = (
        "long"
        if len(text) > LONG and not safe
        else "text word"
        if len(text) <= WORD and " " not in text
        else "text"
    )
    # no break in an interval, but in one of powers of ten, which is wide
    told = text if safe else re.sub(r"\[[^][a-z×]*]", r"<span>\g<0></span>", html.escape(text))
    mark = (
        f'<span aria-hidden="true">{MARKS.get(text.partition(",")[0], "!")}</span> '
        if name in FIRST
        else ""
    )
    return f'<td class="{kind}{" rbp-mark" * (name in FIRST)}">{mark}{told}</td>'
