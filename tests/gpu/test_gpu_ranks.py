"""The rank engine on a GPU, against float64 brute force; the same bodies in a small form on a processor."""

import math

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.counting import inside
from rbplib import ranks as engine
from rbplib import tiles
from rbplib.heads import Head
from rbplib.ranks import Ranks, head_ranks, token_ranks
from tests.gpu.devices import everywhere, large

INF = float("inf")


def brute(scores, targets):
    """(greater, ties, logprob) of score rows (n, V) in float64 NumPy, infinities as the engine's contract has them."""
    scores, rows = scores.double().cpu().numpy(), np.arange(len(scores))
    own, top = scores[rows, targets.cpu().numpy()][:, None], scores.max(1, keepdims=True)
    greater, ties = (scores > own).sum(1), (scores == own).sum(1)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        logprob = ((own - top) - np.log(np.exp(scores - top).sum(1, keepdims=True)))[:, 0]
        share = np.where(own == top, -np.log(ties)[:, None], -INF)[:, 0]
    return greater, ties, np.where(np.isinf(top[:, 0]), share, logprob)


def assert_brute(found, scores, targets, tolerance=3e-6):
    greater, ties, logprob = brute(scores, targets)
    assert np.array_equal(found.greater.cpu().numpy(), greater)
    assert np.array_equal(found.ties.cpu().numpy(), ties)
    np.testing.assert_allclose(found.logprob.double().cpu().numpy(), logprob, rtol=tolerance, atol=tolerance)


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def planted(device, rows, size, width, dtype=torch.float32):
    """Random states, a weight that spreads scores as a trained model's, and targets; the same numbers everywhere."""
    pick = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(rows, width, generator=pick), torch.randn(size, width, generator=pick)
    targets = torch.randint(0, size, (rows,), generator=pick).to(device)
    return hidden.to(device, dtype), (weight * 2.5 / width**0.5).to(device, dtype), targets


@everywhere
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_ranks_ties_and_logprobs_equal_brute_force(device, dtype):
    pick = torch.Generator().manual_seed(1)
    rows, size = (2000, 50_304) if large(device) else (40, 3000)
    scores = (torch.randn(rows, size, generator=pick) * 4).to(dtype)
    scores[: rows // 2] = scores[: rows // 2].round()  # many ties
    targets = torch.randint(0, size, (rows,), generator=pick)
    found = token_ranks(scores.to(device), targets.to(device))
    some = slice(None, None, 8 if large(device) else 1)  # brute force takes one core
    assert_brute(Ranks(*(column[some] for column in found)), scores[some], targets[some])
    assert (found.ties > 1).sum() >= rows // 2


@everywhere
def test_infinities_and_masked_words(device):
    """A masked word is a score of -inf; rows whose highest score is infinite share its probability."""
    pick = torch.Generator().manual_seed(2)
    size = 50_304 if large(device) else 2000
    scores = torch.randn(7, size, generator=pick) * 3
    targets = torch.tensor([5, 5, 5, 5, 6, 7, 0])
    scores[0, ::2] = -INF  # half of the words masked, the target not
    scores[1, 5] = -INF  # the target masked
    scores[2] = -INF  # all masked
    scores[3, [5, 9]] = INF  # the target among the highest, infinite
    scores[4, 9] = INF  # another is
    scores[5] = torch.where(torch.arange(size) % 2 == 0, 3.4e38, -3.4e38)  # differences overflow
    scores[6, 1] = 3.4e38  # the exponential overflows
    found = token_ranks(scores.to(device), targets.to(device))
    greater, ties, logprob = brute(scores, targets)
    assert found.greater.tolist() == greater.tolist() and found.ties.tolist() == ties.tolist()
    got = found.logprob.double().cpu().numpy()
    fine = np.isclose(got, logprob, rtol=1e-6) | ((got == -INF) & (logprob < -1e38))
    assert fine.all(), (got, logprob)
    weight, bias = torch.randn(size, 8, generator=pick), torch.zeros(size)
    bias[1::2] = -INF
    hidden, wanted = torch.randn(70, 8, generator=pick), torch.randint(0, size // 2, (70,), generator=pick) * 2
    head = Head(weight.to(device), bias.to(device))
    found = head_ranks(hidden.to(device), head, wanted.to(device))
    assert_brute(found, head(hidden.to(device)), wanted, 1e-5)
    assert (found.greater < size / 2).all()


@everywhere
def test_nan_is_refused_with_its_position(device):
    hidden, weight, targets = planted(device, 200, 3000, 16)
    hidden[77, 3] = float("nan")
    with pytest.raises(ValueError, match="position 77 hold a NaN"):
        head_ranks(hidden, weight, targets)
    scores = torch.zeros(3, 9, device=device)
    scores[1, 4] = float("nan")
    with pytest.raises(ValueError, match="position 1 hold a NaN"):
        token_ranks(scores, torch.zeros(3, dtype=torch.int64, device=device))


@everywhere
def test_exact_products_are_counted_exactly(device):
    """Small integers multiply exactly in any order, in float32 and from bfloat16, ties included."""
    rows, size = (3000, 50_304) if large(device) else (150, 2500)
    pick = torch.Generator().manual_seed(3)
    hidden = torch.randint(-2, 3, (rows, 32), generator=pick).float()
    weight = torch.randint(-2, 3, (size, 32), generator=pick).float()
    targets = torch.randint(0, size, (rows,), generator=pick)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        given = [x.to(device, dtype) for x in (hidden, weight)]
        found = head_ranks(*given, targets.to(device))
        assert_brute(head_ranks(given[0][:50], given[1], targets[:50].to(device)), hidden[:50] @ weight.T, targets[:50])
        assert same([c[:50] for c in found], head_ranks(given[0][:50], given[1], targets[:50].to(device)))


@everywhere
@pytest.mark.parametrize(
    ("sizes", "widths", "biased"), [((50_304, 3000), (512, 48), False), ((50_257, 3001), (510, 50), True)]
)
def test_float32_results_are_the_same_for_every_chunk_and_batch(device, sizes, widths, biased):
    """What `head_ranks` promises: neither chunk, memory nor batch moves a bit, on a GPU since all its products and sums
    have one shape; also of rows done again with care, here those whose target is far below the top."""
    rows, size, width = (2500, sizes[0], widths[0]) if large(device) else (300, sizes[1], widths[1])
    hidden, weight, targets = planted(device, rows, size, width)
    head = Head(weight, torch.arange(size, device=device) / size if biased else None)
    hidden[5::50] *= 40  # the sum of exponentials overflows in most of them
    whole = head_ranks(hidden, head, targets)
    assert (whole.logprob < -90).any()

    def equal(found, some=slice(None)):
        return same([c[some] for c in whole], found)

    for chunk in (1, 64, 100, 128, 1000, rows, 4096):
        assert equal(head_ranks(hidden, head, targets, chunk=chunk)), f"chunk {chunk}"
    for memory in (tiles.least_memory(size, hidden.device), 2**26, 2**31):
        assert equal(head_ranks(hidden, head, targets, memory=memory)), f"memory {memory}"
    for some in (slice(0, 1), slice(7, 20), slice(33, rows), torch.randperm(rows, device=device)):
        assert equal(head_ranks(hidden[some], head, targets[some]), some), f"rows {some}"


class Shapes(TorchDispatchMode):
    """Shapes, strides and storage offsets of what all products and sums are of, while it is entered."""

    def __init__(self):
        super().__init__()
        self.products, self.sums = set(), set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        if name in ("mm", "addmm"):
            self.products.add(tuple((tuple(x.shape), x.stride(), x.storage_offset()) for x in args[-2:]))
        if name == "sum":
            self.sums.add((tuple(args[0].shape), args[0].stride(), args[0].storage_offset()))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("biased", [False, True])
def test_products_and_sums_of_a_float32_head_have_one_shape_on_a_gpu(biased):
    """Whatever chunk, memory, number of rows and layout of states, and of rows done again: what the equal bits on a GPU
    rest on. Every row that is summed begins at a multiple of 64 bytes, since CUDA adds up in an order that depends on
    it. How rows are cut is told by a GPU's tensors, which here are fake and have no data; sums are of real ones."""
    seen, (size, width) = Shapes(), (901, 22)
    whole, weight, targets = planted("cpu", 2501, size, width)
    whole = whole[1:]  # its storage offset is no multiple of four
    whole[5::5] *= 40  # the sum of exponentials overflows in many: more than are done again at once
    targets = targets[1:]
    bias = torch.arange(size) / 900
    bias[::3] = -INF  # masked: as many candidates are equal to them, and none of what pads
    head = Head(weight, bias if biased else None)
    for rows, chunk, memory in ((1, None, 2**30), (77, 1, 2**20), (2500, 4096, 2**26), (2500, None, 2**40)):
        with FakeTensorMode():
            states, fake = (torch.empty(n, width, device="cuda") for n in (rows, size))
            scores = tiles.Product(states, Head(fake), torch.float32, memory, chunk)
        for hidden in (whole[:rows], whole[:rows].t().contiguous().t()):
            scores.hidden, scores.head = hidden, head
            with seen:
                found = tiles.ranked(scores, targets[:rows])
            assert same(found[:2], token_ranks(head(hidden), targets[:rows])[:2])
            assert scores.few == len(scores.rows(torch.tensor([0]))) == tiles.CUDA_ROWS
            if rows == 2500:
                logprob = brute(head(hidden), targets)[2]
                np.testing.assert_allclose(found.logprob, logprob, rtol=1e-5, atol=1e-5)
                assert 256 < (logprob < -90).sum()
    assert seen.products == {(((256, width), (width, 1), 0), ((width, size), (1, width), 0))}
    assert seen.sums == {((256, 912), (912, 1), 0)} and 912 * 4 % 64 == 0


def test_a_nan_costs_one_more_product_for_256_rows_on_a_gpu():
    """A sum that is no number may be of infinities: such rows are done again, but many at once."""
    whole, weight, targets = planted("cpu", 700, 901, 22)
    whole[:, 3] = float("nan")
    with FakeTensorMode():
        states, fake = (torch.empty(n, 22, device="cuda") for n in (700, 901))
        scores = tiles.Product(states, Head(fake), torch.float32, 2**30)
    scores.hidden, scores.head, made = whole, Head(weight), []
    multiply = tiles.Product.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles.Product, "__call__", lambda *args: made.append(0) or multiply(*args))
        assert tiles.ranked(scores, targets).logprob.isnan().all()
    assert len(made) == 6  # 256 + 256 + 188 rows, twice


def test_tiles_of_a_gpu_take_no_more_than_the_logits():
    """Scores, flags and what adding them up copies, of every batch beside its bf16 logits, as CUDA takes them: fake
    tensors have its dtypes and no data."""
    for rows, size, width in ((4 * 511, 50_304, 1024), (32 * 511, 50_304, 1024), (4 * 511, 151_936, 256)):
        for stored, kind in ((torch.bfloat16, torch.float32), (torch.float32,) * 2, (torch.float64,) * 2):
            with FakeTensorMode():
                hidden, weight = (torch.empty(n, width, dtype=stored, device="cuda") for n in (rows, size))
                scores = tiles.Product(hidden, Head(weight), kind, engine.DEVICE_MEMORY)
                tile = torch.empty(scores.most, size, dtype=scores.kind, device="cuda")
                flags = tiles.flags_of(tile)
                copied = inside("sum", flags, tile.dtype) / 2  # its bytes are written and read
            taken = tile.numel() * tile.itemsize + flags.numel() * flags.itemsize + copied
            assert scores.narrow == (stored != kind)
            assert taken <= min(rows * size * stored.itemsize, engine.DEVICE_MEMORY) and scores.most >= 256


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_memory_of_the_head_alone_stays_within_what_is_stated():
    """The caching allocator's own count, above what is held: no more than `memory`, nor than the bf16 logits; some
    bytes a row for the results; and four blocks that it does not split, where less than a MiB would be left over."""
    for rows, size, width in ((2044, 50_304, 1024), (16_384, 50_304, 512), (2044, 151_936, 256)):
        hidden, weight, targets = planted("cuda", rows, size, width, torch.bfloat16)
        for memory in (None, 1 << 28):
            head_ranks(hidden, weight, targets, memory=memory)  # the libraries' own workspace stays
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            head_ranks(hidden, weight, targets, memory=memory)
            taken = torch.cuda.max_memory_allocated() - before
            assert taken <= min(memory or engine.DEVICE_MEMORY, 2 * rows * size) + 128 * rows + 2**22, (
                rows,
                size,
                memory,
            )


@pytest.mark.parametrize(("states", "stored"), [(torch.float32, torch.bfloat16), (torch.float32, torch.float64)])
def test_states_are_not_rounded_to_the_heads_dtype_and_switches_stay(states, stored):
    """float32 states with a half-precision head are multiplied widened, and a float64 head by its own product."""
    before = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
    with FakeTensorMode():
        hidden, weight = (torch.empty(n, 8, dtype=d, device="cuda") for n, d in ((128, states), (900, stored)))
        scores = tiles.Product(hidden, Head(weight), torch.float32, engine.DEVICE_MEMORY)
        assert not scores.narrow
    assert (torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32) == before


def error_bound(hidden, weight):
    """How far float32 sums of the exact products of half-precision numbers may be from the truth, (n, V).

    Partial sums of d products of random signs are about as large as q, the root of the sum of their squares. Roundings
    to nearest, 2^-24 of that each, add up as sqrt(d): eight times that. Matrix units cut off instead, towards zero, and
    that adds up as d: by 2^-23 q for each four products that they add up at once. The worst case, d times 2^-24 of the
    sum of absolute products, is some forty times as wide at d = 2,048: ranks off by hundreds of places would pass."""
    q = (hidden.double().square() @ weight.double().square().t()).sqrt()
    return (8 * hidden.shape[1] ** 0.5 + hidden.shape[1] / 2) * 2.0**-24 * q


@everywhere
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_weights_with_float32_scores_are_within_the_bound(device, dtype):
    """The product of half-precision numbers with a float32 result, against the float64 and the float32 product of the
    same numbers; ranks then differ by no more candidates than lie within the bound of the target."""
    rows, size, width = (512, 50_304, 2048) if large(device) else (70, 2500, 64)
    hidden, weight, targets = planted(device, rows, size, width, dtype)
    scores = tiles.Product(hidden, Head(weight), torch.float32, 1 << 30)
    assert scores.narrow == (device == "cuda")
    tile = scores(scores.rows(slice(None)), slice(None))[:rows]
    assert tile.dtype == torch.float32
    truth, bound = hidden.double() @ weight.double().t(), error_bound(hidden, weight)
    assert ((tile.double() - truth).abs() <= bound).all()
    plain = hidden.float() @ weight.float().t()
    assert ((tile - plain).double().abs() <= 2 * bound).all()
    found, own = head_ranks(hidden, weight, targets), truth.gather(1, targets[:, None])
    near = ((truth - own).abs() <= 2 * bound).sum(1)
    moved = (found.greater - (truth > own).sum(1)).abs()
    assert near.double().mean() < 8  # the target itself among them: the bound tells
    assert (moved <= near).all() and (moved > 0).float().mean() < 0.5
    logprob = truth.log_softmax(1).gather(1, targets[:, None])[:, 0]
    assert ((found.logprob.double() - logprob).abs() <= 2 * bound.amax(1) + 1e-5).all()


@everywhere
def test_a_head_that_is_a_function(device):
    rows, size = (600, 20_000) if large(device) else (150, 700)
    hidden, weight, targets = planted(device, rows, size, 48)
    seen = []

    def head(some):
        seen.append(len(some))
        return torch.tanh(some @ weight.t()) * 30

    found = head_ranks(hidden, head, targets, memory=size * 12 * 70)
    assert max(seen) <= 70
    truth = brute(head(hidden), targets)
    assert (found.greater.cpu().numpy() - truth[0] == 0).mean() > 0.95  # rows at once may round otherwise
    np.testing.assert_allclose(found.logprob.cpu().numpy(), truth[2], atol=1e-4)


@everywhere
def test_a_vocabulary_of_one_and_all_equal_scores(device):
    one = token_ranks(torch.tensor([[5.0]], device=device), torch.tensor([0], device=device))
    assert [c.item() for c in one] == [0, 1, 0.0]
    found = token_ranks(torch.full((3, 7), -2.5, device=device), torch.zeros(3, dtype=torch.int64, device=device))
    assert (found.ties == 7).all() and torch.allclose(found.logprob.cpu(), torch.tensor(-math.log(7)))
