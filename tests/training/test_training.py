"""The training recipe: its arithmetic held to references, its text apart from evaluation text, and
the committed models held to their records."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM
from transformers.models.mamba import modeling_mamba

from rbplib import InputError, load_family
from tests.commands import ROOT
from training import __main__ as command
from training import data, families, ladders, table, train
from training.loss import head_loss
from training.scan import selective_scan

MODELS = sorted(path.parent for path in (ROOT / "models").glob("*/*/training.json"))


def record_of(folder):
    return json.loads((folder / "training.json").read_text())


@pytest.fixture(scope="module")
def first():
    """The start of the training tokens, and the windows of the first steps of a ladder."""
    with np.load(ROOT / "training" / "first_tokens.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_head_loss_is_cross_entropy(chunk):
    torch.manual_seed(0)
    inputs = torch.randn(130, 12, requires_grad=True), torch.randn(57, 12, requires_grad=True)
    targets = torch.randint(0, 57, (130,))
    losses = head_loss(*inputs, targets, chunk), cross_entropy(inputs[0] @ inputs[1].T, targets)
    torch.testing.assert_close(*losses)
    gradients = [torch.autograd.grad(2 * loss, inputs) for loss in losses]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_scan_is_the_reference_one():
    torch.manual_seed(0)
    b, D, N, T = 2, 6, 4, 17
    shapes = [(b, D, T), (b, D, T), (D, N), (b, N, T), (b, N, T), (D,), (b, D, T), (D,)]
    values = [torch.randn(shape, requires_grad=True) for shape in shapes]
    x, dt, A, B, C, skip, z, bias = values
    more = {"D": skip, "z": z, "delta_bias": bias, "delta_softplus": True}
    weight, results = torch.randn(b, D, T), []
    for scan in (modeling_mamba.mamba_selective_scan, selective_scan):
        y = scan(x, dt, -A.abs(), B, C, **more)
        results.append([y, *torch.autograd.grad((y * weight).sum(), values)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["nano-pythia", "nano-qwen2.5", "nano-gpt2", "nano-opt"])
def test_training_attention_is_the_model_s(family):
    torch.manual_seed(0)
    model = ladders.build(family, ladders.Size(2, 16, 2)).eval()
    ids = torch.randint(0, ladders.VOCABULARY, (2, 33))
    with torch.no_grad():
        logits = model(ids[:, :-1]).logits.flatten(0, 1)
        theirs = cross_entropy(logits, ids[:, 1:].flatten())
        model.set_attn_implementation("training")
        ours = train.loss_of(model, ids)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_every_seed_reads_the_text_once_in_an_order_of_its_own():
    stream, orders = np.arange(8 * 256 * 3 + 1, dtype=np.uint16), set()
    for seed in (ladders.SEED, *ladders.OTHER_SEEDS):
        order = train.Plan(tokens=8 * 256 * 3, seed=seed).order()
        read = train.windows(stream, order)[np.argsort(order), 1:]
        assert np.array_equal(read.ravel(), stream[1:])
        orders.add(tuple(order))
    assert len(orders) == 1 + len(ladders.OTHER_SEEDS)


def test_neither_another_plan_nor_a_damaged_checkpoint_is_gone_on_from(tmp_path, first):
    """A stopped run that goes on is in test_probe.py."""
    plan, path = train.Plan(tokens=4 * 2048), tmp_path / "checkpoint.pt"

    def curve(plan=plan, **how):
        size = ladders.Size(1, 12, 1)
        return train.train("nano-pythia", size, plan, first["training"], every=2, **how)[1]["curve"]

    whole = curve()
    curve(checkpoint=path, stop=2)
    assert curve(replace(plan, seed=1), checkpoint=path) == curve(replace(plan, seed=1)) != whole
    path.write_bytes(b"torn")
    assert curve(checkpoint=path) == whole


def test_smallest_size_gives_the_committed_curve(monkeypatch, first):
    """60 steps again: each mean of 20 within 0.05 nats, as sums differ between processors."""
    committed = record_of(ROOT / "models" / "nano-pythia" / "1.9k")
    plan = train.Plan(tokens=committed["tokens"], seed=committed["seed"])
    # the windows of these steps, by their number in the plan's order
    read = torch.from_numpy(first["windows"].astype(np.int64))
    row = {number: i for i, number in enumerate(plan.order()[: len(read)].tolist())}
    monkeypatch.setattr(train, "windows", lambda _, some: read[[row[i] for i in some.tolist()]])
    size = ladders.sizes("nano-pythia")["1.9k"]
    _, record = train.train("nano-pythia", size, plan, None, stop=data.FIRST_STEPS)
    assert record["steps"] == 60
    np.testing.assert_allclose(record["curve"], committed["curve"][:3], atol=0.05)


def test_no_training_document_is_near_an_evaluation_document(first, embedded):
    """Documents of the first tokens; and a tenth of all training text where it has been built."""
    overlaps = data.Overlaps(
        [text for _, documents in embedded.values() for text in documents.texts]
    )
    tokens, tokenizer = first["training"], data.load_tokenizer()
    documents = np.split(tokens, np.flatnonzero(tokens == 0) + 1)[:-1]
    assert len(documents) > 1000
    texts = [tokenizer.decode(document.tolist()) for document in documents]
    built = data.folder() / "documents.json"
    if built.is_file():
        for kind in json.loads(built.read_text()).values():
            texts += kind[::10]
    assert not [text for text in texts if overlaps.near(text)]


def test_near_sees_copies_and_parts():
    words = [f"w{i}" for i in range(400)]
    overlaps = data.Overlaps([" ".join(words[:200])])
    # Little of the training text, but much of the evaluation document.
    part = " ".join(f"x{i}" for i in range(3000)) + " " + " ".join(words[:80])
    assert overlaps.near(part) and not overlaps.near(" ".join(words[200:]))


@pytest.mark.parametrize("folder", MODELS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_committed_model(folder):
    record, model = record_of(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    assert (folder / "model.safetensors").stat().st_size < 20e6
    # its size is the record's, the family file's and the model's own
    listed = load_family(folder.parent.name).model(folder.name)
    size = ladders.nonembedding_parameters(model)
    assert size == listed.nonembedding_params == record["nonembedding_params"]
    assert sum(p.numel() for p in model.parameters()) == record["total_params"]
    assert listed.local == folder and model.config.vocab_size == ladders.VOCABULARY


@pytest.mark.parametrize("family", ladders.FAMILIES)
def test_a_committed_ladder_is_of_one_text_and_falls_with_size(family):
    records = [record_of(ROOT / "models" / family / name) for name in ladders.sizes(family)]
    sizes, losses = ([r[n] for r in records] for n in ("nonembedding_params", "heldout_loss"))
    assert len(sizes) >= 6 and sizes[-1] > 300 * sizes[0]
    assert sizes == sorted(sizes) and losses == sorted(losses, reverse=True)
    assert len({(record["tokens"], record["text_digest"]) for record in records}) == 1


def test_the_committed_files_are_made_of_the_records(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "models", tmp_path / "models")
    (tmp_path / "families").mkdir()
    monkeypatch.setattr(families, "root", lambda: tmp_path)
    for module in (families, table):
        module.write(tmp_path / "models")
    written = [tmp_path / "models/README.md", *(tmp_path / "families").iterdir()]
    assert len(written) == 1 + len(list((ROOT / "families").glob("nano-*.yml")))
    for file in written:
        assert file.read_text() == (ROOT / file.relative_to(tmp_path)).read_text()


@pytest.mark.parametrize(
    "words, hint",
    [
        ("nano-pythia 2k", "22k"),
        ("", "--all"),
        ("--probe nano-opt 656k", "nano-pythia"),
        (f"--probe 79k --out {__file__}", "could not be written"),
        ("--probe 79k --batch 3 --out .", "--batch cannot be 3"),
    ],
)
def test_command_refuses_what_cannot_be(monkeypatch, words, hint):
    monkeypatch.setattr("sys.argv", ["training", *words.split()])
    with pytest.raises((InputError, SystemExit), match=hint):
        command.main()
