"""The book's own numbers, and those of a run beside them: `rbp verify`, and the page Reproduced.

book/reference.csv has a row a number: verdicts of every page, exponents with an interval and other numbers
of the cases behind them, digests of rank tables, what it was all made with, and the suite's golden numbers.
"""

import argparse
import json
import platform
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from paper.show.claims import page_records
from rbplib.families import InputError, default_corpora, held, known, load_family, root
from rbplib.table import family_tables

FILE = ("book", "reference.csv")
COLUMNS = ["page", "case", "number", "value", "low", "high"]
TABLES, MADE, GOLDEN = "rank tables", "made with", "tests/golden"  # pages of rows that are on no page
TOLERANCE = {"rtol": 1e-6, "atol": 1e-9}  # of two numbers that are the same but for rounding
EQUAL, CLOSE, DIFFERS = "equal", "equal but for rounding", "differs"
ONLY_BOOK, ONLY_RUN = "only in the book", "only in this run"
PLACE = ("family", "corpus", "k", "N", "left")  # what a case is known by
KEYS = {  # numbers of cases that are kept, with the column of their interval
    "alpha": "ci_known", "r2": None, "ratio": "around", "change": "ci_known", "times": "times_around",
    "r2_drop": None, "misfit": None, "zipf_lead": "interval", "log_size_r2": None, "first": "first_around",
    "last": "last_around", "lead": None, "lean": None, "given": None, "estimate": "interval", "slope": "around",
    "in_tokens": None, "fall": "around", "trend": None, "sum_over_product": None, "kaplan_over_sum": None,
    "share": None, "line_share": None, "in_widths": None, "scored_tokens": None, "local_ratio": None,
}  # fmt: skip


def page_rows(path):
    """Rows of the verdicts on one executed page, of the cases behind them, and of its parameters."""
    page = "/".join(path.parts[-2:]).removesuffix(".ipynb")
    about = json.loads(path.read_text(encoding="utf-8"))["metadata"]["rbp"]
    rows = [(page, page, "parameters", json.dumps(about["parameters"], sort_keys=True))]
    for name, record in page_records(path).items():
        if "verdict" in record:
            verdict = f"{record['verdict']}, {record['cases that hold']}"
            rows.append((page, f"{page} {name}", "verdict", verdict))
        for i, row in enumerate(record["rows"]):
            where = [f"{row[n]:g}" if isinstance(row[n], float) else row[n] for n in PLACE if row.get(n) is not None]
            case = " ".join(where) if "corpus" in row else f"{page} {name} {' '.join(where) or i + 1}"
            for number, around in KEYS.items():
                if row.get(number) is not None:
                    ends = row.get(around) or (np.nan, np.nan)
                    rows.append((page, case, number, repr(row[number]), *ends))
    return rows


def table_rows():
    """Rows of the digests of the embedded families' rank tables: of their text, their ranks, their logprobs."""
    parts = ("document", "position", "token"), ("greater", "ties"), ("logprob",)
    families = [family for family in known("family") if family.embedded]
    families += [load_family(family.repeats) for family in families if family.repeats]
    rows = []
    for family in families:
        for corpus in default_corpora(family):
            try:
                tables, _ = family_tables(family, corpus, partial=True)
            except InputError:  # none is here
                continue
            for table in tables:
                rows_read = table.read()
                columns = [b"".join(getattr(rows_read, name).tobytes() for name in part) for part in parts]
                digests = " ".join(sha256(data).hexdigest()[:16] for data in columns)
                case = f"{family.name}/{table.record['model']}/{corpus}"
                rows.append((TABLES, case, "text, ranks, logprob", digests))
    return rows


def made_rows():
    """Rows of the system and the versions that numbers are made with here."""
    made = {"system": f"{platform.system()} {platform.machine()}", "Python": platform.python_version()}
    made |= {name: version(name) for name in ("numpy", "scipy", "torch")}
    return [(MADE, MADE, name, value) for name, value in made.items()]


def run_frame():
    """What lies here as rows of the book's file. Raises InputError: no page was run."""
    pages = sorted((root() / "book" / "_executed").glob("*/*.ipynb"), key=lambda p: p.parts[-2] == "all")
    rows = [row for page in pages for row in page_rows(page)]
    if not rows:
        raise InputError("no page was run here: run `make book`, or `rbp book --family NAME`.")
    frame = pd.DataFrame([*rows, *table_rows(), *made_rows()], columns=COLUMNS)
    return frame.drop_duplicates(["case", "number"])  # one case stands on several pages


def read_reference(path=None):
    """The rows of a file, by default the book's own. Raises InputError: there is none, or it is damaged."""
    path = Path(path or held(*FILE))
    if not path.is_file():
        raise InputError(f"there is no {path}: `rbp verify --write` makes one of a run.")
    try:
        return pd.read_csv(path, dtype={"value": str}, float_precision="round_trip")[COLUMNS]
    except (ValueError, LookupError) as error:
        raise InputError(f"{path} is damaged ({error}): fetch it again from the repository.") from None


def compared(book, run):
    """Both side by side: data frame with page, case, number, book, here and outcome.

    Of the book, the pages that were run here with the same parameters; of its golden numbers nothing.
    """
    run = run[run["page"] != GOLDEN]
    both = book.merge(run, on=["case", "number"], how="outer", suffixes=("", " here"))
    # pages that are not here, or were made with other parameters, are not compared
    page = both["page"].fillna(both["page here"])
    asked = both[both["number"] == "parameters"]
    other = asked.loc[asked["value"] != asked["value here"], "case"]
    here = page.isin(run["page"]) & ~page.isin(other)
    both, page = both[here], page[here]
    # words are equal or not; numbers and the ends of their intervals may be a rounding apart
    ends = [both[["value", "low", "high"]], both[["value here", "low here", "high here"]]]
    first, second = (part.apply(pd.to_numeric, errors="coerce").to_numpy(float) for part in ends)
    equal = (ends[0]["value"] == ends[1]["value here"]).to_numpy()
    same = ((first == second) | np.isnan(first) & np.isnan(second))[:, 1:].all(axis=1)
    close = np.isclose(first, second, equal_nan=True, **TOLERANCE).all(axis=1) & np.isfinite(first[:, 0])
    kinds = [both["page"].isna(), both["page here"].isna(), equal & same, close]
    outcome = np.select(kinds, [ONLY_RUN, ONLY_BOOK, EQUAL, CLOSE], DIFFERS)
    frame = pd.DataFrame({"page": page, "book": both["value"], "here": both["value here"], "outcome": outcome})
    frame.insert(1, "number", both["number"] + " of " + both["case"])
    return frame.dropna(subset="page").reset_index(drop=True)


def failures(rows):
    """The rows of `compared` that are not reproduced: tables and versions may be others."""
    return rows[rows["outcome"].isin([DIFFERS, ONLY_BOOK]) & ~rows["page"].isin([TABLES, MADE])]


def main(arguments=None):
    """`rbp verify`: exit code 0, or 1 where a number is not reproduced, or 2 where nothing can be compared."""
    parser = argparse.ArgumentParser(prog="rbp verify", description="Compare this run's numbers with the book's.")
    parser.add_argument("path", nargs="?", metavar="FILE", help="another run's numbers (default: the book's own)")
    parser.add_argument("--write", action="store_true", help="keep this run's as the book's own, or in FILE")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    asked = parser.parse_args(arguments)
    try:
        run = run_frame()
        if asked.write:
            path = Path(asked.path or root().joinpath(*FILE))
            golden = read_reference().query("page == @GOLDEN")
            pd.concat([run, golden]).to_csv(path, index=False)
            print(f"{path}: {len(run):,} numbers of {run['page'].nunique()} pages")
            return 0
        rows = compared(read_reference(asked.path), run)
    except InputError as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2
    bad = failures(rows)
    if asked.json:
        print(rows.fillna("").to_json(orient="records", indent=1))
    else:
        counts = rows["outcome"].value_counts()
        for row in bad.fillna("–").itertuples():
            print(f"{row.page}: {row.number} {row.outcome}: {row.book} in the book, {row.here} here")
        print(f"{len(rows):,} numbers: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()))
    return int(len(bad) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
