"""The training recipe: fused loss, scan, data apart from evaluation text, resuming, and the committed models."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from corpora import make as embedded  # noqa: E402
from rbplib import families as settings  # noqa: E402
from training import checks, data, grid, ladders, train  # noqa: E402
from training.loss import head_loss  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted(p.parent for p in (ROOT / "models").glob("*/*/training.json"))
names = pytest.mark.parametrize("folder", MODELS, ids=[f"{p.parent.name}-{p.name}" for p in MODELS])


@pytest.fixture(scope="module")
def first_tokens():
    """Start of `results/training/tokens.npz`: what a checkout can train on at once."""
    with np.load(ROOT / "training" / "first_tokens.npz") as held:
        return held["training"]


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_head_loss_is_cross_entropy(chunk):
    torch.manual_seed(0)
    hidden = torch.randn(130, 12, requires_grad=True)
    weight = torch.randn(57, 12, requires_grad=True)
    targets = torch.randint(0, 57, (130,))
    ours = head_loss(hidden, weight, targets, chunk)
    theirs = torch.nn.functional.cross_entropy(hidden @ weight.T, targets)
    torch.testing.assert_close(ours, theirs)
    mine = torch.autograd.grad(2 * ours, (hidden, weight))
    yours = torch.autograd.grad(2 * theirs, (hidden, weight))
    torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-6)


def test_scan_is_the_reference_one():
    from transformers.models.mamba import modeling_mamba

    from training.scan import selective_scan

    torch.manual_seed(0)
    b, D, N, T = 2, 6, 4, 17
    shapes = [(b, D, T), (b, D, T), (D, N), (b, N, T), (b, N, T), (D,), (b, D, T), (D,)]
    values = [torch.randn(s) for s in shapes]
    values[2] = -values[2].abs()
    values = [v.requires_grad_() for v in values]
    weight = torch.randn(b, D, T)
    results = []
    for scan in (modeling_mamba.mamba_selective_scan, selective_scan):
        y = scan(*values[:5], D=values[5], z=values[6], delta_bias=values[7], delta_softplus=True)
        results.append([y, *torch.autograd.grad((y * weight).sum(), values)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["nano-pythia", "nano-qwen2.5", "nano-gpt2", "nano-opt"])
def test_training_attention_is_the_model_s(family):
    torch.manual_seed(0)
    model = ladders.build(family, ladders.Size(2, 16, 2)).eval()
    ids = torch.randint(0, ladders.VOCABULARY, (2, 33))
    with torch.no_grad():
        theirs = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
        model.set_attn_implementation("training")
        ours = train.loss_of(model, ids)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_ladders_span_two_and_a_half_decades():
    for family in ("nano-pythia", "nano-gpt2", "nano-opt", "nano-qwen2.5"):
        with torch.device("meta"):
            counts = [ladders.nonembedding_parameters(ladders.build(family, s)) for s in ladders.sizes(family).values()]
        assert len(counts) >= 6 and counts == sorted(counts)
        assert np.log10(counts[-1] / counts[0]) > 2.5


def test_schedule_warms_up_and_ends_at_zero():
    plan = train.Plan(tokens=100 * 2048)
    factors = [plan.factor(step) for step in range(plan.steps)]
    assert max(factors) == 1 and factors.index(1) == 3
    assert factors == sorted(factors[:4]) + sorted(factors[4:], reverse=True)
    assert plan.factor(plan.steps) == 0


def test_windows_read_the_stream_once():
    stream = np.arange(8 * 256 * 3 + 1, dtype=np.uint16)
    plan = train.Plan(tokens=8 * 256 * 3)
    read = np.concatenate([train.windows(stream, numbers)[:, 1:] for numbers in plan.order().reshape(3, 8)])
    assert np.array_equal(read[np.argsort(plan.order())].reshape(-1), stream[1:])


def test_every_seed_reads_the_same_windows_in_an_order_of_its_own():
    plan = train.Plan(tokens=8 * 256 * 30)
    orders = [replace(plan, seed=seed).order() for seed in (ladders.SEED, *ladders.OTHER_SEEDS)]
    for i, order in enumerate(orders):
        assert np.array_equal(np.sort(order), np.arange(240)) and not np.array_equal(order, np.arange(240))
        assert not any(np.array_equal(order, other) for other in orders[:i])
    assert np.array_equal(orders[1], replace(plan, seed=ladders.OTHER_SEEDS[0]).order())


def test_resumed_run_gives_the_same_weights(tmp_path, first_tokens):
    plan, size = train.Plan(tokens=8 * 2048), ladders.Size(1, 12, 1)
    whole, record = train.train("nano-pythia", size, plan, first_tokens, every=2)
    path = tmp_path / "checkpoint.pt"
    train.train("nano-pythia", size, plan, first_tokens, checkpoint=path, stop=4, every=2)
    resumed, again = train.train("nano-pythia", size, plan, first_tokens, checkpoint=path, every=2)
    assert record["curve"] == again["curve"]
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
    other = replace(plan, seed=1)  # another plan does not go on from this checkpoint
    _, fresh = train.train("nano-pythia", size, other, first_tokens, checkpoint=path, stop=2, every=2)
    assert fresh["curve"][0][1] != record["curve"][0][1]


def test_smallest_size_gives_the_committed_curve(monkeypatch):
    """60 steps again: each mean of 20 steps within 0.05 nats; the order of sums differs between processors."""
    folder = ROOT / "models" / "nano-pythia" / "1.9k"
    committed = json.loads((folder / "training.json").read_text())
    plan = train.Plan(tokens=committed["tokens"], seed=committed["seed"])
    with np.load(ROOT / "training" / "first_tokens.npz") as held:
        known = dict(zip(plan.order().tolist(), held["windows"].astype(np.int64), strict=False))
    monkeypatch.setattr(train, "windows", lambda _, some: torch.from_numpy(np.stack([known[i] for i in some.tolist()])))
    _, record = train.train("nano-pythia", ladders.sizes("nano-pythia")["1.9k"], plan, None, stop=data.FIRST_STEPS)
    assert record["steps"] == 60
    np.testing.assert_allclose(record["curve"], committed["curve"][:3], atol=0.05)


def test_no_training_document_is_near_an_evaluation_document(first_tokens, capsys):
    """Documents of the first tokens read; all of the training text where it has been built."""
    from tokenizers import Tokenizer

    held = data.Held(data.evaluation_pool())
    tokenizer = Tokenizer.from_file(str(ROOT / "models" / "tokenizer" / "tokenizer.json"))
    ends = np.flatnonzero(first_tokens == 0)
    pieces = np.split(first_tokens, ends + 1)[:-1]
    texts = [tokenizer.decode(p.tolist()) for p in pieces]
    assert len(texts) > 1000
    assert not [text for text in texts if data.near(held, text)]
    built = settings.results_dir() / "training" / "documents.json"
    if built.is_file():
        kept = json.loads(built.read_text())
        assert not [text for texts in kept.values() for text in texts[::10] if data.near(held, text)]


def test_repeats_are_dropped():
    base = " ".join(f"word{i}" for i in range(100))
    near = base.replace("word50", "other")
    half = " ".join(f"word{i}" for i in range(40)) + " " + " ".join(f"new{i}" for i in range(60))
    assert data.without_repeats([base, near, base.upper(), half]) == [base, half]


def test_near_sees_copies_and_parts():
    words = [f"w{i}" for i in range(400)]
    held = data.Held([" ".join(words[:200])])
    other = " ".join(f"x{i}" for i in range(3000))
    assert data.near(held, " ".join(words[:200]))
    assert data.near(held, other + " " + " ".join(words[:80]))  # little of the training text, much of the document
    assert not data.near(held, " ".join(words[200:]))
    assert held.overlaps(" ".join(words[200:])) == (0.0, 0.0)


@names
def test_committed_model(folder):
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM

    from rbplib.models import load_tokenizer

    record = json.loads((folder / "training.json").read_text())
    path = folder / "model.safetensors"
    with safe_open(path, "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"BF16"}  # noqa: SIM118
    assert path.stat().st_size < 20e6
    model = AutoModelForCausalLM.from_pretrained(folder)
    listed = settings.load_family(folder.parent.name).model(folder.name)
    assert listed.nonembedding_params == record["nonembedding_params"] == ladders.nonembedding_parameters(model)
    assert listed.local == folder and listed.context == ladders.CONTEXT
    assert sum(p.numel() for p in model.parameters()) == record["total_params"]
    tokenizer = load_tokenizer(folder, str(folder))
    text = "def f(x):\n    return x + 12  # naïve"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer) == model.config.vocab_size == ladders.VOCABULARY
    assert tokenizer.convert_tokens_to_ids("<|endoftext|>") == 0


def test_committed_models_are_small_and_ordered():
    assert sum(p.stat().st_size for p in (ROOT / "models").rglob("*") if p.is_file()) < 80e6
    for family in sorted({p.parent for p in MODELS if p.parent.name in ladders.FAMILIES}):
        records = [json.loads(p.read_text()) for p in family.glob("*/training.json")]
        records.sort(key=lambda r: r["nonembedding_params"])
        losses = [r["heldout_loss"] for r in records]
        assert len(records) >= 6 and losses == sorted(losses, reverse=True)
        assert len({(r["tokens"], r["text_digest"]) for r in records}) == 1


def test_every_family_has_its_weights():
    assert {p.parent.name for p in MODELS} >= set(ladders.FAMILIES)
    assert {(p.parent.name, p.name) for p in MODELS} >= {ladders.place(*job) for job in ladders.repeated()}


def test_every_size_of_one_family_is_trained_three_times():
    jobs = ladders.repeated()
    assert {family for family, _, _ in jobs} == {"nano-pythia"} and len(jobs) == len(set(jobs)) == 12
    assert {(name, seed) for _, name, seed in jobs} == {(n, s) for n in ladders.sizes("nano-pythia") for s in (43, 44)}
    listed = settings.load_family("nano-pythia-seeds")
    sizes = [model.nonembedding_params for model in listed.models]
    assert len(sizes) == 18 and {sizes.count(size) for size in sizes} == {3}
    assert {m.local.parent.name for m in listed.models if "-" not in m.name} == {"nano-pythia"}  # the ladder's own
    assert all(settings.load_family(family).repeats == listed.name for family in ladders.FAMILIES)


def test_repeated_seeds_differ_in_their_seed_alone():
    for family, name, seed in ladders.repeated():
        first, again = (
            json.loads((ROOT.joinpath("models", *place) / "training.json").read_text())
            for place in (ladders.place(family, name), ladders.place(family, name, seed))
        )
        assert again["seed"] == seed != first["seed"] and again["heldout_loss"] != first["heldout_loss"]
        for key in ("nonembedding_params", "tokens", "text_digest", "peak_rate_blocks", "peak_rate_tables"):
            assert again[key] == first[key]


def test_learning_rates_were_checked_at_both_ends():
    """Neither rate is far off: over a whole run, half or twice of one gains at most 0.05 nats."""
    found = json.loads((ROOT / "models" / "checks.json").read_text())
    losses = {(r["family"], r["size"], r["blocks"], r["tables"]): r["heldout_loss"] for r in found["runs"]}
    assert found["tokens"] == train.Plan.tokens
    for family in checks.CHECKED:
        for name in checks.ends(family):
            rule = losses[family, name, 1.0, 1.0]
            for blocks, tables in checks.FACTORS[1:]:
                other = losses[family, name, blocks, tables]
                assert other is None or other > rule - 0.05


def test_check_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    path = tmp_path / "checks.json"
    monkeypatch.setattr(checks, "one", lambda family, name, blocks, tables: blocks + tables)
    monkeypatch.setattr(checks, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers))
    monkeypatch.setattr(checks.data, "streams", lambda: None)
    checks.every(path)
    whole = json.loads(path.read_text())
    assert len(whole["runs"]) == 2 * len(checks.FACTORS) * len(checks.CHECKED)
    cut = {"tokens": whole["tokens"], "runs": whole["runs"][::2]}
    path.write_text(json.dumps(cut))
    calls = []
    monkeypatch.setattr(checks, "one", lambda *run: calls.append(run) or sum(run[2:]))
    checks.every(path)
    assert json.loads(path.read_text()) == whole and len(calls) == len(whole["runs"][1::2])
    lines = list(checks.rows(whole))
    assert len(lines) == 2 * len(checks.CHECKED) and lines[0].endswith("| 2.000 | 1.500 | 3.000 | 1.500 | 3.000 |")


def test_rates_follow_the_width():
    assert ladders.learning_rates(16) == (0.016, 0.03)
    assert ladders.learning_rates(64) == (0.004, 0.03)
    plan = train.Plan(tokens=8 * 2048, rate=0.5, table_rate=2.0)
    model, master = train.prepare("nano-gpt2", ladders.Size(1, 32, 1), plan)
    peaks = {group["peak"]: group["params"][0].numel() for group in master.optimizer.param_groups}
    assert peaks[0.06] == model.get_input_embeddings().weight.numel()  # tied: once
    assert set(peaks) == {0.06, 0.004}


def test_table_is_made_of_the_records(tmp_path):
    import shutil

    from training import table

    shutil.copytree(ROOT / "models", tmp_path / "models")
    table.write(tmp_path / "models")
    assert (tmp_path / "models" / "README.md").read_text() == (ROOT / "models" / "README.md").read_text()


def test_tokenizer_is_deterministic():
    from training.tokenizer import train_tokenizer

    texts = [text for _, text in embedded.evaluation_documents("licences", 60, 1)]
    first, second = (train_tokenizer(texts, 400) for _ in range(2))
    assert first.to_str() == second.to_str()
    assert first.decode(first.encode(texts[0]).ids) == texts[0]


def test_command_refuses_unknown_names(monkeypatch, capsys):
    from training import __main__ as command

    for words, hint in ((["nano-pythai"], "nano-pythia"), (["nano-pythia", "2k"], "22k"), ([], "--all")):
        monkeypatch.setattr("sys.argv", ["training", *words])
        with pytest.raises(settings.InputError, match=hint):
            command.main()


def test_grid_is_every_size_on_every_budget():
    runs = ladders.grid()
    assert len(runs) == len(set(runs)) == 35 + 12  # seven sizes on five budgets, and the repeats
    own = {(name, tokens) for _, name, seed, tokens in runs if seed == ladders.SEED}
    assert own == {(n, t) for n in ladders.sizes("nano-pythia", top=True) for t in ladders.BUDGETS.values()}
    places = {ladders.grid_place(*run) for run in runs}
    assert len(places) == 47 and {("nano-pythia-16m", "656k"), ("nano-pythia-4m.repeats", "656k-43")} <= places
    budgets = {f"nano-pythia-{n}m" for n in (1, 2, 4, 8, 16)}
    assert {family for family, _ in places} == budgets | {"nano-pythia-4m.repeats"}


def test_a_larger_budget_begins_with_the_text_of_a_smaller_one():
    lengths = [replace(train.Plan(), tokens=tokens).order().max() for tokens in ladders.BUDGETS.values()]
    assert [(n + 1) * ladders.CONTEXT for n in lengths] == list(ladders.BUDGETS.values())


def test_the_committed_grid_is_whole_and_of_one_recipe():
    found = grid.records()
    assert [r["size"] for f, r in found if f == "nano-pythia-16m"][:6] == list(ladders.sizes("nano-pythia"))
    for family, r in found:
        plan = train.Plan(r["tokens"], seed=r["seed"])
        assert (r["steps"], r["peak_rate_blocks"]) == (plan.steps, ladders.learning_rates(r["width"])[0])
        counted = settings.load_family(family if r["seed"] == ladders.SEED else f"{family}.repeats")
        listed = {m.name: m for m in counted.models}[r["size"]]
        assert (listed.nonembedding_params, listed.tokens) == (r["nonembedding_params"], r["tokens"])
    assert len({r["text_digest"] for _, r in found if r["tokens"] == ladders.TOKENS}) == 1


@pytest.mark.slow
def test_a_model_of_the_grid_is_trained_and_measured_again(tmp_path):
    """The smallest on the fewest tokens: the same counts where the weights are the same, else an RBP within 2%."""
    from rbplib.curve import family_curve
    from rbplib.measuring import measure

    if not (data.folder() / "tokens.npz").is_file():
        pytest.skip("the training text is not built here, which takes minutes: `python -m training grid` does")
    family, record = grid.records()[0]
    stream, heldout = data.streams()
    size = ladders.sizes("nano-pythia")[record["size"]]
    model, again = train.train("nano-pythia", size, train.Plan(record["tokens"]), stream, heldout)
    assert data.digest(stream[: record["tokens"] + 1]) == record["text_digest"]
    assert again["heldout_loss"] == pytest.approx(record["heldout_loss"], abs=0.05)
    train.save_model(model, again, tmp_path / record["size"])
    text = f"context: 256\ndtype: float32\nmodels:\n  - {{id: {tmp_path / record['size']}}}\n"
    (tmp_path / "again.yml").write_text(text)
    measure(tmp_path / "again.yml", corpora=["docs"], results=tmp_path / "results", progress=False)
    mine = family_curve(tmp_path / "again.yml", "docs", (1, 10), results=tmp_path / "results")
    theirs = family_curve(family, "docs", (1, 10)).keep([record["size"]])
    if grid.record_of(tmp_path / record["size"])["weights"] == record["weights"]:
        assert np.array_equal(mine.hits, theirs.hits)
    np.testing.assert_allclose(mine.rbp, theirs.rbp, rtol=0.02)
