"""The `rbp` command on planted tables: it recovers the truth; every fault is one sentence and exit
code 2."""

import csv
import io
import json
import math
import shlex
import subprocess
import sys

import pytest
from commands import ROOT, answers, python
from ranktables import write_family

from rbplib.cli import main
from rbplib.table import read_table, write_table

FIT = "fit --family synthetic --corpus prose --k 1"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A root with the measured family `synthetic`, and the family `pair` of which nothing is
    measured."""
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    # the client reads the variable once, when it is loaded: for this test alone
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write_family(tmp_path)
    (tmp_path / "families/pair.yml").write_text("context: 64\nmodels: [owner/a, owner/b]\n")
    return tmp_path


def run(capsys, words):
    """(exit code, output, errors) of a command line."""
    try:
        code = main(shlex.split(words) if isinstance(words, str) else words)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_fit_has_the_contracts_fields_and_recovers_the_planted_exponent(root, capsys):
    code, out, err = run(capsys, f"{FIT} --json --n-bootstrap 300")
    row = json.loads(out)
    fields = "family corpus k alpha log_c r2 ci_tokens ci_models n_models scored_tokens "
    fields += "lack_of_fit_p curvature status missing left_out precision notes caveats"
    assert code == 0 and not err and set(fields.split()) <= set(row)
    assert row["ci_models"][0] < row["alpha"] < row["ci_models"][1] and row["n_models"] == 5
    lines = run(capsys, f"{FIT} --n-bootstrap 300")[1]
    entries = dict(line.split(maxsplit=1) for line in lines.splitlines() if line)
    assert list(entries) == list(row) and entries["alpha"] == f"{row['alpha']:.4g}"


def test_a_missing_model_is_left_out_only_where_that_is_asked_for(root, capsys):
    next(root.glob("results/ranks/synthetic/synthetic-9000/prose.parquet")).unlink()
    code, out, err = run(capsys, FIT)
    assert code == 2 and not out and "synthetic-9000" in err and "--partial" in err
    row = answers(f"{FIT} --partial --n-bootstrap 0")
    assert row["missing"] == ["synthetic-9000"] and row["n_models"] == 4
    # a text that is not named is told and left out
    code, out, err = run(capsys, "fit --family synthetic --k 1 --json --n-bootstrap 0")
    assert code == 0 and json.loads(out)["corpus"] == "code" and "synthetic-9000" in err


def test_a_forecast_lies_on_the_line_and_says_what_it_rests_on(root, capsys):
    words = "predict --family synthetic --corpus prose --size 2000k 1B --n-bootstrap 100 --json"
    run(capsys, words)  # what one command told, the next one tells again
    _, out, err = run(capsys, words)
    rows = json.loads(out)
    assert "more than 1 decade beyond" in err and len(rows) == 8 and "rbp" not in rows[-1]
    near, far = rows[:2]
    assert near["ci_rbp"][0] < near["rbp"] < near["ci_rbp"][1]
    assert near["rbp"] < far["rbp"] == pytest.approx(math.exp(-far["loss"]))
    assert far["beyond"] == pytest.approx(math.log10(1e9 / 800_000))


def test_without_a_text_or_a_k_every_law_is_a_row(root, capsys):
    words = "fit --family synthetic --n-bootstrap 0"
    rows = answers(words)
    laws = [(row["corpus"], row["k"]) for row in rows]
    assert laws == [(text, k) for text in ("code", "prose") for k in (1, 10, 100, None)]
    # several with commas, or named again; one law alone is the same
    chosen = answers(f"{words} --corpus prose,code,prose --k 10 --k 1,100,1")
    assert [row["k"] for row in chosen] == 2 * [10, 1, 100]
    assert answers(f"{words} --corpus prose --k 10") == chosen[0] == rows[5]
    # a family may stand where a table does
    write_family(root, "other", sizes=(3_000, 30_000, 300_000))
    both = answers(f"{words.replace('synthetic', 'synthetic,other')} --k 1")
    assert answers("fit other --n-bootstrap 0 --k 1") == both[2:] and len(both) == 4
    # as people read them, and as CSV
    lines = run(capsys, words)[1].splitlines()
    assert lines[0].split()[:4] == ["family", "corpus", "k", "alpha"] and len(lines) == 10
    table = list(csv.DictReader(io.StringIO(run(capsys, f"{words} --csv")[1])))
    assert [float(row["alpha"]) for row in table] == [row["alpha"] for row in rows]


@pytest.mark.parametrize("protocol", ["paper", "full"])
def test_a_text_of_ones_own_is_fitted_by_its_label(root, capsys, protocol):
    ending = "" if protocol == "paper" else ".full"
    for path in root.glob("results/ranks/synthetic/*/prose.parquet"):
        table = read_table(path)
        record = table.record | {"corpus": "notes", "protocol": protocol}
        write_table(path.with_name(f"notes{ending}.parquet"), table.columns, record)
    words = f"fit --family synthetic --protocol {protocol} --n-bootstrap 0 --json"
    code, out, err = run(capsys, f"{words} --corpus notes --k 1")
    assert not code and json.loads(out)["corpus"] == "notes" and not err
    # and without its name, as `rbp measure` says to go on
    assert '"corpus": "notes"' in run(capsys, words)[1]
    # a model on an edited text: the command names a path, for a label is none to measure
    path = root / f"results/ranks/synthetic/synthetic-9000/notes{ending}.parquet"
    table = read_table(path)
    write_table(path, table.columns, table.record | {"corpus_digest": "edited"})
    assert "--corpus PATH_OF_notes" in run(capsys, words)[2]


def test_ranks_without_ties_are_told_as_bounds(root, capsys):
    table = read_table(root / "results/ranks/synthetic/synthetic-9000/prose.parquet")
    columns = table.columns | {"greater": table.rank("greater+1") - 1, "ties": table.ties * 0 + 1}
    write_table(table.path, columns, table.record | {"definition": "greater+1", "lacks": ["ties"]})
    for words in (FIT, f"compare{FIT[3:]} --family synthetic", f"predict{FIT[3:]} --size 1e6"):
        assert "synthetic/synthetic-9000 are one more" in run(capsys, words)[2]


def test_families_are_compared_at_every_k(root, capsys):
    write_family(root, "other", sizes=(3_000, 30_000, 300_000))
    words = "compare synthetic other --n-bootstrap 200"
    rows = answers(words)
    assert [(row["corpus"], row["k"]) for row in rows] == [
        (text, k) for text in ("code", "prose") for k in (1, 10, 100, None)
    ]
    for row in rows:
        assert row["paired"] and row["S"] == 800_000
        assert row["ci_text"][0] < row["ratio"] < row["ci_text"][1]
        assert row["as_good"] == pytest.approx(row["ratio"] * 800_000)
    # a family is as good as itself, whatever the text
    words = "compare synthetic synthetic --corpus prose --k 1 --n-bootstrap 200"
    assert answers(words)[0]["ci_text"] == pytest.approx([1, 1])


def test_tables_of_numbers_are_compared_in_parameters_and_tokens(root, capsys):
    rows = ["family,model,S,D,loss,loss_se"]
    for family, times in (("ours", 1), ("theirs", 3)):
        for S in (1e6, 1e7, 1e8):
            rows += [f"{family},{S:g},{S:g},{20 * S},{3 * (S / times) ** -0.1},0.001"]
    both, ours = root / "both.csv", root / "ours.csv"
    both.write_text("\n".join(rows))
    ours.write_text("\n".join(rows[:4]))
    (row,) = answers(f"compare {both} --size 2e7")
    assert row["ratio"] == pytest.approx(3) and row["as_good"] == pytest.approx(6e7)
    assert row["corpus"] == row["b_corpus"] == "both.csv"
    assert row["ci_text"][0] < 3 < row["ci_text"][1] and row["beyond"] == 0
    assert row["tokens_ratio"] == pytest.approx(3) and row["D"] == 2e9
    assert row["ci_tokens_text"][0] < 3 < row["ci_tokens_text"][1]
    # of more than two all pairs
    pairs = answers(f"compare {both} {ours}")
    names = [("ours", "theirs"), ("ours", "ours"), ("theirs", "ours")]
    assert [(pair["a"], pair["b"]) for pair in pairs] == names
    assert [pair["ratio"] for pair in pairs] == pytest.approx([3, 1, 1 / 3])


def test_families_corpora_and_a_plan_are_listed(root, capsys):
    (row, *_) = answers("families synthetic")
    assert (row["family"], row["nonembedding_params"]) == ("synthetic", 2000)
    assert [table["corpus"] for table in row["tables"]] == ["code", "prose"]
    rows = {row["name"]: row for row in answers("corpora")}
    assert (rows["prose"]["source"], rows["prose"]["documents"]) == ("file", 1000)
    code, out, _ = run(capsys, "plan --family synthetic --corpus prose")
    assert code == 0 and "tables_to_measure" in out
    (root / "families/loop.yml").symlink_to("loop.yml")  # told, and passed over
    code, out, err = run(capsys, "families")  # nobody knows the sizes of `pair` without a network
    assert code == 2 and "synthetic-2000" in out and "owner/a" in err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("", "COMMAND"),
        ("families pairs", "'pair'"),
        ("families {root}/empty.txt", "empty.txt is no YAML file: give one"),
        ("corpora ~nobody-here/x.yml", "no file '~nobody-here/x.yml'"),
        ("measure", "--family"),
        ("measure --family pair --model c", "'c'"),
        ("measure --family synthetic --corpus prose --dtype int3 --model synthetic-2000", "int3"),
        ("measure --family pair --corpus {root}/gone.jsonl", "gone.jsonl"),
        (f"measure --family {{root}}/{'y' * 500} --corpus prose", "yyy"),
        ("measure --family pair --corpus {root}/far.yml", "zzz"),
        ("measure --family pair --corpus prose --corpus {root}/else/prose.yml", "prose"),
        ("fit --corpus prose --k 1", "--family"),
        ("fit --family pair,pair", "name a text by --corpus"),
        ("fit --family synthetic --corpus ,", "','"),
        ('import {root}/nope.ranks --as ""', "is empty"),
        ("plan --family synthetic --dtype=", "is empty"),
        ("fit --family synthetic --corpus prose --k 1,", "'1,'"),
        ("fit --family synthetic --n-bootstrap 100 --n-bootstrap 200", "--n-bootstrap"),
        ("compare synthetic --corpus prose", "give two or more"),
        ("fit {root}/runs.csv --k 1,2", "k = 2"),
        ("fit synthetic --columns S=N", "--columns"),
        ("fit {root}/runs.csv --columns S", "write S=n_params"),
        ("fit {root}/runs.csv --columns S=modl", "'model'"),
        ("fit {root}/runs.csv --columns Q=model", "'Q'"),
        ("compare synthetic {root}/gone.csv --corpus prose", "gone.csv"),
        ("fit --family synthetic --corpus prose --k 0", "k = 0"),
        ("fit --family synthetic --corpus prose --k 1 --n-bootstrap 1000000000", "1000000"),
        ("fit --family synthetic --corpus prose --k 1 --results {root}/nowhere", "--results"),
        ("fit --family pair --corpus prose --k 1", "rbp measure --family pair"),
        ("predict --family synthetic --corpus prose --k 1 --size 0", "0"),
        ("export --family synthetic --corpus prose -o {root}/empty.yml/x.ranks", "x.ranks"),
        ("export --family synthetic --corpus prose -o {root}/runs.csv", "give another name"),
        ("windows --family synthetic --corpus prose -o {root}/w.jsonl", "prose"),
        ("import {root}/nope.ranks", "nope.ranks"),
        ("import {root}/empty.txt --family pair", "'model'"),
    ],
)
def test_a_fault_is_one_sentence_that_names_the_thing(root, capfd, words, name):
    (root / "empty.txt").touch()
    (root / "empty.yml").touch()
    rows = [f"{S},{S}M,1,{hits},9,s{hits}" for S in (10, 20, 40) for hits in (2, 3)]
    (root / "runs.csv").write_text("\n".join(["model,S,k,hits,tokens,source", *rows]))
    (root / "far.yml").write_text(f"path: {'z' * 500}.txt")
    (root / "else").mkdir()
    (root / "else/prose.yml").write_text("path: ../empty.txt\n")
    before = sorted(root.rglob("*"))
    code, out, err = run(capfd, words.format(root=root))
    assert (code, out) == (2, ""), (code, out, err)
    assert name in err and len(err.strip().splitlines()) == 1 and "Traceback" not in err, err
    made = [path for path in sorted(root.rglob("*")) if path not in before and path.is_file()]
    assert not made, made


def test_nothing_that_is_printed_steers_a_terminal_or_is_a_formula(root, capsys):
    (root / "corpora/prose.yml").write_text('title: "a\\e[31mb"\npath: x.txt\n')
    (root / "a\x1b[31mb.yml").touch()
    rows = [f"=1+1\x1b[31m,{S:g},{S:g},{3 * S**-0.1}" for S in (1e6, 1e7, 1e8)]
    (root / "runs.csv").write_text("\n".join(["family,model,S,loss", *rows]))
    words = ["families", str(root / "a\x1b[31mb.yml")]
    outputs = [run(capsys, "corpora prose")[1], run(capsys, words)[2]]
    outputs.append(run(capsys, f"fit {root / 'runs.csv'} --csv")[1])
    assert all("?[31m" in text and "\x1b" not in text for text in outputs)
    assert "'=1+1" in outputs[-1]


def test_programs_of_the_checkout_take_the_rest_of_the_line(root):
    done = python(*"-m rbplib book --family nope".split())
    assert done.returncode == 2 and "nope" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_every_command_has_help_with_an_example(capsys):
    for command in "families corpora plan measure fit predict export import".split():
        code, out, _ = run(capsys, f"{command} --help")
        assert code == 0 and f"example: rbp {command} " in out
    code, out, _ = run(capsys, "--help")
    assert code == 0 and "book" in out and "verify" in out


def test_a_reader_that_goes_away_is_no_fault(root):
    command = f"{sys.executable} -m rbplib families | head -0"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr and "Error" not in done.stderr
