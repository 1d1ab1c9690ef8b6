"""Families from another machine: the same rank tables but for tokens; damage is found."""

import json
import os
import zipfile

import numpy as np
import pytest
from ranktables import CORPORA, write_family

from rbplib import InputError, doors
from rbplib.doors import export_family, import_family
from rbplib.measuring import measured
from rbplib.table import COLUMNS, family_tables, read_table, write_table
from tests.commands import call, take


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """(root of the family that was measured, its exported file); documents of 25 sources with paths
    of this machine, and other models as its repeats."""
    root = tmp_path_factory.mktemp("measured")
    units = [f"/home/me/package{(7 * i) % 25}" for i in range(60)]
    write_family(root, units=units)
    # names that sort otherwise as paths than as text
    write_family(root, "again", (2000, 2001, 9000), models=["m", "m-1", "m.2"], units=units)
    with open(root / "families/synthetic.yml", "a") as file:
        file.write("\nrepeats: again\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        yield root, export_family("synthetic", root / "synthetic.ranks")


@pytest.fixture
def elsewhere(shared, empty_root):
    """A root with nothing in it but the imported family `theirs`."""
    take(shared[1], "theirs")
    return empty_root


def test_an_imported_table_is_the_exported_one_to_the_bit_without_its_tokens(
    shared, elsewhere, monkeypatch
):
    imported = {name: measured(name) for name in ("theirs", "theirs.repeats")}
    monkeypatch.setenv("RBP_ROOT", str(shared[0]))
    for family, name in (("synthetic", "theirs"), ("again", "theirs.repeats")):
        for corpus in CORPORA:
            ladder = family_tables(family, corpus)[0]
            for ours, theirs in zip(ladder, imported[name][corpus], strict=True):
                for column in COLUMNS.keys() - {"token"}:
                    assert np.array_equal(ours.columns[column], theirs.columns[column]), column
                assert ours.token.any() and not theirs.token.any() and ours.text == theirs.text
                assert np.array_equal(ours.source, theirs.source)
                assert theirs.record["imported"]["was"] == "synthetic"
    # folders of the machine are not in the file
    with zipfile.ZipFile(shared[1]) as file:
        assert not any(b"/home" in file.read(name) for name in file.namelist())
    # once more, from there to a third
    monkeypatch.setenv("RBP_ROOT", str(elsewhere))
    take(export_family("theirs", elsewhere / "again.ranks", ["code"]), "thirds")
    for second, third in zip(imported["theirs"]["code"], measured("thirds")["code"], strict=True):
        assert second.record["columns_sha256"] == third.record["columns_sha256"]


def test_without_order_all_but_runs_is_the_same(shared, empty_root, monkeypatch):
    path, ks = empty_root / "s.ranks", range(1, 401)
    with monkeypatch.context() as patch:
        patch.setenv("RBP_ROOT", str(shared[0]))
        export_family("synthetic", path, ["code"], ordered=False)
        ladder = family_tables("synthetic", "code")[0]
    take(path, "synthetic")
    for ours, theirs in zip(ladder, measured("synthetic")["code"], strict=True):
        for definition in ("greater+ties", "greater+1"):
            assert np.array_equal(ours.hits(ks, definition), theirs.hits(ks, definition))
        assert np.allclose(ours.nll, theirs.nll)
        in_document = np.diff(theirs.document) == 0
        assert (np.diff(theirs.rank())[in_document] >= 0).all()
        with pytest.raises(InputError, match="without their order"):
            theirs.runs(1)


def test_damage_anywhere_is_found(shared, tmp_path, monkeypatch):
    whole, path = shared[1].read_bytes(), tmp_path / "x.ranks"
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for data in (b"", whole[:middle], whole[:-1], flipped):
        path.write_bytes(data)
        with pytest.raises(InputError, match="damaged"):
            take(path, "damaged")
    assert list(tmp_path.iterdir()) == [path]


def remade(old, new, method=zipfile.ZIP_STORED, without=0, more=(), title=None, **changes):
    """An export made again: packed, without some of its files or with more, with another title, or
    with other columns or another record of its last table."""
    with zipfile.ZipFile(old) as file, zipfile.ZipFile(new, "w", method) as bad:
        file.extractall(new.parent / "unpacked")
        for name in [*file.namelist()[without:], *more]:
            path = new.parent / "unpacked" / name
            if name == "family.json" and title is not None:
                path.write_text(json.dumps(json.loads(path.read_text()) | {"title": title}))
            if name == file.namelist()[-2] and changes:
                table = read_table(path)
                columns = table.columns | changes.get("columns", {})
                # which nothing checks when they are written
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("rbplib.table.checked_columns", lambda columns, _: columns)
                    write_table(path, columns, table.record | changes.get("record", {}))
            bad.write(path, name)
    return new


ELSEWHERE = "/../../../../../../../tmp/planted"
ENTRIES = {  # of a table's record, and what it cannot say
    "protocol": [ELSEWHERE, None],
    "model": [ELSEWHERE, "m-1", ["a"]],
    "corpus": [ELSEWHERE, "prose"],
    "nonembedding_params": [None, True, 1.5, -5, 10**400],
    "vocab_size": [0, 2**31],
    "documents": [1, 10**12],
    "units": [[None] * 60, "abc"],
    "definition": ["foo"],
    "model_id": ["a b"],
    "weights_dtype": ["fp7"],
    "lacks": ["ties", [7]],
    "window": ["x"],
    "sample": [[1]],
}
HOSTILE = [{"record": {name: value}} for name, values in ENTRIES.items() for value in values]
HOSTILE += [{"method": zipfile.ZIP_DEFLATED}, {"without": 1}, {"more": ["family.json"]}]
# words about the family that are no text, too many, or of letters that no file can hold
HOSTILE += [{"title": 7}, {"title": "x" * 60_000}, {"title": "\ud800"}]


def changed(table, column, row, value):
    """A hostile export whose last table has another value in a row of a column."""
    values = np.array(table.columns[column])
    values[row] = value
    return {"columns": {column: values}}


def test_what_a_hostile_export_says_is_refused_before_anything_is_kept(
    shared, empty_root, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(shared[0]))
        whole, last = (
            export_family("again", folder / "whole", ["code"]),
            measured("again")["code"][-1],
        )
    cases = [("document", -1, 60), ("greater", 9, 400)]
    before = {*empty_root.rglob("*")}
    for case in [*HOSTILE, *(changed(last, *cell) for cell in cases)]:
        path = remade(whole, folder / "bad.ranks", **case)
        with pytest.raises(InputError, match="is damaged, or no export|protocol|name"):
            take(path, "bad")
        assert {*empty_root.rglob("*")} == before and not os.path.exists("/tmp/planted"), case
    take(remade(whole, folder / "good.ranks"), "good")


def test_an_export_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(
    shared, empty_root, tmp_path, monkeypatch
):
    rows, unpack = 1_000_000, doors.file_columns

    def watch(data, record):
        assert record["scored_tokens"] < rows, "it was unpacked"
        return unpack(data, record)

    monkeypatch.setattr(doors, "file_columns", watch)
    zeros = {name: np.zeros(rows, dtype) for name, dtype in COLUMNS.items()}
    with pytest.raises(InputError, match="unpacks to more than a table of its size"):
        take(remade(shared[1], tmp_path / "bomb.ranks", columns=zeros), "bad")


def test_an_import_takes_no_name_under_which_something_lies(shared, empty_root, monkeypatch):
    # ladders that were measured by the path of their file
    table = read_table(next(shared[0].glob("results/ranks/synthetic/*/code.parquet")))
    for name in ("ours", "theirs.repeats"):
        path = empty_root / f"results/ranks/{name}/m/code.parquet"
        write_table(path, table.columns, table.record | {"family": name, "model": "m"})
    (empty_root / "families/mine.yml").write_text("models: [none/a]\n")
    before = {path: path.stat().st_mtime_ns for path in empty_root.rglob("*.*")}
    for name in ("ours", "theirs", "all", "Live", "mine", "../theirs"):
        with pytest.raises(InputError, match="in use for|folder of the book|other ranks|must"):
            take(shared[1], name)
    assert {path: path.stat().st_mtime_ns for path in empty_root.rglob("*.*")} == before
    # nor does what was imported from another file join it
    take(shared[1], "good")
    with monkeypatch.context() as patch:
        patch.setenv("RBP_ROOT", str(shared[0]))
        other = export_family("again", empty_root / "again.ranks")
    with pytest.raises(InputError, match="in use for tables that lie in"):
        take(other, "good")


def test_what_a_killed_import_left_goes_with_the_next(shared, empty_root, monkeypatch):
    left = empty_root / "results/imported/.theirs.0123abcd.tmp"
    left.mkdir(parents=True)
    # stopped between two moves, it is whole once it is begun again
    replace, moved = os.replace, []

    def stop(source, path):
        moved.append(path)
        if len(moved) == 14:
            raise KeyboardInterrupt
        return replace(source, path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("os.replace", stop)
        import_family(shared[1], "theirs")
    assert not left.exists() and not (empty_root / "results/imported/theirs.yml").exists()
    take(shared[1], "theirs")
    assert len(measured("theirs")["code"]) == 5
    assert len([*empty_root.glob("results/ranks/*/*/*")]) == 16


def test_what_is_not_there_is_one_sentence(shared, elsewhere):
    for message, ask in (
        ("corpus 'notes' is not known", lambda: measured("theirs", ["notes"])),
        ("without models and text", lambda: measured("theirs", ["code"], "full")),
    ):
        with pytest.raises(InputError, match=message):
            ask()
    assert call("plan --family theirs") == call("measure --family theirs --replace") == 2
    # a damaged table comes again with the same file
    table = next(elsewhere.glob("results/ranks/theirs/*/code.parquet"))
    whole = table.read_bytes()
    table.write_bytes(whole[:-9])
    with pytest.raises(InputError, match="is damaged.*: `rbp import` its family's file again"):
        measured("theirs", ["code"])
    take(shared[1], "theirs")
    assert table.read_bytes() == whole
