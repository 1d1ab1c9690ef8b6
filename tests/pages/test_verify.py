"""`rbp verify`: a run's numbers beside the book's, on planted pages and tables."""

import hashlib
import json
from importlib.metadata import PackageNotFoundError
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from paper import verify
from rbplib.measuring import measured
from tests.ranktables import write_family

CASE = {"family": "f", "corpus": "x", "k": 1.0, "alpha": 0.1, "ci_known": [0.05, 0.2], "r2": 0.99}


def write_page(root, name="f/02_top1_law", verdict="agrees", parameters=None, tables=(), **changed):
    """An executed page that judged one claim on one case."""
    record = {"verdict": verdict, "cases that hold": "3 of 3", "rows": [CASE | changed]}
    outputs = [{"metadata": {"rbp_numbers": {"claim top1_line at k = 1": record}}}]
    about = {"parameters": parameters or {}, "tables": dict.fromkeys(tables)}
    path = root / "book" / "_executed" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": [{"outputs": outputs}, {}], "metadata": {"rbp": about}}))
    verify.page_records.cache_clear()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A root with rank tables, two pages, and the numbers of both as the book's."""
    monkeypatch.setenv("RBP_ROOT", str(write_family(tmp_path)))
    for name in ("f/02_top1_law", "all/11_families"):
        write_page(tmp_path, name)
    golden = pd.DataFrame([(verify.GOLDEN, "a", "b", "1.5", 1.0, 2.0)], columns=verify.COLUMNS)
    golden.to_csv(tmp_path / "book" / "reference.csv", index=False)
    assert verify.main(["--write"]) == 0
    yield tmp_path
    verify.page_records.cache_clear()


def outcomes():
    """{number: outcome} of the run beside the book, but for tables and versions."""
    rows = verify.compared(verify.read_reference(), verify.run_frame())
    return rows[~rows["page"].isin([verify.TABLES, verify.MADE])].set_index("number")["outcome"]


def test_a_file_holds_verdicts_one_number_a_case_tables_and_what_it_was_made_with(root):
    frame = verify.read_reference().set_index(["case", "number"])
    of_case = frame.loc["f x 1"]  # once, though two pages show it, by what has an interval
    assert of_case.index.tolist() == ["alpha"]
    assert of_case.iloc[0].tolist() == ["f/02_top1_law", "0.1", "0.05", "0.2"]
    verdict = frame.loc[("all/11_families claim top1_line at k = 1", "verdict"), "value"]
    assert verdict == "agrees, 3 of 3"
    assert frame.loc[(verify.MADE, "numpy"), "value"] == np.__version__
    assert frame.loc[("a", "b"), "page"] == verify.GOLDEN  # what the suite keeps stays
    # digests by themselves: SHA-256 over the columns' bytes
    table = measured("synthetic")["code"][0]
    parts = ("document", "position", "token"), ("greater", "ties"), ("logprob",)
    data = [b"".join(table.columns[name].tobytes() for name in part) for part in parts]
    digests = [hashlib.sha256(part).hexdigest()[:16] for part in data]
    case = f"synthetic/{table.record['model']}/code"
    assert frame.loc[(case, "text, ranks, logprob"), "value"] == " ".join(digests)


@pytest.mark.parametrize(
    ("changed", "outcome", "status"),
    [
        ({"r2": 0.5}, verify.EQUAL, 0),
        ({"ci_known": [0.05, 0.2 + 1e-9]}, verify.CLOSE, 0),
        ({"alpha": 0.1 + 1e-5}, verify.DIFFERS, 1),
        ({"ci_known": [0.05, 0.2001]}, verify.DIFFERS, 1),
        ({"alpha": None}, verify.ONLY_BOOK, 1),
    ],
)
def test_a_number_is_equal_or_a_rounding_apart_or_differs(root, changed, outcome, status, capsys):
    for name in ("f/02_top1_law", "all/11_families"):
        write_page(root, name, **changed)
    rows = outcomes()
    assert rows.pop("alpha of f x 1") == outcome and set(rows) <= {verify.EQUAL, verify.ONLY_RUN}
    assert verify.main([]) == status
    assert ("f/02_top1_law: alpha of f x 1" in capsys.readouterr().out) == bool(status)


def test_a_verdict_differs_and_a_table_decides_nothing(root, capsys, monkeypatch):
    write_page(root, verdict="mixed")
    assert verify.main(["--json"]) == 1
    rows = pd.DataFrame(json.loads(capsys.readouterr().out))
    assert list(rows[rows["outcome"] == verify.DIFFERS]["here"]) == ["mixed, 3 of 3"]
    # another table, or another numpy, or none, is shown and is no failure
    book = verify.read_reference()
    book.loc[book["page"].isin([verify.TABLES, verify.MADE]), "value"] = "another"
    book.to_csv(root / "theirs.csv", index=False)
    write_page(root)
    assert verify.main([str(root / "theirs.csv")]) == 0
    rows = verify.compared(book, verify.run_frame())
    assert (rows["outcome"] == verify.DIFFERS).sum() > 9 and not len(verify.failures(rows))
    monkeypatch.setattr(verify, "version", Mock(side_effect=PackageNotFoundError))
    assert verify.main([]) == 0


def test_pages_that_the_book_lacks_or_that_were_made_otherwise_are_not_compared(root, capsys):
    write_page(root, "f/03_moderate_k", k=10.0, alpha=0.3)  # the book has no such page
    write_page(root, verdict="mixed", parameters={"n_bootstrap": 100})
    write_page(root, "all/11_families", "mixed", tables=["smollm2/a/docs.parquet"], alpha=0.3)
    assert verify.main([]) == 0 and not [name for name in outcomes().index if "claim" in name]
    assert ": all/11_families, f/02_top1_law\n" in capsys.readouterr().out


def test_a_page_counts_a_case_that_it_shows_twice_once(root):
    path = root / "book/_executed/f/02_top1_law.ipynb"
    page = json.loads(path.read_text())
    repeated = {"claim other": {"rows": [CASE | {"alpha": 0.3}]}}
    page["cells"][1] = {"outputs": [{"metadata": {"rbp_numbers": repeated}}]}
    path.write_text(json.dumps(page))
    verify.page_records.cache_clear()
    assert verify.page_sentence(path, {"f"}) == "3 of 3 numbers equal the book's"
    write_page(root, verdict="mixed", alpha=0.3)
    assert verify.page_sentence(path, {"f"}) == "1 of 3 numbers equal the book's; 2 differ"


def test_nothing_to_compare_with_is_one_sentence_and_writes_nothing(root, capsys):
    file, before = root / "other.csv", (root / "book/reference.csv").read_bytes()
    for text, words in ((None, "there is no"), ("", "is damaged"), ("\x00", "is damaged")):
        if text is not None:
            file.write_text(text)
        assert verify.main([str(file)]) == 2 and words in capsys.readouterr().err
    for path in (root / "book/_executed").glob("*/*.ipynb"):
        path.unlink()
    assert verify.main(["--write"]) == 2 and "no page was run here" in capsys.readouterr().err
    assert (root / "book/reference.csv").read_bytes() == before
