"""What a measurement will take, before anything of it starts: time, memory, download and disk.

The speed is not a guess: a small model that is here runs one batch; for others a matrix product is timed on the device
that would do the work, or its data sheet read where only its name is given. Tokens are counted from tables or samples
that are here, and bounded by documents times window where there is neither.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from rbplib import hub
from rbplib.devices import GPUS, SMALL, choose_device, choose_dtype, choose_threads, free_memory
from rbplib.facts import family_windows
from rbplib.families import InputError, results_dir
from rbplib.identity import asked, expected, ranks_path
from rbplib.model_sizes import config_of, sizes_of, window_length
from rbplib.stored import write_ranks
from rbplib.table import corpus_records, record_here
from rbplib.texts import sample_here
from rbplib.windows import AT_ONCE, encode, make_windows

SHARE = 0.4  # of a bare matrix product's speed that a whole measurement reaches
CHARACTERS = 4.0  # per token of English text, roughly
PROCESS = 600_000_000  # bytes of the process itself with its libraries
TEXT = 8  # bytes of memory per token of its id and its share of a window; characters of a sampled file stand on disk
START = 6  # seconds until a process has loaded them
ROW = 9  # bytes of a rank table per token, compressed
READ = 1_000_000_000  # bytes of weights read and hashed per second


def plan_family(family, models=None, corpora=None, protocol="paper", device=None, dtype=None, results=None):
    """Estimates for a measurement, as JSON can hold them: times in seconds, sizes in bytes; None where something cannot
    be known without the network.

    Arguments are those of `measure`; device may also be the name of a GPU that is not here, one of GPUS.
    Raises InputError: unknown names, or a device that is not here.
    Cost: the configurations, and a second of matrix products, or for small models that are here one batch of each.
    """
    family, models, corpora = asked(family, models, corpora, protocol)
    family.need_models()
    device = choose_device(device, GPUS)
    length, results = window_length(family), results or results_dir()
    texts = [plan_corpus(c, family, protocol, results) for c in corpora]
    speeds, rows, expect = {}, [], expected(family, models, corpora, protocol, dtype=dtype)
    for model in models:
        kind = choose_dtype(dtype or model.dtype, "auto" if device in GPUS else device)
        if kind not in speeds:
            speeds[kind] = matrix_speed("cuda:0" if device == "auto" else device, kind)
        here = [record_here(ranks_path(e, results), e) for e in expect[model.name]]
        todo = [text["tokens"] for text, done in zip(texts, here, strict=True) if not done]
        row = {"model": model.name, "id": model.id, "tables_here": len(texts) - len(todo)}
        row |= {"tables_to_measure": len(todo), "dtype": str(kind).removeprefix("torch.")}
        rows.append(row | plan_model(model, sum(todo), kind, device, speeds[kind], length))
    about = {"family": family.name, "protocol": protocol, "device": device, "window": length}
    about |= {"flops_per_s": max(speeds.values()), "models": rows, "corpora": texts}
    return about | {"total": total_of(rows, texts)}


def plan_model(model, tokens, dtype, device, speed, length):
    """What one model takes for so many tokens; all of it is None where its size is unknown."""
    try:
        sizes = sizes_of(model)
    except InputError as error:
        names = "nonembedding_params total_params memory_bytes download_bytes seconds table_bytes fits"
        return {**dict.fromkeys(names.split()), "note": str(error)}
    total = sizes.total or sizes.nonembedding
    embedding = (total - sizes.nonembedding) // 2 or total  # the head is about half of a table pair
    flops, weights = 2 * (sizes.nonembedding + embedding), total * dtype.itemsize
    timed = tokens and model.local and total < SMALL and device == "cpu"
    each, process = batch_cost(model, length, total, tokens) if timed else (flops / (SHARE * speed), weights + PROCESS)
    free = GPUS[device][0] if device in GPUS else free_memory(device)
    return {
        "nonembedding_params": sizes.nonembedding,
        "total_params": total,
        "tokens": tokens,
        "memory_bytes": process if tokens else 0,
        "download_bytes": download_bytes(model, total) if tokens and not model.local else 0,
        "table_bytes": ROW * tokens,
        "seconds": tokens * each + weights / READ if tokens else 0.0,
        "fits": not tokens or process < free,
    }


def total_of(rows, texts):
    """Sums over the models whose size is known; memory is that of the largest, as they are measured one by one."""
    known = [r for r in rows if r["seconds"] is not None]
    return {
        "seconds": sum(r["seconds"] for r in known) + START * any(r["seconds"] for r in known),
        "memory_bytes": max((r["memory_bytes"] for r in known), default=None),
        "download_bytes": sum(r["download_bytes"] for r in known),
        "disk_bytes": sum(r["download_bytes"] + r["table_bytes"] for r in known),
        "disk_free_bytes": hub.free_disk(),
        "models_without_estimate": [r["model"] for r in rows if r["seconds"] is None],
        "corpora_to_fetch": [t["corpus"] for t in texts if not t["here"]],
    }


def batch_cost(model, length, parameters, tokens):
    """(seconds per token, peak bytes) of a model here: text tokenised, a batch on the CPU, its table written."""
    from rbplib.measuring import batch_ranks
    from rbplib.models import load_model

    loaded = load_model(model, "cpu")
    choose_threads(parameters)
    encode(loaded.tokenizer, [" the" * round(min(AT_ONCE, CHARACTERS * tokens) / 4)])
    vocab = int(loaded.record["vocab_size"])
    ids = np.random.default_rng(0).integers(0, vocab, (-(-4096 // length), length))
    windows = make_windows(list(ids), (), length).windows
    columns = batch_ranks(loaded, windows, frozenset(), loaded.model.dtype)  # it warms up, too
    with tempfile.TemporaryDirectory() as folder:
        write_ranks(Path(folder) / "table", columns, {"vocab_size": vocab})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    start = time.perf_counter()
    batch_ranks(loaded, windows, frozenset(), loaded.model.dtype)
    return (time.perf_counter() - start) / ids.size, peak + TEXT * tokens


def plan_corpus(corpus, family, protocol, results):
    """Tokens of a corpus: counted where a table or the sample is here, else at most documents times window."""
    here, length, model = True, window_length(family), family.models[0]
    records = (r for r in corpus_records(corpus, results) if (r["protocol"], r["family"]) == (protocol, family.name))
    if record := next(records, None):
        count, source = record["read_tokens"], "a measured table"
    elif (sample := sample_here(corpus)) and model.local:
        count, source = family_windows(sample.texts, family, protocol).tokens, "its text"
    elif sample:
        most, times = (length * CHARACTERS, 1) if protocol == "paper" else (np.inf, 2)  # windows of `full` overlap
        count, source = times * sum(min(most, len(t)) for t in sample.texts) / CHARACTERS, "its text"
    elif corpus.tokens and protocol == "paper":
        count, source, here = corpus.tokens, "its entry", False
    else:
        count, source, here = corpus.documents * length, "an upper bound", False
    return {"corpus": corpus.name, "tokens": round(count), "here": here, "from": source}


def download_bytes(model, params):
    """Bytes of weights that are not in the cache; 2 bytes a parameter unless the configuration says 4."""
    folder = hub.cached_snapshot(model.id, model.revision)
    if folder is not None and any(p.suffix in (".safetensors", ".bin") for p in folder.iterdir()):
        return 0
    try:
        config = config_of(model)
    except InputError:
        config = {}
    return params * (4 if "float32" in (config.get("dtype"), config.get("torch_dtype")) else 2)


def matrix_speed(device, dtype):
    """Floating-point operations per second of a product of matrices on a device, timed for a moment; of a GPU that is
    only named, its data sheet's."""
    import torch
    from torch.utils.benchmark import Timer

    if device in GPUS:
        return GPUS[device][1] * min(1, 2 / dtype.itemsize)
    n = 4096 if device.startswith("cuda") else 768
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return 2 * n**3 / timer.blocked_autorange(min_run_time=0.3).median


def plan_text(plan):
    """A plan as lines for people."""
    lines = [f"{plan['family']} on {plan['device']} ({plan['flops_per_s'] / 1e9:,.0f} GFLOP/s in a matrix product)"]
    for t in plan["corpora"]:
        place = "" if t["here"] else ", to be fetched"
        lines.append(f"  {t['corpus']:14} about {t['tokens']:>10,} tokens to read ({t['from']}){place}")
    for r in plan["models"]:
        said = "measured already"
        if r["seconds"] is None:
            said = f"no estimate: {r['note']}"
        elif r["tables_to_measure"]:
            said = f"{duration(r['seconds']):>9}  memory {size(r['memory_bytes']):>8}  "
            said += f"download {size(r['download_bytes']):>8}{'' if r['fits'] else '  MORE THAN IS FREE'}"
        lines.append(f"  {r['model']:22} {said}")
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
