"""The command line: JSON as promised, and every bad input one sentence on standard error with exit code 2."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from paper import published
from rbplib.cli import main
from rbplib.identity import asked, expected, ranks_path
from rbplib.stored import write_ranks

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
ALPHA, C, V, D, T = 0.08, 2.0, 500, 40, 250


def plant(model, S, corpus="prose", rate=None, seed=0, family="toy", scatter=0.0, units=()):
    """A rank table whose RBP_1 is exp(-C S^-alpha): hit or rank 2, tokens drawn once for all models."""
    loss = C * S**-ALPHA * np.exp(scatter)
    hits = np.random.default_rng(seed).random(D * T) < (np.exp(-loss) if rate is None else rate)
    columns = {
        "document": np.repeat(np.arange(D), T),
        "position": np.tile(np.arange(1, T + 1), D),
        "token": np.zeros(D * T),
        "greater": np.where(hits, 0, 1),
        "ties": np.ones(D * T),
        "logprob": -np.ones(D * T),
    }
    record = {"documents": D, "vocab_size": V, "nonembedding_params": S, "units": list(units)}
    write_ranks(place(model, corpus, family), columns, entries(model, corpus, family) | record)


def entries(model, corpus="prose", family="toy"):
    family, models, corpora = asked(family, [model], [corpus])
    return expected(family, models, corpora)[model][0]


def place(*names):
    return ranks_path(entries(*names))


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.delenv("RBP_RESULTS", raising=False)
    for folder in ("families", "corpora"):
        (tmp_path / folder).mkdir()
    (tmp_path / "families/toy.yml").write_text("context: 512\nmodels:\n" + "".join(f"  - owner/m{S}\n" for S in SIZES))
    (tmp_path / "families/pair.yml").write_text("context: 512\nmodels: [owner/a, owner/b]\n")
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
    assert list(row) == ["family", "corpus", "k", "alpha", "log_c", "r2", "ci_tokens", "ci_trainings", "ci_models",
                         "lack_of_fit_p", "trained_lack_of_fit_p", "explained_by", "n_models", "scored_tokens",
                         "status", "ci_documents", "sources", "curvature", "ci_curvature", "missing"]  # fmt: skip
    assert row["sources"] == D and row["ci_documents"] == row["ci_tokens"]  # each document stands for itself
    assert row["ci_trainings"] is row["trained_lack_of_fit_p"] is None  # nothing was trained twice
    assert 0 < row["lack_of_fit_p"] < 1 and row["explained_by"] in ("documents", "not sources; trainings unknown")
    assert row["ci_curvature"][0] <= row["curvature"] <= row["ci_curvature"][1]
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


def fitted(capsys, *options):
    return json.loads(run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1", "--json", *options)[1])


def test_documents_of_one_source_are_drawn_as_one(root, capsys):
    for S in SIZES:
        plant(f"m{S}", S, seed=7, units=[f"book {i // 2}" for i in range(D)])
    row = fitted(capsys)
    assert row["sources"] == D // 2 and row["ci_documents"] != row["ci_tokens"]
    assert f"{D // 2} sources" in run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1")[1]


def test_repeats_are_read_where_they_were_measured(root, capsys):
    """Trainings that differ by 10% of the loss explain what the choice of text cannot; without them nobody knows."""
    scatter = dict(zip(SIZES, (0.1, -0.1, 0.1, -0.1, 0.1), strict=True))
    (root / "families/toy.yml").write_text((root / "families/toy.yml").read_text() + "repeats: toy-seeds\n")
    again = [f"m{S}-{seed}" for S in SIZES for seed in (1, 2)]
    listed = "".join(f"  - owner/{name}\n" for name in again)
    (root / "families/toy-seeds.yml").write_text(f"context: 512\nmodels:\n{listed}")
    for S in SIZES:
        plant(f"m{S}", S, seed=7, scatter=scatter[S])
    row = fitted(capsys)
    assert row["ci_trainings"] is row["trained_lack_of_fit_p"] is None and row["lack_of_fit_p"] < 0.01
    assert row["explained_by"] == "not sources; trainings unknown"
    for S in SIZES:
        for seed, away in ((1, 0.1), (2, -0.1)):
            plant(f"m{S}-{seed}", S, seed=7, family="toy-seeds", scatter=away)
    row = fitted(capsys)
    assert row["explained_by"] == "trainings" and row["trained_lack_of_fit_p"] > 0.05 > row["lack_of_fit_p"]
    assert row["ci_trainings"][0] < row["ci_tokens"][0] < row["ci_tokens"][1] < row["ci_trainings"][1]


@pytest.mark.parametrize("bend", [0.0, 0.02])
def test_the_curvature_of_the_quadratic_fit(root, capsys, bend):
    x = np.log(SIZES)
    for S, z in zip(SIZES, x - x.mean(), strict=True):
        plant(f"m{S}", S, seed=7, scatter=bend * z**2)
    row = fitted(capsys)
    low, high = row["ci_curvature"]
    assert row["curvature"] == pytest.approx(bend, abs=0.004) and low < row["curvature"] < high
    assert (row["lack_of_fit_p"] < 0.01) == (low > 0) == (bend > 0)


def predicted(capsys, *options, k="1"):
    return run(capsys, "predict", "--family", "toy", "--corpus", "prose", "--k", k, "--n-bootstrap", "200", *options)


def test_predict_holds_what_was_planted(root, capsys):
    code, out, err = predicted(capsys, "--size", "30M", "--size", "1e8", "--n", "3", "--json")
    found = json.loads(out)
    assert code == 0 and not err
    assert found["held"] == ["how models scatter", "the choice of sources", "the choice among line, floor, quadratic"]
    assert found["not_told"]["cross_entropy"].startswith("toy on prose gives no forecast of cross-entropy")
    assert {n: v for n, v in found.items() if n not in ("forecasts", "not_told", "held")} == {
        "family": "toy", "corpus": "prose", "k": 1, "n": 3, "models": 5, "level": 0.95, "missing": []}  # fmt: skip
    assert [row["S"] for row in found["forecasts"]] == [3e7, 1e8]
    for row in found["forecasts"]:
        loss = C * row["S"] ** -ALPHA
        for name, truth in {"loss": loss, "rbp": np.exp(-loss), "p_n_independent": np.exp(-3 * loss)}.items():
            low, high = row[f"ci_{name}"]
            assert low < truth < high and low < row[name] < high, name
        low, high = row["ci_p_n"]  # hits were planted independent
        assert low < np.exp(-3 * loss) < high and row["p_n"] == pytest.approx(row["p_n_independent"], rel=0.1)
        assert row["rbp"] == pytest.approx(np.exp(-row["loss"])) and row["cross_entropy"] is None  # all models' alike
        assert list(row["forms"]) == ["line", "floor", "quadratic"]
    line = fitted(capsys)["log_c"] - fitted(capsys)["alpha"] * np.log(1e8)
    assert found["forecasts"][1]["forms"]["line"] == pytest.approx(np.exp(line))


def test_predict_says_where_a_size_lies_and_what_cannot_be_told(root, capsys):
    code, out, _ = predicted(capsys, "--size", "13b", "50k", "10", "--n", "1000")
    assert code == 0 and "non-embedding parameters" in out and out.count("WARNING") == 2
    assert "3.11 decades beyond the largest" in out and "2.00 decades below" in out and "an interpolation" in out
    assert out.count("longer than any document's run") == 3 and "gives no forecast of cross-entropy" in out
    assert "RBP_1 " in out and "Eq. 6" in out and "nan" not in out


@pytest.mark.parametrize("bad", ["0", "-5", "13x", "b", "", "nan", "inf", "1e400", "0.5"])
def test_a_bad_size_is_one_sentence(root, capsys, bad):
    code, out, err = predicted(capsys, "--size", bad)
    assert code == 2 and not out and err.count("\n") == 1 and "write it as 13e9" in err and repr(bad) in err


def test_what_cannot_be_predicted_is_one_sentence(root, capsys):
    code, out, err = predicted(capsys, "--size", "1e8", k="2")  # every token is a hit there
    assert code == 2 and not out and "it takes three sizes whose losses exist and differ" in err
    assert predicted(capsys, "--size", "1e8", "--n", "0")[2] == "rbp: a run has at least 1 hit, not 0.\n"
    place("m100000").unlink()
    assert "m100000" in predicted(capsys, "--size", "1B")[2]
    code, out, _ = predicted(capsys, "--size", "1B", "--partial")
    assert code == 0 and "from 4 models" in out and "left out: m100000" in out
    (root / "families/new.yml").write_text("context: 512\nmodels: [owner/x, owner/y, owner/z]\n")
    assert (
        "has no rank table"
        in run(capsys, "predict", "--family", "new", "--corpus", "prose", "--k", "1", "--size", "1B")[2]
    )


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
        ("fit --family toy --corpus prose --k 1 --seed -1", "--seed: -1 is below 0"),
        ("fit --family toy --corpus prose --k 1 --seed x", "--seed: 'x' is not a whole number"),
        ("fit --family toy --corpus prose --k 1 --n-bootstrap -5", "--n-bootstrap: -5 is below 0"),
        ("fit --family toy --corpus= --k 1", "there is no corpus ''"),
        ("fit --family toy --corpus prose --k 1 --results nowhere", "rbp measure --family toy --corpus prose`"),
        ("fit --family toy --corpus prose --k 1 --protocol full", "--corpus prose --protocol full`"),
        ("fit --family pair --corpus prose --k 1", "rbp measure --family pair"),
        ("families toi", "did you mean 'toy'"),
        ("corpora pros", "did you mean 'prose'"),
        ("corpora nope.yml", "no corpus file"),
        ("corpora prose --family toi", "did you mean 'toy'"),
        ("corpora --family toy", "name it"),
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


def test_what_to_run_names_a_family_and_a_text_as_they_were_given(root, capsys):
    (root / "my text.txt").write_text("words " * 99)
    (root / "t 3.yml").write_text("name: t3\ncontext: 512\nmodels: [owner/a, owner/b, owner/c]\n")
    err = run(capsys, "fit", "--family", str(root / "t 3.yml"), "--corpus", str(root / "my text.txt"), "--k", "1")[2]
    assert f"rbp measure --family '{root}/t 3.yml' --corpus '{root}/my text.txt'`" in err


def test_one_bad_file_does_not_end_the_listing(root, capsys):
    (root / "families/bad.yml").write_text("models: [")
    (root / "families/known.yml").write_text("models: [{id: owner/a, nonembedding_params: 7}]\n")
    (root / "families/toy.yml").unlink()
    (root / "families/pair.yml").unlink()
    code, out, err = run(capsys, "families", "--json")
    assert code == 2 and [row["model"] for row in json.loads(out)] == ["a"]
    assert len(err.splitlines()) == 1 and str(root / "families/bad.yml") in err
    (root / "families/bad.yml").unlink()
    assert run(capsys, "families")[0] == 0


def test_two_models_cannot_be_fitted(root, capsys):
    for name in ("a", "b"):
        plant(name, 10, family="pair")
    code, out, err = run(capsys, "fit", "--family", "pair", "--corpus", "prose", "--k", "1", "--json")
    assert code == 2 and "a fit needs three" in err and not out


def test_a_damaged_table_is_named(root, capsys):
    path = place("m1000")
    path.write_bytes(path.read_bytes()[:-40])
    code, _, err = run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1")
    assert code == 2 and "m1000" in err and "rbp measure" in err
    code, out, _ = run(capsys, "check", "--json")
    assert code == 1 and len(json.loads(out)["problems"]) == 1


def test_a_model_without_a_table_is_left_out_only_where_that_is_asked_for(root, capsys):
    place("m100000").unlink()
    code, out, err = run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1")
    assert code == 2 and not out and "m100000: run `rbp measure --family toy" in err and "--partial" in err
    row = fitted(capsys, "--partial")
    assert row["n_models"] == 4 and row["missing"] == ["m100000"]
    assert "left out: m100000" in run(capsys, "fit", "--family", "toy", "--corpus", "prose", "--k", "1", "--partial")[1]
    assert row["alpha"] == pytest.approx(ALPHA, abs=0.012)


def test_corpora_tell_what_was_measured(root, capsys):
    rows = json.loads(run(capsys, "corpora", "--json")[1])
    assert rows[0]["measured"]["toy"] == {"documents": D, "tokens": D * T}


def test_a_corpus_tells_what_it_holds(root, capsys):
    folder = root / "texts"
    folder.mkdir()
    (folder / "long.txt").write_text("\n\n".join(["a b " * 600] * 3))  # three pieces
    (folder / "short.txt").write_text("c d " * 600)
    row = json.loads(run(capsys, "corpora", str(folder), "--json")[1])
    assert (row["documents"], row["sources"], row["scored_tokens"], row["tokens_of"]) == (4, 2, None, None)
    assert row["largest_source"] == "long.txt" and row["largest_share"] == pytest.approx(0.75, abs=0.001)
    assert row["effective_sources"] == pytest.approx(1 / (0.75**2 + 0.25**2), abs=0.01)
    assert "4 documents of 2 sources" in run(capsys, "corpora", str(folder))[1]
    row = json.loads(run(capsys, "corpora", "prose", "--json")[1])  # its text is on the hub: nothing is fetched
    assert row["documents"] is row["sources"] is row["largest_share"] is None and row["measured"]["toy"]
    assert "not here yet" in run(capsys, "corpora", "prose")[1]


def test_tokens_of_a_corpus_are_those_that_are_scored(root, capsys):
    """Counted by hand: a document's first 256 tokens less the first one."""
    checkout = Path(__file__).resolve().parents[1]
    (root / "models").symlink_to(checkout / "models")
    shutil.copy(checkout / "families" / "nano-pythia.yml", root / "families")
    rows = [{"text": "one two three " * n, "who": "a" if n < 300 else "b"} for n in (5, 0, 200, 300)]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "corpora" / "rows.yml").write_text('path: rows.jsonl\ngroup: "{who}"\n')
    row = json.loads(run(capsys, "corpora", "rows", "--family", "nano-pythia", "--json")[1])
    tokenizer = Tokenizer.from_file(str(checkout / "models" / "tokenizer" / "tokenizer.json"))
    counts = [max(min(len(tokenizer.encode(r["text"]).ids), 256) - 1, 0) for r in rows]
    assert counts[1] == 0 and counts[3] == 255
    assert (row["scored_tokens"], row["documents"], row["sources"]) == (sum(counts), 4, 2)
    assert row["largest_source"] == ("b" if counts[3] > sum(counts[:3]) else "a")
    assert row["largest_share"] == pytest.approx(max(counts[3], sum(counts[:3])) / sum(counts))
    ends = [tokenizer.encode(r["text"]).offsets[:256][-1:] for r in rows]
    read = sum(end[0][1] for end in ends if end)
    assert 0 < row["read_characters"] == read < row["characters"] == sum(len(r["text"]) for r in rows)
    said = run(capsys, "corpora", "rows", "--family", "nano-pythia")[1]
    assert f"which are {read / row['characters']:.1%} of the text's characters" in said


def test_every_command_has_help_with_an_example(capsys):
    for command in (
        "families",
        "corpora",
        "family new",
        "plan",
        "measure",
        "fit",
        "published",
        "predict",
        "book",
        "check",
    ):
        code, out, _ = run(capsys, *command.split(), "--help")
        assert code == 0 and "example: rbp " in out


def test_published_fits_as_json_and_as_lines(capsys):
    code, out, err = run(capsys, "published", "mamba", "--json")
    rows = json.loads(out)
    assert code == 0 and not err and [r["quantity"] for r in rows] == ["-log acc", "log ppl", "cross-entropy"]
    assert all({"family", "quantity", "n", "S", "alpha", "r2", "interval", "source"} <= set(r) for r in rows)
    S = np.array([90520320, 320029696, 715974144, 1269204992, 2639628800])
    slope = np.polyfit(np.log(S), np.log(-np.log([0.443, 0.556, 0.627, 0.65, 0.692])), 1)[0]
    assert rows[0]["alpha"] == pytest.approx(-slope) and rows[0]["S"] == [S[0], S[-1]] and rows[0]["n"] == 5
    code, out, err = run(capsys, "published")
    assert code == 0 and len(out.splitlines()) > 50 and "mamba-2" in out
    code, out, err = run(capsys, "published", "open_lm C4, x1", "--json")
    rows = {(r["quantity"], r["of"]): r for r in json.loads(out)}
    assert code == 0 and {("cross-entropy", "c4"), ("-log acc", "coqa"), ("-log acc", "LAMBADA")} <= set(rows)
    grid = published.read("openlm_scaling").query("training_data == 'c4_original' and tokens_per_20_params == 1")
    slope = np.polyfit(np.log(grid["nonembedding_params"]), np.log(grid["loss_c4"]), 1)[0]
    assert rows["cross-entropy", "c4"]["alpha"] == pytest.approx(-slope) and rows["cross-entropy", "c4"]["n"] == len(
        grid
    )
    code, out, err = run(capsys, "published", "mmaba")
    assert code == 2 and not out and len(err.splitlines()) == 1 and "did you mean 'mamba'" in err
