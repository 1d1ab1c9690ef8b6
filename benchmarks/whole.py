"""Whole measurings on a device, for `benchmarks.gpu`: embedded families beside a processor's
tables, and a model of a large shape with random weights beside float64."""

import json
import time
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import rbplib as rbp
from benchmarks import peers

ROOT = Path(__file__).parent.parent
KS = (1, 10, 100)
LENGTH = 512  # tokens of a window of the large model
COMPARED = 12  # windows of it that float64 is put beside
BESIDE = ["share of ranks that differ", "farthest, places", "logprob, nats"]
FAMILIES = ["", "rows", *BESIDE, "hits that differ at k = 1, 10, 100", "seconds", "by a processor"]
LARGE = ["shape", "parameters", "rows", "seconds", "highest memory, GiB", *BESIDE]


def corpus_of(texts, folder):
    """The YAML file of a corpus of these texts."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"text": text}) for text in texts]
    (folder / "text.jsonl").write_text("\n".join(lines))
    path = folder / "text.yml"
    path.write_text(f"source: file\npath: {folder}/text.jsonl\ntemplate: '{{text}}'\n")
    return path


def beside(ranks, others):
    """Cells of BESIDE: ranks that differ, by how many places, and how far the logprob is."""
    places = np.abs(ranks["greater"] - others["greater"])
    differ = (places > 0) | (ranks["ties"] != others["ties"])
    nats = np.abs(ranks["logprob"] - others["logprob"]).max()
    return [f"{differ.mean():.3%}", f"{places.max():.0f}", f"{nats:.0e}"]


def time_family(name, device, folder):
    """Lines of a family's models together, on the device beside a processor in float32.

    The text is this repository's own pages, so that nothing is fetched.
    """
    texts = [page.read_text() for page in sorted((ROOT / "notebooks").glob("*.md"))]
    corpus, lines, seconds, truth = corpus_of(texts, folder), [], [], None
    for place, dtype in [("cpu", "float32"), (device, "float32"), (device, "bfloat16")]:
        # all models of the family, one after another
        start, results = time.monotonic(), folder / f"{name}-{len(seconds)}"
        options = {"device": place, "dtype": dtype, "results": results, "progress": False}
        tables = rbp.measure(name, corpus, **options)
        seconds.append(f"{time.monotonic() - start:.1f}")
        columns = {}
        for column in ("greater", "ties", "logprob"):
            columns[column] = np.concatenate([table.columns[column] for table in tables])
        # beside the processor's
        ranks = columns["greater"] + columns["ties"]
        hits = np.array([(ranks <= k).sum() for k in KS])
        if truth is None:
            truth, expected = columns, hits
            continue
        share = ", ".join(f"{change:+.2%}" for change in hits / expected - 1)
        cells = [f"{len(ranks):,}", *beside(columns, truth), share, seconds[-1], seconds[0]]
        lines.append([f"{name}, {dtype}", *cells])
    return lines


def time_large(shape, windows, device, folder):
    """A line of a model with random weights, saved in half precision and measured in float32.

    The first windows are put beside float64 scores of hidden states computed one window at a time.
    """
    # a model and its text, saved as a hub has them
    place, vocab = folder / "large", peers.SHAPES[shape][-1]
    model = peers.make_model(shape, device, torch.float16)
    size = sum(values.numel() for values in model.parameters())
    model.save_pretrained(place)
    del model
    peers.word_tokenizer(vocab).save_pretrained(place)
    family = folder / "large.yml"
    family.write_text(f"context: {LENGTH}\nmodels: [{{id: {place}, dtype: float32}}]\n")
    ids = np.random.default_rng(0).integers(1, vocab, (windows, LENGTH))
    texts = [" ".join(map("w{}".format, row)) for row in ids]
    corpus = corpus_of(texts, folder)

    # measured, with the loading of its weights
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    start = time.monotonic()
    options = {"device": device, "results": folder / "of-large", "progress": False}
    (table,) = rbp.measure(family, corpus, **options)
    seconds = time.monotonic() - start
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else np.nan

    # beside float64: each window by itself
    columns, parts = table.columns, []
    first = {tuple(row[1:]): row[0] for row in ids.tolist()}
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, device_map=device)
    weight = model.get_output_embeddings().weight.double()
    several = columns["document"] < COMPARED
    for tokens in columns["token"][several].reshape(-1, LENGTH - 1).tolist():
        window = torch.tensor([[first[tuple(tokens)], *tokens]], device=device)
        scores = peers.body_only(model, window)[0, :-1].double() @ weight.t()
        own = scores.gather(1, window[0, 1:, None])
        counts = (scores > own).sum(1), (scores == own).sum(1)
        logprob = own[:, 0] - scores.logsumexp(1)
        parts.append(torch.stack([*counts, logprob]).cpu().numpy())
    truth = dict(zip(("greater", "ties", "logprob"), np.concatenate(parts, 1), strict=True))
    measured = {name: columns[name][several] for name in truth}
    cells = [f"{size:,}", f"{len(several):,}", f"{seconds:.0f}", f"{peak:.1f}"]
    return [[shape, *cells, *beside(measured, truth)]]
