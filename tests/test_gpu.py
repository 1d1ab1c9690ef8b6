"""Ranks on a device against brute force: small on a processor, and on CUDA where it is."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import rbplib as rbp
from rbplib import head_ranks, kernel, ranks, token_ranks
from rbplib.texts import load_documents
from tests.ranks.sorts import assert_brute, planted_sorts, wrong
from tests.ranks.workshop import naive_ranks, write_root

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, CUDA])]
everywhere = pytest.mark.parametrize("device", DEVICES)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
SHAPES = {"cpu": (70, 3_001, 64), "cuda": (700, 50_257, 1024)}  # rows, candidates, width


def assert_near(ranks, hidden, weight, targets):
    """Ranks differ from those of float64 scores by candidates within float32 rounding alone.

    Roundings of 2^-24 of a sum add up as the root of d, on matrix units, which cut off, as d.
    """
    hidden, weight = hidden.double(), weight.double()
    scores = hidden @ weight.t()
    q = (hidden.square() @ weight.square().t()).sqrt()
    bound = 2 * (8 * hidden.shape[1] ** 0.5 + hidden.shape[1] / 2) * 2.0**-24 * q
    own = scores.gather(1, targets[:, None])
    close = ((scores - own).abs() <= bound).sum(1)
    moved = (ranks.greater - (scores > own).sum(1)).abs()
    assert close.double().mean() < 10, "the bound says nothing"
    assert (moved < close).all()
    logprob = scores.log_softmax(1).gather(1, targets[:, None])[:, 0]
    assert (ranks.logprob - logprob).abs().max() <= 2 * bound.max() + 1e-5


def planted(device, dtype, whole=False):
    """States, an output embedding and targets, the same numbers everywhere."""
    rows, candidates, width = SHAPES[device]
    generator, inputs = torch.Generator().manual_seed(0), []
    for count in (rows, candidates):
        values = torch.randn(count, width, generator=generator)
        values = values.round() if whole else values * 1.6 / width**0.25
        inputs.append(values.to(device, dtype))
    targets = torch.randint(0, candidates, (rows,), generator=generator)
    return *inputs, targets.to(device)


@everywhere
@dtypes
def test_exact_products_with_ties(device, dtype):
    """Small whole numbers are multiplied and added exactly in any order."""
    hidden, weight, targets = planted(device, dtype, whole=True)
    answer = head_ranks(hidden, weight, targets)
    assert (answer.ties > 1).float().mean() > 0.5
    assert_brute(answer, (hidden.double() @ weight.double().t()).float(), targets, 1e-4)


@everywhere
@dtypes
def test_ranks_of_a_head_are_within_rounding(device, dtype):
    """Half-precision weights, too, have float32 scores: rounding to half moves most ranks."""
    inputs = planted(device, dtype)
    assert_near(head_ranks(*inputs), *inputs)


@everywhere
@pytest.mark.parametrize("dtype", [*kernel.DTYPES, torch.float64])
def test_every_sort_of_scores(device, dtype):
    """Ties, infinities, NaN, extremes, rows that begin anywhere; read off scores that stay."""
    for size in (1, 2, 7, 31, 33, 1_000, SHAPES[device][1]):
        scores, targets = planted_sorts(size, dtype, device)
        before = scores.clone()
        answer = kernel.counted(scores, targets, ranks._count)
        assert not wrong(answer, scores, targets, 3e-6, 1).any(), size
        assert torch.equal(scores.nan_to_num(7), before.nan_to_num(7))
        defined = scores.isnan().any(1).logical_not()
        scores, targets = scores[defined], targets[defined]
        assert_brute(token_ranks(scores, targets), scores, targets)


@everywhere
def test_a_whole_measure(device, tmp_path, monkeypatch):
    """A rank table made on the device beside the model's logits on the processor."""
    root = write_root(tmp_path / "root", models=1)
    monkeypatch.setenv("RBP_ROOT", str(root))
    (table,) = rbp.measure("toy", "lines", device=device, progress=False)
    for d, text in enumerate(load_documents("lines").texts):
        ids, naive = naive_ranks(root, text)
        rows = table.document == d
        assert np.array_equal(table.token[rows], ids)
        if len(ids):
            moved = np.abs(table.greater[rows] - naive.greater.numpy())
            assert moved.max() <= 1 and moved.mean() < 0.05
            np.testing.assert_allclose(table.logprob[rows], naive.logprob, atol=1e-4)


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("dtype", kernel.DTYPES)
def test_the_kernel_is_believed_and_counts_as_torch_does(dtype, monkeypatch):
    """On another stream and in a fresh thread, too."""
    assert kernel.proven(torch.device("cuda", 0), dtype, ranks._count)
    inputs = planted("cuda", dtype)
    with torch.cuda.stream(torch.cuda.Stream()), ThreadPoolExecutor(1) as pool:
        answers = [head_ranks(*inputs), pool.submit(head_ranks, *inputs).result()]
    torch.cuda.synchronize()
    monkeypatch.setenv("RBP_KERNEL", "0")
    plain = head_ranks(*inputs)
    for answer in answers:
        assert torch.equal(answer.greater, plain.greater) and torch.equal(answer.ties, plain.ties)
        torch.testing.assert_close(answer.logprob, plain.logprob, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@CUDA
def test_memory_stays_below_the_logits():
    """Of 16,384 tokens: one tile of scores, a tenth of what the bfloat16 logits alone take."""
    hidden, weight, _ = planted("cuda", torch.bfloat16)
    hidden = hidden.repeat(24, 1)[:16_384]
    targets = torch.zeros(16_384, dtype=torch.int64, device="cuda")
    head_ranks(hidden, weight, targets)  # the libraries' own workspace stays
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    head_ranks(hidden, weight, targets)
    assert torch.cuda.max_memory_allocated() - before < 150 * 2**20
