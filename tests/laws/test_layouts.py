"""Tables as people publish them, rebuilt with numbers of our own: each is fitted as it lies, with
at most one option, and the exponent is numpy's."""

import gzip
import io
import json
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from commands import answers, call, refusal

import rbplib as rbp

S = np.array([1.2e7, 9e7, 8.5e8, 6.4e9])
LOSS = 9 * S**-0.1 * np.array([1.01, 0.99, 1.0, 1.005])
ALPHA = -np.polyfit(np.log(S), np.log(LOSS), 1)[0]
# the first line, that of each model, and the option that it takes
LAYOUTS = {
    "chinchilla": ("Model Size,Training Tokens,Training FLOP,loss", "{S:.0f},{D:.0f},1e20,{L}", ""),
    "gpt-3": ("Model Name,n_params,n_layers,val loss", "{m},{M}M,12,{L}", ""),
    "openlm": ("name,width,nonembedding_params,tokens,loss_c4,loss_ptb",
               "{m},96,{S:.0f},{D:.0f},{L},9", "loss=loss_c4"),
    "lambada": ("family,model,nonembedding_params,acc,acc_stderr,ppl,source",
                "f,{m},{S:.0f},{A},0.005,{P},repository:{m}.json", "accuracy=acc"),
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
    "kaplan": ("Run\tParams (M)\tValidation Loss", "{m}\t{M}\t{L}", ""),
    "harness": ("", '{{"config": {{"n_params": {S:.0f}}}, "results": {{"lambada": {{'
                '"acc,none": {A}, "acc_stderr,none": 0.01}}}}}}',
                "accuracy=results.lambada.acc,none"),
    "nested": ("", '{{"cfg": {{"n_params": {S:.0f}}}, "eval": {{"val_loss": {L}}}}}', ""),
}  # fmt: skip


def lines_of(header, line):
    """The text of a layout."""
    rows = []
    for i, (size, loss) in enumerate(zip(S, LOSS, strict=True), 1):
        numbers = {"i": i, "m": f"m{i}", "S": size, "D": 20 * size, "L": loss}
        numbers |= {"M": f"{size / 1e6:g}", "B": f"{size / 1e9:g}", "P": np.exp(loss)}
        numbers |= {"A": np.exp(-loss), "pct": 100 * np.exp(-loss), "bits": loss / np.log(2)}
        numbers |= {"thin": f"{size:,.0f}".replace(",", "\u2009")}
        numbers |= {"Pcomma": str(np.exp(loss)).replace(".", ",")}
        rows.append(line.format(**numbers))
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
    assert "S from" in err or name == "pandas"
    assert name != "nanochat" or "by bytes" in err
    assert (loss.D is None) == (name != "chinchilla")
    # packed, under a name that says nothing
    path = tmp_path / "x.dat"
    path.write_bytes(gzip.compress(lines_of(header, line).encode("utf-16")))
    assert rbp.table_losses(path, columns)[0].values == pytest.approx(loss.values, rel=1e-12)


FRAME = pd.DataFrame({"run": list("abcd"), "params": S, "loss": LOSS})


def test_what_is_no_text_is_read_too(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME.to_json(tmp_path / "b.json")
    (tmp_path / "d.json").write_text(json.dumps(FRAME.to_dict("list")))
    for path in tmp_path.iterdir():
        assert answers(f"fit {path}")[0]["alpha"] == pytest.approx(ALPHA)
    text = io.TextIOWrapper(io.BytesIO(FRAME.to_csv(index=False).encode()))
    monkeypatch.setattr("sys.stdin", text)
    assert answers("fit -")[0]["corpus"] == "standard input"


def test_a_folder_of_histories_is_their_last_rows_with_sizes_from_names(tmp_path):
    for size, loss in zip(S, LOSS, strict=True):
        rows = [f"{step},{loss + 9 - step}" for step in range(10)]
        path = tmp_path / f"run_{size / 1e9:g}B.csv"
        path.write_text("\n".join(["_step,val/loss", *rows, "10,"]))
    for words in (f"{tmp_path}", " ".join(map(str, tmp_path.iterdir()))):
        (row,) = answers(f"fit {words} --last-row")
        assert row["alpha"] == pytest.approx(ALPHA) and row["n_models"] == 4
    assert call(f"fit {tmp_path}") == 2


@pytest.mark.skipif(not find_spec("openpyxl"), reason="openpyxl is an extra")
def test_a_workbook_is_its_first_sheet_that_holds_rows(tmp_path, capsys):
    path = tmp_path / "runs.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame().to_excel(book, sheet_name="empty")
        FRAME.to_excel(book, sheet_name="runs", startrow=2, startcol=1)
        FRAME.assign(loss=3.0).to_excel(book, sheet_name="old")
    assert answers(f"fit {path}")[0]["alpha"] == pytest.approx(ALPHA)
    assert "of the sheets runs, old the first is read" in capsys.readouterr().err
    path.write_bytes(path.read_bytes()[:900])
    assert "runs.xlsx" in refusal(f"fit {path}")
