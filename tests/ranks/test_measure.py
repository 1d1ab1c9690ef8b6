"""Measuring: which tokens are scored; what is there is read, what is of something else stays, kills
cost little."""

import json
import re
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel
from workshop import LINES, write_lines, write_root

from rbplib import InputError
from rbplib import measuring as m
from rbplib.cli import main
from rbplib.families import load_family
from rbplib.table import expected, family_tables, resolve
from rbplib.texts import draw_sample, load_documents
from tests.smallmodels import save_model, tokenizer


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return write_root(tmp_path_factory.mktemp("built") / "root")


@pytest.fixture
def root(built, tmp_path, monkeypatch):
    shutil.copytree(built, tmp_path / "root")
    monkeypatch.setenv("RBP_ROOT", str(tmp_path / "root"))
    return tmp_path / "root"


def measure(models=("m0",), corpus="lines", family="toy", **options):
    options |= {"models": list(models), "progress": False}
    (tables,) = m.measured(family, str(corpus), **options).values()
    return tables


def watch_passes(monkeypatch, look):
    """Call `look` on the ids of each pass over windows that a model is about to make."""
    real = GPT2LMHeadModel.forward

    def forward(model, ids, **how):
        if ids.numel() > 16:  # fewer are a look at the model and its head
            look(ids)
        return real(model, ids, **how)

    monkeypatch.setattr(GPT2LMHeadModel, "forward", forward)


def load_no_model(patch):
    patch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))


def files(root):
    """{path: bytes} of all that was measured."""
    paths = [path for path in (root / "results").rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def family_file(old, new):
    def change(root):
        file = root / "families/toy.yml"
        file.write_text(file.read_text().replace(old, new))

    return change


def corpus_file(text):
    return lambda root: (root / "corpora/lines.yml").write_text(text)


def test_every_token_with_a_context_but_the_special_ones_is_scored_in_order(root):
    """The ranks themselves are looked at in tests/test_gpu.py."""
    (table,), (full,) = measure(), measure(protocol="full")
    assert (table.path.name, full.path.name) == ("lines.parquet", "lines.full.parquet")
    texts, words = load_documents("lines").texts, AutoTokenizer.from_pretrained(root / "models/m0")
    whole = [words(text)["input_ids"] for text in texts]
    for measured, most in (table, 48), (full, None):
        rows = [(d, t, i) for d, ids in enumerate(whole) for t, i in enumerate(ids[:most]) if t * i]
        columns = measured.document, measured.position, measured.token
        assert rows == [*zip(*columns, strict=True)]
    # a document of one token is not read
    assert table.record["read_tokens"] == sum(min(len(ids), 48) for ids in whole) - 1
    assert table.record["characters"] == sum(map(len, LINES)) > table.record["read_characters"] > 0


def test_what_is_there_is_read_and_the_same_again_gives_the_same_bytes(root, monkeypatch):
    tables = measure(["m0", "m1"])
    before = files(root)
    assert sorted(before) == [f"results/ranks/toy/m{i}/lines.parquet" for i in range(2)]
    with monkeypatch.context() as patch:
        load_no_model(patch)
        for options in ({}, {"replace": True}, {"dtype": "float32"}):
            there = measure(["m1", "m0"], **options)
            assert [table.path for table in there] == [table.path for table in tables]
    shutil.rmtree(root / "results")
    measure(["m0", "m1"])
    assert files(root) == before


CHANGES = {  # the entry that differs: how it is changed
    "model_digest": lambda root: save_model(root / "models/m0", seed=9),
    "corpus_digest": lambda root: write_lines(root / "lines.jsonl", 1),
    "window": family_file("48", "32"),
    "weights_dtype": family_file("float32", "bfloat16"),
}


@pytest.mark.parametrize("entry", CHANGES)
def test_what_decides_the_rows_decides_whether_a_table_is_used_again(root, entry):
    measure()
    before = files(root)
    CHANGES[entry](root)
    for read in (measure, lambda: family_tables("toy", "lines", partial=True)):
        with pytest.raises(InputError, match=f"{entry}.*`rbp measure .* --replace`") as refused:
            read()
    assert files(root) == before
    # the mend that is printed is one
    assert not main(re.search("`rbp (.*)`", str(refused.value))[1].split())
    assert len(measure()) == 1 and files(root) != before


def test_another_table_that_came_meanwhile_is_not_written_over(root, monkeypatch):
    measure()
    before = files(root)
    monkeypatch.setattr(m, "tables_here", lambda *_, **__: ({}, [("m0", "lines")]))
    with pytest.raises(InputError, match="another weights_dtype"):
        measure(dtype="bfloat16")
    assert files(root) == before


@pytest.mark.parametrize("source", ["path: lines.jsonl\n", "source: hub\nid: a/b\n"])
def test_sources_alone_are_worked_out_anew(root, monkeypatch, source):
    rows = [*map(json.loads, (root / "lines.jsonl").read_text().splitlines())]
    fetched = {"id": "a/b", "revision": "x"}
    sample = partial(draw_sample, rows, source=fetched)
    monkeypatch.setattr("rbplib.texts.hub_sample", sample)
    corpus_file(source)(root)
    (table,) = measure()
    assert table.record["units"] == []
    before = files(root)
    load_no_model(monkeypatch)
    corpus_file(source + "group: '{who}'\n")(root)
    (grouped,) = measure()
    assert len(set(grouped.source)) == 3 and grouped.record["sample"]["group"] == "{who}"
    assert (grouped.rank() == table.rank()).all() and before.items() <= files(root).items()
    # other rows are another text
    corpus_file(source + "documents: 7\n")(root)
    with pytest.raises(InputError, match="another (sample|corpus_digest)"):
        measure()


def test_full_windows_begin_with_bos_and_tables_of_before_are_told_apart(root, monkeypatch):
    (plain,) = measure(protocol="full")
    assert "bos" not in plain.record
    words = tokenizer()
    begin = TemplateProcessing("<end> $A", special_tokens=[("<end>", 0)])
    words.backend_tokenizer.post_processor = begin
    for i in range(3):
        words.save_pretrained(root / f"models/m{i}")
    with pytest.raises(InputError, match="lines.full.parquet .* another bos and"):
        measure(protocol="full")
    firsts = []
    watch_passes(monkeypatch, lambda ids: firsts.extend(ids[:, 0].tolist()))
    (table,) = measure(protocol="full", replace=True)
    assert table.record["bos"] == [0] and set(firsts) == {0} and len(firsts) > len(LINES)
    assert len(table) == len(plain) + len(LINES)  # each token but the specials once


def test_what_was_read_is_told_and_kept(root, capsys):
    """Special tokens that are words of the text; rows and files that are left out."""
    words = tokenizer()
    words.add_special_tokens({"pad_token": "the"})
    for i in range(3):
        save_model(root / f"models/m{i}", words=words)
    weights = root / "models/m0/model.safetensors"
    zeros = {name: tensor * 0 for name, tensor in load_file(weights).items()}
    save_file(zeros, weights, {"format": "pt"})
    (root / "notes").mkdir()
    for name in ("a.txt", "b.PDF", "d"):
        (root / "notes" / name).write_text("the cat and the dog " * 9)
    corpus_file("path: lines.jsonl\ndocuments: 20\nmin_characters: 40\n")(root)
    assert main(f"measure --family toy --model m0 --corpus lines,{root}/notes --quiet".split()) == 0
    out, err = capsys.readouterr()
    assert "documents 20 drawn of 39 (1 more too short, or not wanted), " in out
    assert "documents 1 drawn of 1, " in out and "; passed over: 1 .pdf, 1 no ending" in out
    assert "100.0% of the tokens tie with more than half of all candidates in m0" in err
    assert "tokens of lines are not scored, as special ones of the tokenizer ('the'" in err
    (table,) = measure()
    assert (table.record["rows"], table.record["unfit_rows"]) == (39, 1)
    assert table.record["unscored"]["the"] > 10 and table.record["unscored"]["<end>"] == 20


def test_of_two_things_of_one_name_the_one_that_is_taken_is_told(root, capsys, monkeypatch):
    shutil.copytree(root / "models", root / "families/models")
    (root / "corpora/lines.jsonl").write_text('"one two"\n')
    monkeypatch.chdir(root)
    (root / "lines").mkdir()
    measure()
    err = capsys.readouterr().err
    assert f"models/m0 is {root}/families/models/m0 here, " in err
    assert f"lines.jsonl is {root}/corpora/lines.jsonl here, " in err
    assert "lines is the corpus of that name here" in err and "write ./lines for that" in err


def test_a_file_goes_before_the_label_of_a_text_that_was_measured(root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    text = root / "my notes.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    measure(corpus=text)
    text.unlink()
    (ranks,), missing = family_tables("toy", "my-notes", partial=True)
    assert ranks.record["corpus"] == "my-notes" and missing == ("m1", "m2")
    with pytest.raises(InputError, match="no corpus of that name"):
        family_tables("toy", "your-notes", partial=True)
    (root / "my-notes").touch()
    with pytest.raises(InputError):
        family_tables("toy", "my-notes", partial=True)
    assert "my-notes is read as the file or folder ./my-notes here" in capsys.readouterr().err


def test_precisions_are_told_with_laws_and_not_mixed(root, capsys):
    measure(["m0", "m1", "m2"])
    family_file("dtype: float32\n", "")(root)
    shutil.copy(root / "families/toy.yml", root / "families/half.yml")
    measure(["m0", "m1", "m2"], family="half", dtype="bfloat16")
    capsys.readouterr()
    for words in ("fit half", "compare toy half"):
        assert main(f"{words} --corpus lines --k 10 --n-bootstrap 0".split()) == 0
        err = capsys.readouterr().err
        assert "half was measured in bfloat16." in err
    assert "toy was measured in float32, half in bfloat16" in err
    measure(["m1"], dtype="bfloat16", replace=True)
    with pytest.raises(InputError, match="precisions, m2 in float32 and m1 in bfloat16.*--dtype"):
        family_tables("toy", "lines", partial=True)


def test_engine_protocol_and_a_hubs_names_are_part_of_what_is_asked(root, monkeypatch):
    def entries(family="toy", **options):
        return expected(*resolve(family, None, ["lines"]), **options)

    first = entries()
    for options in ({"protocol": "full"}, {"dtype": "bfloat16"}, {"head_dtype": "bfloat16"}):
        assert entries(**options) != first
    monkeypatch.setattr("rbplib.table.ENGINE", 0)
    assert entries() != first
    hub = []
    for model in ("a/m0", "b/m0", "{id: a/m0, revision: x}"):
        (root / "families/far.yml").write_text(f"context: 48\nmodels: [{model}]\n")
        hub.append(entries("far")["m0"])
    assert hub[0] != hub[1] and hub[0] != hub[2]


def test_the_models_after_one_that_fails_are_measured(root, capsys):
    (root / "models/m0/model.safetensors").unlink()
    with pytest.raises(InputError, match="of toy m0 could not be measured, the other"):
        measure(["m0", "m1", "m2"])
    assert sorted(files(root)) == [f"results/ranks/toy/m{i}/lines.parquet" for i in (1, 2)]
    assert "could not be loaded" in capsys.readouterr().err


def test_several_tokenizers_are_refused_before_the_first_model_and_in_a_plan(root, monkeypatch):
    # those of equal files are not made, as each took a megabyte
    with monkeypatch.context() as patch:
        patch.setattr("rbplib.models.load_tokenizer", lambda *_: pytest.fail("made"))
        m.check_tokenizers(load_family("toy"))
    tokenizer(vocab=300).save_pretrained(root / "models/m1")
    for call in (measure, lambda: m.plan("toy", ["lines"])):
        with pytest.raises(InputError, match="m0 and m1 of toy cut text into other tokens"):
            call()
    assert not (root / "results").exists()


def test_batches_and_memory_that_runs_out_change_no_rank(root, monkeypatch):
    (calm,) = measure()
    sizes, most = [], np.inf

    def look(ids):
        sizes.append(ids.numel())
        if sizes[-1] > most:
            raise torch.OutOfMemoryError("simulated")

    watch_passes(monkeypatch, look)
    for batch in (48, 1500):
        (table,) = measure(results=root / str(batch), batch_tokens=batch)
        assert (table.rank() == calm.rank()).all() and batch / 2 < max(sizes) <= batch
        sizes.clear()
    most = 150
    assert (measure(results=root / "tight")[0].rank() == calm.rank()).all()
    most = 20
    with pytest.raises(InputError, match="does not fit"):
        measure(results=root / "never")


def add_words(root):
    """A tokenizer with more words than the model has."""
    words = AutoTokenizer.from_pretrained(root / "models/m0")
    words.add_tokens(["quick", "brown", "lazy"])
    words.save_pretrained(root / "models/m0")


REFUSED = {  # what is said: the text, and what is changed
    "context: 64": ("lines", family_file("48", "512")),
    "holds no": ("empty.txt", lambda root: (root / "empty.txt").touch()),
    "no token of": ("one.txt", lambda root: (root / "one.txt").write_text("a")),
    "outside the vocabulary": ("lines", add_words),
    "could not be written": ("lines", lambda root: (root / "results").touch()),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_measured_is_one_sentence_and_leaves_nothing(root, monkeypatch, message):
    corpus, change = REFUSED[message]
    change(root)
    monkeypatch.chdir(root)
    with pytest.raises(InputError, match=message):
        measure(corpus=corpus)
    assert not files(root)


def test_a_plan_names_models_sizes_tokens_and_bytes_and_what_does_not_fit(root, monkeypatch):
    save_model(root / "models/m1", words=tokenizer(), seed=1, rows=330)
    before, (table,) = m.plan("toy", ["lines"]), measure()
    (text,), (row, *_) = before["corpora"], before["models"]
    assert text["tokens"] == pytest.approx(table.record["read_tokens"], rel=0.5)
    assert row["nonembedding_params"] == table.record["nonembedding_params"]
    assert row["folder"] == row["tokenizer"] == str(root / "models/m0")
    assert row["weights_bytes"] == 4 * table.record["total_params"]
    (note,) = before["notes"]
    assert "m0, m1, m2 have 320 to 330 rows" in note
    assert before["total"]["memory_here_bytes"] > 1e8
    # what is not measured yet, and has no room
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("os.sysconf", lambda name: 1)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    after = m.plan("toy", ["lines"])
    assert [row["tables_to_measure"] for row in after["models"]] == [0, 1, 1]
    assert [note.partition(" ")[0] for note in after["notes"][1:]] == ["memory", "disk"]


def test_an_option_that_is_none_is_named_beside_those_there_are():
    for call in (m.measure, m.ladders):
        with pytest.raises(TypeError, match="'batch'; there are models, .*batch_tokens"):
            call("nano-pythia", "docs", batch=8)
