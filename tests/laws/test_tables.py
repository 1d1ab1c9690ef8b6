"""Tables of numbers: the laws of their arrays and of NumPy; bad ones are one sentence."""

import time

import numpy as np
import pandas as pd
import pytest
from commands import answers, call, refusal

import rbplib as rbp

S = np.array([1e6, 5e6, 2.5e7, 1.25e8, 6.25e8])
MODELS = ["tiny", "small", "base", "large", "huge"]
NATS = 9 * S**-0.1


def planted(seed=0, tokens=None):
    """(hits (D, M), tokens (D,)) of a family whose losses fall with an exponent of 0.2."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(50, 200, 30) if tokens is None else np.full(30, tokens)
    return rng.binomial(tokens[:, None], np.exp(-12 * S**-0.2)), tokens


def rows_of(hits, tokens):
    """Plain numbers as a data frame, a row for each source and model, largest model first."""
    frame = pd.DataFrame({"tokens": tokens, **dict(zip(MODELS, hits.T, strict=True))})
    frame["source"] = [f"page {i:02}" for i in range(len(tokens))]
    rows = frame.melt(["source", "tokens"], MODELS, "model", "hits")
    rows["S"] = rows["model"].map(dict(zip(MODELS, S, strict=True)))
    return rows.sort_values("S", ascending=False, kind="stable")


def test_the_status_of_the_command_is_the_laws(tmp_path):
    rows_of(planted()[0][:, [0, 2, 1, 4, 3]], planted()[1]).to_csv(tmp_path / "bent")
    (row,) = answers(f"fit {tmp_path}/bent")
    assert row["status"] == "ok" and "lack of fit" in row["caveats"]


@pytest.mark.parametrize("ending", ["CSV.gz", "tsv", "jsonl", None])
def test_a_table_is_the_law_of_its_arrays_to_the_bit(tmp_path, ending):
    hits, tokens = planted()
    law = rbp.fit(rbp.Loss(hits.tolist(), pd.Series(tokens), list(S)))
    table, path = rows_of(hits, tokens), tmp_path / f"runs.{ending}"
    if ending == "jsonl":  # with a mark of the order of bytes
        path.write_text("\ufeff" + table.to_json(orient="records", lines=True))
    elif ending:
        table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    ours = rbp.fit(str(path) if ending else table)
    assert ours.parameters == law.parameters and str(ours.intervals) == str(law.intervals)
    assert ours.models == tuple(MODELS) and ours.loss.n_sources == 30 and ours.status == "ok"
    low, high = ours.ci_tokens
    assert low < 0.2 < high


def test_errors_of_losses_make_an_interval_of_the_slope(capsys):
    nats, x = np.array([4.1, 3.6, 3.3, 2.9, 2.75]), np.log(S) - np.log(S).mean()
    sizes = ["1M", "5m", "0.025B", 1.25e8, "625e6"]
    bits = pd.DataFrame({"S": sizes, "loss_bits": nats / np.log(2), "note": "x"})
    (loss,) = rbp.table_losses(bits.assign(loss_se=0.01 * bits.loss_bits))
    assert "note" in capsys.readouterr().err
    law = rbp.fit(loss)
    assert law.alpha == pytest.approx(-np.polyfit(x, np.log(nats), 1)[0], rel=1e-12)
    assert np.ptp(law.ci_tokens) / 2 == pytest.approx(1.96 * 0.01 / np.sqrt(x @ x), rel=0.03)


def test_every_family_and_k_is_a_law_and_seeds_are_trainings(tmp_path):
    parts = []
    for family, k, seed in [("a", 1, 1), ("a", 1, 2), ("a", 10, 1), ("a", 10, 2), ("b", 1, 1)]:
        hits, tokens = planted(seed, 200)
        hits += (tokens[:, None] - hits) // 2 * (k > 1)
        parts.append(rows_of(hits, tokens).assign(family=family, k=k, seed=seed))
    path, whole = tmp_path / "RUNS.CSV", pd.concat(parts)
    whole.to_csv(path, index=False)
    losses = rbp.table_losses(path)
    assert [(loss.family, loss.k) for loss in losses] == [("a", 1), ("a", 10), ("b", 1)]
    law, records = rbp.fit(losses[0]), answers(f"fit {path}")
    assert len(law.used) == 10 and law.loss.training_noise()[1] == 5
    assert np.isfinite(law.ci_trainings).all()
    assert records[0]["alpha"] == law.alpha and [r["n_models"] for r in records] == [10, 10, 5]
    with pytest.raises(rbp.InputError, match="several laws"):
        rbp.fit(whole)


GOOD = "model,S,hits,tokens\na,1M,1,9\nb,2M,2,9\nc,4M,3,9\n"


@pytest.mark.parametrize(
    "text, word",
    [
        ("model,hits\na,1\nb,2\n", "lacks S and tokens"),
        ("model,n_prams,los\na,1M,9\n", "'n_prams' as S or 'los' as loss?"),
        ("N,n_params,loss\n1e6,1e7,3\n", "'N' or S from 'n_params'"),
        (
            GOOD.replace("2,9", "inf,9").replace("4M", "0"),
            "row 2 ('b') has hits 'inf', row 3 ('c')",
        ),
        (GOOD.replace("M,", ","), "billions or millions meant? Say --size-unit"),
        (GOOD.replace("2M", "35"), "S of t.csv is below 1,000 in row(s) 2:"),
        ("# S,loss\n1e6,3\n2e6,2\n3e6,1\n", "its first line holds numbers"),
        ("S,loss\n1M,3\n\xe9,2\n", "line 3 is no text in UTF-8"),
        ('{"S": 1e6, "loss": 3}\n{"S": 2e6, "lo', "row 2 is no JSON that can be read"),
        ('{"S": 1e6, "loss": 3, "loss": 2}', "the key 'loss' is there twice"),
        ("S,perplexity\n1M,1\n", "a perplexity is a number above 1"),
        ("S,loss,loss_se\n1M,1,5%\n", "loss_se '5%'"),
        ("[1, 2]", "its JSON holds no rows"),
        (GOOD.replace("2M", "9" * 10_000_000), "S '9999"),
        (",".join(["S", *map(str, range(1_000_000))]) + "\n1\n", "1,000,000 columns"),
        ('{"a":' * 100_000, "t.csv"),
        ("model,S,k,loss\na,1M,1,2\na,1M,4,3\n", "worse in loss at k = 4"),
        (GOOD.replace("2,9", "2,8"), "same tokens"),
        (GOOD.replace("tokens", "tokens,k").replace(",9", ",9,1.5"), "whole number"),
        (GOOD + "a,1M,2,9\n", "'a'"),
        (GOOD.replace("hits,tokens", "loss,source") + "c,4M,3,8\n", "'tokens'"),
        (GOOD.replace("\n", ",1\n").replace("tokens,1", "tokens,loss"), "hits and loss"),
        (GOOD.replace("\n", ",1\n").replace("tokens,1", "tokens,k") + "a,1M,2,9,2\n", "every k"),
        (GOOD.replace("\n", ",\n").replace("tokens,", "tokens,family"), "family ''"),
        (GOOD.replace("9\n", "9,7\n"), "Expected 4 fields in line 2, saw 5"),
    ],
)
def test_a_bad_table_is_one_sentence(tmp_path, text, word):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="latin-1")
    assert word in refusal(f"fit {path}") and [*tmp_path.iterdir()] == [path]


def test_a_run_that_ends_without_a_loss_is_reported(tmp_path, capsys):
    for model, size, loss in zip(MODELS, S, NATS, strict=True):
        rows = ["n_params,val_loss", f"{size},9", f"{size},{loss}"]
        rows += [f"{size},nan"] * (model == "base")
        (tmp_path / f"{model}.csv").write_text("\n".join(rows))
    (record,) = answers(f"fit {tmp_path} --last-row")
    assert record["alpha"] == pytest.approx(0.1)
    assert "base end in rows without loss" in capsys.readouterr().err
    # one without any is a row that cannot be used; without the option the way is named
    (tmp_path / "base.csv").write_text(f"n_params,val_loss\n{S[2]},nan\n")
    for option, word in (("--last-row", "('base') has loss 'nan'"), ("--drop-bad", "--last-row")):
        assert call(f"fit {tmp_path} {option}") == 2
        assert word in capsys.readouterr().err


def test_sources_in_another_measure_are_not_compared(tmp_path, capsys):
    measures = {"a": {"loss": NATS}, "b": {"accuracy": 1 - S**-0.1}, "c": {"loss": S**-0.1}}
    for name, measure in measures.items():
        pd.DataFrame({"S": S} | measure).to_csv(tmp_path / name, index=False)
    assert len(answers(f"compare {tmp_path}/a {tmp_path}/b {tmp_path}/c")) == 1
    err = capsys.readouterr().err
    assert "left out: a family on a and a family on b" in err and "c have no" in err
    assert "twice" in refusal(f"fit {tmp_path}/a --columns S=S,S=loss")


def test_the_first_row_may_be_bad_and_a_name_that_is_given_may_bear_a_unit(tmp_path):
    path = tmp_path / "runs.csv"
    frame = pd.DataFrame({"Params (M)": [1, *S / 1e6], "val_loss": ["diverged", *NATS]})
    frame.to_csv(path, index=False)
    (record,) = answers(f"fit {path} --drop-bad")
    assert record["left_out"] == ["row 1 ('row 1') has loss 'diverged'"]
    (loss,) = rbp.table_losses(path, {"S": "Params (M)"}, drop_bad=True)
    assert np.allclose(loss.S, S) and record["log_c"] == pytest.approx(np.log(9))


def test_rows_that_cannot_be_used_are_left_out_where_that_is_asked_for(tmp_path, capsys):
    path = tmp_path / "runs.csv"
    rows = ["family,model,S,D,loss", *(f"f,m{S:g},{S:g},1e9,{9 * S**-0.1}" for S in S)]
    rows += ["f,late,7B,,diverged", "f,nan,8B,1e9,nan", "f,zero,9B,1e9,0", "g,a,1M,1e9,2"]
    path.write_text("\n".join(rows))
    for words in (f"fit {path}", f"predict {path} --size 1B", f"compare {path} {path}"):
        assert "row 7 ('nan') has loss 'nan'" in refusal(words)
        record = answers(f"{words} --drop-bad")[0]
        assert [text[:5] for text in record["left_out"]][:3] == ["row 6", "row 7", "row 8"]
        # a family of one size is reported, the others are fitted
        assert "g has 1 model size(s)" in capsys.readouterr().err
    (loss,) = rbp.table_losses(path, drop_bad=True)
    assert rbp.fit(loss).alpha == pytest.approx(0.1) and loss.D.tolist() == 5 * [1e9]


def test_a_blank_d_stops_only_what_needs_it_and_an_error_of_0_is_none(tmp_path, capsys):
    path = tmp_path / "runs.csv"
    frame = pd.DataFrame({"model": MODELS, "S": S, "D": [1e9, None, 3e9, 4e9, 5e9], "loss": NATS})
    frame.assign(loss_se=[0.01, 0, 0.01, 0.01, 0.01]).to_csv(path, index=False)
    (record,) = answers(f"fit {path}")
    err = capsys.readouterr().err
    assert record["n_models"] == 5 and record["ci_tokens"] is None
    assert "D of runs.csv is blank or 0 in row(s) 2" in err and "loss_se of a family" in err
    assert call(f"predict {path} --size 1B --tokens 1T") == 2
    # of two families one has D
    grid = pd.concat([frame.assign(D=S * f, model=frame.model + str(f)) for f in (20, 60, 180)])
    grid["loss"] += 90 * grid.D**-0.2
    both = {"with": grid, "without": frame.assign(D=None)}
    pd.concat(both, names=["family"]).reset_index("family").to_csv(path, index=False)
    for words in (f"predict {path} --size 1B --tokens 1T", f"fit {path} --joint"):
        assert [record["family"] for record in answers(words)] == ["with"]
        assert "left out: without on runs.csv" in capsys.readouterr().err


UNITS = {  # what a column holds, the name of its error, and a word of what is said of it
    "accuracy": (100 * np.exp(-NATS), "acc_stderr", "per cent"),
    "perplexity": (np.exp(NATS), "ppl_stderr", "sizes alone"),
}


@pytest.mark.parametrize("name", UNITS)
def test_units_are_taken_and_named_and_errors_are_those_of_logarithms(name, tmp_path, capsys):
    path, (values, error, word) = tmp_path / "runs.csv", UNITS[name]
    frame = pd.DataFrame({"S": S / 1e6, name: values})
    frame.to_csv(path, index=False)
    (record,) = answers(f"fit {path} --size-unit m")
    assert word in capsys.readouterr().err
    assert [record["alpha"], record["log_c"]] == pytest.approx([0.1, np.log(9)])
    frame.assign(S=S, **{error: 0.01 * values}).to_csv(path, index=False)
    (loss,) = rbp.table_losses(path)
    assert loss.se == pytest.approx(np.full(5, 0.01))


def test_a_frame_has_our_names_unless_others_are_given():
    frame = pd.DataFrame({"N": S / 1e6, "loss": NATS})
    with pytest.raises(rbp.InputError, match="lacks S"):
        rbp.table_losses(frame)
    (loss,) = rbp.table_losses(frame, {"S": "N"}, size_unit="M")
    assert np.allclose(loss.S, S)


def test_a_hundred_thousand_rows_are_read_by_columns_without_loops_over_cells(tmp_path):
    hits = np.random.default_rng(0).integers(10, 40, (20_000, 5))
    rows_of(hits, np.full(20_000, 50)).to_csv(tmp_path / "runs.csv", index=False)
    start = time.process_time()
    (loss,) = rbp.table_losses(tmp_path / "runs.csv")
    assert time.process_time() - start < 5
    assert loss.sums.sum(axis=0).tolist() == hits.sum(axis=0).tolist()
