"""Ranks of another engine: a server that answers as vLLM did, with the ranks of an embedded model,
is `rbp measure` row by row; what cannot be ours is one sentence, and nothing is written."""

import json
import re
import subprocess
from shutil import which
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from commands import ROOT, call, python, refusal, take
from transformers import AutoModelForCausalLM

import rbplib
from paper.show.prose import imported_words
from rbplib import InputError
from rbplib.doors import answered, import_answers
from tests.hubserver import Answers, Server
from tests.ranks.workshop import write_lines

MODEL = ROOT / "models/nano-pythia/1.9k"
VLLM = json.loads((ROOT / "tests/ranks/vllm.json").read_text())  # recorded answers


@pytest.fixture(scope="module")
def engine():
    """Answers with the fields of vLLM's own: every candidate's rank counts those at least as good
    among float32 log-probabilities."""
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()

    def entries(ids):
        with torch.inference_mode():
            nats = model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
        entries = [None]
        for row, token in zip(nats[:-1], ids[1:], strict=True):
            rank = int((row >= row[token]).sum())
            entries.append({str(token): {"logprob": float(row[token]), "rank": rank}})
        return entries

    class Answer(Answers):
        prompts = []

        def do_GET(self):
            models = {"data": [VLLM["models"]["data"][0] | {"id": "served/1.9k"}]}
            self.answer_json(VLLM["version"] if self.path.endswith("/version") else models)

        def do_POST(self):
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert question["prompt_logprobs"] == 0 and question["model"] == "served/1.9k"
            prompt = question["prompt"]
            self.prompts.append(prompt)
            if max(prompt) >= 4096:
                return self.answer_json(VLLM["refused"], 400)
            ranked = None if self.path.startswith("/null") else entries(prompt)
            # at first, where the address says so, a number that is none
            if self.path.startswith("/nan") and self.prompts.count(prompt) == 1:
                ranked[2] = {str(prompt[2]): {"logprob": None, "rank": 1}}
            choices = [VLLM["answer"]["choices"][0] | {"prompt_logprobs": ranked}]
            self.answer_json(VLLM["answer"] | {"model": "served/1.9k", "choices": choices})

    server = Server(Answer)
    yield SimpleNamespace(url=server.url, entries=entries, prompts=Answer.prompts)
    server.stop()


@pytest.fixture(scope="module")
def root(tmp_path_factory, engine):
    """A root of the family `nano` of one embedded model: a text's windows, and their ranks."""
    root = tmp_path_factory.mktemp("engine")
    for folder in ("families", "corpora"):
        (root / folder).mkdir()
    (root / "families/nano.yml").write_text(f"dtype: float32\nmodels: [{MODEL}]\n")
    write_lines(root / "lines.jsonl")
    (root / "corpora/lines.yml").write_text("path: lines.jsonl\ngroup: '{who}'\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        assert call(f"windows --family nano --corpus lines -o {root}/windows.jsonl") == 0
        assert not ask(root / "windows.jsonl", root / "ranks.jsonl", engine.url)
        yield root


@pytest.fixture
def folder(root, monkeypatch, tmp_path):
    """An empty folder, where results go."""
    monkeypatch.setenv("RBP_ROOT", str(root))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    return tmp_path


def ask(windows, ranks, url, weights="float32"):
    """Run the script, of at most 70 lines; what it says of an error."""
    words = [windows, ranks, "--model", "1.9k", "--url", url, "--weights", weights]
    script = ROOT / "workflow/vllm_ranks.py"
    assert script.read_text().count("\n") <= 70
    return python(script, *words).stderr


def read_lines(path):
    """What the lines of a file hold: the first, and the others."""
    first, *others = map(json.loads, path.read_text().splitlines())
    return first, others


def assert_measured(table, results):
    (measured,) = rbplib.measure("nano", "lines", progress=False, results=results)
    for name in ("document", "position", "token"):
        assert np.array_equal(getattr(table, name), getattr(measured, name))
    assert np.array_equal(table.rank(), measured.rank()) and len(table) > 500
    assert np.abs(table.logprob - measured.logprob).max() < 1e-5
    same = "units nonembedding_params vocab_size tokenizer_digest documents read_tokens".split()
    assert [table.record[key] for key in same] == [measured.record[key] for key in same]


def test_what_the_script_asked_is_what_is_measured_row_by_row(root, folder, engine):
    ranks = root / "ranks.jsonl"
    whole = ranks.read_bytes()
    # stopped in a line it goes on there, and asks for no other window again
    cut = 2 * len(whole) // 3
    ranks.write_bytes(whole[:cut])
    before, left = len(engine.prompts), len(whole[cut:].splitlines())
    assert not ask(root / "windows.jsonl", ranks, engine.url)
    assert ranks.read_bytes() == whole and len(engine.prompts) - before == left
    assert call(f"import {ranks} --family nano") == 0
    (table,) = rbplib.measure("nano", "lines")  # found, and so not measured
    made = {"engine": "vllm", "version": "0.32.0", "revision": "main", "served": "served/1.9k"}
    assert table.record["made_by"] == made
    assert_measured(table, folder / "measured")
    words = imported_words("nano", corpora=["lines"])
    assert "reported by vllm 0&#46;32&#46;0" in words and not imported_words("nano")
    with pytest.raises(InputError, match="without their ties"):
        table.rank("random")
    # it goes to others as any table
    assert call(f"export --family nano --corpus lines -o {folder}/nano.ranks") == 0
    take(folder / "nano.ranks", "theirs")
    (theirs,) = rbplib.measure("theirs", "lines")
    assert np.array_equal(theirs.rank(), table.rank())
    # what was measured is not written over
    table.path.unlink()
    rbplib.measure("nano", "lines", progress=False)
    assert call(f"import {ranks} --family nano") == 2


def test_answers_of_a_server_and_of_generate_are_read_as_they_are(root, folder, engine):
    header, lines = read_lines(root / "ranks.jsonl")
    answers, results = [], []
    for line in lines[::-1]:
        entries = engine.entries(line["ids"])
        choice = {"index": 0, "prompt_logprobs": entries}
        answers.append({"model": "served/1.9k", "choices": [choice]})
        # objects, with the likeliest token too
        objects = [None]
        for ((token, about),) in map(dict.items, entries[1:]):
            likeliest = {7: {"rank": 1, "logprob": -0.1}}
            objects.append(likeliest | {int(token): SimpleNamespace(**about)})
        result = {"prompt_token_ids": line["ids"], "prompt_logprobs": objects}
        results.append(SimpleNamespace(**result))
    # with a mark of the order of bytes, and an empty line, as editors leave them
    (folder / "a.jsonl").write_text("\ufeff" + "\n\n".join(map(json.dumps, [header, *answers])))
    path = import_answers(folder / "a.jsonl", "nano")
    assert path == import_answers([header, *results], "nano")  # the same ranks may come again
    assert_measured(rbplib.read_table(path), folder / "measured")
    # but not by another rule, nor of another owner's model of that name
    with pytest.raises(InputError, match="holds other ranks"):
        import_answers([header | {"ties": "greater+1"}, *results], "nano")
    answers[3]["model"] = "other/1.9k"
    with pytest.raises(InputError, match="line 5 of the list holds ranks of 'other/1.9k'"):
        import_answers([header, *answers], "nano")


def test_the_script_asks_again_where_a_number_is_none(root, folder, engine):
    engine.prompts.clear()
    assert not ask(root / "windows.jsonl", folder / "r.jsonl", f"{engine.url}/nan")
    assert (folder / "r.jsonl").read_bytes() == (root / "ranks.jsonl").read_bytes()
    assert len(engine.prompts) == 2 * len(read_lines(folder / "r.jsonl")[1])


def test_what_vllm_answered_are_the_ranks_of_this_library():
    name, ids = VLLM["question"]["model"], VLLM["question"]["prompt"]
    model = AutoModelForCausalLM.from_pretrained(ROOT / name, dtype=torch.float32).eval()
    ours = rbplib.sequence_ranks(model, torch.tensor([ids]))
    ((_, rank, logprob),) = answered(VLLM["answer"], VLLM["answer"]["model"].__eq__, "the answer")
    assert [list(rank[1:])] == ours.rank.tolist()
    assert np.allclose(logprob[1:], ours.logprob, atol=1e-5)


@pytest.mark.skipif(not (which("jq") and which("curl")), reason="there is no jq or curl")
def test_the_curl_of_the_book_gives_the_same_ranks(root, folder, engine):
    text = (ROOT / "book/vllm.md").read_text()
    (script,) = re.findall(r"```bash\n(head -1 windows.*?)```", text, re.S)
    script = script.replace("EleutherAI/pythia-12b", "served/1.9k").replace("pythia-12b", "1.9k")
    script = script.replace("http://127.0.0.1:8000", engine.url)
    script = script.replace("ranks.jsonl", f"{folder}/ranks.jsonl")
    subprocess.run(["bash", "-c", script], cwd=root, check=True)
    path = import_answers(folder / "ranks.jsonl", "nano")
    assert_measured(rbplib.read_table(path), folder / "measured")


def test_ranks_above_alone_are_bounds_and_a_half_head_is_warned_of(root, folder, engine, capsys):
    # a head is of its weights' precision where nothing else is said
    path = folder / "half.jsonl"
    assert not ask(root / "windows.jsonl", path, engine.url, "bfloat16")
    header, lines = read_lines(path)
    header |= {"ties": "greater+1", "served": "/home/me/1.9k"}
    path.write_text("\n".join(map(json.dumps, [header, *lines])))
    assert call(f"import {path} --family nano") == 0
    out, err = capsys.readouterr()
    assert out.strip().endswith("nano-vllm.yml") and "bfloat16" in err
    # with what the page measured
    claim = "all/16_trust,all/16_trust rows half_precision 1,in_widths,"
    rows = (ROOT / "book/reference.csv").read_text().splitlines()
    (row,) = (row for row in rows if row.startswith(claim))
    assert f"up to {float(row.split(',')[3]):.0%} of" in err
    words = imported_words("nano-vllm", corpora=["lines"])
    (table,) = rbplib.measure("nano-vllm", "lines")
    sure = np.mean(2 * np.exp(table.logprob.astype(float)) > 1)  # nothing else reaches that
    bounds = f"RBP₁ between {sure:.4f} and {np.mean(table.rank() == 1):.4f}"
    assert f"(served as 1&#46;9k; {bounds})" in words and "head was in bfloat16" in words


def test_the_script_without_a_server_or_a_file_is_one_sentence(root, folder, engine):
    (folder / "other.jsonl").write_text('{"window": 9}\n{"ids": [1, 4096]}\n')
    (folder / "long.jsonl").write_text('{"window": 257}\n{"ids": [1, 2]}\n')
    (folder / "r.jsonl").touch()
    for windows, url, words in (
        (root / "windows.jsonl", "http://127.0.0.1:9", "refused"),
        (folder / "none.jsonl", engine.url, "none.jsonl"),
        (folder / "other.jsonl", engine.url, "out of vocabulary"),  # in the server's own words
        (folder / "long.jsonl", engine.url, "--max-model-len 258"),
        (root / "windows.jsonl", f"{engine.url}/null", "without rank and logprob"),
    ):
        said = ask(windows, folder / "r.jsonl", url)
        assert "run again" in said and words in said and len(said.splitlines()) == 1
        assert not (folder / "r.jsonl").read_text()


# what is said of ranks that are not of our windows
HEADERS = {  # of another first line
    "'ties'": {"ties": None},
    "another family": {"family": "other"},
    "another revision, step1": {"revision": "step1"},
    "22k": {"model": "22k"},
    "calls 'local/22k'": {"served": "local/22k"},
}
CELLS = {  # of another value of a token
    "no window of lines": {"ids": 3},
    "line 6 of": {"rank": True},
    "rank outside 1 to": {"rank": 4097},
    "no logprob": {"logprob": -9999.0},  # vLLM's minus infinity
    "more than its rank allows": {"rank": 400},
}
CHOICES = {  # of a first answer of a server
    "token 0": None,
    "token 1": {"prompt_logprobs": [None, None]},
    "2 candidates at position 1": {"prompt_logprobs": [None, {"1": {}, "2": {}}]},
    "of 1 tokens": {"prompt_logprobs": [None], "prompt_token_ids": [0, 9]},
    "a chat's": {"message": {"role": "assistant"}},
    "SGLang": {"meta_info": {"input_token_logprobs": []}},
    "without ranks": {"logprobs": {"token_logprobs": [-1]}},
}
CUT = {  # of ranks that are at most this
    "largest of all, where ranks are cut": 21,
    "is less than the first of 4096 has": 1,
}
LINES = {  # of other lines
    "lacks 1 of": lambda lines: lines[1:],
    "twice": lambda lines: [lines[3], *lines],
    "error of its server": lambda lines: [{"object": "error"}, *lines],
}


@pytest.mark.parametrize("words", [*HEADERS, *CELLS, *CHOICES, *CUT, *LINES])
def test_ranks_that_are_not_of_our_windows_are_one_sentence(root, folder, words):
    header, lines = read_lines(root / "ranks.jsonl")
    header |= HEADERS.get(words, {})
    for name, value in CELLS.get(words, {}).items():
        lines[4][name][2] = value
    for line in lines if words in CUT else ():
        line["rank"] = [rank and min(rank, CUT[words]) for rank in line["rank"]]
    if words in CHOICES:
        lines.insert(0, {"choices": [CHOICES[words]]})
    lines = LINES.get(words, list)(lines)
    assert words in refused(folder, "\n".join(map(json.dumps, [header, *lines])))


def refused(folder, text):
    """What `rbp import` says of ranks; it keeps nothing."""
    path = folder / "bad.jsonl"
    path.write_text(text)
    line = refusal(f"import {path} --family nano")
    assert list(folder.rglob("*")) == [path]
    return line


def test_a_cut_file_is_one_sentence(root, folder):
    assert "cut short" in refused(folder, (root / "ranks.jsonl").read_text()[:-40])
    assert "first line" in refused(folder, "[]\n")
    assert "name their family by --family" in refusal(f"import {root}/ranks.jsonl")
