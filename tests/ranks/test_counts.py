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
from rbplib.table import family_tables, missing, ranks_path, write_table
from tests.commands import ROOT, call


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """(root of a family that is there as counts, {corpus: its rank tables}, which are gone)."""
    root = tmp_path_factory.mktemp("counted")
    write_family(root, units=[f"package{(7 * i) % 25}" for i in range(60)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        tables = measured("synthetic")
        whole = counts.write_family("synthetic").read_bytes()
        assert counts.write_family("synthetic").read_bytes() == whole
        (root / "results").rename(root / "away")
        yield root, tables


@pytest.mark.parametrize("corpus", CORPORA)
def test_losses_of_counts_are_those_of_the_rank_tables(counted, corpus):
    ladders = counted[1][corpus], measured("synthetic", [corpus])[corpus]
    assert ladders[0][0].text == ladders[1][0].text
    losses = [(rbp.cross_entropy,), (rbp.rank_entropy,)]
    losses += [(rbp.rbp_loss, k) for k in counts.exported_ks(400)]
    for k in counts.RUN_KS:
        losses += [(rbp.run_loss, k, N) for N in (1, 2, 9)]
    for loss, *options in losses:
        ours, theirs = (loss(ladder, *options) for ladder in ladders)
        assert ours.models == theirs.models and np.array_equal(ours.sums, theirs.sums), ours.name
        assert np.array_equal(ours.by_source[1], theirs.by_source[1])
    (first, *_), (counted_first, *_) = ladders
    hits = first.per_document(probes.copyable(first) & (first.rank() <= 10))
    assert (counted_first.columns["copyable_10"] == hits).all()


NOT_COUNTED = {
    "without k = 134": lambda ladder: rbp.rbp_loss(ladder, 134),
    "without the rank 'random'": lambda ladder: rbp.rbp_loss(ladder, 1, "random"),
    "without runs of hits at k = 5": lambda ladder: rbp.run_loss(ladder, 5, 2),
    "without its single tokens": lambda ladder: ladder[0].rank(),
}


@pytest.mark.parametrize("words", NOT_COUNTED)
def test_what_was_not_counted_is_one_sentence(counted, words):
    with pytest.raises(InputError, match=words):
        NOT_COUNTED[words](measured("synthetic", ["code"])["code"])


def test_measured_tables_go_before_counts_and_other_text_is_measured(counted, monkeypatch):
    root, tables = counted
    assert missing("synthetic") == []
    with pytest.raises(InputError, match="has no rank table"):
        family_tables("synthetic", "code", counts=False)
    assert call("export --family synthetic --out x.ranks") == 2
    # a text of one's own was not counted
    (root / "corpora/own.yml").write_text("path: own.jsonl\n")
    (root / "own.jsonl").write_text('{"text": "mine"}\n')
    models = [table.record["model"] for table in tables["code"]]
    assert missing("synthetic", ["own", "code"]) == [(model, "own") for model in models]
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
    whole = counts_path(load_family("synthetic"))
    data, path = whole.read_bytes(), tmp_path / "c.parquet"
    for at in np.random.default_rng(1).integers(0, len(data), 60):
        broken = bytearray(data)
        broken[at] ^= 1 << (at % 8)
        path.write_bytes(broken)
        with suppress(InputError):
            # what a flipped bit leaves as it was
            tables = read_counts(path)
            for key, table in read_counts(whole).items():
                for name, column in table.columns.items():
                    assert np.array_equal(column, tables[key].columns[name]), name
    old, new = b'"nonembedding_params": 2000', b'"nonembedding_params": 2001'
    path.write_bytes(data.replace(old, new))
    with pytest.raises(InputError, match="damaged"):
        read_counts(path)


def test_one_unequal_count_fails_verify(counted, monkeypatch, capsys):
    def measuring(family, corpora, models, **_):
        return {c: [t for t in counted[1][c] if t.record["model"] in models] for c in CORPORA}

    monkeypatch.setattr(verify, "measured", measuring)
    monkeypatch.setattr(counts, "repeated", lambda: {"synthetic": list(CORPORA)})
    assert verify.main(["--measure", "all"]) == 0
    path = counts_path(load_family("synthetic"))
    whole, kept = path.read_bytes(), list(read_counts(path).values())
    kept[3].columns["ranks_20"][7] += 1
    write_counts(path, kept)
    assert verify.main(["--measure", "all"]) == 1
    assert "ranks_20" in capsys.readouterr().out and verify.main(["--measure", "6"]) == 2
    path.write_bytes(whole)


def test_models_trained_again_are_here_as_counts(monkeypatch, tmp_path):
    monkeypatch.setenv("RBP_ROOT", str(ROOT))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    assert counted_elsewhere(["nano-opt", "nano-pythia"]) == ["nano-pythia-seeds"]
    files = (ROOT / "published/ranks").glob("*-seeds.parquet")
    assert sorted(path.stem for path in files) == sorted(counts.repeated())
