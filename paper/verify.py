"""The book's own numbers, and those of a run beside them: `rbp verify`.

book/reference.csv has a row a number: verdicts of every page, one number of each case behind them,
digests of rank tables, what it was all made with, and the suite's golden numbers. Everything in it
is text: numbers as Python writes them, to the last digit.
"""

import json
import platform
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from paper.show.claims import RANKS, page_records
from rbplib.cli import Parser, ended
from rbplib.counts import counts_path, known_by, read_counts
from rbplib.families import InputError, default_corpora, held, list_families, load_family, root
from rbplib.measuring import measured
from rbplib.table import columns_digest, family_tables

FILE = ("book", "reference.csv")
COLUMNS = ["page", "case", "number", "value", "low", "high"]
TABLES, MADE, GOLDEN = "rank tables", "made with", "tests/golden"  # rows that are on no page
TOLERANCE = {"rtol": 1e-5, "atol": 1e-9}  # of two numbers that are the same but for rounding
EQUAL, CLOSE, DIFFERS = "equal", "equal but for rounding", "differs"
ONLY_BOOK, ONLY_RUN = "only in the book", "only in this run"
SIDES = {"left_only": ONLY_BOOK, "right_only": ONLY_RUN, "both": DIFFERS}  # as merged
PLACE = ("family", "corpus", "k", "N", "left")  # what a case is known by
NUMBERS = {  # that a case may have, by what holds their intervals
    "ci_known": "alpha change",
    "around": "ratio slope fall",
    "times_around": "times",
    "interval": "zipf_lead estimate",
    "": "r2 misfit log_size_r2 first last lead lean given in_tokens trend share line_share "
    "in_widths local_ratio nearer scored_tokens",
}


# ---- the numbers of a run


def page_rows(path, embedded):
    """Rows of an executed page: its parameters, its verdicts, and the cases behind them.

    embedded: names of families; a page that shows another's model too is another page.
    """
    page = "/".join(path.with_suffix("").parts[-2:])
    made = json.loads(path.read_text(encoding="utf-8"))["metadata"]["rbp"]
    records = page_records(path)
    # a page run by hand has no list of tables
    others = {label.split("/")[0] for label in made.get("tables", ())} - embedded
    others |= {RANKS} & {record.get("basis") for record in records.values()}
    parameters = made["parameters"] | ({"beside": sorted(others)} if others else {})
    rows = [(page, page, "parameters", json.dumps(parameters, sort_keys=True), "", "")]
    # judged, or a number of a sentence
    for name, record in records.items():
        if "verdict" in record:
            verdict = f"{record['verdict']}, {record['cases that hold']}"
            rows.append((page, f"{page} {name}", "verdict", verdict, "", ""))
        for i, case in enumerate(record.get("rows", ()), 1):
            # known by its claim where its label says too little
            label = [case[part] for part in PLACE if case.get(part) is not None]
            label = " ".join(f"{x:g}" if isinstance(x, float) else x for x in label)
            if not {"family", "corpus"} <= case.keys():
                label = f"{page} {name} {label or i}"
            rows += [(page, label, *key) for key in key_number(case)]
    return rows


def key_number(case):
    """[(number, value, low, high)] of what stands for a case: of NUMBERS the first with an
    interval, or the first; [] without any."""
    rows = []
    for around, numbers in NUMBERS.items():
        ends = case.get(around) or (None, None)
        rows += [(n, case[n], *ends) for n in numbers.split() if case.get(n) is not None]
    rows.sort(key=lambda row: row[2] is None)
    return [["" if x is None else str(x) for x in rows[0]]] if rows else []


def embedded_names():
    """Names of the embedded families, and of what they name as their repeats: a set."""
    families = [family for family in list_families() if family.embedded]
    return {name for family in families for name in (family.name, family.repeats) if name}


def run_frame():
    """What lies here as rows of the book's file. Raises InputError: no page was run."""
    pages = (root() / "book" / "_executed").glob("*/[!.]*.ipynb")
    pages = sorted(pages, key=lambda path: (path.parts[-2] == "all", path))
    if not pages:
        raise InputError("no page was run here: run `make book`, or `rbp book --family NAME`.")
    embedded = embedded_names()
    rows = [row for page in pages for row in page_rows(page, embedded)]
    # what numbers are made with here
    system = f"{platform.system()} {platform.machine()}"
    made = {"system": system, "Python": platform.python_version()}
    for name in ("numpy", "scipy", "torch"):
        with suppress(PackageNotFoundError):  # numbers are compared without torch, too
            made[name] = version(name)
    rows += [(MADE, MADE, name, value, "", "") for name, value in made.items()]
    # digests of the embedded families' rank tables: of their text, ranks, logprobs
    parts = ("document", "position", "token"), ("greater", "ties"), ("logprob",)
    for family in map(load_family, sorted(embedded)):
        for corpus in default_corpora(family):
            with suppress(InputError):  # none is here
                for table in family_tables(family, corpus, partial=True, counts=False)[0]:
                    digests = [columns_digest(table.columns, part)[:16] for part in parts]
                    case = f"{family.name}/{table.record['model']}/{corpus}"
                    number = "text, ranks, logprob"
                    rows.append((TABLES, case, number, " ".join(digests), "", ""))
    # one case stands on several pages
    return pd.DataFrame(rows, columns=COLUMNS).drop_duplicates(["case", "number"])


# ---- beside the book's


def read_reference(path=None):
    """The rows of a file, by default the book's own. Raises InputError: there is none,
    or it is damaged."""
    path = Path(path or held(*FILE))
    if not path.is_file():
        raise InputError(f"there is no {path}: `rbp verify --write` makes one of a run.")
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)[COLUMNS]
    except (ValueError, LookupError) as error:
        raise InputError(
            f"{path} is damaged ({error}): fetch it again from the repository."
        ) from None


def compared(book, run):
    """Both side by side: data frame with page, number, book, here and outcome.

    Of the book, the pages that were run here with the same parameters and beside the same models;
    its golden numbers are no page's.
    """
    both = book.merge(run, "outer", ["case", "number"], suffixes=("", " here"), indicator="outcome")
    both["page"] = both["page"].fillna(both["page here"])
    others = both[(both["number"] == "parameters") & (both["value"] != both["value here"])]
    both = both[both["page"].isin(run["page"]) & ~both["page"].isin(others["case"])]
    # words are equal or not; numbers and the ends of their intervals may be a rounding apart
    equal, close = True, True
    for name in COLUMNS[3:]:
        sides = both[name], both[f"{name} here"]
        equal &= sides[0] == sides[1]
        numbers = [pd.to_numeric(side, errors="coerce") for side in sides]
        close &= np.isclose(*numbers, equal_nan=name != "value", **TOLERANCE)
    outcome = both["outcome"].astype(str).map(SIDES).mask(close, CLOSE).mask(equal, EQUAL)
    both = both.assign(outcome=outcome, number=both["number"] + " of " + both["case"])
    rows = both.rename(columns={"value": "book", "value here": "here"})
    return rows[["page", "number", "book", "here", "outcome"]].fillna("–").reset_index(drop=True)


def failures(rows):
    """The rows of `compared` that are not reproduced: tables and versions may be others."""
    return rows[rows["outcome"].isin([DIFFERS, ONLY_BOOK]) & ~rows["page"].isin([TABLES, MADE])]


def page_sentence(path, embedded):
    """In words, how many of an executed page's numbers are the book's; empty where none is in it.
    embedded: `embedded_names()`. Raises InputError: the book's are not here."""
    run = pd.DataFrame(page_rows(path, embedded), columns=COLUMNS)
    run = run.drop_duplicates(["case", "number"])  # as of the whole book
    counts = compared(read_reference(), run)["outcome"].value_counts()
    words = [
        f"{counts[kind]:,} {kind if counts[kind] == 1 else kind.removesuffix('s')}"
        for kind in counts.index
        if kind != EQUAL
    ]
    equal = f"{counts.get(EQUAL, 0):,} of {counts.sum():,} numbers equal the book's"
    return "; ".join([equal, *words]) if len(counts) else ""


# ---- counts that come with the book, beside models measured here


def measure_counted(number):
    """Measure models that are here as counts, and hold each of their tables against its counts:
    exit code 1 where one differs; those of a document are too few to differ by rounding.

    number: of models, drawn at random, or "all". Raises InputError: it is neither.
    """
    from paper.counts import counts_of, repeated  # loads SciPy, which the book's build spares

    parts = []
    for name, corpora in repeated().items():
        parts += [(name, model.name, corpora) for model in load_family(name).models]
    if number != "all" and not (number.isdecimal() and 0 < int(number) <= len(parts)):
        raise InputError(f"--measure cannot be {number!r}: give 1 to {len(parts)}, or all.")
    wanted, equal = len(parts) if number == "all" else int(number), []
    for i in np.random.default_rng().permutation(len(parts))[:wanted]:
        name, model, corpora = parts[i]
        counts = read_counts(counts_path(load_family(name)))
        # anew, whatever lies here
        with TemporaryDirectory() as results:
            ladders = measured(name, corpora, models=[model], results=results, counts=False)
        for (table,) in ladders.values():
            key, differing = known_by(table.record), []
            kept = counts[key].columns
            ks = [int(name[6:]) for name in kept if name.startswith("ranks_")]
            for name, values in counts_of(table, ks).columns.items():
                shapes = {np.shape(kept.get(name)), values.shape}
                if len(shapes) > 1 or not np.allclose(values, kept[name], **TOLERANCE):
                    differing.append(name)
            print("/".join(key[:3]), ", ".join(differing) or EQUAL, flush=True)
            equal.append(not differing)
    print(f"{len(equal)} tables measured, {sum(equal)} with equal counts")
    return int(not all(equal))


def verify(options):
    """Do what the options of `main` ask for: whether a number is not reproduced."""
    if options.measure:
        return measure_counted(options.measure)
    run, book = run_frame(), read_reference(options.path)
    if options.write:
        path = root().joinpath(*FILE)
        pd.concat([run, book[book["page"] == GOLDEN]]).to_csv(path, index=False)
        print(f"{path}: {len(run):,} numbers of {run['page'].nunique()} pages")
        return
    # what does not agree, one by one for programs or in lines, and how many do
    rows = compared(book, run)
    bad = failures(rows)
    if options.json:
        print(rows.to_json(orient="records", indent=1))
        return not bad.empty
    for row in bad.itertuples():
        print(f"{row.page}: {row.number} {row.outcome}: {row.book} in the book, {row.here} here")
    counts = rows["outcome"].value_counts()
    print(f"{len(rows):,} numbers: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()))
    others = {*run["page"]} & {*book["page"]} - {*rows["page"]}
    if others:
        print(f"not compared, of other parameters or models: {', '.join(sorted(others))}")
    return not bad.empty


def main(arguments=None):
    """`rbp verify`: exit code 1 where a number is not reproduced,
    2 where nothing can be compared."""
    about = "Compare this run's numbers with the book's."
    parser = Parser(prog="rbp verify", description=about)
    parser.add_argument("path", nargs="?", help="another run's numbers (default: the book's own)")
    parser.add_argument("--write", action="store_true", help="keep this run's as the book's own")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    about = "measure so many models that are here as counts, drawn at random, or all (default: 1)"
    parser.add_argument("--measure", nargs="?", const="1", metavar="N", help=about)
    return ended(partial(verify, parser.parse_args(arguments)))


if __name__ == "__main__":
    raise SystemExit(main())
