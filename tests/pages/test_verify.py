"""The book's own numbers, and a run's beside them: planted differences, each told for what it is."""

import copy
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebookfiles import KERNEL
from ranktables import write_family

from paper.show import claims, reference
from paper.show.prose import table_html
from paper.show.recorded import judged_numbers
from rbplib.cli import main
from rbplib.families import InputError
from rbplib.stored import read_ranks, write_ranks
from tests.pagerunner import run_page, words
from workflow.notebooks import write_page

LAW = {
    "alpha": 0.05,
    "r2": 0.99,
    "ci_tokens": [0.045, 0.055],
    "ci_models": [0.03, 0.07],
    "ci_trainings": [0.04, 0.06],
    "status": "ok",
    "of": [1.0, 2.0, 3.0],
}
PAGE = "demo/02_top1_law"
CASE = "laws family demo corpus docs k 1"
B = 10_000


def record(**given):
    numbers = {CASE: dict(LAW), "claim top1_line": {"verdict": "agrees", "cases that hold": "5 of 5"}}
    page = {"given": {"family": "demo", "corpora": [], "n_bootstrap": B, "seed": 42, **given}, "numbers": numbers}
    return {"made": {"system": "Linux x86_64"}, "tables": {}, "pages": {PAGE: copy.deepcopy(page)}}


def against_book(change):
    """{outcome: the numbers that have it} after a change of the run's numbers."""
    run = record()
    change(run["pages"][PAGE]["numbers"])
    rows = reference.compared(record(), run)
    return {name: list(part["number"]) for name, part in rows.groupby("outcome") if name != reference.EQUAL}


def test_the_same_numbers_are_equal_to_the_bit():
    rows = reference.compared(record(), record())
    assert len(rows) == 14 and set(rows["outcome"]) == {reference.EQUAL}


def moved(name, by, end=0):
    def change(numbers):
        value = numbers[CASE][name]
        if isinstance(value, list):
            value[end] += by
        else:
            numbers[CASE][name] = value + by

    return change


ALLOWED = reference.quantile_error(0.01, B, 2)  # of both ends of ci_tokens, the only drawn ones


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda n: n[CASE].update(alpha=float(np.nextafter(0.05, 1))), {reference.ROUNDING: ["alpha"]}),
        (moved("alpha", 0.9 * reference.HALF * 0.05), {reference.ROUNDING: ["alpha"]}),
        (moved("alpha", 1.1 * reference.HALF * 0.05), {reference.DIFFERS: ["alpha"]}),
        (moved("ci_tokens", 0.9 * ALLOWED, 1), {reference.RESAMPLING: ["ci_tokens: 2"]}),
        (moved("ci_tokens", -1.1 * ALLOWED), {reference.DIFFERS: ["ci_tokens: 1"]}),
        (moved("ci_models", 0.5 * ALLOWED), {reference.DIFFERS: ["ci_models: 1"]}),  # it is not drawn
        (moved("ci_trainings", 0.1 * ALLOWED), {reference.DIFFERS: ["ci_trainings: 1"]}),  # nor is this
        (lambda n: n[CASE].update(r2=None), {reference.DIFFERS: ["r2"]}),
        (lambda n: n[CASE].update(status="few misses"), {reference.DIFFERS: ["status"]}),
        (lambda n: n["claim top1_line"].update(verdict="mixed"), {reference.DIFFERS: ["verdict"]}),
        (lambda n: n[CASE].pop("r2"), {reference.ONLY_BOOK: ["r2"]}),
        (lambda n: n[CASE].update(more=1.0), {reference.ONLY_RUN: ["more"]}),
        (lambda n: n.pop("claim top1_line"), {reference.ONLY_BOOK: ["verdict", "cases that hold"]}),
    ],
)
def test_a_changed_number_is_told_for_what_it_is(change, expected):
    assert against_book(change) == expected


def test_equal_tables_seed_and_numpy_leave_no_room_for_resamples():
    """An allowance there could only hide that the code was changed."""
    book, run = record(), record()
    moved("ci_tokens", 0.9 * ALLOWED)(run["pages"][PAGE]["numbers"])
    tables = {"demo/a/docs": {"text": "1", "ranks": "2", "logprob": "3"}}
    alike = {"made": {"numpy": "2"}, "tables": tables}
    for more, found in (
        ({}, reference.DIFFERS),
        ({"made": {"numpy": "3"}}, reference.RESAMPLING),
        ({"tables": {"demo/a/docs": tables["demo/a/docs"] | {"ranks": "9"}}}, reference.RESAMPLING),
    ):
        one, other = book | alike, run | alike | more
        rows = reference.compared(one, other)
        assert list(rows.query("number == 'ci_tokens: 1'")["outcome"]) == [found]
        said = " ".join(reference.sentences(one, other, rows))
        share, apart = f"{ALLOWED / 0.01:.1%}", "1 ends of bootstrap intervals are not equal"
        assert (f"{apart}: {share} to {share} of the width" in said) == bool(more)
        assert ("no interval may move" in said) == (not more)


def test_an_interval_may_move_only_where_its_kind_is_resampled():
    assert reference.both_ends("pairs family x", "interval", 0) and not reference.both_ends("bends k 1", "interval", 0)


def test_numbers_are_counted_on_every_page_and_pages_without_any_are_named():
    book, run = record(), record() | {"pages without numbers": ["all/11_precision"]}
    for one in (book, run):
        one["pages"]["all/09"] = copy.deepcopy(one["pages"][PAGE])
    said = reference.sentences(book, run, reference.compared(book, run))
    assert said[0].startswith("28 numbers (28 of claims")
    assert "run, and without a number to compare: all/11_precision" in said


def test_other_parameters_are_said_and_not_compared():
    book, run = record(), record(n_bootstrap=100)
    moved("alpha", 1)(run["pages"][PAGE]["numbers"])
    rows = reference.compared(book, run)
    assert rows.empty and f"{PAGE} was made with other n_bootstrap: not compared" in reference.sentences(
        book, run, rows
    )


def test_of_other_families_what_both_have_is_compared():
    book, run = record(families=[]), record(families=["demo"])
    numbers = run["pages"][PAGE]["numbers"]
    numbers["claim top1_line"]["verdict"] = "mixed"  # of other families it may well be
    numbers["laws family own corpus docs k 1"] = dict(LAW)
    rows = reference.compared(book, run)
    assert set(rows["case"]) == {CASE} and set(rows["outcome"]) == {reference.EQUAL}
    assert any("compared in part" in said for said in reference.sentences(book, run, rows))
    moved("alpha", 1)(numbers)
    assert list(reference.compared(book, run).query("outcome == 'differs'")["number"]) == ["alpha"]


def test_pages_and_tables_of_one_side_are_named():
    book, run = record(), record()
    book["pages"]["demo/03"], run["pages"]["own/02"] = book["pages"][PAGE], run["pages"][PAGE]
    book["tables"] = {"demo/a/docs": {"text": "1", "ranks": "2", "logprob": "3"}, "demo/b/docs": {}}
    run["tables"] = {"demo/a/docs": {"text": "1", "ranks": "2", "logprob": "4"}}
    said = reference.sentences(book, run, reference.compared(book, run))
    assert "1 rank tables, equal to the bit: text 1, ranks 1, logprob 0" in said
    assert "rank table demo/a/docs: other logprob" in said
    assert (
        "2 only in the book: pages demo/03, tables demo/b/docs" in said and "1 only in this run: pages own/02" in said
    )


@pytest.mark.parametrize("n", (200, 2000))
def test_what_resampling_allows_holds_as_often_as_it_says(n):
    """Pairs of bootstraps of the mean, from the distribution that resampled means have."""
    rng = np.random.default_rng(n)
    ends = np.quantile(rng.normal(size=(2, 1500, n)), (0.025, 0.975), axis=2)  # (end, run, pair)
    apart, width = np.abs(ends[:, 0] - ends[:, 1]), ends[1, 0] - ends[0, 0]
    one = np.mean(apart[0] <= reference.quantile_error(width, n, 1))
    assert abs(one - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 1500)
    groups = (apart <= reference.quantile_error(width, n, 30)).reshape(2, 100, 15).all(axis=(0, 2))
    assert groups.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100)


def test_what_pages_record_of_judged_claims():
    first = next(c for c in claims.all_claims().values() if c.of == "laws")
    rule = replace(first, k=1, among={"noise_p": {"above": 0}, "worst_residual": {"above": 0}})
    shared = {
        "ci_tokens": (0.04, 0.06),
        "status": "ok",
        "r2": np.float64(0.9),
        "noise_p": 1e-9,
        "worst_residual": np.nan,
    }
    cases = [SimpleNamespace(family="demo", k=1, alpha=a, **shared) for a in (0.1, np.nan)]
    one = claims.Judged(rule=rule, cases=cases, held=[True, True], claim="", ours="", count="2 of 2", verdict="mixed")
    found = json.loads(json.dumps(judged_numbers([one, one]), allow_nan=False))
    told = {"ci_tokens": [0.04, 0.06], "status": "ok", "r2": 0.9}
    assert {n: found["laws family demo k 1"][n] for n in told} == told
    assert found["laws family demo k 1"]["alpha"] == 0.1 and found["laws family demo k 1 #2"]["alpha"] is None
    assert "noise_p" not in str(found) and len(found) == 3
    assert found[f"claim {rule.name} at k = 1"] == {"verdict": "mixed", "cases that hold": "2 of 2"}


def test_what_pages_show_is_recorded_and_compared():
    frame = pd.DataFrame(
        {"k": [1, 10], "law": ["a", "b"], "other text: low": [0.1, 1 / 3], "other text: high": [0.5, 0.9]}
    )
    frame = frame.assign(**{"p, sources": 0.5, "other sizes: low": 0.0, "other sizes: high": [1.0, np.nan]})
    html = table_html(frame, "A table", download="laws.csv")
    told = "$R^2$ of bf16 is 0.969 [0.968, 1,024.5] at −3 (p = 0.03) &#49; 2 × 10⁻⁵"
    shown = ({"text/html": html}, {"text/html": html}, {"text/markdown": told}, {"text/markdown": "no number"})
    outputs = [new_output("display_data", data) for data in shown]
    outputs += [new_output("display_data", {"text/markdown": "0.5"}, metadata={"rbp_numbers": {"x": {}}})]
    found = json.loads(json.dumps(reference.shown_numbers(outputs), allow_nan=False))
    table, again, (said, words) = found.pop("table laws.csv"), found.pop("table laws.csv #2"), *found.items()
    assert table == again and list(table) == ["k", *(n for n in frame if n.startswith("other"))]
    assert table["other text: low"] == [0.1, 1 / 3] and table["other sizes: high"] == [1.0, None]
    assert said.startswith("sentence of bf is") and words == {"shown": ["0.969", "0.968", "1,024.5", "−3", "2 × 10⁻⁵"]}

    def change(numbers):
        numbers["table laws.csv"] = dict(
            table,
            **{
                "other text: low": [0.1, 1 / 3 + 1e-4],
                "other text: high": [0.6, 0.9],
                "other sizes: high": [1.001, None],
            },
        )
        numbers[said] = {"shown": ["0.970", "0.966", "1,024.5", "−4", "2 × 10⁻⁵"]}

    book, run = record(), record()
    book["pages"][PAGE]["numbers"] |= {"table laws.csv": table, said: words}
    change(run["pages"][PAGE]["numbers"])
    rows = reference.compared(book, run)
    outcomes = {name: list(part["number"]) for name, part in rows.groupby("outcome") if name != reference.EQUAL}
    assert outcomes == {
        reference.RESAMPLING: ["other text: low: 2"],
        reference.DIFFERS: ["other text: high: 1", "other sizes: high: 1", "shown: 2", "shown: 4"],
        reference.ROUNDING: ["shown: 1"],
    }
    other = record(family="own")
    assert set(reference.compared(book, other)["case"]) == {CASE}  # of another family its tables are others


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A root with a measured family and one executed page, and the reference made of both."""
    write_family(tmp_path, "demo", sizes=(2_000, 9_000, 40_000), documents=8)
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    write_run(tmp_path, record()["pages"][PAGE]["numbers"])
    assert main(["verify", "--write"]) == 0
    return tmp_path


def write_run(root, numbers):
    cell = f'family: str = "x"  # a name\ncorpora: list = []\nn_bootstrap: int = {B:_}  # resamples\nseed: int = 42'
    said = new_output("display_data", {"text/markdown": "- said"}, metadata={"rbp_numbers": numbers})
    cells = [new_code_cell(cell, metadata={"tags": ["parameters"]}), new_code_cell("judge()", outputs=[said])]
    page = new_notebook(cells=[new_markdown_cell("# A page"), *cells], metadata=KERNEL)
    out = root / "book" / "_executed" / f"{PAGE}.ipynb"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_page(page, out, {"notebook": "02_top1_law", "parameters": {"family": "demo"}, "made_of": None})


def test_a_run_is_verified_on_the_command_line(place, capsys):
    assert main(["verify"]) == 0
    said = capsys.readouterr().out
    assert (
        "14 numbers (14 of claims, 0 of tables, 0 of sentences; many stand on several pages): 14 equal" in said
        and "6 rank tables, equal to the bit: text 6, ranks 6, logprob 6" in said
    )
    numbers = record()["pages"][PAGE]["numbers"]
    moved("r2", -0.5)(numbers)
    write_run(place, numbers)
    assert main(["verify", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["problems"] == [f"{PAGE}: r2 of {CASE} differs: 0.99 in the book, 0.49 here"]
    assert "13 equal to the bit, 1 differs" in told["numbers"][0]
    moved("alpha", 0.5)(numbers)
    write_run(place, numbers)
    assert main(["verify"]) == 1 and "12 equal to the bit, 2 differ\n" in capsys.readouterr().out


def test_columns_that_differ_are_told_apart(place, capsys):
    path = sorted((place / "results/ranks/demo").glob("*/docs*.parquet"))
    path = path or sorted((place / "results/ranks/demo").glob("*/*.parquet"))
    table = read_ranks(path[0])
    columns = {n: np.array(getattr(table, n)) for n in ("document", "position", "token", "greater", "ties", "logprob")}
    columns["logprob"] = np.nextafter(columns["logprob"], np.float32(-9))
    write_ranks(path[0], columns, table.record)
    name = f"demo/{table.record['model']}/{table.record['corpus']}"
    assert main(["verify"]) == 0  # no number is beyond its tolerance
    said = capsys.readouterr().out
    assert "6 rank tables, equal to the bit: text 6, ranks 6, logprob 5" in said
    assert f"rank table {name}: other logprob" in said
    _, said = words(run_page("22_reproduced"))
    assert "5 of 6 rank tables are the same to the byte." in said and "1 are not" in said and f"{name}: other" in said
    numbers = record()["pages"][PAGE]["numbers"]
    moved("alpha", 1e-6)(numbers)
    write_run(place, numbers)
    assert main(["verify"]) == 1 and f"{PAGE}: alpha of {CASE} differs" in capsys.readouterr().out


def test_numbers_of_another_machine_are_the_same_numbers(place, capsys):
    path = place / "book/reference.json"
    alien = json.loads(path.read_text()) | {"made": {"system": "Plan9 mips", "processor": "abacus"}}
    path.write_text(json.dumps(alien))
    assert main(["verify"]) == 0
    _, said = words(run_page("22_reproduced"))
    assert (
        "14 of 14 recorded numbers are equal to the bit" in said
        and "6 of 6 rank tables are the same to the byte." in said
        and "Plan9 mips" in said
        and "Nothing." in said
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        (None, "there is no"),
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"pages": {}}', "is damaged"),
        ('{"made": {}, "tables": {}, "pages": {"x": {"given": {}, "numbers": {"c": 3}}}}', "is damaged"),
        ('{"made": {}, "tables": {"t": {}}, "pages": {}}', "is damaged"),
    ],
)
def test_a_missing_or_damaged_reference_is_one_sentence(place, capsys, text, expected):
    path = place / "book/reference.json"
    path.unlink() if text is None else path.write_text(text)
    assert main(["verify", str(path)]) == 2
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert said.startswith(f"rbp: {'there is no ' * (text is None)}{path}") and expected in said
    _, shown = words(run_page("22_reproduced", reference=str(path)))
    assert "Nothing is compared." in shown and expected in shown and "No number can be compared" in shown


def test_without_pages_there_is_nothing_to_write_or_to_compare(place, capsys):
    out = place / "book" / "_executed" / f"{PAGE}.ipynb"
    text = out.read_text()
    out.write_text(text.replace("0.99", "0.999"))
    for command in (["verify"], ["verify", "--write"]):
        assert main(command) == 2 and "was changed or exchanged" in capsys.readouterr().err
    out.unlink()
    before = (place / "book/reference.json").read_bytes()
    with pytest.raises(InputError, match="no page with numbers was run here"):
        reference.run_record()
    assert main(["verify", "--write"]) == 2 and (place / "book/reference.json").read_bytes() == before


def test_the_page_names_what_is_not_reproduced(place, capsys):
    numbers = record()["pages"][PAGE]["numbers"]
    moved("ci_tokens", 0.9 * ALLOWED)(numbers)
    numbers["claim top1_line"]["verdict"] = "<b>mixed"
    numbers["laws family other"] = {"r2": 0.5}  # the book has no such number
    write_run(place, numbers)
    assert main(["verify"]) == 1
    assert "r2 of laws family other only in this run: – in the book, 0.5 here" in capsys.readouterr().out
    path = place / "book/reference.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"made": {"numpy": "another"}}))  # so are its resamples
    page = run_page("22_reproduced")
    _, said = words(page)
    assert "12 of 14 recorded numbers are equal to the bit" in said and "1 within what the resamples allow" in said
    assert "1 are not reproduced" in said and "at most 0.9" in said
    assert "Only in this run, and so nothing to reproduce: 1," in said and "numbers that the book does not have" in said
    assert "1 not reproduced: neither equal nor within what is allowed; 1 only in this run, and so nothing to" in said
    assert "r2 of laws family other" in " ".join(said.split())  # in one cell that wraps: six were wider than the page
    html = "".join(str(o.get("data", {})) for c in page.cells if c.cell_type == "code" for o in c.outputs)
    assert f'data-page="{PAGE}"' in html.replace("&#95;", "_").replace("&#47;", "/") and "<b>mixed" not in html


def test_the_page_stays_small_where_every_number_differs(place):
    """A page once held 52,140 rows, 21 MB."""
    numbers = record()["pages"][PAGE]["numbers"] | {"table many.csv": {"x": [0.5] * 3000}}
    numbers["claim top1_line"]["verdict"] = "mixed"
    write_run(place, numbers)
    page = run_page("22_reproduced")
    _, said = words(page)
    assert (
        "These are the first 1,000 of 3,001" in said and "neither equal nor within what is allowed; 3,000 only" in said
    )
    listed = "".join(str(o.get("data", {})) for c in page.cells if c.cell_type == "code" for o in c.outputs)
    assert listed.count("rbp-differs") < 1010 and "mixed" in listed  # what differs comes before what is new
