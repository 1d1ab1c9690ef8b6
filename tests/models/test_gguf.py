"""Models in GGUF: read, counted and measured as what transformers expands them to; what is wrong is one sentence."""

import shutil
import sys

import pytest
import torch
from gguffile import small_llama, write_gguf
from test_bad_models import said_of

from rbplib import cli, quantised
from rbplib.families import InputError, load_family
from rbplib.model_files import folder_digest, hub_model
from rbplib.model_sizes import family_sizes
from rbplib.models import load_model
from rbplib.ranks import token_ranks
from rbplib.stored import read_ranks

pytest.importorskip("gguf", reason="reading GGUF needs the package gguf")
TEXT = "".join(f"{i}: the quick brown fox jumps over {i * i} lazy dogs\n" for i in range(30))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """(a GGUF file in Q4_1, the Llama that it holds, how many tensors of each type it has)."""
    path, model = tmp_path_factory.mktemp("gguf") / "small.Q4_1.gguf", small_llama()
    return path, model, write_gguf(path, model)


@pytest.mark.parametrize("by", ["file", "folder"])
def test_a_gguf_file_is_measured_as_any_model(small, by, tmp_path, capsys):
    path, model, types = small
    ident = path if by == "file" else path.parent
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "mine.yml").write_text(f"context: 64\nmodels: [{{id: {ident}, name: small}}]\n")
    ask = ["--family", tmp_path / "mine.yml", "--corpus", tmp_path / "text.txt", "--results", tmp_path / "results"]
    assert cli.main(["measure", *map(str, ask), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    table = read_ranks(out.strip())
    assert table.record["quantisation"] == {"file_type": "Q4_1", "tensors": types} and types["Q4_1"] == 15
    assert table.record["model_digest"] == folder_digest(path)
    assert table.record["nonembedding_params"] == model.num_parameters() - 2 * model.lm_head.weight.numel()
    ids = torch.tensor([load_model(hub_model(str(path))).tokenizer(TEXT)["input_ids"][:64]])
    assert ids[0, 1:].tolist() == table.token[:63].tolist()
    with torch.inference_mode():
        naive = token_ranks(model(ids).logits[0, :-1], ids[0, 1:])
    assert naive.greater.tolist() == table.greater[:63].tolist() and naive.ties.tolist() == table.ties[:63].tolist()
    assert abs(naive.logprob.numpy() - table.logprob[:63]).max() < 1e-5
    sizes = family_sizes(tmp_path / "mine.yml")[0]
    assert sizes["nonembedding_params"] == table.record["nonembedding_params"]


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("shape", [(7, 64), (2, 3, 32)])
def test_rounding_to_blocks_is_that_of_the_package(kind, shape):
    import gguf

    values = torch.randn(shape, generator=torch.Generator().manual_seed(3)) * 10
    values.view(-1)[:32] = 0.0
    values.view(-1)[32:64] = -1.5
    dtype = gguf.GGMLQuantizationType[kind]
    package = gguf.quants.dequantize(gguf.quants.quantize(values.numpy(), dtype), dtype)
    assert torch.equal(quantised.rounded(values, kind), torch.from_numpy(package).reshape(shape))


def test_a_rounded_model_gives_the_ranks_of_its_file(small, tmp_path):
    """`--dtype Q4_1` of the full weights and the GGUF file of them are one model."""
    from smallmodels import tokenizer

    full = small_llama()
    full.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    ours = load_model(hub_model(str(tmp_path)), dtype="Q4_1")
    assert ours.record["weights_dtype"] == "Q4_1"
    theirs = load_model(hub_model(str(small[0]))).model.state_dict()
    names = [n for n, p in ours.model.named_parameters() if n != "lm_head.weight"]  # the file keeps its head whole
    assert all(torch.equal(ours.model.state_dict()[n], theirs[n]) for n in names) and len(names) > 15
    assert not torch.equal(ours.model.state_dict()["lm_head.weight"], full.lm_head.weight)


def test_the_tokenizer_is_the_one_that_was_written(small):
    from smallmodels import tokenizer

    found = load_model(hub_model(str(small[0]))).tokenizer
    assert found(TEXT)["input_ids"] == tokenizer()(TEXT)["input_ids"]


def test_a_family_of_gguf_files(small, tmp_path, monkeypatch):
    from rbplib.family_file import write_family

    (tmp_path / "families").mkdir()
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    (model,) = load_family(write_family("mine", [str(small[0])])).models
    assert (model.name, model.context, model.local) == ("small.Q4_1", 64, small[0])


def two(folder, path):
    shutil.copy(path, folder / "other.gguf")


def part(folder, path):
    (folder / path.name).rename(folder / "small-00001-of-00003.gguf")


def foreign(folder, path):
    data = (folder / path.name).read_bytes()
    (folder / path.name).write_bytes(data.replace(b"llama", b"lumma"))


def rewrite(data):
    return lambda folder, path: (folder / path.name).write_bytes(data)


def cut(part):
    return lambda folder, path: (folder / path.name).write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])


BAD = {
    "two files": (two, r"holds 2 GGUF files \(other.gguf, small.Q4_1.gguf\): give the path of one"),
    "one part of several": (part, "one part of several: join them with `llama-gguf-split --merge`"),
    "no GGUF": (rewrite(b"hello there, this is no model"), "cannot be read as a model in GGUF"),
    "zero bytes": (rewrite(b""), "cannot be read as a model in GGUF"),
    "cut in its header": (cut(0.02), "cannot be read as a model in GGUF"),
    "cut in its weights": (cut(0.7), "cannot be read as a model in GGUF"),
    "an architecture that transformers does not read": (foreign, "lumma is not supported yet"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_gguf_is_one_sentence(name, small, tmp_path, capsys):
    change, wanted = BAD[name]
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(small[0], folder)
    change(folder, small[0])
    code, lines = said_of(tmp_path, folder, capsys)
    assert code == 2 and len(lines) == 1 and quantised.re.search(wanted, lines[0]), lines


def test_without_the_package_the_sentence_says_what_to_install(small, monkeypatch):
    quantised.header.cache_clear()
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(InputError, match=r"pip install 'rbplib\[gguf\]'"):
        load_model(hub_model(str(small[0])))
