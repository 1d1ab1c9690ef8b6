"""An embedded model on real text: ranks against minicons, lm-evaluation-harness, and their conventions in NumPy.

minicons ranks by "strictly greater, plus one" through two sorts, and neither scores the first token nor puts one
before it unless asked. lm-evaluation-harness puts an end-of-text token before every window, so it scores the first
token too; its greedy flag is argmax equal to the target, where the lowest id wins a tie.
"""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from rbplib.ranks import sequence_ranks

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "models" / "nano-pythia"
FOLDERS = sorted(FOLDER.glob("*/model.safetensors"), key=lambda p: p.stat().st_size)
pytestmark = pytest.mark.skipif(not FOLDERS, reason="the embedded family nano-pythia has not been trained yet")


@pytest.fixture(scope="module")
def embedded():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    net = AutoModelForCausalLM.from_pretrained(FOLDERS[-1].parent, dtype=torch.float32).eval()
    return net, AutoTokenizer.from_pretrained(ROOT / "models" / "tokenizer")


@pytest.fixture(scope="module")
def texts():
    """Sentences of a licence and of Python's own documentation, of unequal length."""
    licence = [part.replace("\n", " ").strip() for part in (ROOT / "LICENSE").read_text().split("\n\n")]
    docs = [f.__doc__ for f in (str.split, dict.setdefault, sorted, open)]
    return [t for t in licence if len(t) > 80][:6] + [" ".join(d.split())[:600] for d in docs]


def alone(model, tokens, ids):
    """Our ranks of one text, with nothing before it, and its logits."""
    ids = torch.tensor([ids])
    with torch.inference_mode():
        logits = model(ids).logits[0, :-1].float().numpy()
    return sequence_ranks(model, ids), logits, ids[0, 1:].numpy()


def test_conventions_of_the_peers_written_in_numpy(embedded, texts):
    model, tokens = embedded
    for text in texts:
        found, logits, targets = alone(model, tokens, tokens(text)["input_ids"])
        rows = np.arange(len(targets))
        places = np.argsort(np.argsort(-logits, axis=1, kind="stable"), axis=1, kind="stable") + 1
        rank = places[rows, targets]  # in a tie, anything from greater + 1 to greater + ties
        greater, ties, logprob = (c[0].numpy() for c in found)
        assert ((greater + 1 <= rank) & (rank <= greater + ties)).all()
        greedy = logits.argmax(axis=1) == targets
        assert (greedy <= (greater == 0)).all() and (greedy >= ((greater == 0) & (ties == 1))).all()
        fine = logits.astype(np.float64)
        fine = (
            fine - np.log(np.exp(fine - fine.max(1, keepdims=True)).sum(1, keepdims=True)) - fine.max(1, keepdims=True)
        )
        assert np.abs(fine[rows, targets] - logprob).max() < 1e-5


def test_ranks_are_those_of_minicons(embedded, texts):
    scorer = pytest.importorskip("minicons.scorer", reason="minicons is in the optional group `bench`")
    model, tokens = embedded
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = scorer.IncrementalLMScorer(model, "cpu", tokenizer=tokens).token_score(texts, rank=True)
    scored = untied = 0
    for text, rows in zip(texts, theirs, strict=True):
        found, _, targets = alone(model, tokens, tokens(text)["input_ids"])
        assert len(rows) == len(targets) + 1 and rows[0][1:] == (0.0, 0)  # the first token has no score
        logprob, rank = (np.array([r[i] for r in rows[1:]]) for i in (1, 2))
        greater, ties, ours = (c[0].numpy() for c in found)
        # they run all texts in one padded batch and subtract a rounded normaliser before sorting: near-ties may swap
        near = np.abs(rank - (greater + 1))
        assert (near > ties - 1).mean() < 0.01 and near.max() <= 2
        assert np.abs(logprob - ours).max() < 2e-5
        scored, untied = scored + len(rank), untied + int((near == 0).sum())
    assert scored > 300 and untied > 0.99 * scored


def test_logprob_and_greedy_flag_are_those_of_lm_evaluation_harness(embedded, texts):
    huggingface = pytest.importorskip(
        "lm_eval.models.huggingface", reason="lm-evaluation-harness is in the optional group `bench`"
    )
    from lm_eval.api.instance import Instance

    model, tokens = embedded
    harness = huggingface.HFLM(pretrained=model, tokenizer=tokens, batch_size=4)
    start = tokens.eos_token_id  # what it puts before every window
    assert harness.prefix_token_id == start

    rolling = [Instance("loglikelihood_rolling", {}, (text,), i) for i, text in enumerate(texts)]
    for text, total in zip(texts, harness.loglikelihood_rolling(rolling, disable_tqdm=True), strict=True):
        found, _, targets = alone(model, tokens, [start, *tokens(text)["input_ids"]])
        assert len(targets) <= 255, "one window each, or the positions would not line up"
        assert total == pytest.approx(found.logprob.double().sum().item(), abs=2e-5 * len(targets))

    pairs = []  # one token after each prefix of a text: its flag says whether that token comes first
    for text in texts[:4]:
        ids = tokens(text)["input_ids"][:40]
        pairs += [(("", ""), [start, *ids[:i]], ids[i : i + 1]) for i in range(len(ids))]
    answers = iter(harness._loglikelihood_tokens(pairs, disable_tqdm=True))
    greedy = 0
    for text in texts[:4]:
        found, _, targets = alone(model, tokens, [start, *tokens(text)["input_ids"][:40]])
        for greater, ties, logprob in zip(*(c[0].tolist() for c in found), strict=True):
            their_logprob, flag = next(answers)
            assert their_logprob == pytest.approx(logprob, abs=2e-5)
            assert flag == (greater == 0) or ties > 1
            greedy += flag
    assert greedy > 5
