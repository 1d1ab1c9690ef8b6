"""The command line: JSON as promised, and every bad input one sentence on standard error with exit code 2."""

import json

import numpy as np
import pytest

from rbplib.__main__ import main
from rbplib.ranks.table import ranks_path, write_ranks

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
ALPHA, C, V, D, T = 0.08, 2.0, 500, 40, 250


def plant(model, S, corpus="prose", rate=None, seed=0):
    """A rank table whose RBP_1 is exp(-C S^-alpha): hit or rank 2, tokens drawn once for all models."""
    hits = np.random.default_rng(seed).random(D * T) < (np.exp(-C * S**-ALPHA) if rate is None else rate)
    columns = {
        "document": np.repeat(np.arange(D), T),
        "position": np.tile(np.arange(1, T + 1), D),
        "token": np.zeros(D * T),
        "greater": np.where(hits, 0, 1),
        "ties": np.ones(D * T),
        "logprob": -np.ones(D * T),
    }
    record = {"family": "toy", "model": model, "corpus": corpus, "protocol": "paper", "documents": D, "vocab_size": V,
              "nonembedding_params": S}  # fmt: skip
    write_ranks(ranks_path("toy", model, corpus), columns, record)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.delenv("RBP_RESULTS", raising=False)
    for folder in ("families", "corpora"):
        (tmp_path / folder).mkdir()
    (tmp_path / "families/toy.yml").write_text("models:\n" + "".join(f"  - owner/m{S}\n" for S in SIZES))
    (tmp_path / "families/pair.yml").write_text("models: [owner/a, owner/b]\n")
    (tmp_path / "corpora/prose.yml").write_text("source: hub\nid: owner/prose\n")
    for S in SIZES:
        plant(f"m{S}", S, seed=7)
    return tmp_path


def run(capsys, *args):
    try:
        code = main(list(args))
    except SystemExit as stop:  # argparse leaves this way
        code = stop.code
    out = capsys.readouterr()
    return code, out.out, out.err


def test_fit_recovers_the_planted_exponent(root, capsys):
    code, out, err = run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1", "--json")
    row = json.loads(out)
    assert code == 0 and not err
    assert list(row) == ["family", "corpus", "k", "alpha", "log_c", "r2", "ci_tokens", "ci_models", "n_models",
                         "scored_tokens", "status"]  # fmt: skip
    assert (row["family"], row["corpus"], row["k"], row["n_models"], row["scored_tokens"]) == (
        "toy",
        "prose",
        1,
        5,
        D * T,
    )
    assert row["status"] == "ok" and row["alpha"] == pytest.approx(ALPHA, abs=0.01)
    assert row["log_c"] == pytest.approx(np.log(C), abs=0.1) and row["r2"] > 0.97
    for low, high in (
        row["ci_tokens"],
        row["ci_models"],
    ):  # coverage is proven elsewhere
        assert low < row["alpha"] < high < low + 0.03
    assert "alpha 0.0" in run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1")[1]


def test_fit_against_a_line_by_hand(root, capsys):
    row = json.loads(run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1", "--json")[1])
    y = []
    for S in SIZES:
        hits = np.random.default_rng(7).random(D * T) < np.exp(-C * S**-ALPHA)
        y.append(np.log(-np.log(hits.mean())))
    slope, intercept = np.polyfit(np.log(SIZES), y, 1)
    assert row["alpha"] == pytest.approx(-slope, abs=1e-12) and row["log_c"] == pytest.approx(intercept, abs=1e-10)
    assert row["r2"] == pytest.approx(np.corrcoef(np.log(SIZES), y)[0, 1] ** 2, abs=1e-12)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rbp_of_exactly_0_or_1_is_a_result(root, capsys, rate):
    for S in SIZES[:2]:
        plant(f"m{S}", S, rate=rate)
    code, out, err = run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1", "--json")
    row = json.loads(out)
    assert code == 0 and row["n_models"] == 3 and row["status"] != "ok"
    for S in SIZES:
        plant(f"m{S}", S, rate=rate)
    row = json.loads(run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1", "--json")[1])
    assert row["alpha"] is None and row["ci_tokens"] is None and row["n_models"] == 0


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ("fit --family toi --corpus prose --k 1", "did you mean 'toy'"),
        ("fit --family toy --corpus pros --k 1", "did you mean 'prose'"),
        ("fit --family toy --corpus prose --k 0", "k = 0 is outside 1 to 500"),
        ("fit --family toy --corpus prose --k 501", "k = 501 is outside 1 to 500"),
        ("fit --family toy --corpus prose --k 1.5", "not a whole number"),
        ("fit --family toy --corpus prose", "--k"),
        ("fit --family pair --corpus prose --k 1", "rbp measure --family pair"),
        ("families toi", "did you mean 'toy'"),
        ("corpora pros", "did you mean 'prose'"),
        ("measure --family nope.yml", "no family file"),
        ("measure --family toy --model mm", "no model 'mm'"),
        ("measure --family toy --protocol half", "invalid choice"),
        ("nonsense", "invalid choice"),
    ],
)
def test_bad_input_is_one_sentence(root, capsys, args, word):
    code, out, err = run(capsys, *args.split())
    assert code == 2 and not out and word in err and len(err.strip().splitlines()) == 1, (code, out, err)
    assert "Traceback" not in err


def test_two_models_cannot_be_fitted(root, capsys):
    for name in ("a", "b"):
        plant(name, 10)
        table = ranks_path("toy", name, "prose")
        target = ranks_path("pair", name, "prose")
        target.parent.mkdir(parents=True)
        table.rename(target)
    code, out, err = run(capsys, "fit", "--family", "pair", "--corpus", "prose", "--k", "1", "--json")
    assert code == 2 and "a fit needs three" in err and not out


def test_a_damaged_table_is_named(root, capsys):
    path = ranks_path("toy", "m1000", "prose")
    path.write_bytes(path.read_bytes()[:-40])
    code, _, err = run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1")
    assert code == 2 and "m1000" in err and "rbp measure" in err
    code, out, _ = run(capsys, "check", "--json")
    assert code == 1 and len(json.loads(out)["problems"]) == 1


def test_a_model_without_a_table_is_left_out_and_its_size_with_it(root, capsys):
    ranks_path("toy", "m100000", "prose").unlink()
    row = json.loads(run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1", "--json")[1])
    assert row["n_models"] == 4 and row["alpha"] == pytest.approx(ALPHA, abs=0.012)


def test_corpora_tell_what_was_measured(root, capsys):
    rows = json.loads(run(capsys, "corpora", "--json")[1])
    assert rows[0]["measured"]["toy"] == {"documents": D, "tokens": D * T}


def test_every_command_has_help_with_an_example(capsys):
    for command in ("families", "corpora", "family new", "plan", "measure", "fit", "book", "check"):
        code, out, _ = run(capsys, *command.split(), "--help")
        assert code == 0 and "example: rbp " in out
