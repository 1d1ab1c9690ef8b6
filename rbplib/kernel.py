"""Ranks of whole rows of scores on CUDA in one pass over them, by the kernel of `rank.cu`.

NVRTC compiles it when it is first used: torch brings NVRTC along, and a library that leads to it
and to the driver. So no toolkit, no compiler and no further package is needed. The kernel is
believed for a dtype on a device once it has told there what torch's own operations tell. Wherever
it cannot be had or errs, those are taken, and one warning says why. RBP_KERNEL=0 turns it off.
"""

import ctypes
import os
import warnings
from functools import cache, wraps
from pathlib import Path

import torch

from rbplib.families import InputError

SOURCE = Path(__file__).with_name("rank.cu")
LIBRARY = Path(torch.__file__).with_name("lib") / "libcaffe2_nvrtc.so"
DTYPES = {torch.float32: b"-Dfloat32", torch.bfloat16: b"-Dbfloat16", torch.float16: b"-Dfloat16"}
THREADS = 512  # of a row
MOST = 2**31 - 1  # candidates, and rows


class Refused(RuntimeError):
    """NVRTC or the driver answered something other than success."""


def counted(scores, targets, plain):
    """(greater, ties, logprob) of targets among rows of scores, as `plain` tells them.

    Args:
        scores: float tensor (n, V), on any device; on CUDA it is left as it is.
        targets: int64 tensor (n,), ids in [0, V).
        plain: function of both by torch's own operations, which may overwrite scores on a
            processor: what the kernel is compared with before it is believed, and what is taken
            where there is none.
    Returns:
        int64, int64 and float32 tensors (n,). Counts are those of `plain`, log-probabilities
        within 1e-6 nats or 1e-6 times them of float64's.
    Raises:
        Refused: the driver does not start a kernel that it has started before.
    Cost: on CUDA one reading of the scores; a second of compiling for the first of a dtype.
    """
    kernel = None
    if scores.is_cuda and scores.dtype in DTYPES and max(scores.shape) <= MOST:
        if os.environ.get("RBP_KERNEL") != "0":
            kernel = proven(scores.device, scores.dtype, plain)
    return _launched(kernel, scores, targets) if kernel else plain(scores, targets)


@cache
def proven(device, dtype, plain):
    """The kernel for scores of a dtype on a device; None where it cannot be had, or errs.

    Raises torch.OutOfMemoryError: then the next call asks anew.
    """
    if torch.version.cuda is None:  # ROCm, which calls its devices cuda
        return None
    # small whole numbers have ties; rows are longer than what all threads load at once, begin
    # anywhere in 16 bytes, and lie further apart than they are long
    scores = torch.arange(16 * 10_009, device=device).mul(37).remainder(1009).remainder(7)
    scores = scores.view(16, 10_009).to(dtype)[:, :10_007]
    scores[1:4, ::3], scores[2:4, 1::3], scores[4] = torch.inf, -torch.inf, -torch.inf
    scores[5, 7] = torch.nan
    scores[6] = 0
    scores[6, 9_000] = 8  # one thread alone has the highest
    targets = torch.arange(16, device=device).mul(5000).remainder(10_007)
    targets[3], targets[15] = 9_999, 10_006
    # as torch's own operations tell them
    try:
        kernel = _compiled(device, dtype)
        *counts, logprob = _launched(kernel, scores, targets)
        *expected, _ = plain(scores, targets)
        *_, nats = plain(scores.double(), targets)
        if not torch.equal(torch.stack(counts), torch.stack(expected)):
            raise Refused("its counts are wrong")
        close = {"rtol": 1e-6, "atol": 1e-6, "equal_nan": True}
        torch.testing.assert_close(logprob.double(), nats.double(), **close)
        return kernel
    except torch.OutOfMemoryError:
        raise
    except (OSError, AttributeError, RuntimeError, AssertionError) as error:
        reason = f"the rank kernel is not used for {dtype} on {device}, which is slower: {error}"
        # at the call of token_ranks or head_ranks
        warnings.warn(reason, RuntimeWarning, stacklevel=6)
        return None


def faults_named(run):
    """`run`; of an error that ends its process's work on a device one sentence says what to do."""

    @wraps(run)
    def named(*inputs, **options):
        try:
            return run(*inputs, **options)
        except (torch.AcceleratorError, Refused) as error:
            if not proven.cache_info().currsize:  # the kernel was never asked for
                raise
            raise InputError(
                f"the device failed ({str(error).splitlines()[0]}): start again, and if the rank "
                "kernel may be at fault, with RBP_KERNEL=0 in the environment."
            ) from error

    return named


def _compiled(device, dtype):
    """The driver's function that launches the kernel, and the kernel."""
    # machine code of this device
    library = ctypes.CDLL(str(LIBRARY))
    program, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    size = ctypes.c_size_t()
    major, minor = torch.cuda.get_device_capability(device)
    options = (ctypes.c_char_p * 2)(f"-arch=sm_{major}{minor}".encode(), DTYPES[dtype])
    source = ctypes.byref(program), SOURCE.read_bytes(), b"rank.cu"
    _done(library.nvrtcCreateProgram(*source, 0, None, None))
    _done(library.nvrtcCompileProgram(program, len(options), options))
    _done(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    _done(library.nvrtcGetCUBIN(program, image))
    # loaded there
    with torch.cuda.device(device):
        _done(library.cuModuleLoadData(ctypes.byref(module), image))
    _done(library.cuModuleGetFunction(ctypes.byref(kernel), module, b"rank_rows"))
    return library.cuLaunchKernel, kernel


def _launched(kernel, scores, targets):
    """What `kernel` tells of targets (n,) among rows of scores (n, V), on the current stream.

    The driver knows the device only in a thread that torch has used it in: a check of ids did.
    """
    # rows may lie apart, a row's scores may not
    (n, size), device = scores.shape, scores.device
    scores = scores if scores.stride(1) == 1 else scores.contiguous()
    targets = targets.contiguous()
    counts = torch.empty(2, n, dtype=torch.int64, device=device)
    logprob = torch.empty(n, dtype=torch.float32, device=device)
    # arguments as C has them
    first, *others = (ctypes.c_void_p(t.data_ptr()) for t in (scores, targets, *counts, logprob))
    values = [first, ctypes.c_longlong(scores.stride(0)), ctypes.c_int(size), *others]
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    # a block a row
    launch, function = kernel
    shape = *(n, 1, 1), *(THREADS, 1, 1), 0
    with torch.cuda.device(device):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _done(launch(function, *shape, stream, pointers, None))
    return *counts, logprob


def _done(code):
    """Refuse an answer of NVRTC or the driver other than success."""
    if code:
        raise Refused(f"NVRTC or the driver answered {code}")
