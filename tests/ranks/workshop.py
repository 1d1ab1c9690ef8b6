"""A root with a family of three tiny models and a text of forty lines."""

import json

from tests.smallmodels import save_model

LINES = [  # each with a special token, the last of one token
    f"line {i}<end> " + "the quick brown fox jumps over the lazy dog " * (1 + i % 5) + str(i * i)
    for i in range(39)
] + ["a"]


def write_root(root, models=3):
    for folder in ("families", "corpora"):
        (root / folder).mkdir(parents=True)
    for i in range(models):
        save_model(root / f"models/m{i}", scale=2**i, seed=i)
    entries = ", ".join(f"models/m{i}" for i in range(models))
    (root / "families/toy.yml").write_text(f"context: 48\ndtype: float32\nmodels: [{entries}]\n")
    write_lines(root / "lines.jsonl")
    (root / "corpora/lines.yml").write_text("path: lines.jsonl\n")
    return root


def write_lines(path, start=0):
    rows = ({"text": text, "who": f"w{i % 3}"} for i, text in enumerate(LINES[start:]))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def naive_ranks(root, text, dtype="float32"):
    """(ids that are scored of a text's first 48, their Ranks among the first model's logits)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rbplib import token_ranks

    folder = root / "models/m0"
    net = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    ids = torch.tensor(AutoTokenizer.from_pretrained(folder)(text)["input_ids"][:48])
    with torch.no_grad():
        logits = net(ids[None]).logits[0, :-1]
    scored = ids[1:] > 0
    wanted = ids[1:][scored]
    return wanted.numpy(), token_ranks(logits[scored], wanted) if len(wanted) else []
