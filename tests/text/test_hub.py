"""The path from the hub, over HTTP, with everything that goes wrong on it; no internet is needed."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hubserver import HubServer
from smallmodels import add_to_config, save_model

from rbplib import hub as fetch
from rbplib.families import Corpus, InputError
from rbplib.model_files import hub_model
from rbplib.models import load_model
from rbplib.stored import read_ranks
from rbplib.text_rows import draw
from rbplib.texts import load_documents

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("RBP_SHARED") or ROOT.parent / "shared")
DATA = SHARED / "hub" / "datasets"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the small real data are not here")
ID = "EleutherAI/pythia-14m"


def load(repo_id=ID, **options):
    return load_model(hub_model(repo_id, options.pop("revision", None)), **options)


def refused(match, call, *args, **options):
    with pytest.raises(InputError, match=match) as caught:
        call(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_model_from_the_hub(hub, small):
    import torch

    sha = hub.add("models", ID, small)
    loaded = load()
    assert loaded.record["revision"] == sha and loaded.record["model_id"] == ID
    local = load_model(hub_model(str(small)))
    assert loaded.record["tokenizer_digest"] == local.record["tokenizer_digest"]
    assert loaded.record["nonembedding_params"] == local.record["nonembedding_params"] < loaded.record["total_params"]
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(loaded.model(ids).logits, local.model(ids).logits)
    assert not loaded.model.training and loaded.model.dtype == torch.float32


def test_second_load_fetches_nothing(hub, small):
    hub.add("models", ID, small)
    load()
    hub.log.clear()
    load()
    assert not [entry for entry in hub.log if "/resolve/" in entry[1] or "/stored/" in entry[1]]


def test_named_revision(hub, small, copy):
    add_to_config(copy, note="other")
    hub.add("models", ID, small)
    other = hub.add("models", ID, copy, revision="step1000")
    assert load(revision="step1000").record["revision"] == other
    hub.stop()
    assert load(revision="step1000").record["revision"] == other  # the name still works from the cache


def test_old_name_is_followed(hub, small):
    hub.add("models", "openai-community/gpt2", small)
    hub.renamed["gpt2"] = "openai-community/gpt2"
    assert load("gpt2").record["nonembedding_params"] > 0


@pytest.mark.parametrize("kind", ["gpt2", "opt", "qwen2", "mamba"])
def test_other_architectures(hub, tmp_path, kind):
    save_model(tmp_path / "m", kind)
    hub.add("models", "owner/name", tmp_path / "m")
    assert load("owner/name").record["vocab_size"] == 320


def test_shards(hub, small, tmp_path):
    from transformers import AutoModelForCausalLM

    shutil.copytree(small, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()
    AutoModelForCausalLM.from_pretrained(small).save_pretrained(tmp_path / "m", max_shard_size="40KB")
    assert len(list((tmp_path / "m").glob("*.safetensors"))) > 1
    hub.add("models", ID, tmp_path / "m")
    load()
    first = sorted((tmp_path / "m").glob("*.safetensors"))[0]
    first.unlink()
    hub.add("models", "owner/torn", tmp_path / "m")
    refused("lacks the weight file", load, "owner/torn")


def test_cut_line_is_resumed(hub, small):
    hub.add("models", ID, small)
    hub.cut["model.safetensors"] = 2
    load()
    assert 206 in [status for _, _, status in hub.asked("model.safetensors")]
    size = (small / "model.safetensors").stat().st_size
    assert hub.sent < 1.5 * size + 200_000  # the second half, not the whole again


def test_busy_server(hub, small):
    hub.add("models", ID, small)
    hub.busy.update({"/models/" + ID: 1, "config.json": 1, "model.safetensors": 2})
    assert load().record["vocab_size"] == 320


def test_wrong_hash_is_refetched(hub, small):
    hub.add("models", ID, small)
    hub.corrupt.update({"model.safetensors": 1, "config.json": 1})
    load()
    assert len(hub.asked("model.safetensors")) >= 2


def test_wrong_hash_twice_is_refused(hub, small, tmp_path):
    hub.add("models", ID, small)
    hub.corrupt["model.safetensors"] = 9
    refused("does not match its published hash", load)
    assert not list((tmp_path / "cache").rglob("model.safetensors"))
    hub.corrupt.clear()
    load()


@pytest.mark.parametrize("status", [401, 403])
def test_gated(hub, small, status):
    hub.add("models", ID, small)
    hub.gated[ID] = status
    assert "log in" in refused("is gated", load)


def test_unknown_id_and_revision(hub, small):
    hub.add("models", ID, small)
    refused("does not exist on the hub", load, "EleutherAI/pythia-15m")
    refused("has no revision 'nope'", load, revision="nope")


def test_no_network(hub, small):
    hub.add("models", ID, small)
    sha = load().record["revision"]
    hub.stop()
    assert load().record["revision"] == sha
    refused("cannot be reached", load, "EleutherAI/pythia-31m")


def test_damaged_cache_without_network(hub, small, tmp_path):
    hub.add("models", ID, small)
    load()
    hub.stop()
    blob = next((tmp_path / "cache").rglob("model.safetensors")).resolve()
    blob.write_bytes(blob.read_bytes()[:-9])
    refused("damaged and was removed: connect", load)


def test_repository_without_weights(hub, copy):
    (copy / "model.safetensors").rename(copy / "model.gguf")
    hub.add("models", ID, copy)
    refused("model.gguf, which cannot be read", load)
    (copy / "config.json").unlink()
    hub.add("models", ID, copy)
    refused("has no config.json", load)


@pytest.mark.parametrize(
    "bad", ["../../etc/passwd", "a/b/c", "a/../b", "", "a b/c", "https://x/y", "owner/--name", ".a/b"]
)
def test_ids_are_validated(bad):
    with pytest.raises(InputError):
        fetch.check_repo_id(bad)


def test_tokens_reach_only_the_hub(hub, small, tmp_path, monkeypatch, capfd):
    secret = "hf_" + "s" * 34
    monkeypatch.setenv("HF_TOKEN", secret)
    hub.add("models", ID, small)
    loaded = load()
    assert any(secret in t for t in hub.tokens)  # the library sent it
    with pytest.raises(InputError) as caught:
        load("owner/none")
    said = str(caught.value) + json.dumps(loaded.record) + "".join(capfd.readouterr())
    written = [p for p in tmp_path.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
    assert secret not in said and not written


# weights, code and configurations that must not be believed


class Harm:
    def __reduce__(self):
        return os.mkdir, (os.environ["RBP_HARM"],)


def test_pickles_are_not_run(hub, copy, tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_HARM", str(tmp_path / "harm"))
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(pickle.dumps({"gpt_neox.embed_in.weight": Harm()}))
    hub.add("models", ID, copy)
    refused("more than tensors|is damaged|could not be loaded", load)
    assert not (tmp_path / "harm").exists()


def test_bin_weights_of_tensors_alone(hub, copy):
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    hub.add("models", ID, copy)
    assert load().record["total_params"] > 0


def test_remote_code_is_refused(hub, copy, tmp_path):
    mark = tmp_path / "ran"
    code = ["from transformers import GPTNeoXConfig", f"open({str(mark)!r}, 'w')", "class C(GPTNeoXConfig): pass"]
    (copy / "own.py").write_text("\n".join(code))
    add_to_config(copy, model_type="own", auto_map={"AutoConfig": "own.C"})
    hub.add("models", ID, copy)
    assert "--trust-remote-code" in refused("brings its own code", load)
    assert not mark.exists() and not hub.asked("own.py")


def test_damaged_local_folders(copy):
    def local(match):
        refused(match, load_model, hub_model(str(copy)))

    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    local("is damaged")
    (copy / "model.safetensors").write_bytes(weights)
    add_to_config(copy, num_hidden_layers=3)
    local("lack .* tensors of the model")
    add_to_config(copy, num_hidden_layers=2, hidden_size=64)
    local("could not be loaded|lack .* tensors")
    add_to_config(copy, model_type="t5")
    local("no causal language model|could not be loaded|cannot be used")
    add_to_config(copy, model_type="never-heard")
    local("unknown to this transformers")
    (copy / "config.json").write_text("{")
    local("is damaged")
    (copy / "config.json").unlink()
    local("holds no config.json")


def test_folder_without_a_tokenizer(copy):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copy / name).unlink()
    refused("comes without a tokenizer", load_model, hub_model(str(copy)))


def test_devices_that_are_not_there(small):
    import torch

    refused("device 'gpu'", load_model, hub_model(str(small)), device="gpu")
    refused("dtype 'int8'", load_model, hub_model(str(small)), dtype="int8")
    if not torch.cuda.is_available():
        refused("no CUDA device", load_model, hub_model(str(small)), device="cuda")
        refused("no CUDA device", load_model, hub_model(str(small)), device="auto")


def test_dtypes(small):
    import torch

    loaded = load_model(hub_model(str(small)), dtype="bfloat16")
    assert loaded.model.dtype == torch.bfloat16 and loaded.record["weights_dtype"] == "bfloat16"


def test_context_without_a_word_of_it(hub, small, tmp_path):
    from rbplib.families import load_family
    from rbplib.model_sizes import window_length

    hub.add("models", ID, small)
    (tmp_path / "mine.yml").write_text(f"models:\n  - id: {ID}\n  - id: {small}\n  - id: owner/none\n")
    assert window_length(load_family(tmp_path / "mine.yml")) == 64


# datasets


@pytest.fixture
def rows(tmp_path):
    """The same 500 rows as Parquet with small row groups, and as JSON lines."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [f"row {i} " + "é<b> " * (i * 37 % 400) for i in range(500)]
    folder = tmp_path / "set"
    (folder / "en").mkdir(parents=True)
    table = pa.table({"id": list(range(500)), "text": texts})
    for part in range(2):
        piece = table.slice(part * 250, 250)
        pq.write_table(piece, folder / "en" / f"train-0000{part}-of-00002.parquet", row_group_size=25)
    (folder / "all.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
    (folder / "README.md").write_text("# a set")
    return folder, texts


def corpus(**changes):
    entry = {"name": "set", "source": "hub", "id": "owner/set", "config": "en", "split": "train", "documents": 40}
    return Corpus(**{**entry, **changes})


@pytest.mark.parametrize("streaming", [False, True])
def test_sample_is_that_of_a_seeded_shuffle(hub, rows, streaming):
    import datasets

    folder, texts = rows
    hub.add("datasets", "owner/set", folder)
    found = load_documents(corpus(streaming=streaming))
    shuffled = datasets.Dataset.from_dict({"text": texts}).shuffle(seed=42)
    assert list(found.texts) == shuffled["text"][:40] and "" not in found.texts
    hub.stop()
    assert load_documents(corpus(streaming=streaming)).digest == found.digest  # kept: no network is needed


def test_streaming_reads_a_part(hub, tmp_path):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    columns = {name: [rng.bytes(4000).hex() for _ in range(400)] for name in ("text", "title")}
    (tmp_path / "set").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "set" / "train-0.parquet", row_group_size=10)
    hub.add("datasets", "owner/set", tmp_path / "set")
    load_documents(corpus(streaming=True, config=None, documents=4))
    assert hub.sent < 0.15 * (tmp_path / "set" / "train-0.parquet").stat().st_size
    assert hub.log and all(status == 206 for method, path, status in hub.log if method == "GET" and "/stored/" in path)


def test_json_lines_are_fetched_whole(hub, rows, tmp_path, monkeypatch):
    """Rows of JSON lines have no places known beforehand: the sample of a seeded shuffle needs the whole file."""
    folder, texts = rows
    (folder / "all.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts[:80]), encoding="utf-8")
    hub.add("datasets", "owner/set", folder)
    asked = corpus(streaming=True, data_files="all.jsonl", documents=40)
    found = load_documents(asked)
    assert len(found.texts) == len(set(found.texts)) == 40 and set(found.texts) <= set(texts)
    assert list(found.texts) == [texts[i] for i in draw(80, 40, 42)]
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "others"))
    assert load_documents(asked).digest == found.digest
    every = load_documents(corpus(streaming=True, data_files="all.jsonl", documents=1000))
    assert len(every.texts) == 80


def test_first_rows_fetch_no_file_they_do_not_need(hub, rows):
    folder, texts = rows
    hub.add("datasets", "owner/set", folder)
    found = load_documents(corpus(first=100))
    assert list(found.texts) == [texts[i] for i in draw(100, 40, 42)]
    assert hub.asked("train-00000-of-00002.parquet") and not hub.asked("train-00001-of-00002.parquet")


def test_streaming_survives_faults(hub, rows):
    folder, _ = rows
    hub.add("datasets", "owner/set", folder)
    hub.cut[".parquet"] = 2
    hub.busy[".parquet"] = 2
    assert len(load_documents(corpus(streaming=True)).texts) == 40


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_compressed_rows_filtered(hub, tmp_path, ending):
    import pyarrow as pa

    lines = [{"text": "x" * i, "meta": {"set": "A" if i % 3 else "B"}} for i in range(90)]
    data = "".join(json.dumps(row) + "\n" for row in lines).encode()
    (tmp_path / "set").mkdir()
    with pa.output_stream(str(tmp_path / "set" / f"test.jsonl{ending}"), compression="detect") as f:
        f.write(data)
    hub.add("datasets", "owner/set", tmp_path / "set")
    asked = corpus(data_files="test.jsonl*", where={"meta.set": "B"}, min_characters=31, documents=100)
    assert sorted(map(len, load_documents(asked).texts)) == list(range(33, 90, 3))
    grouped = corpus(data_files="test.jsonl*", where={"meta.set": "B"}, group="{meta.set}")
    assert load_documents(asked).units == () and set(load_documents(grouped).units) == {"B"}
    assert load_documents(grouped).units == load_documents(grouped).units  # the kept sample holds them
    first = load_documents(corpus(data_files="test.jsonl*", first=10))
    assert sorted(map(len, first.texts)) == list(range(10)) and first.texts.count("") == 1


def test_datasets_that_cannot_be_had(hub, rows):
    folder, _ = rows
    hub.add("datasets", "owner/set", folder)
    hub.gated["owner/set"] = 403
    assert "log in" in refused("is gated", load_documents, corpus())
    assert "log in" in refused("is gated", load_documents, corpus(streaming=True))
    hub.gated.clear()
    refused("dataset 'owner/other' does not exist", load_documents, corpus(id="owner/other"))
    refused("no files for split 'test'", load_documents, corpus(split="test"))
    refused("has no file 'en/x.parquet'", load_documents, corpus(data_files="en/x.parquet"))
    refused("has no field 'txt': did you mean 'text'", load_documents, corpus(template="{txt}"))
    hub.stop()
    refused("cannot be reached", load_documents, corpus(data_files="all.jsonl"))


# as a user


def user(hub, home, command, expect=0):
    """Run a command in a process of its own, with a cache and a results folder under `home`."""
    env = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "RBP_RESULTS": str(home / "results")}
    env = {**{k: v for k, v in os.environ.items() if k != "HF_TOKEN"}, **env, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=env, cwd=ROOT)
    assert done.returncode == expect, done.stderr
    return done


REAL = {
    "gpt_neox": ["EleutherAI/pythia-14m", "EleutherAI/pythia-31m", "EleutherAI/pythia-70m"],
    "gpt2": ["openai-community/gpt2", "openai-community/gpt2-medium"],
    "opt": ["facebook/opt-125m", "facebook/opt-350m"],
    "qwen2": ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B"],
    "mamba": ["state-spaces/mamba-130m-hf"],
}
EMBEDDED = {"gpt_neox": "pythia", "gpt2": "gpt2", "opt": "opt", "qwen2": "qwen2.5", "mamba": "mamba"}


def served_folder(tmp_path, kind, scale):
    """A model of this repository, the smallest first, or a random one of that architecture where there is none."""
    folders = (ROOT / "models" / f"nano-{EMBEDDED[kind]}").glob("*/model.safetensors")
    folders = sorted((p.parent for p in folders), key=lambda p: (p / "model.safetensors").stat().st_size)
    place = tmp_path / kind / str(scale)
    if len(folders) < scale:
        save_model(place, kind, scale)
    else:  # on the hub a model has its tokenizer with it
        for part in (folders[scale - 1], ROOT / "models" / "tokenizer"):
            shutil.copytree(part, place, dirs_exist_ok=True)
    return place


EVERY = """
import sys
from rbplib import measure
for path in sys.argv[1:]:
    corpora = ["humaneval", "hotpotqa", "wikipedia"] if "gpt_neox" in path else ["humaneval"]
    print(*measure(path, corpora=corpora, progress=False), sep="\\n")
"""


@needs_data
@pytest.mark.slow
def test_the_whole_path_as_a_user(tmp_path):
    """Real ids of models and data, one family per architecture, from an empty cache to a fit, then without the hub."""
    families = []
    with HubServer() as hub:
        for kind, ids in REAL.items():
            for scale, repo_id in enumerate(ids, start=1):
                hub.add("models", repo_id, served_folder(tmp_path, kind, scale))
            families.append(tmp_path / f"{kind}-served.yml")  # a name of its own, not that of the root
            families[-1].write_text("\n".join(["models:", *(f"  - id: {i}" for i in ids)]) + "\n")
        for repo_id in ("openai/openai_humaneval", "hotpotqa/hotpot_qa", "wikimedia/wikipedia"):
            hub.add("datasets", repo_id, DATA / repo_id)
        hub.cut["model.safetensors"] = 1
        paths = [Path(p) for p in user(hub, tmp_path, ["-c", EVERY, *families]).stdout.split()]
    assert len(paths) == 3 * 3 + 2 + 2 + 2 + 1
    for path in paths:
        record = read_ranks(path).record
        assert record["documents"] == {"humaneval": 164, "hotpotqa": 1000, "wikipedia": 60}[record["corpus"]]
        assert len(record["revision"]) == 40 and record["model_id"] in sum(REAL.values(), [])
    ask = ["--family", families[0], "--corpus", "humaneval"]
    assert user(hub, tmp_path, ["-m", "rbplib", "measure", *ask]).stdout.split() == [str(p) for p in paths[:9:3]]
    fit = user(hub, tmp_path, ["-m", "rbplib", "fit", *ask, "--k", "1", "--json", "--n-bootstrap", "200"])
    assert json.loads(fit.stdout)["n_models"] == 3


@pytest.mark.slow
def test_sentences_as_a_user_sees_them(tmp_path, small):
    family = tmp_path / "mine.yml"
    family.write_text("models:\n  - id: owner/gated\n  - id: owner/none\n")
    (tmp_path / "text.txt").write_text("some words\n")
    ask = ["-m", "rbplib", "measure", "--family", family, "--corpus", tmp_path / "text.txt"]
    with HubServer() as hub:
        hub.add("models", "owner/gated", small)
        hub.gated["owner/gated"] = 403
        said = user(hub, tmp_path, ask, expect=2).stderr
        assert said.count("\n") == 1 and "hf auth login" in said
    said = user(hub, tmp_path, ask, expect=2).stderr
    assert said.count("\n") == 1 and "cannot be reached" in said
