"""Ranks of another engine: a server that answers as vLLM did, with the ranks of an embedded model,
is `rbp measure` row by row; what cannot be ours is one sentence, and nothing is written."""

import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from shutil import which
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from commands import ROOT, call, python, take
from transformers import AutoModelForCausalLM

import rbplib
from paper.show.prose import imported_words
from rbplib import InputError
from rbplib.doors import answered, import_answers
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
        told = [None]
        for row, token in zip(nats[:-1], ids[1:], strict=True):
            rank = int((row >= row[token]).sum())
            about = {"logprob": float(row[token]), "rank": rank, "decoded_token": "?"}
            told.append({str(token): about})
        return told

    class Answer(BaseHTTPRequestHandler):
        asked = []

        def do_GET(self):
            models = {"data": [VLLM["models"]["data"][0] | {"id": "served/1.9k"}]}
            self.answer(VLLM["version"] if self.path.endswith("/version") else models)

        def do_POST(self):
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert question["prompt_logprobs"] == 0 and question["model"] == "served/1.9k"
            self.asked.append(question["prompt"])
            if max(question["prompt"]) >= 4096:
                return self.answer(VLLM["refused"], 400)
            told = None if self.path.startswith("/null") else entries(question["prompt"])
            # at first, where the address says so, a number that is none
            twice = self.asked.count(question["prompt"]) > 1
            if self.path.startswith("/nan") and not twice:
                told[2] = {token: about | {"logprob": None} for token, about in told[2].items()}
            choices = [VLLM["answer"]["choices"][0] | {"prompt_logprobs": told}]
            self.answer(VLLM["answer"] | {"model": "served/1.9k", "choices": choices})

        def answer(self, value, status=200):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # as many as the script may ask at once, and more

    server = Server(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield SimpleNamespace(
        url=f"http://127.0.0.1:{server.server_port}", entries=entries, asked=Answer.asked
    )
    server.shutdown()


@pytest.fixture(scope="module")
def place(tmp_path_factory, engine):
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


def ask(windows, ranks, url, weights="float32"):
    """Run the script, of at most 70 lines; what it says of an error."""
    words = [windows, ranks, "--model", "1.9k", "--url", url, "--weights", weights]
    script = ROOT / "workflow/vllm_ranks.py"
    assert script.read_text().count("\n") <= 70
    return python(script, *words).stderr


def lines_of(path):
    """What the lines of a file hold."""
    return map(json.loads, path.read_text().splitlines())


@pytest.fixture
def fresh(place, monkeypatch, tmp_path):
    """Results of its own."""
    monkeypatch.setenv("RBP_ROOT", str(place))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    return tmp_path


def compare_with_measured(table, results):
    (measured,) = rbplib.measure("nano", "lines", progress=False, results=results)
    for name in ("document", "position", "token"):
        assert np.array_equal(getattr(table, name), getattr(measured, name))
    assert np.array_equal(table.rank(), measured.rank()) and len(table) > 500
    assert np.abs(table.logprob - measured.logprob).max() < 1e-5
    same = "units nonembedding_params vocab_size tokenizer_digest documents read_tokens".split()
    assert [table.record[key] for key in same] == [measured.record[key] for key in same]


def test_what_the_script_asked_is_what_is_measured_row_by_row(place, fresh, engine):
    whole = (place / "ranks.jsonl").read_bytes()
    # stopped in a line it goes on there, and asks for no other window again
    cut = 2 * len(whole) // 3
    (place / "ranks.jsonl").write_bytes(whole[:cut])
    before, left = len(engine.asked), len(whole[cut:].splitlines())
    assert not ask(place / "windows.jsonl", place / "ranks.jsonl", engine.url)
    assert (place / "ranks.jsonl").read_bytes() == whole
    assert len(engine.asked) - before == left
    assert call(f"import {place}/ranks.jsonl --family nano") == 0
    (table,) = rbplib.measure("nano", "lines")  # found, and so not measured
    made = {"engine": "vllm", "version": "0.32.0", "revision": "main", "served": "served/1.9k"}
    assert table.record["made_by"] == made
    compare_with_measured(table, fresh / "measured")
    words = imported_words("nano", corpora=["lines"])
    assert "reported by vllm 0&#46;32&#46;0" in words and not imported_words("nano")
    with pytest.raises(InputError, match="without their ties"):
        table.rank("random")
    # it goes to others as any table
    out = fresh / "nano.ranks"
    assert call(f"export --family nano --corpus lines -o {out}") == 0
    take(out, "theirs")
    (theirs,) = rbplib.measure("theirs", "lines")
    assert np.array_equal(theirs.rank(), table.rank())
    # what was measured is not written over
    table.path.unlink()
    rbplib.measure("nano", "lines", progress=False)
    assert call(f"import {place}/ranks.jsonl --family nano") == 2


def test_answers_of_a_server_and_of_generate_are_read_as_they_are(place, fresh, engine):
    header, *lines = lines_of(place / "ranks.jsonl")
    answers, results = [], []
    for line in lines[::-1]:
        told = engine.entries(line["ids"])
        answers.append({"model": "served/1.9k", "choices": [{"index": 0, "prompt_logprobs": told}]})
        # objects, with the likeliest token too
        objects = [None]
        for ((token, about),) in map(dict.items, told[1:]):
            entries = {7: {"rank": 1, "logprob": -0.1}, int(token): SimpleNamespace(**about)}
            objects.append(entries)
        result = {"prompt_token_ids": line["ids"], "prompt_logprobs": objects}
        results.append(SimpleNamespace(**result))
    # with a mark of the order of bytes, and an empty line, as editors leave them
    (fresh / "a.jsonl").write_text("\ufeff" + "\n\n".join(map(json.dumps, [header, *answers])))
    first = import_answers(fresh / "a.jsonl", "nano")
    repeated = import_answers([header, *results], "nano")  # the same ranks may come again
    assert first == repeated
    compare_with_measured(rbplib.read_table(first), fresh / "measured")
    # but not by another rule, nor of another owner's model of that name
    with pytest.raises(InputError, match="holds other ranks"):
        import_answers([header | {"ties": "greater+1"}, *results], "nano")
    answers[3]["model"] = "other/1.9k"
    with pytest.raises(InputError, match="line 5 of the list holds ranks of 'other/1.9k'"):
        import_answers([header, *answers], "nano")


def test_the_script_asks_again_where_a_number_is_none(place, fresh, engine):
    engine.asked.clear()
    assert not ask(place / "windows.jsonl", fresh / "r.jsonl", f"{engine.url}/nan")
    assert (fresh / "r.jsonl").read_bytes() == (place / "ranks.jsonl").read_bytes()
    assert len(engine.asked) == 2 * (len(list(lines_of(place / "ranks.jsonl"))) - 1)


def test_what_vllm_answered_are_the_ranks_of_this_library():
    folder, ids = ROOT / VLLM["question"]["model"], VLLM["question"]["prompt"]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ours = rbplib.sequence_ranks(model, torch.tensor([ids]))
    ((_, rank, logprob),) = answered(VLLM["answer"], VLLM["answer"]["model"].__eq__, "the answer")
    assert [list(rank[1:])] == ours.rank.tolist()
    assert np.allclose(logprob[1:], ours.logprob, atol=1e-5)


@pytest.mark.skipif(not (which("jq") and which("curl")), reason="there is no jq or curl")
def test_the_curl_of_the_book_gives_the_same_ranks(place, fresh, engine):
    text = (ROOT / "book/vllm.md").read_text()
    (script,) = re.findall(r"```bash\n(head -1 windows.*?)```", text, re.S)
    script = script.replace("EleutherAI/pythia-12b", "served/1.9k").replace("pythia-12b", "1.9k")
    script = script.replace("http://127.0.0.1:8000", engine.url)
    script = script.replace("ranks.jsonl", f"{fresh}/ranks.jsonl")
    subprocess.run(["bash", "-c", script], cwd=place, check=True)
    path = import_answers(fresh / "ranks.jsonl", "nano")
    compare_with_measured(rbplib.read_table(path), fresh / "measured")


def test_ranks_above_alone_are_bounds_and_a_half_head_is_warned_of(place, fresh, engine, capsys):
    # a head is of its weights' precision where nothing else is said
    assert not ask(place / "windows.jsonl", fresh / "half.jsonl", engine.url, "bfloat16")
    header, *lines = lines_of(fresh / "half.jsonl")
    other = header | {"ties": "greater+1", "served": "/home/me/1.9k"}
    (fresh / "r.jsonl").write_text("\n".join(map(json.dumps, [other, *lines])))
    assert call(f"import {fresh}/r.jsonl --family nano") == 0
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


def test_the_script_without_a_server_or_a_file_is_one_sentence(place, fresh, engine):
    (fresh / "other.jsonl").write_text('{"window": 9}\n{"ids": [1, 4096]}\n')
    (fresh / "long.jsonl").write_text('{"window": 257}\n{"ids": [1, 2]}\n')
    (fresh / "r.jsonl").touch()
    for windows, url, word in (
        (place / "windows.jsonl", "http://127.0.0.1:9", "refused"),
        (fresh / "none.jsonl", engine.url, "none.jsonl"),
        (fresh / "other.jsonl", engine.url, "out of vocabulary"),  # in the server's own words
        (fresh / "long.jsonl", engine.url, "--max-model-len 258"),
        (place / "windows.jsonl", f"{engine.url}/null", "without rank and logprob"),
    ):
        said = ask(windows, fresh / "r.jsonl", url)
        assert "run again" in said and word in said and len(said.splitlines()) == 1
        assert not (fresh / "r.jsonl").read_text()


def changed(column, value, **others):
    """Lines whose third entry of a column of the fifth is another."""

    def change(header, lines):
        for name, entry in {column: value, **others}.items():
            lines[4][name][2] = entry
        return [header, *lines]

    return change


def with_line(line):
    return lambda header, lines: [header, line, *lines]


def with_choice(**choice):
    """A first answer of a server with such a choice."""
    return with_line({"choices": [choice]})


def with_answer(entries, ids=None):
    told = entries if entries is None else [None, *entries]
    return with_choice(prompt_logprobs=told, prompt_token_ids=ids)


def cut_at(most):
    """Ranks of which none is larger."""

    def change(header, lines):
        for line in lines:
            line["rank"] = [rank and min(rank, most) for rank in line["rank"]]
        return [header, *lines]

    return change


def with_header(**about):
    return lambda header, lines: [header | about, *lines]


BAD = {
    "a tie rule not declared": (with_header(ties=None), "'ties'"),
    "of another family": (with_header(family="other"), "another family"),
    "of another revision": (with_header(revision="step1"), "another revision, step1"),
    "ranks of another model": (with_header(model="22k"), "22k"),
    "ids that are not ours": (changed("ids", 3), "no window of lines"),
    "a rank that is none": (changed("rank", True), "line 6 of"),
    "an entry that is null": (with_answer([None]), "token 1"),
    "an entry that is a list": (with_answer([[2, -1]], ids=[0, 9]), "token 1"),
    "no choices": (with_line({"choices": None}), "token 0"),
    "prompt_logprobs of 1": (with_choice(prompt_logprobs=1), "token 1"),
    "a first line that is none": (lambda header, lines: [lines, *lines], "first line"),
    "ranks as of the first 20": (cut_at(21), "largest of all, where ranks are cut"),
    "a server of another model": (with_header(served="local/22k"), "calls 'local/22k'"),
    "a window missing": (lambda header, lines: [header, *lines[1:]], "lacks 1 of"),
    "a window twice": (lambda header, lines: [header, lines[3], *lines], "twice"),
    "a rank of 0": (changed("rank", 0), "rank outside 1 to"),
    "a rank above V": (changed("rank", 4097), "rank outside 1 to"),
    "a logprob that vLLM tells so": (changed("logprob", -9999.0), "logprob"),
    "a likely token of a high rank": (changed("rank", 400), "more than its rank allows"),
    "another model's answer": (
        lambda header, lines: [header, *lines[1:], lines[0] | {"model": "other"}],
        "'other'",
    ),
    "candidates too": (with_answer([{"1": {}, "2": {}}]), "2 candidates at position 1"),
    "another token's entry": (with_answer([{"7": {}}], ids=[0, 9]), "at token 1 of its window"),
    "fewer entries": (with_answer([], ids=[0, 9]), "of 1 tokens"),
    "an entry without a rank": (with_answer([{"9": {"logprob": -1}}]), "id, rank and logprob"),
    "a chat": (with_choice(message={"role": "assistant"}), "a chat's"),
    "an error of the server": (with_line({"object": "error"}), "error of its server"),
    "an answer of SGLang": (with_choice(meta_info={"input_token_logprobs": []}), "SGLang"),
    "no prompt": (with_choice(logprobs={"token_logprobs": [-1]}), "without ranks"),
    "rank 1 for all": (cut_at(1), "is less than the first of 4096 has"),
}


@pytest.mark.parametrize("fault", BAD)
def test_ranks_that_are_not_of_our_windows_are_one_sentence(place, fresh, capsys, fault):
    change, word = BAD[fault]
    header, *lines = lines_of(place / "ranks.jsonl")
    path = fresh / "bad.jsonl"
    path.write_text("\n".join(map(json.dumps, change(header, lines))))
    refuses(path, word, capsys)
    assert list(fresh.rglob("*")) == [path]


def refuses(path, word, capsys):
    assert call(f"import {path} --family nano") == 2
    out, err = capsys.readouterr()
    assert not out and word in err and len(err.splitlines()) == 1


def test_a_cut_file_is_one_sentence(place, fresh, capsys):
    assert call(f"import {place}/ranks.jsonl") == 2
    assert "name their family by --family" in capsys.readouterr().err
    path = fresh / "cut.jsonl"
    path.write_bytes((place / "ranks.jsonl").read_bytes()[:-40])
    refuses(path, "cut short", capsys)
    refuses(fresh / "none.jsonl", "none.jsonl", capsys)
