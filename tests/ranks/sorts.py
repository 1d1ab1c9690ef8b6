"""Sorts of scores that a rank must be told of, and the truth by brute force in float64."""

import numpy as np
import torch

INF, MOST = np.inf, 3.4028234663852886e38
ODD = [0.0, -0.0, 1.0, 1e30, -1e30, 3.4e38, -3.4e38, MOST, -MOST, 1e-45, 88.0, -88.0, INF, -INF]
TARGETS = 4  # of each row: both ends, the highest, any


def sorts(size, dtype, pick):
    """{sort: scores (size,) of a dtype}; pick is a numpy Generator."""
    normal, one = pick.normal(size=size) * 4, np.arange(size) == pick.integers(size)
    half = pick.random(size) < 0.5
    least = torch.finfo(dtype).tiny * torch.finfo(dtype).eps  # above 0
    made = {
        "wide": normal * 30,
        "ties": pick.integers(-3, 4, size),
        "all equal": normal[:1].repeat(size),
        "one far above": np.where(one, 25.0, normal),
        "others equal": normal[0] + one * np.log(size),  # one rounding, again and again
        "rising": np.linspace(-20, 20, size),
        "masked": np.where(half, -INF, normal),
        "all -inf": -INF + one,
        "some +inf": np.where(half, INF, normal),
        "both inf": pick.choice([INF, -INF, 0.0], size),
        "a NaN": np.where(one, np.nan, normal),
        "NaN and inf": pick.choice([np.nan, INF, -INF, 1.0], size),
        "extremes": pick.choice(ODD, size),
        "lowest mask": np.where(half, -MOST, normal),
        "subnormal": pick.integers(-5, 6, size) * least,
    }
    scores = {name: torch.tensor(values).to(dtype) for name, values in made.items()}
    # any bits
    bits = torch.tensor(pick.integers(256, size=dtype.itemsize * size, dtype="u1"))
    return scores | {"any bits": bits.view(dtype).nan_to_num(0, INF, -INF)}


def planted_sorts(size, dtype, device="cpu"):
    """Scores (n, size), each sort TARGETS times, and their targets: rows lie apart amid NaNs, and
    begin anywhere in 16 bytes."""
    pick, rows, targets = np.random.default_rng(size), [], []
    for row in sorts(size, dtype, pick).values():
        rows += [row] * TARGETS
        highest = row.double().nan_to_num(-INF, INF, -INF).argmax().item()
        targets += [0, size - 1, highest, pick.integers(size)]
    # 3 into a field of rows and more
    stride = size + 5 + size % 2 * 2
    field = torch.full((len(rows) * stride + 3,), torch.nan, dtype=dtype, device=device)
    scores = field[3:].view(-1, stride)[:, :size]
    return scores.copy_(torch.stack(rows)), torch.tensor(targets, device=device)


def truth(scores, targets):
    """(greater, ties, logprob) of scores (n, V), the last in float64."""
    scores = scores.double()
    own, top = scores.gather(1, targets[:, None]), scores.amax(1, keepdim=True)
    greater, ties = (scores > own).sum(1), (scores == own).sum(1)
    # what equals the target is counted, so that one far above all others keeps its digits
    rest = (scores - top).exp().masked_fill(scores == own, 0).sum(1)
    away = (own - top)[:, 0]
    logprob = away - (rest + ties * away.exp()).log()
    logprob = torch.where(greater > 0, logprob, -(rest + (ties - 1)).log1p())
    # candidates at infinity share the probability
    share = torch.where((own == top)[:, 0], -ties.log(), -INF)
    logprob = torch.where(top.isinf()[:, 0], share, logprob)
    return greater, ties, logprob.masked_fill(scores.isnan().any(1), torch.nan)


def wrong(answer, scores, targets, within=1e-6, relative=1e-5):
    """bool (n,): rows whose counts are not the truth's, or whose log-probability is farther from it
    than `within` nats or times it, or `relative` times it however near to 0."""
    greater, ties, logprob = (column.cpu() for column in answer)
    above, equal, exact = truth(scores.detach().cpu(), targets.cpu())
    size, error = exact.abs(), (logprob - exact).abs()
    near = (error <= within * size.clamp(min=1)) & ((error <= relative * size) | (size < 1e-30))
    near |= (logprob == exact) | (logprob.isnan() & exact.isnan())
    # beyond float32
    near |= (size > MOST * (1 - 1e-6)) & (logprob == -INF)
    return (greater != above) | (ties != equal) | ~near


def assert_brute(answer, scores, targets, within=3e-6):
    """Ranks are those of brute force, log-probabilities within nats or times them."""
    assert not wrong(answer, scores, targets, within, 1).any()
    assert torch.equal(answer.rank, answer.greater + answer.ties)
