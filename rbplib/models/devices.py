"""Which device a model goes to, and in which precision."""

import os

from rbplib.settings import DTYPES, InputError, check_choice


def choose_device(device=None):
    """A device that is there: the one asked for, or the CUDA device with most free memory, then MPS, then the CPU.

    Among equally idle ones the process number decides, so that models measured at once spread over the GPUs.
    """
    import torch

    if device is not None:
        kind, _, number = str(device).partition(":")
        check_choice(kind, ("cpu", "cuda", "mps", "auto"), "device")
        if kind in ("cuda", "auto") and not torch.cuda.is_available():
            raise InputError("there is no CUDA device here: leave --device out, or use --device cpu.")
        if kind == "mps" and not torch.backends.mps.is_available():
            raise InputError("there is no MPS device here: leave --device out, or use --device cpu.")
        if number and not (number.isdigit() and (kind != "cuda" or int(number) < torch.cuda.device_count())):
            raise InputError(f"there is no device {device!r}: this machine has {torch.cuda.device_count()} of CUDA.")
        return str(device)
    if torch.cuda.is_available():
        free = [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
        idle = [i for i, f in enumerate(free) if f >= 0.95 * max(free)]
        return f"cuda:{idle[os.getpid() % len(idle)]}"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def choose_dtype(dtype, device):
    """torch dtype of the weights: "auto" is bfloat16 on CUDA (float16 where it has none), float32 elsewhere."""
    import torch

    check_choice(dtype, DTYPES, "dtype")
    if dtype != "auto":
        return getattr(torch, dtype)
    if str(device).startswith(("cuda", "auto")):
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.float32


def device_name(device, net):
    """Kind of the device, for the record: "cpu", "NVIDIA ... x2"."""
    import torch

    used = {p.device for p in net.parameters()}
    if device.type != "cuda":
        return device.type if len(used) == 1 else "+".join(sorted({d.type for d in used}))
    name = torch.cuda.get_device_name(device)
    gpus = sum(d.type == "cuda" for d in used)
    return name if gpus == 1 else f"{name} x{gpus}"
