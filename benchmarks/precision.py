"""How many ranks move, and by how much, with chunking, batches, threads and dtype, on the machine this runs on.

python -m benchmarks precision [--model models/nano-pythia/NAME]
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from benchmarks.contenders import make_ids, make_model
from benchmarks.ranks import RESULTS, machine
from rbplib.ranks import head_ranks, sequence_ranks, token_ranks

ROOT = Path(__file__).resolve().parents[1]


def moved(reference, other):
    """What differs between two sets of ranks of the same tokens.

    Returns:
        dict: tokens; ranks_moved, tokens whose greater + ties differ; largest, in places; logprob, largest difference
        in nats; tied, tokens of `other` that tie with another candidate.
    """
    a, b = (r.greater + r.ties for r in (reference, other))
    return {
        "tokens": a.numel(),
        "ranks_moved": int((a != b).sum()),
        "largest": int((a - b).abs().max()),
        "logprob": float((reference.logprob - other.logprob).abs().max()),
        "tied": int((other.ties > 1).sum()),
    }


def naive(hidden, weight, targets, rows):
    """Ranks from plain products of `rows` rows at a time."""
    scores = torch.cat([some @ weight.t() for some in hidden.split(rows)])
    return token_ranks(scores, targets)


def head_facts(width=512, vocab=50_304, count=512):
    """Chunking of the head's product, and its dtype, on random states of a trained model's spread."""
    pick = torch.Generator().manual_seed(0)
    hidden = torch.randn(count, width, generator=pick)
    weight = torch.randn(vocab, width, generator=pick) * 2.5 / width**0.5
    targets = torch.randint(0, vocab, (count,), generator=pick)
    whole, engine = naive(hidden, weight, targets, count), head_ranks(hidden, weight, targets)
    exact = naive(hidden.double(), weight.double(), targets, count)
    facts = {"float32 product against float64": moved(exact, whole)}
    for rows in (1, 3, 16, 64, 128):
        facts[f"plain float32 product, {rows} rows at a time"] = moved(whole, naive(hidden, weight, targets, rows))
    facts["the engine against the plain product"] = moved(whole, engine)
    for rows in (1, 64, 300):
        facts[f"the engine, chunk={rows}"] = moved(engine, head_ranks(hidden, weight, targets, chunk=rows))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    facts["the engine, one thread"] = moved(engine, head_ranks(hidden, weight, targets))
    torch.set_num_threads(threads)
    half, half_weight = hidden.bfloat16(), weight.bfloat16()
    fine = head_ranks(half, half_weight, targets)
    facts["bfloat16 states and weight, float32 product"] = moved(engine, fine)
    facts["the same in bfloat16 throughout, against that"] = moved(
        fine, head_ranks(half, half_weight, targets, dtype=None)
    )
    coarse = naive(half, half_weight, targets, count)
    for rows in (1, 16, 64):
        facts[f"plain bfloat16 product, {rows} rows at a time"] = moved(coarse, naive(half, half_weight, targets, rows))
    return facts


def model_facts(model, ids, name):
    """Batches of one model: the head is the same for all, the body's products have other shapes."""
    whole = sequence_ranks(model, ids)
    return {
        f"{name}, batches of {size} against {len(ids)}": moved(whole, _joined(model, ids, size)) for size in (1, 3, 8)
    }


def _joined(model, ids, size):
    parts = [sequence_ranks(model, some) for some in ids.split(size)]
    return type(parts[0])(*(torch.cat(column) for column in zip(*parts, strict=True)))


def embedded(path):
    """A trained model of the repository, on windows of its README and licence."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rbplib.models import tokenizer_place

    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    tokens = AutoTokenizer.from_pretrained(tokenizer_place(Path(path)))
    text = "\n".join((ROOT / n).read_text() for n in ("LICENSE", "README.md") if (ROOT / n).exists())
    ids = torch.tensor(tokens(text)["input_ids"])
    return model, ids[: len(ids) // 16 * 16].view(16, -1)[:, :256]


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks precision", description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="a trained model's folder; by default the largest of nano-pythia")
    args = parser.parse_args(argv)
    facts = head_facts()
    model = make_model("14m")
    facts |= model_facts(model, make_ids(model, 16, 128), "14M shape, random weights")
    folders = sorted((ROOT / "models" / "nano-pythia").glob("*/model.safetensors"), key=lambda p: p.stat().st_size)
    path = args.model or (folders[-1].parent if folders else None)
    if path is not None:
        model, ids = embedded(path)
        facts |= model_facts(model, ids, f"{Path(path).parent.name} {Path(path).name}, real text")
    lines = [
        "| | tokens | ranks that move | farthest, places | logprob, nats | tied tokens |",
        "|---|---|---|---|---|---|",
    ]
    for name, f in facts.items():
        lines.append(
            f"| {name} | {f['tokens']:,} | {f['ranks_moved']:,} | {f['largest']:,} | {f['logprob']:.1e} "
            f"| {f['tied']:,} |"
        )
    print("\n".join(lines))
    path = RESULTS.with_name("precision.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "facts": facts, "table": "\n".join(lines)}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
