"""What a measurement will take, before anything of it starts: time, memory, download and disk.

The speed is not a guess: a matrix product is timed on the device that would do the work. Tokens are counted from
tables or samples that are here, and bounded by documents times window where there is neither.
"""

import shutil
import time
from pathlib import Path

from rbplib.models.devices import choose_device, choose_dtype
from rbplib.models.sizes import Sizes, config_of, sizes_of, window_length
from rbplib.ranks.table import ranks_path, read_record
from rbplib.settings import (
    InputError,
    check_choice,
    default_corpora,
    load_corpus,
    load_family,
    results_dir,
)

SHARE = 0.4  # of a bare matrix product's speed that a whole measurement reaches
CHARACTERS = 4.0  # per token of English text, roughly
PROCESS = 800_000_000  # bytes of the process itself with its libraries
ROW = 14  # bytes of a rank table per token, compressed
READ = 1_000_000_000  # bytes of weights read and hashed per second


def plan_family(family, models=None, corpora=None, protocol="paper", device=None, dtype=None):
    """Estimates for a measurement, as a dict that JSON can hold.

    Args:
        as `measure`.
    Returns:
        {"family", "device", "dtype", "flops_per_s", "models": [...], "corpora": [...], "total": {...}}; times in
        seconds, sizes in bytes; None where something cannot be known without the network.
    Raises:
        InputError: unknown names, or a device that is not here.
    Cost: the configurations, a second of matrix products, no weights.
    """
    import torch

    family = load_family(family)
    check_choice(protocol, ("paper", "full"), "protocol")
    chosen = [family.model(m) for m in models] if models else list(family.models)
    entries = [load_corpus(c) for c in (corpora or default_corpora(family))]
    device = choose_device(device)
    speeds, length = {}, window_length(family)
    texts = [plan_corpus(c, length, protocol) for c in entries]
    rows = []
    for model in chosen:
        kind = choose_dtype(dtype or model.dtype, device)
        if kind not in speeds:
            speeds[kind] = matrix_speed(torch.device("cuda:0" if device == "auto" else device), kind)
        done = [c.name for c in entries if is_there(family.name, model, c.name, protocol)]
        rows.append(plan_model(model, texts, done, kind, device, speeds[kind]))
    return {
        "family": family.name,
        "protocol": protocol,
        "device": device,
        "window": length,
        "flops_per_s": max(speeds.values()),
        "models": rows,
        "corpora": texts,
        "total": total_of(rows, texts),
    }


def total_of(rows, texts):
    known = [r for r in rows if r["seconds"] is not None]
    return {
        "seconds": sum(r["seconds"] for r in known),
        "memory_bytes": max((r["memory_bytes"] for r in known), default=None),
        "download_bytes": sum(r["download_bytes"] for r in known),
        "disk_bytes": sum(r["download_bytes"] + r["table_bytes"] for r in known),
        "disk_free_bytes": free_disk(),
        "models_without_estimate": [r["model"] for r in rows if r["seconds"] is None],
        "corpora_to_fetch": [t["corpus"] for t in texts if not t["here"]],
    }


def plan_model(model, texts, done, dtype, device, speed):
    """One model's line of the plan."""
    todo = [t for t in texts if t["corpus"] not in done]
    row = {"model": model.name, "id": model.id, "tables_here": len(done), "tables_to_measure": len(todo)}
    row["dtype"] = str(dtype).removeprefix("torch.")
    empty = dict.fromkeys(("nonembedding_params", "total_params", "memory_bytes", "download_bytes", "seconds"))
    try:
        sizes = sizes_of(model)
    except InputError as error:
        return {**row, **empty, "table_bytes": None, "fits": None, "note": str(error)}
    if sizes.total is None:
        sizes = Sizes(sizes.nonembedding, sizes.nonembedding, 0)
    weights = sizes.total * dtype.itemsize
    tokens = sum(t["tokens"] for t in todo)
    embedding = (sizes.total - sizes.nonembedding) // 2 or sizes.total  # the head is about half of a table pair
    flops = 2 * (sizes.nonembedding + embedding) * tokens
    memory = weights + PROCESS
    return {
        **row,
        "nonembedding_params": sizes.nonembedding,
        "total_params": sizes.total,
        "tokens": tokens,
        "memory_bytes": memory if todo else 0,
        "download_bytes": 0 if model.local or not todo else download_bytes(model, sizes),
        "table_bytes": ROW * tokens,
        "seconds": flops / (SHARE * speed) + weights / READ if todo else 0.0,
        "fits": memory < free_memory(device) if todo else True,
    }


def plan_corpus(corpus, length, protocol):
    """Tokens of a corpus: counted where a table or the sample is here, else at most documents times window."""
    for path in sorted(
        (results_dir() / "ranks").glob(f"*/*/{corpus.name}{'' if protocol == 'paper' else '.full'}.parquet")
    ):
        try:
            record = read_record(path)
        except InputError:
            continue
        return {"corpus": corpus.name, "tokens": int(record["read_tokens"]), "here": True, "from": "a measured table"}
    if texts := sample_here(corpus):
        counts = [len(t) / CHARACTERS for t in texts]
        if protocol == "paper":
            counts = [min(length, c) for c in counts]
        tokens = sum(counts) * (1 if protocol == "paper" else 2)  # windows of `full` overlap by half
        return {"corpus": corpus.name, "tokens": round(tokens), "here": True, "from": "its text"}
    if corpus.tokens and protocol == "paper":
        return {"corpus": corpus.name, "tokens": corpus.tokens, "here": False, "from": "its entry"}
    return {"corpus": corpus.name, "tokens": corpus.documents * length, "here": False, "from": "an upper bound"}


def sample_here(corpus):
    """The texts of a corpus that need no network, or None."""
    if corpus.source == "hub":
        from rbplib.text.datasets import read_sample, sample_path

        held = read_sample(sample_path(corpus))
        return held["texts"] if held else None
    from rbplib.text.corpora import load_documents

    return load_documents(corpus).texts


def is_there(family, model, corpus, protocol):
    try:
        read_record(ranks_path(family, model.name, corpus, protocol))
    except InputError:
        return False
    return True


def download_bytes(model, sizes):
    """Bytes of weights that are not in the cache; 2 bytes a parameter unless the configuration says 4."""
    from rbplib import hub as fetch

    folder = fetch.cached_snapshot(model.id, model.revision)
    if folder is not None and any(p.suffix in (".safetensors", ".bin") for p in Path(folder).iterdir()):
        return 0
    try:
        config = config_of(model)
    except InputError:
        config = {}
    kept = (config.get("dtype") or config.get("torch_dtype")) if isinstance(config, dict) else None
    return sizes.total * (4 if kept == "float32" else 2)


def matrix_speed(device, dtype, seconds=0.3):
    """Floating-point operations per second of a product of matrices on a device, timed for a moment."""
    import torch

    n = 4096 if device.type == "cuda" else 768
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    a @ b
    wait()
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        a @ b
        wait()
        done += 1
    return 2 * n**3 * done / (time.perf_counter() - start)


def free_memory(device):
    import psutil
    import torch

    if device == "auto":
        return sum(torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count()))
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(torch.device(device))[0]
    return psutil.virtual_memory().available


def free_disk():
    """Bytes free where the hub's cache is (or will be)."""
    from huggingface_hub import constants

    place = Path(constants.HF_HUB_CACHE)
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def plan_text(plan):
    """A plan as lines for people."""
    lines = [f"{plan['family']} on {plan['device']} ({plan['flops_per_s'] / 1e9:,.0f} GFLOP/s in a matrix product)"]
    for t in plan["corpora"]:
        place = "" if t["here"] else ", to be fetched"
        lines.append(f"  {t['corpus']:14} about {t['tokens']:>10,} tokens to read ({t['from']}){place}")
    for r in plan["models"]:
        if r["seconds"] is None:
            lines.append(f"  {r['model']:22} no estimate: {r['note']}")
            continue
        if not r["tables_to_measure"]:
            lines.append(f"  {r['model']:22} measured already")
            continue
        tight = "" if r["fits"] else "  MORE THAN IS FREE"
        lines.append(
            f"  {r['model']:22} {duration(r['seconds']):>9}  memory {size(r['memory_bytes']):>8}  "
            f"download {size(r['download_bytes']):>8}{tight}"
        )
    total = plan["total"]
    if total["memory_bytes"] is not None:
        lines.append(
            f"in all about {duration(total['seconds'])}, {size(total['memory_bytes'])} of memory at most, "
            f"{size(total['download_bytes'])} to download, {size(total['disk_bytes'])} of disk "
            f"({size(total['disk_free_bytes'])} are free)"
        )
    return "\n".join(lines)


def duration(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count):
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
