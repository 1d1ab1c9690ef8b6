"""Whole models on a GPU: every kind of head, real memory limits, and a family's exponents beside the processor's."""

import gc
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks.contenders import body_only
from benchmarks.counting import Waits
from benchmarks.gpu import device_waits
from benchmarks.heads import whole_rows
from rbplib import measuring as measuring
from rbplib import models as loading
from rbplib import ranks as engine
from rbplib.curve import rbp_curve
from rbplib.estimators import ESTIMATORS
from rbplib.families import InputError, Model
from rbplib.model_files import hub_model
from rbplib.ranks import sequence_ranks, token_ranks
from rbplib.stored import COLUMNS, RankTable, checked_columns
from rbplib.texts import Documents, texts_digest
from rbplib.windows import encode, make_windows
from tests.gpu.devices import everywhere, large
from tests.models.test_heads import ARCHITECTURES, tiny, window
from tests.smallmodels import save_model

ROOT = Path(__file__).resolve().parents[2]
SIZES = ("1.9k", "6.6k", "22k")
KS = (1, 10, 100)


def near(found, truth, scored, moved=0.02, places=2, nats=2e-5):
    """Whether ranks are those of products that may round otherwise: the bound of tests/models/test_heads."""
    greater = (found.greater - truth.greater)[scored].abs()
    assert (greater > 0).float().mean() <= moved and greater.max() <= places
    assert (found.logprob - truth.logprob)[scored].abs().max() <= nats
    return True


@everywhere
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_kind_of_head_gives_the_ranks_of_the_models_own_logits(device, name):
    model, (ids, scored) = tiny(*ARCHITECTURES[name]).to(device), window()
    found = sequence_ranks(model, ids.to(device), scored)
    with torch.inference_mode():
        logits = model(ids.to(device)).logits
    truth = token_ranks(logits[:, :-1], ids[:, 1:].to(device))
    scored = scored.to(device)
    assert ((found.ties > 0) == scored).all() and found.logprob[~scored].isnan().all()
    assert near(found, truth, scored, places=2 + 2 * ("soft-capped" in name), nats=1e-4)


@everywhere
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_models_are_ranked_in_float32(device, dtype):
    """Against the float64 scores of the same hidden states: the product alone is between them."""
    from rbplib.heads import final_hidden

    model, (ids, _) = tiny(*ARCHITECTURES["plain"], dtype=dtype).to(device), window()
    ids = ids.to(device)
    found = sequence_ranks(model, ids)
    with torch.inference_mode():
        states, head = final_hidden(model, ids)
    truth = token_ranks(states[:, :-1].double() @ head.weight.double().t(), ids[:, 1:])
    assert near(found, truth, torch.ones_like(found.greater, dtype=torch.bool), nats=1e-4)


class Named(Waits):
    """The names of the calls that it counts."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        before, out = self.waits, super().__torch_function__(func, types, args, kwargs)
        self.names += [func.__name__] * (self.waits > before)
        return out


@everywhere
def test_a_batch_waits_for_its_results_alone(device, monkeypatch):
    """From ids on the processor to columns there: once the body is launched, one copy of all sums. (On a processor: no
    other call that would wait on a GPU before it.)"""
    model = tiny(*ARCHITECTURES["plain"]).to(device)
    loaded = SimpleNamespace(model=model, device=torch.device(device))
    run = (measuring.batch_ranks, loaded, some_windows(3, 24, 320), frozenset({5}), torch.float32)
    run[0](*run[1:])  # how scores are had is found out once
    if large(device):  # the body has waits of its own
        ids = torch.ones(3, 24, dtype=torch.int64, device=device)
        with torch.inference_mode():
            assert device_waits(*run) - device_waits(body_only, model, ids) == 1
    names, body = [], engine.final_hidden
    monkeypatch.setattr(engine, "final_hidden", lambda *a: (body(*a), names.append("body"))[0])
    with whole_rows(), Named() as counted:
        counted.names = names
        run[0](*run[1:])
    assert names.count("cpu") == names.count("body") == 1 and names.index("cpu") == names.index("body") + 1, names


def some_windows(count, length, vocab):
    ids = torch.randint(3, vocab, (count, length), generator=torch.Generator().manual_seed(4)).numpy()
    return list(make_windows(list(ids), (), length).windows)


@everywhere
def test_memory_that_really_runs_out_halves_the_batch(device, monkeypatch):
    """On a GPU torch may take no more than a little; on a processor, where none runs out, large batches are refused."""
    if large(device):
        model, windows = wide_model().to(device), some_windows(64, 1024, 2305)
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        most = (torch.cuda.memory_allocated() + 800 * 2**20) / total  # a block of 65,536 tokens takes 2 GB
        torch.cuda.set_per_process_memory_fraction(most)
    else:
        model, windows, real = tiny(*ARCHITECTURES["plain"]), some_windows(8, 24, 2305), measuring.sequence_ranks

        def tight(model, ids, **options):
            if len(ids) > 3:
                raise torch.OutOfMemoryError("simulated")
            return real(model, ids, **options)

        monkeypatch.setattr(measuring, "sequence_ranks", tight)
        handled = []  # an error that is being handled holds the frames that hold the batch: nothing is freed then
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: handled.append(sys.exc_info()[0]))
    loaded, whole = SimpleNamespace(model=model, device=torch.device(device)), sum(len(w.ids) for w in windows)
    try:
        columns, used = measuring.measure_windows(loaded, windows, frozenset(), whole, *TASK)
    finally:
        if large(device):
            torch.cuda.set_per_process_memory_fraction(1.0)
    monkeypatch.undo()
    assert used <= whole / 2 and (large(device) or set(handled) == {None})
    calm, _ = measuring.measure_windows(loaded, windows, frozenset(), len(windows[0].ids), *TASK)
    assert np.array_equal(columns["token"], calm["token"])
    moved = np.abs(columns["greater"] - calm["greater"])
    assert (moved > 0).mean() < 0.02 and moved.max() <= 2


TASK = (SimpleNamespace(update=lambda n: None), SimpleNamespace(expect={"head_dtype": "float32"}))


def wide_model():
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 4096}
    return GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=2305, max_position_embeddings=1024, **shape)).eval()


def deep_model(device, folder):
    """A model in a folder, 0.8 GB on a GPU: what torch keeps reserved counts as room too."""
    size = {"scale": 64, "num_attention_heads": 16} if large(device) else {"scale": 8}
    return save_model(folder, "gpt_neox", num_hidden_layers=6, **size)


def some_ids(device):
    return torch.randint(3, 320, (3, 40), generator=torch.Generator().manual_seed(5)).to(device)


def split_ranks(split, device):
    """Ranks of a model of which parts, its head among them, are on the device only while they run."""
    assert {p.device.type for p in split.parameters()} == {device, "meta"}
    with pytest.warns(RuntimeWarning, match="its own logits are taken"):
        return sequence_ranks(split, some_ids(device))


def assert_whole(found, net, device):
    truth = sequence_ranks(net.to(device), some_ids(device))
    assert near(found, truth, torch.ones_like(found.greater, dtype=torch.bool))


@everywhere
def test_a_model_larger_than_the_device_is_split(device, monkeypatch, tmp_path):
    """The device says it has room for a part: the rest stays in the processor's memory (on a processor: on disk)."""
    net, given = deep_model(device, tmp_path / "m"), hub_model(str(tmp_path / "m"))
    room = int(0.5 * sum(p.numel() * p.itemsize for p in net.parameters()))
    if large(device):
        torch.cuda.empty_cache()
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *a: (room, room))
    else:
        monkeypatch.setattr(loading, "must_spread", lambda *a: True)
    if find_spec("accelerate") is None:
        with pytest.raises(InputError, match="requires `accelerate`"):
            loading.load_model(given, device=device, dtype="float32")
        pytest.skip("transformers places parts by accelerate alone, which is not installed: by hand in the next test")
    import transformers.integrations.accelerate as placing

    if not large(device):
        monkeypatch.setattr(placing, "accelerate_max_memory", lambda given=None: {"cpu": room})
    split = loading.load_model(given, device=device, dtype="float32")
    monkeypatch.undo()
    assert_whole(split_ranks(split.model, device), net, device)


def offload(module, device):
    """Keep a module's weights in the processor's memory, and on the device only while it runs, as accelerate does with
    what does not fit; at other times they are on no device."""
    members = [(part, name, p) for part in module.modules() for name, p in part._parameters.items() if p is not None]
    held = [(part, name, p.detach().cpu()) for part, name, p in members]

    def place(where):
        for part, name, p in held:
            part._parameters[name] = torch.nn.Parameter(p.to(where), requires_grad=False)

    module.to(device)  # what it has beside weights stays there
    module.register_forward_pre_hook(lambda *given: place(device))
    module.register_forward_hook(lambda *given: place("meta"))
    place("meta")


@everywhere
def test_a_model_placed_by_hand_on_a_device_too_small_for_it(device, tmp_path):
    """Torch may take 85% of the whole model's bytes (on a processor: no limit): loaded whole it is refused in a
    sentence; half of its layers and its head offloaded, its ranks are those of the whole."""
    net, given = deep_model(device, tmp_path / "m"), hub_model(str(tmp_path / "m"))
    split = loading.load_model(given, device="cpu", dtype="float32").model
    if large(device):
        torch.cuda.empty_cache()
        most = torch.cuda.memory_reserved() + 0.85 * sum(p.numel() * p.itemsize for p in net.parameters())
        torch.cuda.set_per_process_memory_fraction(most / torch.cuda.get_device_properties(0).total_memory)
    try:
        if large(device):
            with pytest.raises(InputError, match="does not fit the memory of cuda: use --device auto"):
                loading.load_model(given, device=device, dtype="float32")
            gc.collect()
            torch.cuda.empty_cache()
        for part in (*split.gpt_neox.layers[3:], split.get_output_embeddings()):
            offload(part, device)
        for part in split.modules():
            if not any(p.is_meta for p in part.parameters()):
                part.to(device)
        found = split_ranks(split, device)
    finally:
        if large(device):
            torch.cuda.set_per_process_memory_fraction(1.0)
    assert_whole(found, net, device)


def documents():
    """Paragraphs of pages of the book: text that a checkout holds."""
    names = ("data", "glossary", "running", "cluster")
    pages = [(ROOT / "book" / f"{name}.md").read_text(encoding="utf-8") for name in names]
    return [part for page in pages for part in page.split("\n\n") if len(part) > 200][:120]


@pytest.fixture(scope="module")
def folders():
    found = [ROOT / "models" / "nano-pythia" / size for size in SIZES]
    if not all((folder / "model.safetensors").is_file() for folder in found):
        pytest.skip("the embedded models are not here")
    return found


def tables(folders, device, dtype):
    """Rank tables in memory, as `measure` makes them."""
    found = []
    for folder in folders:
        loaded = loading.load_model(Model(folder.name, str(folder), local=folder), device=device, dtype=dtype)
        ids, read = encode(loaded.tokenizer, documents(), 256)
        windows = make_windows(ids, loaded.tokenizer.all_special_ids, 256, "paper", read)
        columns, _ = measuring.measure_windows(loaded, list(windows.windows), windows.special, 8192, *TASK)
        found.append(RankTable(**{n: columns[n] for n in COLUMNS}, record=loaded.record | {"documents": len(ids)}))
    return found


def exponents(tables):
    """alpha at every k of -ln RBP_k ~ S^-alpha, by a straight line in logarithms, (K,)."""
    sizes = np.log([t.record["nonembedding_params"] for t in tables])
    curve = np.array([(t.rank()[:, None] <= np.array(KS)).mean(0) for t in tables])  # (models, K)
    return -np.polyfit(sizes, np.log(-np.log(curve)), 1)[0]


@everywhere
def test_the_exponents_of_an_embedded_family_are_the_processors(device, folders):
    """In float32 within 0.002, where the two round otherwise in the last bits; with bf16 weights and activations
    within 0.02, a rounding that moves most ranks by a little. (On a processor: the second alone.)"""
    truth = tables(folders, "cpu", "float32")
    alpha, bounds = exponents(truth), {"float32": 0.002, "bfloat16": 0.02}
    for dtype in bounds if large(device) else ["bfloat16"]:
        found = tables(folders, device, dtype)
        assert all(a.text == b.text for a, b in zip(truth, found, strict=True))
        assert np.abs(exponents(found) - alpha).max() <= bounds[dtype]
    assert (alpha > 0.01).all(), "without an exponent this test shows nothing"


class Held(dict):
    """Rank tables by their paths, in memory in place of Parquet files: what `measure` writes and reads."""

    def write_ranks(self, path, columns, record):
        about = record | {"scored_tokens": len(columns["token"])}
        self[path] = RankTable(**checked_columns(columns, record["vocab_size"]), record=about, path=path)

    def join_ranks(self, path, parts, record):
        columns = {n: np.concatenate([getattr(self[part], n) for part in parts]) for n in COLUMNS}
        self.write_ranks(path, columns, record)


@everywhere
def test_a_whole_measure_and_its_fitted_exponents(device, folders, tmp_path, monkeypatch):
    """`measure` itself, from YAML files and text to tables, and the library's own line through them: on a
    GPU the processor's exponents within 0.002. Text and tables are held in memory, since their files need pyarrow."""
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    texts = tuple(documents()[: None if large(device) else 20])
    pages = Documents(texts, texts_digest(texts), units=tuple(map(str, range(len(texts)))))
    (tmp_path / "pages.yml").write_text(f"name: pages\nsource: file\npath: {tmp_path}\n")
    models = "".join(f"  - {{name: {folder.name}, id: {folder}, dtype: float32}}\n" for folder in folders)
    (tmp_path / "some.yml").write_text(f"context: 256\nmodels:\n{models}")
    monkeypatch.setattr(measuring, "PART_TOKENS", 1000)  # several parts a table
    alpha = {}
    for where in dict.fromkeys((device, "cpu")):
        held = Held()
        for name, do in (("write", held.write_ranks), ("join", held.join_ranks), ("read", held.__getitem__)):
            monkeypatch.setattr(measuring, f"{name}_ranks", do)
        asked = {"corpora": [tmp_path / "pages.yml"], "samples": [pages], "results": tmp_path, "progress": False}
        found = [held[path] for path in measuring.measure(tmp_path / "some.yml", device=where, **asked)]
        assert len(found) == len(SIZES) and len(held) > 2 * len(SIZES)
        assert all((t.record["device"] == "cpu") == (where == "cpu") for t in found)
        curve = rbp_curve(found, KS)
        losses, line = map(curve.loss, KS), ESTIMATORS["least_squares"]
        alpha[where] = [line.solve(loss.values, np.log(loss.S), loss.total)[0] for loss in losses]
        np.testing.assert_allclose(alpha[where], exponents(found), rtol=1e-9)
    assert np.abs(np.subtract(alpha[device], alpha["cpu"])).max() <= 0.002 and min(alpha["cpu"]) > 0.01
