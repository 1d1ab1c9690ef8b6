"""Tables of numbers: the laws of arrays, of numpy, of the published page; bad ones are told."""

import numpy as np
import pandas as pd
import pytest
from commands import call, told
from matplotlib.figure import Figure

import rbplib as rbp

S = np.array([1e6, 5e6, 2.5e7, 1.25e8, 6.25e8])
MODELS = ["tiny", "small", "base", "large", "huge"]


def planted(seed=0):
    """(hits (D, M), tokens (D,)) of a family whose losses fall with that exponent."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(50, 200, 30)
    share = np.exp(-12 * S**-0.2)
    return rng.binomial(tokens[:, None], share), tokens


def rows_of(hits, tokens):
    """Plain numbers as a data frame, a row for each source and model, largest model first."""
    sources = [f"page {i:02}" for i in range(len(tokens))]
    frame = pd.DataFrame(hits, index=sources, columns=MODELS)
    rows = frame.rename_axis("source").reset_index().melt("source", MODELS, "model", "hits")
    rows["S"] = rows["model"].map(dict(zip(MODELS, S, strict=True)))
    rows["tokens"] = rows["source"].map(dict(zip(sources, tokens, strict=True)))
    return rows.sort_values("S", ascending=False, kind="stable")


@pytest.mark.parametrize("ending", ["CSV.gz", "tsv", "parquet", "jsonl", None])
def test_a_table_is_the_law_of_its_arrays_to_the_bit(tmp_path, ending):
    hits, tokens = planted()
    loss = rbp.Loss(hits.tolist(), pd.Series(tokens), list(S))
    law, table = rbp.fit(loss), rows_of(hits, tokens)
    path = tmp_path / f"runs.{ending}"
    write = {
        "CSV.gz": lambda: table.to_csv(path, index=False),
        "tsv": lambda: table.to_csv(path, index=False, sep="\t"),
        "parquet": lambda: table.to_parquet(path),
        "jsonl": lambda: path.write_text(  # with a mark of the order of bytes
            "\ufeff" + table.to_json(orient="records", lines=True)
        ),
    }
    if ending:
        write[ending]()
    ours = rbp.fit(str(path) if ending else table)
    assert ours.parameters == law.parameters and str(ours.intervals) == str(law.intervals)
    assert ours.models == tuple(MODELS) and ours.loss.n_sources == 30 and ours.status == "ok"
    low, high = ours.intervals["text"]["alpha"]
    assert low < 0.2 < high


@pytest.mark.parametrize(("between", "ending"), [(", ", "csv"), (" ; ", "csv"), (";", "txt")])
def test_a_table_may_have_spaces_and_semicolons_as_on_the_page(tmp_path, between, ending):
    hits, tokens = planted()
    table = rows_of(hits, tokens).assign(family='"one, or two"')
    lines = [table.columns, *table.astype(str).to_numpy()]
    path = tmp_path / f"runs.{ending}"
    path.write_text("".join(f"{between.join(line)}\n" for line in lines))
    (loss,) = rbp.table_losses(path)
    assert np.array_equal(loss.sums, hits) and loss.models == tuple(MODELS)
    assert loss.family == "one, or two"


def test_losses_in_nats_and_bits_are_numpys_line(tmp_path, capsys):
    nats = np.array([4.1, 3.6, 3.3, 2.9, 2.75])
    table = pd.DataFrame(
        {"model": MODELS, "S": ["1M", "5m", "0.025B", 1.25e8, "625e6"], "loss": nats}
    )
    slope, start = np.polyfit(np.log(S), np.log(nats), 1)
    table.to_csv(tmp_path / "nats.csv", index=False)
    law = rbp.fit(tmp_path / "nats.csv")
    assert (law.alpha, law.log_c) == pytest.approx((-slope, start), rel=1e-12)
    assert "other sizes alone" in capsys.readouterr().err
    bits = table.rename(columns={"loss": "loss_bits"}).assign(loss_bits=nats / np.log(2))
    assert rbp.fit(bits).alpha == pytest.approx(-slope, rel=1e-12)
    # errors of the losses make an interval: that of the slope, by hand
    (loss,) = rbp.table_losses(bits.assign(loss_se=0.01 * bits.loss_bits, note="x"))
    assert "note" in capsys.readouterr().err
    low, high = rbp.fit(loss).intervals["text"]["alpha"]
    x = np.log(S) - np.log(S).mean()
    assert (high - low) / 2 == pytest.approx(1.96 * 0.01 / np.sqrt(x @ x), rel=0.03)


def test_every_family_and_k_is_a_law_and_seeds_are_trainings(tmp_path, capsys):
    parts = []
    for family, k, seed in [("a", 1, 1), ("a", 1, 2), ("a", 10, 1), ("a", 10, 2), ("b", 1, 1)]:
        hits, tokens = planted(seed=k + seed)
        parts.append(rows_of(hits, tokens).assign(family=family, k=k, seed=seed, tokens=200))
    path = tmp_path / "RUNS.CSV"
    pd.concat(parts).to_csv(path, index=False)
    first, second, third = rbp.table_losses(path)
    assert [(x.family, x.k) for x in (first, second, third)] == [("a", 1), ("a", 10), ("b", 1)]
    law = rbp.fit(first)
    assert len(law.used) == 10 and law.loss.training_noise()[1] == 5
    assert np.isfinite(law.intervals["trainings"]["alpha"]).all()
    records = told(f"fit {path}")
    assert records[0]["alpha"] == law.alpha and [r["n_models"] for r in records] == [10, 10, 5]
    with pytest.raises(rbp.InputError, match="several laws"):
        rbp.fit(pd.concat(parts))


GOOD = "model,S,hits,tokens\na,1M,1,9\nb,2M,2,9\nc,4M,3,9\n"


@pytest.mark.parametrize(
    "text, word",
    [
        ("model,S,hits,tokens\na,1M,1,9\n", "1 model size"),
        ("model,hits,tokens\na,1,9\nb,2,9\n", "'S'"),
        (GOOD.replace("2,9", "-2,9"), "'-2'"),
        (GOOD.replace("2,9", "10,9"), "'b'"),
        (GOOD.replace("2,9", "2,8"), "same tokens"),
        (GOOD.replace("2M", "two"), "'two'"),
        (GOOD.replace("tokens", "tokens,k").replace(",9", ",9,1.5"), "whole number"),
        (GOOD.replace("tokens", "tokens,k").replace(",9", ",9,1e30"), "whole number"),
        (GOOD.replace("2,9", "1.5,9"), "whole number"),
        (GOOD.replace("2,9", ",9"), "row 2"),
        (GOOD + "a,1M,1,9\n", "'a'"),
        (GOOD.replace("hits,tokens", "loss,source"), "'tokens'"),
        (GOOD.replace("\n", ",1\n").replace("tokens,1", "tokens,loss"), "hits and loss"),
        (GOOD.replace("\n", ",1\n").replace("tokens,1", "tokens,k") + "a,1M,2,9,2\n", "every k"),
        (GOOD.replace("\n", ",\n").replace("tokens,", "tokens,family"), "'a' is of no family"),
        (GOOD.replace("9\n", "9,7\n"), "Expected 4 fields in line 2, saw 5"),
        ("", "t.csv"),
        ("\x00\xff", "t.csv"),
    ],
)
def test_a_bad_table_is_one_sentence(tmp_path, capsys, text, word):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="latin-1")
    for command in ("fit {}", "predict {} --size 1B"):
        code = call(command.format(path))
        out, err = capsys.readouterr()
        assert code == 2 and not out and word in err and len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_table_alone_cannot_hold_is_one_sentence_of_a_frame():
    rows = rows_of(*planted())
    for bad, word in (
        (rows.assign(family=[None, *["x"] * (len(rows) - 1)]), "'huge' is of no family"),
        (rows.assign(family=np.nan), "is of no family"),
        (pd.concat([rows, rows[["hits"]]], axis=1), "a column of the table is there twice"),
    ):
        with pytest.raises(rbp.InputError, match=word):
            rbp.fit(bad)


def test_a_law_prints_three_lines_and_draws_itself():
    hits, tokens = planted()
    law = rbp.fit(rows_of(hits, tokens))
    first, second, third = str(law).splitlines()
    low, high = law.intervals["models"]["alpha"]
    assert f"{law.alpha:.4g}" in first and f"{low:.4g} to {high:.4g}" in first
    assert f"{law.r2:.4g}" in second and "ok" in second
    assert third.startswith("-log hits of a family") and "5 models" in third
    ax = law.plot(Figure().subplots())
    points, line = ax.lines
    assert np.allclose(points.get_xydata(), np.column_stack([S, law.loss.values]))
    assert np.allclose(np.log(line.get_ydata()), law.y_at(line.get_xdata()))
