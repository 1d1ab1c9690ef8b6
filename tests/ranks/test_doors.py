"""Families from another machine: the same rank tables but for tokens; damage is found."""

import json
import os
import zipfile

import numpy as np
import pytest
from ranktables import COLUMNS, CORPORA, write_family

from rbplib import InputError, doors
from rbplib.doors import export_family, import_family
from rbplib.measuring import measured
from rbplib.table import COLUMNS as TYPES
from rbplib.table import distinct, family_tables, read_table, write_table
from tests.commands import call, take


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """(root of the family that was measured, its exported file); documents of 25 sources with paths
    of this machine, and other models as its repeats."""
    root = write_family(tmp_path_factory.mktemp("measured"))
    # names that sort otherwise as paths than as text
    write_family(root, "again", (2000, 2001, 9000), models=["m", "m-1", "m.2"])
    with open(root / "families/synthetic.yml", "a") as file:
        file.write("repeats: again\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        about = {"units": [f"/home/me/package{(7 * i) % 25}" for i in range(60)]}
        for path in root.glob("results/ranks/*/*/*.parquet"):
            table = read_table(path)
            write_table(path, dict(table.columns), table.record | about)
        yield root, export_family("synthetic", root / "synthetic.ranks")


@pytest.fixture
def elsewhere(shared, empty_root):
    """A root with nothing in it but the imported family `theirs`."""
    take(shared[1], "theirs")
    return empty_root


def test_an_imported_table_is_the_exported_one_to_the_bit_without_its_tokens(
    shared, elsewhere, monkeypatch
):
    theirs = {name: measured(name) for name in ("theirs", "theirs.repeats")}
    monkeypatch.setenv("RBP_ROOT", str(shared[0]))
    for family, name in (("synthetic", "theirs"), ("again", "theirs.repeats")):
        for corpus in CORPORA:
            ours = family_tables(family, corpus)[0]
            for own, table in zip(ours, theirs[name][corpus], strict=True):
                for column in COLUMNS:
                    same = np.array_equal(getattr(own, column), getattr(table, column))
                    assert same == (column != "token"), column
                assert not table.token.any() and own.token.any() and own.text == table.text
                assert np.array_equal(own.source, table.source)
                assert table.record["imported"]["was"] == "synthetic"
    # no folder is told
    with zipfile.ZipFile(shared[1]) as file:
        assert not any(b"/home" in file.read(name) for name in file.namelist())
    # once more, from there to a third
    monkeypatch.setenv("RBP_ROOT", str(elsewhere))
    take(export_family("theirs", elsewhere / "again.ranks", ["code"]), "thirds")
    for second, third in zip(theirs["theirs"]["code"], measured("thirds")["code"], strict=True):
        assert second.record["columns_sha256"] == third.record["columns_sha256"]


def test_without_order_all_but_runs_is_the_same(shared, empty_root):
    path = empty_root / "s.ranks"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(shared[0]))
        export_family("synthetic", path, ["code"], ordered=False)
        ours = family_tables("synthetic", "code")[0]
    take(path, "synthetic")
    for own, table in zip(ours, measured("synthetic")["code"], strict=True):
        assert np.array_equal(own.hits(range(1, 401)), table.hits(range(1, 401)))
        pairs = [distinct(one.greater, one.ties) for one in (own, table)]
        assert np.allclose(own.nll, table.nll) and np.array_equal(*pairs)
        in_document = np.diff(table.document) == 0
        assert (np.diff(table.rank())[in_document] >= 0).all()
        assert not np.array_equal(own.logprob, table.logprob)
        with pytest.raises(InputError, match="without their order"):
            table.runs(1)


def test_damage_anywhere_is_found(shared, tmp_path, monkeypatch):
    whole, path = shared[1].read_bytes(), tmp_path / "x.ranks"
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    middle = len(whole) // 2
    flipped = bytes([*whole[:middle], whole[middle] ^ 1, *whole[middle + 1 :]])
    for data in (b"", whole[:1], whole[:middle], whole[:-1], flipped):
        path.write_bytes(data)
        with pytest.raises(InputError, match="damaged"):
            take(path, "damaged")
    # a whole file whose words about the family are none, too many, or no text
    for title in (7, "x" * 60_000, "\ud800"):
        with zipfile.ZipFile(shared[1]) as file, zipfile.ZipFile(path, "w") as bad:
            for name in {*file.namelist()} - {"family.json"}:
                bad.writestr(name, file.read(name))
            about = json.loads(file.read("family.json")) | {"title": title}
            bad.writestr("family.json", json.dumps(about))
        with pytest.raises(InputError, match="no export of a family"):
            take(path, "damaged")
    with pytest.raises(InputError, match="check the path: .*No such file"):
        take(tmp_path / "none", "damaged")
    assert list(tmp_path.iterdir()) == [path]


def remade(old, new, method=zipfile.ZIP_STORED, less=0, more=(), columns=None, **record):
    """An export made again, with other entries in its last table's record, other columns that
    nothing checked, packed, with more files, or without some."""
    with zipfile.ZipFile(old) as file, zipfile.ZipFile(new, "w", method) as bad:
        file.extractall(new.parent / "unpacked")
        for name in [*file.namelist()[less:], *more]:
            path = new.parent / "unpacked" / name
            if name == file.namelist()[-2] and (record or columns):
                table = read_table(path)
                rows = {key: np.array(values) for key, values in table.columns.items()}
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("rbplib.table.checked_columns", lambda rows, _: rows)
                    write_table(
                        path, columns(rows) or rows if columns else rows, table.record | record
                    )
            bad.write(path, name)
    return new


def at(name, row, value):
    """Columns of which one has another value in a row."""
    return {"columns": lambda columns: columns[name].__setitem__(row, value)}


def test_what_a_hostile_export_says_is_refused_before_anything_is_kept(
    shared, empty_root, tmp_path_factory
):
    away = tmp_path_factory.mktemp("away")
    outside = f"/../../../../../../..{away}/planted"
    numbers = [None, True, "7", 1.5, -5, 0, 10**400, [1]]
    words = [7, ["a"], {}]
    entries = {
        "protocol": [None, outside, *words],
        "model": [None, outside, "synthetic-2000", *words],
        "corpus": [None, outside, "code", *words],
        "nonembedding_params": numbers,
        "vocab_size": numbers,
        "documents": [1, 60.0, 10**12, *numbers],
        "units": [[None] * 60, "abc", [0.5] * 60, [True] * 60, [0], None],
        "definition": ["foo", *words],
        "model_id": [None, "a b", *words],
        "weights_dtype": ["fp7", *words],
        "lacks": ["ties", [7], {}],
    }
    others = "window total_params sample made_by imported"
    entries |= {name: ["x", [1], True] for name in others.split()}
    cases = [{name: value} for name in entries for value in entries[name]]
    cases += [at("position", 0, 0), at("document", 5, 60), at("greater", 9, 400), at("ties", 9, 0)]
    cases += [at("logprob", 9, np.nan), at("logprob", 9, 0.5), at("document", 3, 2)]
    cases += [at("greater", 2, -1), {"columns": lambda rows: {k: v[::-1] for k, v in rows.items()}}]
    cases += [{"method": zipfile.ZIP_DEFLATED}, {"less": 1}, {"more": ["family.json"]}]
    before = {*empty_root.rglob("*")}
    for case in cases:
        path = remade(shared[1], away / "bad.ranks", **case)
        with pytest.raises(InputError, match="is damaged, or no export|protocol|name"):
            take(path, "bad")
        assert {*empty_root.rglob("*")} == before and not [*away.glob("planted*")], case
    take(remade(shared[1], away / "good.ranks"), "good")
    assert len(cases) > 80


def test_an_export_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(
    shared, empty_root, tmp_path, monkeypatch
):
    rows, unpack = 1_000_000, doors.file_columns

    def watch(data, record):
        assert record["scored_tokens"] < rows, "it was unpacked"
        return unpack(data, record)

    monkeypatch.setattr(doors, "file_columns", watch)
    zeros = {name: np.zeros(rows, dtype) for name, dtype in TYPES.items()}
    bomb = {"columns": lambda _: zeros}
    with pytest.raises(InputError, match="unpacks to more than a table of its size"):
        take(remade(shared[1], tmp_path / "bomb.ranks", **bomb), "bad")


def test_an_import_takes_no_name_under_which_something_lies(shared, empty_root):
    # a ladder that was measured by the path of its file
    for name in ("ours", "theirs.repeats"):
        place = empty_root / f"results/ranks/{name}/m/code.parquet"
        table = read_table(next(shared[0].glob("results/ranks/synthetic/*/code.parquet")))
        write_table(place, table.columns, table.record | {"family": name, "model": "m"})
    before = {path: path.stat().st_mtime_ns for path in empty_root.rglob("*.parquet")}
    for name in ("ours", "theirs", "all", "Live", "far"):
        with pytest.raises(InputError, match="in use for tables|folder of the book|other ranks"):
            take(shared[1], name)
    # nor does what was imported from another file join it
    take(shared[1], "good")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(shared[0]))
        other = export_family("again", empty_root / "again.ranks")
    with pytest.raises(InputError, match="in use for tables that lie in"):
        take(other, "good")
    kept = {path: path.stat().st_mtime_ns for path in before}
    assert kept == before and not [*empty_root.glob("results/imported/.*")]


def test_what_a_killed_import_left_goes_with_the_next(shared, empty_root, monkeypatch):
    left = empty_root / "results/imported/.theirs.0123abcd.tmp"
    left.mkdir(parents=True)
    (left / "0.parquet").touch()
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
    (elsewhere / "families/note.txt").write_text("mine")
    refusals = {
        "corpus 'notes' is not known": lambda: measured("theirs", ["notes"]),
        "without models and text": lambda: measured("theirs", ["code"], "full"),
        "'../theirs' must": lambda: take(shared[1], "../theirs"),
        "is there": lambda: export_family("theirs", elsewhere / "families/note.txt"),
    }
    for message, ask in refusals.items():
        with pytest.raises(InputError, match=message):
            ask()
    (elsewhere / "families/ours.yml").write_text("models: [none/a]\n")
    before = {*elsewhere.rglob("*")}
    with pytest.raises(InputError, match="in use for another family"):
        take(shared[1], "ours")
    assert {*elsewhere.rglob("*")} == before  # nor of its repeats
    take(shared[1], "theirs")  # the same file again
    table = next(elsewhere.glob("results/ranks/theirs/*/code.parquet"))
    # a damaged one comes again
    whole = table.read_bytes()
    table.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(InputError, match="is damaged.*: `rbp import` its family's file again"):
        measured("theirs", ["code"])
    take(shared[1], "theirs")
    assert table.read_bytes() == whole
    assert call("plan --family theirs") == call("measure --family theirs --replace") == 2
