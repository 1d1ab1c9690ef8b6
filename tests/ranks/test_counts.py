"""Counts of models: their losses are those of the rank tables; damage, another text and what was
not counted are one sentence; measured tables go first."""

from contextlib import suppress

import numpy as np
import pytest
from ranktables import CORPORA, write_family

import rbplib as rbp
from paper import counts, probes, verify
from paper.tables_here import counted_elsewhere
from rbplib import InputError, load_family
from rbplib.counts import counts_path, read_counts, write_counts
from rbplib.measuring import measured
from rbplib.table import family_tables, missing, ranks_path, read_table, write_table
from tests.commands import ROOT, call

SEEDS = sorted((ROOT / "published/ranks").glob("*-seeds.parquet"))


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """(root of a family that is there as counts, {corpus: its rank tables}, which are gone)."""
    root = write_family(tmp_path_factory.mktemp("counted"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        for path in root.glob("results/ranks/*/*/*.parquet"):
            table = read_table(path)
            about = {"units": [f"package{(7 * i) % 25}" for i in range(60)]}
            write_table(path, dict(table.columns), table.record | about)
        tables = measured("synthetic")
        path = counts.write_family("synthetic")
        first = path.read_bytes()
        assert counts.write_family("synthetic").read_bytes() == first
        (root / "results").rename(root / "away")
        yield root, tables


@pytest.mark.parametrize("corpus", CORPORA)
def test_losses_of_counts_are_those_of_the_rank_tables(counted, corpus):
    ours = counted[1][corpus]
    theirs = measured("synthetic", [corpus])[corpus]
    assert [len(t) for t in theirs] == [len(t) for t in ours] and theirs[0].text == ours[0].text
    pairs = []
    for k in counts.exported_ks(400):
        pairs.append([rbp.rbp_loss(tables, k) for tables in (ours, theirs)])
    for k in counts.RUN_KS:
        for N in (1, 2, 9):
            pairs.append([rbp.run_loss(tables, k, N) for tables in (ours, theirs)])
        for part in probes.PARTS:
            parts = [probes.parted(tables)[part] for tables in (ours, theirs)]
            pairs.append([rbp.run_loss(tables, k, 1) for tables in parts])
    for loss in (rbp.cross_entropy, rbp.rank_entropy):
        pairs.append([loss(tables) for tables in (ours, theirs)])
    for own, other in pairs:
        assert own.models == other.models and np.array_equal(own.sums, other.sums), own.name
        assert np.array_equal(own.by_source[1], other.by_source[1])


LACKING = [
    ("without k = 134", lambda tables: rbp.rbp_loss(tables, 134)),
    ("without the rank 'random'", lambda tables: rbp.rbp_loss(tables, 1, "random")),
    ("without runs of hits at k = 5", lambda tables: rbp.run_loss(tables, 5, 2)),
    ("without its single tokens", lambda tables: tables[0].rank()),
    ("N = 2 is outside 1 to 1", lambda tables: rbp.run_loss(probes.parted(tables)["other"], 1, 2)),
]


@pytest.mark.parametrize("words, ask", LACKING, ids=[words for words, _ in LACKING])
def test_what_was_not_counted_is_one_sentence(counted, words, ask):
    tables = measured("synthetic", ["code"])["code"]
    with pytest.raises(InputError, match=words):
        ask(tables)


def test_measured_tables_go_before_counts_and_other_text_is_measured(counted, monkeypatch):
    root, tables = counted
    assert missing("synthetic") == []
    with pytest.raises(InputError, match="has no rank table"):
        family_tables("synthetic", "code", counts=False)
    assert call("export --family synthetic --out x.ranks") == 2
    # a text of one's own was not counted
    (root / "corpora/own.yml").write_text("path: own.jsonl\n")
    (root / "own.jsonl").write_text('{"text": "mine"}\n')
    assert missing("synthetic", ["own", "code"]) == [
        (t.record["model"], "own") for t in tables["code"]
    ]
    # a table goes before its counts, and no other changes
    table = tables["code"][2]
    path = ranks_path(table.record)
    write_table(path, dict(table.columns), table.record)
    kinds = [hasattr(one, "mend") for one in measured("synthetic", ["code"])["code"]]
    assert kinds == [True, True, False, True, True]
    path.unlink()
    # counts of another engine
    monkeypatch.setattr("rbplib.table.ENGINE", 99)
    with pytest.raises(InputError, match="another engine .* `rbp measure --family synthetic"):
        measured("synthetic", ["code"])


def test_damage_anywhere_is_found(counted, tmp_path):
    data = counts_path(load_family("synthetic")).read_bytes()
    whole = {key: table.columns for key, table in read_counts(save(tmp_path, data)).items()}
    for place in np.random.default_rng(1).integers(0, len(data), 60):
        broken = bytearray(data)
        broken[place] ^= 1 << (place % 8)
        with suppress(InputError):
            # what a flipped bit leaves as it was
            tables = read_counts(save(tmp_path, bytes(broken)))
            for key, columns in whole.items():
                for name, values in columns.items():
                    assert np.array_equal(values, tables[key].columns[name]), name
    other = data.replace(b'"nonembedding_params": 2000', b'"nonembedding_params": 2001')
    with pytest.raises(InputError, match="damaged"):
        read_counts(save(tmp_path, other))


def save(folder, data):
    (folder / "c.parquet").write_bytes(data)
    return folder / "c.parquet"


def test_one_unequal_count_fails_verify(counted, monkeypatch, capsys):
    def measuring(family, corpora, models, **_):
        return {c: [t for t in counted[1][c] if t.record["model"] in models] for c in CORPORA}

    monkeypatch.setattr(verify, "measured", measuring)
    monkeypatch.setattr(verify, "repeated", lambda: {"synthetic": list(CORPORA)})
    path = counts_path(load_family("synthetic"))
    kept = list(read_counts(path).values())
    assert verify.main(["--measure", "all"]) == 0
    kept[3].columns["ranks_20"][7] += 1
    write_counts(path, kept)
    assert verify.main(["--measure", "all"]) == 1
    assert "ranks_20" in capsys.readouterr().out and verify.main(["--measure", "6"]) == 2
    kept[3].columns["ranks_20"][7] -= 1
    write_counts(path, kept)


def test_counts_of_models_trained_again_are_whole_and_small(monkeypatch, tmp_path):
    monkeypatch.setenv("RBP_ROOT", str(ROOT))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    assert counted_elsewhere(["nano-opt", "nano-pythia"]) == ["nano-pythia-seeds"]
    assert [path.stem for path in SEEDS] == sorted(counts.repeated())
    assert sum(path.stat().st_size for path in SEEDS) < 6e6
    for path in SEEDS:
        models = {model.name for model in load_family(path.stem).models}
        keys = {(path.stem, m, c, "paper") for m in models for c in counts.repeated()[path.stem]}
        assert keys == read_counts(path, rows=False).keys()
