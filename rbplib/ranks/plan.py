"""What a measurement will take, before anything of it starts: time, memory, download and disk.

The speed is not a guess: a matrix product is timed on the device that would do the work. Tokens are counted from
tables or samples that are here, and bounded by documents times window where there is neither.
"""

import numpy as np

from rbplib import hub
from rbplib.models.devices import choose_device, choose_dtype, free_memory
from rbplib.models.files import model_folder
from rbplib.models.load import load_tokenizer
from rbplib.models.sizes import config_of, sizes_of, window_length
from rbplib.ranks.identity import asked, expected, ranks_path
from rbplib.ranks.stored import read_record
from rbplib.ranks.table import corpus_records
from rbplib.settings import InputError, known, load_family, results_dir
from rbplib.text.corpora import sample_here
from rbplib.text.windows import encode, make_windows, scored_rows

SHARE = 0.4  # of a bare matrix product's speed that a whole measurement reaches
CHARACTERS = 4.0  # per token of English text, roughly
PROCESS = 800_000_000  # bytes of the process itself with its libraries
ROW = 14  # bytes of a rank table per token, compressed
READ = 1_000_000_000  # bytes of weights read and hashed per second


def plan_family(family, models=None, corpora=None, protocol="paper", device=None, dtype=None, results=None):
    """Estimates for a measurement, as a dict that JSON can hold.

    Args:
        as `measure`.
    Returns:
        {"family", "protocol", "device", "window", "flops_per_s", "models": [...], "corpora": [...], "total": {...}};
        times in seconds, sizes in bytes; None where something cannot be known without the network.
    Raises:
        InputError: unknown names, or a device that is not here.
    Cost: the configurations, a second of matrix products, no weights.
    """
    family, models, corpora = asked(family, models, corpora, protocol)
    family.need_models()
    device, length, results = choose_device(device), window_length(family), results or results_dir()
    texts = [plan_corpus(c, length, protocol, results) for c in corpora]
    speeds, rows, expect = {}, [], expected(family, models, corpora, protocol, dtype=dtype)
    for model in models:
        kind = choose_dtype(dtype or model.dtype, device)
        if kind not in speeds:
            speeds[kind] = matrix_speed("cuda:0" if device == "auto" else device, kind)
        todo = [t["tokens"] for t, e in zip(texts, expect[model.name], strict=True) if not is_here(e, results)]
        row = {"model": model.name, "id": model.id, "tables_here": len(texts) - len(todo)}
        row |= {"tables_to_measure": len(todo), "dtype": str(kind).removeprefix("torch.")}
        rows.append(row | plan_model(model, sum(todo), kind, device, speeds[kind]))
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


def plan_model(model, tokens, dtype, device, speed):
    """What one model takes for so many tokens; all of it is None where its size is unknown."""
    try:
        sizes = sizes_of(model)
    except InputError as error:
        names = "nonembedding_params total_params memory_bytes download_bytes seconds table_bytes fits"
        return {**dict.fromkeys(names.split()), "note": str(error)}
    total = sizes.total or sizes.nonembedding
    embedding = (total - sizes.nonembedding) // 2 or total  # the head is about half of a table pair
    flops, weights = 2 * (sizes.nonembedding + embedding) * tokens, total * dtype.itemsize
    return {
        "nonembedding_params": sizes.nonembedding,
        "total_params": total,
        "tokens": tokens,
        "memory_bytes": weights + PROCESS if tokens else 0,
        "download_bytes": download_bytes(model, total) if tokens and not model.local else 0,
        "table_bytes": ROW * tokens,
        "seconds": flops / (SHARE * speed) + weights / READ if tokens else 0.0,
        "fits": not tokens or weights + PROCESS < free_memory(device),
    }


def total_of(rows, texts):
    """Sums over the models whose size is known; memory is that of the largest, as they are measured one by one."""
    known = [r for r in rows if r["seconds"] is not None]
    return {
        "seconds": sum(r["seconds"] for r in known),
        "memory_bytes": max((r["memory_bytes"] for r in known), default=None),
        "download_bytes": sum(r["download_bytes"] for r in known),
        "disk_bytes": sum(r["download_bytes"] + r["table_bytes"] for r in known),
        "disk_free_bytes": hub.free_disk(),
        "models_without_estimate": [r["model"] for r in rows if r["seconds"] is None],
        "corpora_to_fetch": [t["corpus"] for t in texts if not t["here"]],
    }


def plan_corpus(corpus, length, protocol, results):
    """Tokens of a corpus: counted where a table or the sample is here, else at most documents times window."""
    here = True
    if record := next((r for r in corpus_records(corpus, results) if r["protocol"] == protocol), None):
        count, source = record["read_tokens"], "a measured table"
    elif sample := sample_here(corpus):
        whole = 2 * len("".join(sample.texts))  # windows of `full` overlap by half
        cut = sum(min(length * CHARACTERS, len(t)) for t in sample.texts)
        count, source = (cut if protocol == "paper" else whole) / CHARACTERS, "its text"
    elif corpus.tokens and protocol == "paper":
        count, source, here = corpus.tokens, "its entry", False
    else:
        count, source, here = corpus.documents * length, "an upper bound", False
    return {"corpus": corpus.name, "tokens": round(count), "here": here, "from": source}


def corpus_facts(corpus, family=None):
    """What a corpus holds: documents, the sources they are from, and what of its text each source gives.

    Args:
        corpus: a settings.Corpus. family: a name or record; its tokenizer and window count what the paper's protocol
            scores. Embedded text is counted as the embedded families read it where none is given, other text by
            characters.
    Returns:
        dict that JSON can hold. largest_share is the largest source's share of the scored tokens (of the characters
        where `tokens_of` is None), effective_sources 1 / sum of squared shares. None stands for what is not known:
        everything counted, where the text of a hub's corpus is not here yet.
    Cost: the text is read and tokenised; text of packages is gathered once.
    """
    if family is None and corpus.source == "embedded":
        family = next((f for f in known("family") if f.embedded), None)
    family, sample = family and load_family(family), sample_here(corpus)
    found = {"tokens_of": family and family.name, "window": family and window_length(family)}
    found |= dict.fromkeys(("documents", "sources", "scored_tokens", "characters", "read_characters"))
    found |= dict.fromkeys(("largest_source", "largest_share", "effective_sources"))
    found |= {"note": corpus.note, "licence": corpus.licence, "digest": corpus.digest}
    if sample is None:
        return found
    sizes = np.array([len(text) for text in sample.texts])
    found |= {"documents": len(sizes), "characters": int(sizes.sum()), "digest": sample.digest}
    if family:
        sizes, found["read_characters"] = scored_tokens(sample.texts, family)
        found["scored_tokens"] = int(sizes.sum())
    names, source = np.unique(sample.units or np.arange(len(sizes)).astype(str), return_inverse=True)
    given = np.bincount(source, sizes)
    largest, share = given.argmax(), given / max(given.sum(), 1)
    found |= {"sources": len(names), "largest_source": str(names[largest]) if sample.units else None}
    return found | {"largest_share": float(share[largest]), "effective_sources": float(1 / max((share**2).sum(), 1e-9))}


def scored_tokens(texts, family):
    """Tokens of each document that the paper's protocol scores with a family's tokenizer and window, int64 (D,), and
    characters of all documents up to their windows' ends."""
    model = family.models[0]
    folder, _ = model_folder(model, weights=False)
    tokenizer = load_tokenizer(folder, model.id)
    ids, read = encode(tokenizer, texts, length := window_length(family))
    windows = make_windows(ids, tokenizer.all_special_ids, length, read=read)
    counts = np.zeros(len(texts), np.int64)
    for w in windows.windows:
        counts[w.document] += len(scored_rows(w, windows.special))
    return counts, windows.read


def is_here(expect, results):
    """Whether the rank table of such entries is there; only its record is read."""
    try:
        return bool(read_record(ranks_path(expect, results), expect))
    except InputError:
        return False


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
    """Floating-point operations per second of a product of matrices on a device, timed for a moment."""
    import torch
    from torch.utils.benchmark import Timer

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


def facts_text(facts):
    """What a corpus holds as lines for people."""
    if facts["documents"] is None:
        lines = ["its text is not here yet: `rbp measure` fetches it"]
    else:
        read = f"{facts['characters']:,} characters"
        if facts["tokens_of"]:
            share = facts["read_characters"] / max(facts["characters"], 1)
            read = f"{facts['scored_tokens']:,} tokens scored as {facts['tokens_of']} reads it"
            read += f", which are {share:.1%} of the text's characters"
        largest = f" ({facts['largest_source']})" if facts["largest_source"] else ""
        lines = [
            f"{facts['documents']:,} documents of {facts['sources']:,} sources, {read}",
            f"largest source {facts['largest_share']:.1%}{largest}; as {facts['effective_sources']:.1f} equal sources",
        ]
    return [
        f"    {line}" for line in (*lines, *(f"{n}: {facts[n]}" for n in ("note", "licence", "digest") if facts[n]))
    ]


def duration(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count):
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
