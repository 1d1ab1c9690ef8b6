"""What a function asks of a device, counted on any device as it runs: host waits, and bytes moved by its operations."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = {
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "item",
    "tolist",
    "numpy",
    "cpu",
    "nonzero",
    "equal",
    "unique",
}
WAITING |= {"masked_select", "is_nonzero", "argwhere", "allclose"}
PICKING = {"gather", "index", "index_select", "embedding"}  # reads of its input what it gives
HALVES = (torch.float16, torch.bfloat16)
# On CUDA these copy their input to the dtype of the result first, but the given dtypes where the result is float32.
KEPT = {"sum": HALVES, "count_nonzero": (), "log_softmax": (torch.float16,)}
LOGSUMEXP = 5  # passes over its input beyond the first read: read and written by a difference and exp, read by the sum
ONLY_WRITE = {"copy_", "fill_", "zero_", "empty", "empty_like", "empty_strided", "new_empty"}


class Waits(TorchFunctionMode):
    """Counts, while it is entered, the calls after which the host must know a value that the device computes: reading
    a number, the places of true entries (an index of booleans is one), a copy to the processor. On a processor nothing
    waits, and what would wait on a GPU is counted, copies but for `cpu()` and all."""

    def __init__(self):
        super().__init__()
        self.waits = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, given = getattr(func, "__name__", ""), list(tensors((args, kwargs or {})))
        picked = name in ("__getitem__", "__setitem__") and any(t.dtype == torch.bool for t in tensors(args[1]))
        moved = name == "to" and any(str(a).startswith("cpu") for a in (*args[1:], *(kwargs or {}).values()))
        here = any(t.device.type == "cpu" for t in given) and not any(t.device.type != "cpu" for t in given)
        on_gpu = torch.cuda.is_available() and here  # of a processor's own tensor, beside a GPU: no wait
        self.waits += bool(given) and (name in WAITING or picked or (moved and not here)) and not on_gpu
        return func(*args, **(kwargs or {}))


class Counting(TorchDispatchMode):
    """Counts, while it is entered, bytes of tensors of at least `least` elements that operations read and write, each
    input and output once, and what they are known to copy within themselves on CUDA (`inside`). A kernel that reads
    its input twice counts once, a view nothing; what is picked out counts, not what from."""

    def __init__(self, least=1):
        super().__init__()
        self.least, self.moved = least, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        out = func(*args, **kwargs)
        made = list(tensors(out))
        self.moved += self.bytes(func, name, args, kwargs, made)
        if made and (given := next(tensors(args), made[0])).numel() >= self.least:
            self.moved += inside(name, given, made[0].dtype)
        return out

    def bytes(self, func, name, args, kwargs, made):
        written, read = [], []
        for i, about in enumerate(func._schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(about.name)
            changed = about.alias_info is not None and about.alias_info.is_write
            written += list(tensors(value)) if changed else []
            if not (about.kwarg_only and changed) and not (changed and name in ONLY_WRITE):
                read += list(tensors(value))
        places = {t.untyped_storage().data_ptr() for t in read}
        new = [t for t in made if t.untyped_storage().data_ptr() not in places]
        if not written and made and not new:  # a view
            return 0
        written += [] if written or name in ONLY_WRITE else new
        read = made if name in PICKING else read
        return sum(t.numel() * t.itemsize for t in read + written if t.numel() >= self.least)


def inside(name, given, dtype):
    """Bytes that an operation of a tensor moves on CUDA beside its input and its result, which is of some dtype."""
    if name == "logsumexp":
        return LOGSUMEXP * given.numel() * given.itemsize
    free = KEPT.get(name, ())
    copied = name in KEPT and given.dtype != dtype and not (dtype == torch.float32 and given.dtype in free)
    return 2 * given.numel() * dtype.itemsize if copied else 0  # the copy is written, and read


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def waits(run, *args):
    """Host waits of one call, counted on any device."""
    with Waits() as counted:
        run(*args)
    return counted.waits
