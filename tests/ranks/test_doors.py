"""Counts files: the counts of the tables, without torch, models or text; damage is found; published
ones are read."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from ranktables import CORPORA, write_family

from rbplib.cli import main
from rbplib.doors import export_family, exported_ks, import_counts, imported_tables, read_counts
from rbplib.families import Corpus, InputError, load_family
from rbplib.measuring import measured
from rbplib.table import family_tables, read_table, write_table

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """(root of the family that was measured, its counts file); documents of 25 sources with paths
    of this machine."""
    root = write_family(tmp_path_factory.mktemp("measured"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        patch.delenv("RBP_RESULTS", raising=False)
        about = {"units": [f"/home/me/package{(7 * i) % 25}" for i in range(60)]}
        for path in root.glob("results/ranks/*/*/*.parquet"):
            table = read_table(path)
            write_table(path, dict(table.columns), table.record | about)
        yield root, export_family("synthetic", root / "synthetic.counts")


@pytest.fixture
def elsewhere(shared, tmp_path, monkeypatch):
    """A root with nothing in it but the imported family `theirs`."""
    for folder in ("families", "corpora"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    import_counts(shared[1], "theirs")
    return tmp_path


def test_an_imported_family_counts_as_its_tables_do(shared, elsewhere, monkeypatch):
    theirs = measured("theirs")
    monkeypatch.setenv("RBP_ROOT", str(shared[0]))
    for corpus in CORPORA:
        ours, largest = family_tables("synthetic", corpus)[0], theirs[corpus][-1]
        assert np.array_equal(ours[-1].by_source[1:], largest.by_source[1:])
        for own, table in zip(ours, theirs[corpus], strict=True):
            ks = exported_ks(400)
            assert np.array_equal(own.hits(ks), table.hits(ks)) and own.text == table.text
            assert np.array_equal(own.rank_sums(), table.rank_sums()) and np.array_equal(
                own.nll, table.nll
            )
            for name in ("totals", "pairs", "scored", "source"):
                assert np.array_equal(getattr(own, name), getattr(table, name)), name
            for k in (1, 10, 100):
                assert np.array_equal(own.runs(k), table.runs(k)) and np.array_equal(
                    own.lagged(k), table.lagged(k)
                )
            assert len(own) == len(table) and own.documents == table.documents
            assert (
                table.record["family"] == "theirs"
                and table.record["imported"]["was"] == "synthetic"
            )


def test_fits_are_the_same_and_need_no_torch(shared, elsewhere, monkeypatch, capsys):
    asked = ["--corpus", "code", "--k", "10", "--n-bootstrap", "300", "--json"]
    code = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(('torch', 'transformers', 'datasets'))\n"
        "from rbplib.cli import main\n"
        f"sys.exit(main(['fit', '--family', 'theirs', *{asked}]) or main(['families', 'theirs']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    theirs, _, listed = done.stdout.partition("\n}\n")
    assert listed.count("theirs") == 5
    monkeypatch.setenv("RBP_ROOT", str(shared[0]))
    assert main(["fit", "--family", "synthetic", *asked]) == 0
    assert json.loads(theirs + "}") == json.loads(capsys.readouterr().out) | {"family": "theirs"}


def test_the_same_counts_give_the_same_bytes_and_tell_no_folder_and_no_text(
    shared, tmp_path, monkeypatch
):
    root, first = shared
    monkeypatch.setenv("RBP_ROOT", str(root))
    again = export_family("synthetic", tmp_path / "s.counts")
    assert again.read_bytes() == first.read_bytes()
    with zipfile.ZipFile(first) as file:
        text = file.read("record.json").decode()
    assert "/home" not in text and '"units": [0, ' in text


def test_damage_anywhere_is_found(shared, tmp_path):
    whole, path = shared[1].read_bytes(), tmp_path / "x.counts"
    record, tables = read_counts(shared[1])
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        try:  # a bit of the zip that says nothing of its parts may pass
            assert read_counts(path)[0] == record
        except InputError as error:
            assert "damaged" in str(error)
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="damaged"):
            read_counts(path)
    with pytest.raises(InputError, match="no file"):
        read_counts(tmp_path / "none")


def test_what_is_not_there_is_one_sentence(shared, elsewhere, capsys):
    largest = measured("theirs")["code"][-1]
    refusals = {
        "without counts on code at k = 134": lambda: largest.hits([1, 134]),
        "without counts on code at k = 5": lambda: largest.runs(5),
        "by the rank": lambda: largest.hits([1], "random"),
        "by the protocol 'full'": lambda: measured("theirs", ["code"], "full"),
        "corpus 'notes' is not known": lambda: measured("theirs", ["notes"]),
        "in use for another family": lambda: import_counts(shared[1], "x.repeats"),
        "without '..'": lambda: import_counts(shared[1], "../theirs"),
    }
    for message, ask in refusals.items():
        with pytest.raises(InputError, match=message):
            ask()
    (elsewhere / "families/ours.yml").write_text("models: [none/a]\n")
    with pytest.raises(InputError, match="in use for another family"):
        import_counts(shared[1], "ours")
    assert import_counts(shared[1], "theirs").stem == "theirs"  # the same file again
    assert (
        main(["plan", "--family", "theirs"])
        == main(["measure", "--family", "theirs", "--replace"])
        == 2
    )


@pytest.mark.parametrize(
    "path", sorted((ROOT / "published/ranks").glob("*.yml")), ids=lambda path: path.stem
)
def test_published_counts_are_read(path):
    family = load_family(path)
    tables = imported_tables(family, [Corpus("docs")])["docs"]
    assert [t.record["model"] for t in tables] == [m.name for m in family.models]
    assert [t.record["nonembedding_params"] for t in tables] == [
        m.nonembedding_params for m in family.models
    ]
    assert len({t.text for t in tables}) == 1 and all(t.totals.sum() == len(t) for t in tables)
