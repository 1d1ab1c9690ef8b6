"""Which device a model goes to, in which precision, and what room there is.

torch is imported where it is used: the pages ask other things of these modules without it.
"""

import os
from functools import cache

from rbplib.families import DTYPES, InputError, check_choice
from rbplib.model_sizes import model_sizes

SMALL = 5_000_000  # parameters, below which handing work to other threads takes longer than the work
# bytes of memory and dense 16-bit floating-point operations per second of the makers' data sheets
GPUS = {"t4": (16e9, 65e12), "v100": (32e9, 125e12), "a10": (24e9, 125e12), "l40s": (48e9, 362e12)}
GPUS |= {"l4": (24e9, 121e12), "rtx4090": (24e9, 165e12), "a100": (80e9, 312e12)}
GPUS |= {"h100": (80e9, 989e12), "h200": (141e9, 989e12)}
# oneDNN would keep the kernels of 1,024 shapes; their small blocks among freed batches keep the heap from shrinking
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
FILL = 0.85  # share of a device's free memory that weights may take; the rest is for activations and the head


@cache
def all_threads():
    """The threads that torch takes unless told otherwise."""
    import torch

    return torch.get_num_threads()


def choose_threads(parameters):
    """Use one thread for a small model, all for others; OMP_NUM_THREADS, where it is set, decides."""
    import torch

    default = all_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1 if parameters < SMALL else default)


def choose_device(device=None, named=()):
    """A device that is there: the one asked for, or the CUDA device with most free memory, then MPS, then the CPU.

    Among equally idle ones the process number decides, so that models measured at once spread over the GPUs. named:
    those that may be asked for and need not be there."""
    import torch

    if device is not None:
        asked = "cuda" if device == "auto" else device
        kind = check_choice(asked.partition(":")[0], ("cpu", "cuda", "mps", "auto", *named), "device").upper()
        if asked in named:
            return device
        try:
            torch.empty(0, device=asked)
        except (RuntimeError, AssertionError):  # the latter from a torch without CUDA
            said = f"there is no {kind} device {device!r} here: leave --device out, or use --device cpu."
            raise InputError(said) from None
        return device
    if torch.cuda.is_available():
        free = [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
        idle = [i for i, f in enumerate(free) if f >= 0.95 * max(free)]
        return f"cuda:{idle[os.getpid() % len(idle)]}"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def choose_dtype(dtype, device):
    """torch dtype of the weights: "auto" is bfloat16 on CUDA (float16 where it has none), float32 elsewhere.

    Names of blocks stand for weights rounded to them (quantised.round_weights) and kept in float32."""
    import torch

    check_choice(dtype, DTYPES, "dtype")
    if dtype != "auto":
        return getattr(torch, dtype, torch.float32)
    if device.startswith(("cuda", "auto")):
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.float32


def device_name(device, net):
    """Kind of the device, for the record: "cpu", "NVIDIA ... x2"."""
    import torch

    used = {p.device for p in net.parameters()}
    if device.type != "cuda":
        return "+".join(sorted({d.type for d in used}))
    gpus = sum(d.type == "cuda" for d in used)
    return torch.cuda.get_device_name(device) + (f" x{gpus}" if gpus > 1 else "")


def free_memory(device):
    """Bytes free on a device now; on all CUDA devices together for "auto"."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(torch.device(device))[0]
    if device == "auto":
        return sum(torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count()))
    try:
        import psutil
    except ImportError:  # a bare machine: all of its memory
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return psutil.virtual_memory().available


def must_spread(config, model_id, dtype, device, trust_remote_code):
    """Whether the weights go over all GPUs, asked for or for want of room on one; raises InputError for what exceeds a
    processor's free memory, where the system would kill the process."""
    if not device.startswith(("cuda", "cpu")):
        return device == "auto"
    need, free = model_sizes(config, trust_remote_code).total * dtype.itemsize, free_memory(device)
    if device.startswith("cuda"):
        return need > FILL * free
    if need > free:
        raise InputError(
            f"model {model_id!r} needs {need / 1e9:.1f} GB for its weights and {free / 1e9:.1f} GB are free: "
            "choose a smaller model, a machine with more memory, or --dtype bfloat16."
        )
    return False
