"""The rank kernel of GPUs without one: its very text, by g++, behind a driver that stands in.

Its wrapper compiles, proves and launches as it would on CUDA. Not tried so: a real NVRTC, driver or
card; the tests marked `gpu` in tests/test_gpu.py are for that.
"""

import ctypes
import faulthandler
import os
import shutil
import subprocess
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from rbplib import InputError, head_ranks, kernel, ranks, token_ranks
from rbplib.heads import Head
from tests.ranks.sorts import planted_sorts, wrong

SIZES = [1, 2, 7, 33, 1_000, 6_011]
SPOILT = {  # what is spoilt: (text, instead)
    "counts what is not below": ("p.above += x[j] > own", "p.above += x[j] >= own"),
    "ties lost": ("p.equal += x[j] == own", "p.equal += 0"),
    "sum not moved to a new top": ("p.rest *= shrink(p.top, top);\n        p.lost", "p.lost"),
    "a NaN left out": ("expf(x[j] == own ? -MOST", "expf(!(x[j] < own || x[j] > own) ? -MOST"),
    "infinity not clamped": ("top = fminf(top, MOST);", ""),
    "the last scores left out": ("if (me < behind)", "if (me + 1 < behind)"),
    "the first scores left out": ("if (me < ahead) add<1>(p, row + me, own);", ""),
    "a row's start without its stride": ("blockIdx.x * stride", "blockIdx.x * (long long)V"),
    "stale parts": ("me < (int)blockDim.x / 32 ? parts[me] : none", "parts[me]"),
    "half a shuffle": ("for (int d = 16; d; d /= 2) {", "for (int d = 8; d; d /= 2) {"),
}  # fmt: skip


class State(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("order", "rough", "only", "answer", "launches")]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The three kernels, then the spoilt ones of float32, and a driver to launch them."""
    if not shutil.which("g++"):
        pytest.skip("there is no g++ here, which the kernel is emulated by")
    folder, text = tmp_path_factory.mktemp("gpu"), kernel.SOURCE.read_text()
    texts = [(dtype.decode()[2:], text) for dtype in kernel.DTYPES.values()]
    for old, new in SPOILT.values():
        assert old in text
        texts.append(("float32", text.replace(old, new)))
    lines = [f'#include "{Path(__file__).with_name("emulator.h")}"']
    for i, (kind, changed) in enumerate(texts):
        (folder / f"{i}.cu").write_text(changed)
        lines += [f"#define {kind}", f"#define rank_rows kernel{i}", f"namespace of{i} {{"]
        lines += [f'#include "{i}.cu"', f"KERNEL(kernel{i})", "}", f"#undef {kind}"]
        lines.append("#undef rank_rows")
    (folder / "all.cpp").write_text("\n".join(lines))
    made = folder / "libcaffe2_nvrtc.so"
    flags = "-std=c++17 -O1 -ffp-contract=off -fPIC -shared -w".split()
    subprocess.run(["g++", *flags, folder / "all.cpp", "-o", made], check=True)
    return made


@pytest.fixture
def gpu(library, monkeypatch):
    """Tensors of this processor pass for those of a device; the driver's state."""
    stream = SimpleNamespace(cuda_stream=0)
    monkeypatch.setattr(kernel, "LIBRARY", library)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: True), raising=False)
    kernel.proven.cache_clear()
    loaded = ctypes.CDLL(str(library))
    state = State.in_dll(loaded, "state")
    state.order = state.rough = state.answer = state.launches = 0
    state.only = -1
    yield state
    kernel.proven.cache_clear()


@pytest.mark.parametrize("dtype", kernel.DTYPES)
def test_every_row_of_every_sort(gpu, monkeypatch, dtype):
    for size in SIZES:
        scores, targets = planted_sorts(size, dtype)
        for rough, threads in enumerate((32, 96 if size < 5_000 else 128)):
            monkeypatch.setattr(kernel, "THREADS", threads)
            gpu.rough, gpu.order = rough, size % 3 + rough
            answer = kernel.counted(scores, targets, ranks._count)
            bad = wrong(answer, scores, targets, 1e-6 * (1 + rough)).nonzero()
            assert not len(bad), (size, rough, bad[:5], answer)
    assert gpu.launches == 2 * len(SIZES) + 1  # one for the proof


def is_believed(only, gpu):
    """Whether a spoilt kernel passes the proof, in a process of its own: it may well read where
    nothing is."""
    gpu.only = only
    if child := os.fork():
        return not os.waitpid(child, 0)[1]
    torch.set_num_threads(1)  # a child has none of its parent's
    faulthandler.disable()
    warnings.simplefilter("ignore")
    try:
        believed = kernel.proven(torch.device("cpu"), torch.float32, ranks._count)
        os._exit(believed is None)
    finally:
        os._exit(1)


def test_kernels_that_count_wrongly_are_not_believed(gpu):
    assert not [name for only, name in enumerate(SPOILT, 3) if is_believed(only, gpu)]
    gpu.only = 0
    assert is_believed(0, gpu)


def some():
    """Scores, with infinities of both signs, and targets."""
    scores = torch.randn(9, 1003, generator=torch.Generator().manual_seed(1)) * 3
    scores[3, :40], scores[4] = torch.inf, -torch.inf
    return scores, torch.arange(9) * 125


def assert_counted(within=1e-6, relative=1e-5):
    assert not wrong(token_ranks(*some()), *some(), within, relative).any()


def test_it_is_proven_once_and_takes_rows_as_they_lie(gpu):
    scores, targets = some()
    strided = scores.repeat(1, 3)[:, ::3], targets.repeat_interleave(2)[::2]
    cases = [(scores, targets), strided, (scores[:1].expand(9, -1), targets)]
    for number, (rows, wanted) in enumerate(cases, 2):  # the first launch is the proof
        before = rows.clone()
        assert not wrong(token_ranks(rows, wanted), rows, wanted).any()
        assert gpu.launches == number and torch.equal(rows, before)


FALLS_BACK = {  # what is changed, and how many warnings tell of it
    "a wheel without the library": (kernel, "LIBRARY", Path("/none.so"), 1),
    "a driver too old": ("answer", 222, 1),
    "a card that is not known": (torch.cuda, "get_device_capability", lambda device: (0, 0), 1),
    "a kernel that counts wrongly": ("only", 3, 1),
    "ROCm": (torch.version, "cuda", None, 0),
    "more candidates than C counts": (kernel, "MOST", 1000, 0),
}


@pytest.mark.parametrize("name", FALLS_BACK)
def test_torch_counts_where_the_kernel_cannot(gpu, monkeypatch, name):
    *change, loud = FALLS_BACK[name]
    setattr(gpu, *change) if len(change) == 2 else monkeypatch.setattr(*change)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            assert_counted(3e-6, 1)
    assert [str(one.message)[:27] for one in seen] == ["the rank kernel is not used"] * loud
    assert {one.filename for one in seen} <= {__file__}


def test_memory_that_runs_out_in_the_proof_is_no_verdict(gpu, monkeypatch):
    with monkeypatch.context() as tight:
        tight.setattr(torch, "empty", mock.Mock(side_effect=torch.OutOfMemoryError))
        with pytest.raises(torch.OutOfMemoryError):
            token_ranks(*some())
    assert_counted()
    assert gpu.launches == 2


def test_a_device_that_fails_names_the_switch(gpu, monkeypatch):
    token_ranks(*some())
    gpu.answer = 700  # an illegal access, of which a process's CUDA ends
    broken = mock.Mock(side_effect=torch.AcceleratorError("CUDA error\nof 700"))
    for run in (lambda: token_ranks(*some()), lambda: head_ranks(some()[0], broken, some()[1])):
        with pytest.raises(InputError, match=r"failed \([^\n]+\): start again, .* RBP_KERNEL=0"):
            run()
    monkeypatch.setenv("RBP_KERNEL", "0")
    assert_counted(3e-6, 1)
    assert gpu.launches == 2


def test_a_product_on_rocm_is_widened(gpu, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    states, weight = torch.randn(2, 8, 4).bfloat16()
    made = Head(weight, dtype=torch.float32).product(states)
    assert torch.equal(made, states.float() @ weight.float().T)
