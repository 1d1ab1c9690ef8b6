"""The book's own numbers, and those of a run beside them: `rbp verify`, and page 22.

book/reference.csv has a row a number: verdicts of every page, exponents with an interval and other
numbers of the cases behind them, digests of rank tables, what it was all made with, and the suite's
golden numbers. Everything in it is text: numbers as Python writes them, to the last digit.
"""

import argparse
import json
import platform
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from paper.show.claims import page_records
from rbplib.families import InputError, default_corpora, held, known, load_family, root
from rbplib.table import columns_digest, family_tables

FILE = ("book", "reference.csv")
COLUMNS = ["page", "case", "number", "value", "low", "high"]
ROWS = ["page", "number", "book", "here", "outcome"]  # of a comparison
TABLES, MADE, GOLDEN = "rank tables", "made with", "tests/golden"  # rows that are on no page
TOLERANCE = {"rtol": 1e-5, "atol": 1e-9}  # of two numbers that are the same but for rounding
EQUAL, CLOSE, DIFFERS = "equal", "equal but for rounding", "differs"
ONLY_BOOK, ONLY_RUN = "only in the book", "only in this run"
PLACE = ("family", "corpus", "k", "N", "left")  # what a case is known by
NUMBERS = {  # of a case, by what holds their intervals
    "ci_known": "alpha change",
    "around": "ratio slope fall",
    "times_around": "times",
    "interval": "zipf_lead estimate",
    "": "r2 misfit log_size_r2 first last lead lean given in_tokens trend share line_share "
    "in_widths local_ratio",
}


def page_rows(path):
    """Rows of the verdicts on one executed page, of the cases behind them, and of its parameters."""
    page = "/".join(path.parts[-2:]).removesuffix(".ipynb")
    record = json.loads(path.read_text(encoding="utf-8"))["metadata"]["rbp"]
    parameters, embedded = record["parameters"], embedded_families(root())
    # a page of the embedded families that shows another's model too is another page
    others = {label.split("/")[0] for label in record.get("tables", ())} - embedded
    if others and page.split("/")[0] in {"all", *embedded}:
        parameters = parameters | {"beside": sorted(others)}
    rows = [(page, page, "parameters", json.dumps(parameters, sort_keys=True), "", "")]
    for name, record in page_records(path).items():
        if name.startswith("claim"):
            verdict = f"{record['verdict']}, {record['cases that hold']}"
            rows.append((page, f"{page} {name}", "verdict", verdict, "", ""))
            for i, case in enumerate(record["rows"]):
                rows += [(page, *row) for row in case_rows(case, f"{page} {name}", i + 1)]
    return rows


@cache
def embedded_families(place):
    """Names of the embedded families of a root, and of their models trained again."""
    families = [family for family in known("family") if family.embedded]
    return {family.name for family in families} | {f.repeats for f in families if f.repeats}


def case_rows(case, claim, i):
    """(case, number, value, low, high) of one case; known by its claim where its place says too little."""
    place = [case[name] for name in PLACE if case.get(name) is not None]
    name = " ".join(f"{x:g}" if isinstance(x, float) else x for x in place)
    if not {"family", "corpus"} <= case.keys():
        name = f"{claim} {name or i}"
    for around, numbers in NUMBERS.items():
        ends = case.get(around) or (None, None)
        for number in numbers.split():
            if case.get(number) is not None:
                values = (case[number], *ends)
                yield name, number, *("" if x is None else str(x) for x in values)


def table_rows():
    """Rows of the digests of the embedded families' rank tables: of their text, ranks, logprobs."""
    parts = ("document", "position", "token"), ("greater", "ties"), ("logprob",)
    for family in map(load_family, sorted(embedded_families(root()))):
        for corpus in default_corpora(family):
            try:
                tables, _ = family_tables(family, corpus, partial=True)
            except InputError:  # none is here
                continue
            for table in tables:
                digests = [columns_digest(table.columns, part)[:16] for part in parts]
                case = f"{family.name}/{table.record['model']}/{corpus}"
                yield TABLES, case, "text, ranks, logprob", " ".join(digests), "", ""


def made_rows():
    """Rows of the system and the versions that numbers are made with here."""
    made = {
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
    }
    made |= {name: version(name) for name in ("numpy", "scipy", "torch")}
    return [(MADE, MADE, name, value, "", "") for name, value in made.items()]


def run_frame():
    """What lies here as rows of the book's file. Raises InputError: no page was run."""
    pages = (root() / "book" / "_executed").glob("*/[!.]*.ipynb")
    pages = sorted(pages, key=lambda path: (path.parts[-2] == "all", path))
    if not pages:
        raise InputError("no page was run here: run `make book`, or `rbp book --family NAME`.")
    rows = [row for page in pages for row in page_rows(page)]
    frame = pd.DataFrame([*rows, *table_rows(), *made_rows()], columns=COLUMNS)
    return frame.drop_duplicates(["case", "number"])  # one case stands on several pages


def read_reference(path=None):
    """The rows of a file, by default the book's own. Raises InputError: there is none, or it is damaged."""
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

    Of the book, the pages that were run here with the same parameters and beside the same models; its
    golden numbers are no page's.
    """
    both = book.merge(run, on=["case", "number"], how="outer", suffixes=("", " here"))
    both["page"] = both["page"].fillna(both["page here"])
    asked = both[(both["number"] == "parameters") & (both["value"] != both["value here"])]
    both = both[both["page"].isin(run["page"]) & ~both["page"].isin(asked["case"])]
    # words are equal or not; numbers and the ends of their intervals may be a rounding apart
    columns = ["value", "low", "high"]
    words = both[columns], both[[f"{name} here" for name in columns]]
    equal = (words[0].to_numpy() == words[1].to_numpy()).all(axis=1)
    numbers = [side.apply(pd.to_numeric, errors="coerce") for side in words]
    close = np.isclose(*numbers, equal_nan=True, **TOLERANCE).all(axis=1)
    kinds = {ONLY_RUN: both["value"].isna(), ONLY_BOOK: both["value here"].isna(), EQUAL: equal}
    kinds[CLOSE] = close & numbers[0]["value"].notna()
    rows = both.assign(
        number=both["number"] + " of " + both["case"],
        book=both["value"],
        here=both["value here"],
        outcome=np.select(list(kinds.values()), list(kinds), DIFFERS),
    )
    return rows[ROWS].fillna("–").reset_index(drop=True)


def failures(rows):
    """The rows of `compared` that are not reproduced: tables and versions may be others."""
    return rows[rows["outcome"].isin([DIFFERS, ONLY_BOOK]) & ~rows["page"].isin([TABLES, MADE])]


def main(arguments=None):
    """`rbp verify`: exit code 1 where a number is not reproduced, 2 where nothing can be compared."""
    parser = argparse.ArgumentParser(
        prog="rbp verify", description="Compare this run's numbers with the book's."
    )
    parser.add_argument(
        "path", nargs="?", metavar="FILE", help="another run's numbers (default: the book's own)"
    )
    parser.add_argument("--write", action="store_true", help="keep this run's as the book's own")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    asked = parser.parse_args(arguments)
    try:
        run, book = run_frame(), read_reference(asked.path)
    except InputError as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2
    if asked.write:
        path = root().joinpath(*FILE)
        pd.concat([run, book[book["page"] == GOLDEN]]).to_csv(path, index=False)
        print(f"{path}: {len(run):,} numbers of {run['page'].nunique()} pages")
        return 0
    rows = compared(book, run)
    bad, counts = failures(rows), rows["outcome"].value_counts()
    if asked.json:
        print(rows.to_json(orient="records", indent=1))
    else:
        for row in bad.itertuples():
            print(
                f"{row.page}: {row.number} {row.outcome}: {row.book} in the book, {row.here} here"
            )
        print(f"{len(rows):,} numbers: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()))
        beside = run["value"].str.contains('"beside"') & (run["number"] == "parameters")
        if count := int(beside.sum()):
            pages = "1 page shows" if count == 1 else f"{count} pages show"
            print(f"{pages} models that the book lacks: not compared")
    return int(len(bad) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
