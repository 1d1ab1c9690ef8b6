"""Probes of a model in training: counts held to brute force; the training stays the same."""

import numpy as np
import pandas as pd
import pytest
import torch

from training import ladders, probe, train

SIZE = ladders.Size(1, 12, 1)


@pytest.fixture(scope="module")
def heldout():
    """Three windows of planted text: words that follow each other often, and separators."""
    rng = np.random.default_rng(1)
    text = rng.zipf(1.3, 20_000) % 300 + 1
    text[rng.permutation(len(text))[:40]] = 0
    return text[: 40 * ladders.CONTEXT + 1].astype(np.uint16)


def test_a_second_reading_can_be_copied_and_a_first_one_of_random_ids_cannot(heldout):
    kinds = probe.strings(heldout)
    assert {tuple(ids.shape) for ids in kinds.values()} == {(probe.STRINGS, probe.LENGTH)}
    assert all((ids > 0).all() and (ids < ladders.VOCABULARY).all() for ids in kinds.values())
    entries = probe.copyable(torch.cat([kinds["random"]] * 2, 1))
    assert not entries[:, : probe.LENGTH].any() and entries[:, probe.LENGTH :].all()


def read_by(model, ids):
    """(losses, ranks) of all tokens but the first of each row, by its whole logits."""
    with torch.no_grad():
        logits = model.eval()(ids[:, :-1]).logits  # (B, T, V)
    target = ids[:, 1:, None]
    rank = (logits >= logits.gather(-1, target)).sum(-1)
    return -logits.log_softmax(-1).gather(-1, target)[..., 0], rank


def test_rows_are_those_of_the_whole_logits(heldout):
    torch.manual_seed(0)
    model = ladders.build("nano-pythia", SIZE)
    look = probe.Probe(heldout, every=5)
    assert look(model, 3) == []
    rows = {(name, part, k): (value, total) for _, name, part, k, value, _, total in look(model, 5)}
    windows = torch.from_numpy(
        np.lib.stride_tricks.sliding_window_view(heldout, 257)[::256].astype(np.int64)
    )
    losses, rank = read_by(model, windows)
    repeated, scored = probe.copyable(windows), windows[:, 1:] != 0
    for part, chosen in (("copyable", repeated & scored), ("other", scored & ~repeated)):
        loss, total = rows["loss", part, ""]
        assert total == chosen.sum() > 100
        assert loss == pytest.approx(losses[chosen].mean().item(), abs=1e-5)
        for k in probe.KS:
            # other sums, other last bits
            assert abs(rows["hits", part, k][0] - (rank[chosen] <= k).sum()) <= 1
    for kind, ids in probe.strings(heldout).items():
        losses, _ = read_by(model, torch.cat([ids, ids], 1))
        less = losses[:, probe.LENGTH :].mean() - losses[:, : probe.LENGTH - 1].mean()
        assert rows["copying", kind, ""][0] == pytest.approx(less.item(), abs=1e-5)


def test_a_probed_run_is_the_same_training_and_a_stopped_one_gives_the_same_file(heldout, tmp_path):
    look, texts, weights = probe.Probe(heldout, every=2), [], []

    def run(**how):
        plan = train.Plan(tokens=4 * 2048)
        model, record = train.train("nano-pythia", SIZE, plan, heldout, every=2, **how)
        weights.append(torch.cat([p.flatten() for p in model.parameters()]))
        return record

    run()
    for stops in ((None,), (0, 2, None)):
        for stop in stops:
            record = run(look=look, checkpoint=tmp_path / f"{len(stops)}.pt", stop=stop)
        texts.append(probe.as_csv(record["looks"], record, 8))
    assert weights[0].equal(weights[1]) and weights[0].equal(weights[-1])
    assert texts[0] == texts[1] and texts[0].count("\n") == 1 + 3 * 17


@pytest.mark.parametrize("deep, tokens", [(-np.inf, [0, 81_920]), (np.inf, [0])])
def test_another_batch_is_probed_after_as_many_tokens_until_it_copies(
    heldout, tmp_path, monkeypatch, deep, tokens
):
    monkeypatch.setattr(probe, "EVERY", 40)
    monkeypatch.setattr(probe, "DEEP", deep)
    monkeypatch.setattr(ladders, "sizes_to_probe", lambda: {"tiny": SIZE})
    monkeypatch.setattr(probe.data, "training_streams", lambda _: (np.tile(heldout, 9), heldout))
    monkeypatch.setenv("RBP_TRAINING", str(tmp_path))
    probe.run("tiny", train.Plan(81_920, 32), tmp_path)
    rows = pd.read_csv(tmp_path / "batch-32/nano-pythia-tiny-42.csv")
    assert rows["tokens"].unique().tolist() == tokens and len(rows) == 17 * len(tokens)
