"""The book's own numbers in one file, and those of a run compared with them; 22_reproduced says what is what."""

import html
import json
import platform
import re
from ast import literal_eval
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from io import StringIO
from pathlib import Path

import nbformat
import pandas as pd
from scipy.stats import norm

from paper.show.recorded import recordable
from rbplib.families import InputError, default_corpora, held, known, load_family
from rbplib.table import family_tables
from workflow.html import changed, executed_pages
from workflow.notebooks import parameter_defaults

PLACE = ("book", "reference.json")
EQUAL, ROUNDING, RESAMPLING, DIFFERS = "equal to the bit", "within rounding", "within resampling", "differs"
FINE, ONLY_BOOK, ONLY_RUN = (EQUAL, ROUNDING, RESAMPLING), "only in the book", "only in this run"
HALF = 2.0**-26  # relative: half of a double's 52 digits, what solving a system keeps unless it is all but singular
RESAMPLED = ("pairs", "rises", "runs", "text_bends")  # kinds of case whose `interval` is of resamples, as ci_tokens is
DRAWN = ("", "other text", "documents", "gap", "difference", "less CE")  # what tables say of intervals that may be so
UNRECORDED = ("12_train_your_own", "22_reproduced")  # trains anew while it runs; counts numbers of the other pages
NUMBER = re.compile(r"(?<![\w.])−?\d+(?:,\d{3})*(?:\.\d+)?(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")  # as `prose.number` shows it
HIDDEN = re.compile(r"\$[^$]*\$|\bp [=<] [\d.]+|<[^>]*>|&#\w+;")  # of a sentence: formulas, p-values, markup
SHOWN = ("table", "sentence")  # kinds of case that are what a page shows, not what it judges by
CSV = re.compile(r'data-name="([^"]*)" data-csv="([^"]*)"')
LEVEL = 0.95  # of these intervals; also of the claim that all their ends lie within what is allowed
WHOSE = ("family", "families", "corpora")  # parameters that say whose numbers a page holds, not how they are made
COLUMNS = {"text": (), "ranks": ("greater", "ties"), "logprob": ("logprob",)}  # that of the text a table knows itself


def page_numbers(page):
    """{"given": parameters of an executed page, "numbers": of its claims, tables and sentences}; None without any."""
    nb = nbformat.read(page, 4)
    outputs = [o for cell in nb.cells for o in cell.get("outputs", ())] * (page.stem not in UNRECORDED)
    parts = [o.metadata["rbp_numbers"] for o in outputs if "rbp_numbers" in o.get("metadata", {})]
    numbers = {k: v for part in [*parts, shown_numbers(outputs)] for k, v in part.items()}
    given = {name: literal_eval(x) for name, x in parameter_defaults(page).items()} | nb.metadata["rbp"]["parameters"]
    return {"given": given, "numbers": numbers} if numbers else None


def shown_numbers(outputs):
    """{"table" and its file, or "sentence" and its first words: {column, or "shown": numbers}} of what a page shows but
    p-values and what `judged_numbers` has: in full from a table's CSV, of a sentence as written."""
    found = []
    for o in outputs:
        text = HIDDEN.sub("", o.get("data", {}).get("text/markdown", "") * ("rbp_numbers" not in o.get("metadata", {})))
        if told := NUMBER.findall(text):
            words = re.findall("[A-Za-z#]+", NUMBER.sub("#", text))[:6]
            found.append((f"sentence {' '.join(words)}", {"shown": told}))
        for name, text in CSV.findall(o.get("data", {}).get("text/html", "")):
            frame = pd.read_csv(StringIO(json.loads(html.unescape(text))), float_precision="round_trip")
            frame = frame.select_dtypes("number").loc[:, lambda x: ~x.columns.str.fullmatch("(noise )?p([ ,].*)?")]
            found.append((f"table {name}", {column: recordable(x) for column, x in frame.items()}))
    again = [[name for name, _ in found[: i + 1]].count(name) for i, (name, _) in enumerate(found)]
    return {name + f" #{n}" * (n > 1): told for n, (name, told) in zip(again, found, strict=True)}


def table_digests():
    """{"family/model/corpus": {part: SHA-256 of COLUMNS, shortened}} of the embedded families' tables that are here."""
    families, found = [f for f in known("family") if f.embedded], {}
    for family in [*families, *(load_family(f.repeats) for f in families if f.repeats)]:
        for corpus in default_corpora(family):
            with suppress(InputError):
                for t in family_tables(family, corpus, partial=True)[0]:  # verified there
                    read = {p: b"".join(r[n] for n in names for r in t.batches(n)) for p, names in COLUMNS.items()}
                    said = {part: sha256(data).hexdigest() for part, data in read.items()} | {"text": t.text}
                    found[f"{family.name}/{t.record['model']}/{corpus}"] = {part: x[:16] for part, x in said.items()}
    return found


def machine():
    """{what: its name or version} of what numbers are made with here."""
    made = {"system": f"{platform.system()} {platform.machine()}", "processor": platform.processor() or "not told"}
    with suppress(OSError):  # where the system tells more
        more = Path("/proc/cpuinfo").read_text().partition("model name\t: ")[2].partition("\n")[0]
        made["processor"] = more or made["processor"]
    return made | {"Python": platform.python_version()} | {n: version(n) for n in ("numpy", "scipy", "torch")}


def run_record():
    """What lies here, as the book's own record. Raises InputError: a page was changed by hand, or none was run."""
    if why := next(filter(None, map(changed, pages := executed_pages())), None):
        raise InputError(why)
    found = {"/".join(p.parts[-2:]).removesuffix(".ipynb"): page_numbers(p) for p in pages}
    if not any(found.values()):
        raise InputError("no page with numbers was run here: run `make book`, or `rbp book --family NAME`.")
    pages, silent = {name: told for name, told in found.items() if told}, [n for n, told in found.items() if not told]
    return {"made": machine(), "tables": table_digests(), "pages": pages, "pages without numbers": silent}


def read_reference(path=None):
    """The record in a file, by default the book's own. Raises InputError: there is none, or it is damaged."""
    path = Path(path or held(*PLACE))
    if not path.is_file():
        raise InputError(f"there is no {path}, the book's own numbers: `rbp verify --write` makes one of a run.")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        sentences(record, record, compared(record, record))  # whatever is read of it
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}): fetch it again from the repository.") from None
    return record


def flat(numbers):
    """{(case, name, which end): value}; an interval is two numbers."""
    told = ((case, name, value) for case, named in numbers.items() for name, value in named.items())
    return {(c, n, i): v for c, n, value in told for i, v in enumerate(value if isinstance(value, list) else [value])}


def both_ends(case, name, i):
    """Keys of both ends of the interval by resamples that a number is one end of; none where it is of no such one."""
    kind, (of, _, end) = case.partition(" ")[0], name.rpartition(": ")
    if kind == "table" and of in DRAWN and end in ("low", "high"):
        return [(case, name.removesuffix(end) + x, i) for x in ("low", "high")]
    return [(case, name, x) for x in (0, 1) if name == "ci_tokens" or (name == "interval" and kind in RESAMPLED)]


def moved_tables(book, run):
    """{rank table that both have: those of COLUMNS in which they are not the same to the byte}."""
    one, two = book["tables"], run["tables"]
    return {t: [c for c in COLUMNS if one[t][c] != two[t][c]] for t in one if t in two}


def same_resamples(book, run):
    """Do equal seeds draw the same resamples in both: of the same rank tables, all that both have, by one numpy?"""
    tables = moved_tables(book, run).values()
    return bool(tables) and not any(tables) and book["made"].get("numpy") == run["made"].get("numpy")


def quantile_error(width, n_bootstrap, ends):
    """How far one end may lie in two bootstraps by resamples alone: both have the error of a quantile q of B draws,
    sqrt(q (1 - q) / B) over a normal density; with probability LEVEL none of all `ends` is further (Bonferroni)."""
    q = (1 - LEVEL) / 2
    error = (q * (1 - q) / n_bootstrap) ** 0.5 / norm.pdf(norm.isf(q)) * width / (2 * norm.isf(q))
    return norm.isf((1 - LEVEL) / (2 * ends)) * 2**0.5 * error


def outcome(book, run, width=0.0, resampling=0.0):
    """(what is found, the difference allowed) of two values; width: of the interval that they are ends of, if any.
    Of two decimal fractions as they are written: one in the last digit that both have."""
    if written := all(isinstance(v, str) and re.fullmatch(r"−?[\d,]+\.\d+", v) for v in (book, run)):
        step = 10.0 ** -min(len(v.partition(".")[2]) for v in (book, run))
        book, run = (float(v.replace(",", "").replace("−", "-")) for v in (book, run))
    if book == run or not all(isinstance(v, float | int) for v in (book, run)):
        return (EQUAL if book == run else DIFFERS), 0.0
    rounding, apart = step * (1 + HALF) if written else HALF * max(abs(book), abs(run), width), abs(book - run)
    found = ROUNDING if apart <= rounding else RESAMPLING if apart <= resampling else DIFFERS
    return found, max(rounding, resampling)


def made_alike(book, run):
    """(are both of the same families and corpora, names of other parameters that differ) of one page's two records."""
    given = [{**dict.fromkeys(WHOSE), **of["given"]} for of in (book, run)]
    names = {name for name in {**given[0], **given[1]} if given[0].get(name) != given[1].get(name)}
    return not names & set(WHOSE), sorted(names - set(WHOSE))


def compared(book, run):
    """Data frame of all numbers on pages that both records have, made with the same parameters; both values in a row.
    Of a page on other families or corpora than the book's, what is of one family and corpus of both: no verdict is.
    allowed: how far both may be apart; width: of the bootstrap interval that they are ends of, if it may move."""
    shared = [p for p in book["pages"] if p in run["pages"]]
    alike, rows = {p: made_alike(book["pages"][p], run["pages"][p]) for p in shared}, []
    values = {p: [flat(of["pages"][p]["numbers"]) for of in (book, run)] for p in shared if not alike[p][1]}
    ends = max(1, sum(bool(both_ends(*key)) for theirs, _ in values.values() for key in theirs))
    for page, (theirs, ours) in values.items():
        B = None if same_resamples(book, run) else book["pages"][page]["given"].get("n_bootstrap")
        for case, name, i in dict.fromkeys([*theirs, *ours]):
            missing = ONLY_RUN if (case, name, i) not in theirs else ONLY_BOOK if (case, name, i) not in ours else None
            if not alike[page][0] and (missing or " corpus " not in case or case.startswith(SHOWN)):
                continue
            around = [theirs.get(key) for key in both_ends(case, name, i)]
            width = abs(around[1] - around[0]) if around and None not in around else 0.0
            both = theirs.get((case, name, i)), ours.get((case, name, i))
            resampling = quantile_error(width, B, ends) if width and B else 0.0
            found, allowed = outcome(*both, width, resampling)
            which = ("", f": {i + 1}")[(case, name, 1) in {**theirs, **ours}]
            rows.append((page, case, name + which, *both, allowed, width * bool(resampling), missing or found))
    return pd.DataFrame(rows, columns=["page", "case", "number", "book", "here", "allowed", "width", "outcome"])


def sentences(book, run, rows):
    """What a comparison found, one sentence each; rows: of `compared`."""
    kind, tables = rows["case"].str.split(" ").str[0].value_counts(), moved_tables(book, run)
    shown = {of: int(kind.get(of, 0)) for of in SHOWN}
    said = [f"{len(rows):,} numbers ({len(rows) - sum(shown.values()):,} of claims, {shown['table']:,} of tables, "]
    said[0] += f"{shown['sentence']:,} of sentences; many stand on several pages): "
    found = rows["outcome"].value_counts().items()
    said[0] += ", ".join(f"{n:,} {'differ' if of == DIFFERS and n > 1 else of}" for of, n in found) or "none compared"
    if len(share := rows.query("width > 0 and allowed > 0").eval("allowed / width")):
        apart = f"{share.min():.1%} to {share.max():.1%} of the width is allowed"
        said += [f"{len(share):,} ends of bootstrap intervals are not equal: {apart}"]
    elif same_resamples(book, run):
        said += ["Rank tables, seeds and numpy are the same, so resamples are: no interval may move beyond rounding"]
    same = ", ".join(f"{c} {sum(c not in moved for moved in tables.values())}" for c in COLUMNS)
    said += [f"{len(tables)} rank tables, equal to the bit: {same}"]
    said += [f"rank table {t}: other {' and '.join(columns)}" for t, columns in tables.items() if columns]
    alike = {p: made_alike(of, run["pages"][p]) for p, of in book["pages"].items() if p in run["pages"]}
    said += [f"{p} was made with other {' and '.join(other)}: not compared" for p, (_, other) in alike.items() if other]
    said += [f"{p} is of other families or corpora: compared in part" for p, x in alike.items() if x == (False, [])]
    if silent := run.get("pages without numbers"):
        said += [f"run, and without a number to compare: {', '.join(silent)}"]
    for where, one, other in ((ONLY_BOOK, book, run), (ONLY_RUN, run, book)):
        alone = [f"{what} {x}" for what in ("pages", "tables") for x in one[what] if x not in other[what]]
        said += [f"{len(alone)} {where}: {', '.join(alone)}"] if alone else []
    return said
