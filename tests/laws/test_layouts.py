"""Tables as people publish them, rebuilt with numbers of our own: each is fitted as it lies, with
at most one option, and the exponent is numpy's."""

import gzip
import io
import json
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from commands import call, told

import rbplib as rbp

S = np.array([1.2e7, 9e7, 8.5e8, 6.4e9])
LOSS = 9 * S**-0.1 * np.array([1.01, 0.99, 1.0, 1.005])
ALPHA = -np.polyfit(np.log(S), np.log(LOSS), 1)[0]
COMMA = str.maketrans(".", ",")
# the first line, that of each model, and the option that it takes
LAYOUTS = {
    "chinchilla": ("Model Size,Training Tokens,Training FLOP,loss", "{S:.0f},{D:.0f},1e20,{L}", ""),
    "besiroglu": ("C,N,D,Loss", "1e18,{S:.0f},{D:.0f},{L}", ""),
    "kaplan": ("Run\tParams (M)\tValidation Loss", "{m}\t{M}\t{L}", ""),
    "gpt-3": ("Model Name,n_params,n_layers,val loss", "{m},{M}M,12,{L}", ""),
    "cerebras": ("Model,Parameters,Pile test xent", "{m},{M}M,{L}", "loss=Pile test xent"),
    "openlm": ("name,width,nonembedding_params,tokens,loss_c4,loss_ptb",
               "{m},96,{S:.0f},{D:.0f},{L},9", "loss=loss_c4"),
    "lambada": ("family,model,nonembedding_params,acc,acc_stderr,ppl,source",
                "f,{m},{S:.0f},{A},0.005,{P},repository:{m}.json", "accuracy=acc"),
    "humaneval": ("family,model,params,params_basis,pass_1,pass_10",
                  "f,{m},{S:.0f},named,{A},", "accuracy=pass_1"),
    "mamba": ("Model;Params;Pile ppl;LAMBADA acc", "{m};{M}M;{P};{pct}", "accuracy=LAMBADA acc"),
    "rwkv": ("model\tparams_B\tlambada_ppl", "{m}\t{B}\t{P}", "perplexity=lambada_ppl"),
    "nanochat": ("depth,num_params,val_bpb", "8,{S:.0f},{bits}", ""),
    "nanogpt": ("# trained at home\n\nstep  N  val_loss", "9  {S:.0f}  {L}", ""),
    "wandb": ('"Name","State","Tags","n_params","eval/loss"',
              '"{m}","finished","","{S:.0f}","{L}"', ""),
    "pandas": ("\tmodel\tS\tloss", "7\t{m}\t{S}\t{L}", ""),
    "R": ('"model","params","loss"', '"{i}","{m}",{S:e},{L}', ""),
    "europe": ("\ufeffmodel;size;ppl;", "{m};{thin};{Pcomma};\r", ""),
    "markdown": ("| Model | Params | Acc. |\n|---|--:|:-:|", "| {m} | {M} M | {pct}% |", ""),
    "names": ("model,perplexity", "pythia-{M}M-v0,{P}", "S=model"),
    "nested": ("", '{{"cfg": {{"n_params": {S:.0f}}}, "eval": {{"val_loss": {L}}}}}', ""),
}  # fmt: skip


def lines_of(header, line):
    """The text of a layout."""
    rows = []
    for i, (size, loss) in enumerate(zip(S, LOSS, strict=True), 1):
        acc = np.exp(-loss)
        names = {"i": i, "m": f"m{i}", "S": size, "D": 20 * size, "L": loss, "A": acc}
        names |= {"M": f"{size / 1e6:g}", "B": f"{size / 1e9:g}", "P": np.exp(loss)}
        names |= {"pct": 100 * acc, "bits": loss / np.log(2)}
        names |= {"thin": f"{size:,.0f}".replace(",", "\u2009")}
        names |= {"Pcomma": str(np.exp(loss)).translate(COMMA)}
        rows.append(line.format(**names))
    return "\n".join(filter(None, [header, *rows])) + "\n"


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_published_table_is_fitted_as_it_lies(tmp_path, capsys, name):
    header, line, option = LAYOUTS[name]
    path = tmp_path / f"{name}.csv"
    path.write_text(lines_of(header, line))
    columns = dict([option.split("=")]) if option else None
    (loss,) = rbp.table_losses(path, columns)
    law = rbp.fit(loss)
    assert law.alpha == pytest.approx(ALPHA, rel=1e-6), loss
    assert np.allclose(law.S, S) and len(law.models) == 4
    assert name != "names" or law.models[0] == "pythia-12M-v0"
    err = capsys.readouterr().err
    assert "S from" in err or name == "pandas"  # told, once
    assert (loss.D is None) == (name not in ("chinchilla", "besiroglu"))
    # packed, under a name that says nothing
    path = tmp_path / "x.dat"
    path.write_bytes(gzip.compress(lines_of(header, line).encode("utf-16")))
    assert rbp.table_losses(path, columns)[0].values == pytest.approx(loss.values, rel=1e-12)


def frame():
    return pd.DataFrame({"run": list("abcd"), "params": S, "loss": LOSS})


def test_what_is_no_text_is_read_too(tmp_path, monkeypatch, capsys):
    frame().to_parquet(tmp_path / "a.parquet")
    frame().to_json(tmp_path / "b.json")
    (tmp_path / "d.json").write_text(json.dumps(frame().to_dict("list")))
    for path in tmp_path.iterdir():
        assert told(f"fit {path}")[0]["alpha"] == pytest.approx(ALPHA)
    text = io.TextIOWrapper(io.BytesIO(frame().to_csv(index=False).encode()))
    monkeypatch.setattr("sys.stdin", text)
    assert told("fit -")[0]["corpus"] == "standard input"


def test_a_folder_of_files_is_a_table_a_run_each(tmp_path, capsys):
    # evaluations by lm-evaluation-harness, a file each
    for size, loss in zip(S, LOSS, strict=True):
        results = {"lambada": {"acc,none": np.exp(-loss), "acc_stderr,none": 0.01}}
        text = json.dumps({"results": results, "config": {"n_params": int(size)}, "date": 1.0})
        (tmp_path / f"m{size:.0f}.json").write_text(text)
    (loss,) = rbp.table_losses(tmp_path, {"accuracy": "results.lambada.acc,none"})
    assert rbp.fit(loss).alpha == pytest.approx(ALPHA) and len(loss.models) == 4
    # histories of training, the size in the name
    runs = tmp_path / "runs"
    runs.mkdir()
    for size, loss in zip(S, LOSS, strict=True):
        rows = [f"{step},{loss + 9 - step}" for step in range(10)]
        (runs / f"run_{size / 1e9:g}B.csv").write_text("\n".join(["_step,val/loss", *rows, "10,"]))
    for words in (f"{runs}", " ".join(map(str, runs.iterdir()))):
        (row,) = told(f"fit {words} --last-row")
        assert row["alpha"] == pytest.approx(ALPHA) and row["n_models"] == 4
    assert call(f"fit {runs}") == 2


@pytest.mark.skipif(not find_spec("openpyxl"), reason="openpyxl is an extra")
def test_a_workbook_is_its_first_sheet_that_holds_rows(tmp_path, capsys):
    path = tmp_path / "runs.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame().to_excel(book, sheet_name="empty")
        frame().to_excel(book, sheet_name="runs", startrow=2, startcol=1)
        frame().assign(loss=3.0).to_excel(book, sheet_name="old")
    assert told(f"fit {path}")[0]["alpha"] == pytest.approx(ALPHA)
    assert "of the sheets runs, old the first is read" in capsys.readouterr().err
    path.write_bytes(path.read_bytes()[:900])
    assert call(f"fit {path}") == 2
