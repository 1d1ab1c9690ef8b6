"""A family like no other here: three tiny models, another vocabulary, larger ones worse, one corpus of its own."""

import json
from collections import Counter
from pathlib import Path

STRENGTHS = (
    1.0,
    0.7,
    0.45,
)  # how much of the tokens' frequencies each model knows, the smallest most: a reversed trend


def write_backwards(root, documents=120):
    """`root` with the family `backwards` (models, family file) and the corpus `notes`; returns the vocabulary size.

    Each model scores by token frequencies, and a little by the context, so that ranks and probabilities vary.
    """
    import torch

    from tests.smallmodels import save_model, tokenizer

    root, here = Path(root), Path(__file__).resolve().parents[1]
    words = " ".join(
        p.read_text(encoding="utf-8") for p in sorted((here / "book" / "derivations").glob("*.md"))
    ).split()
    texts = [" ".join(words[40 * i : 40 * i + 40]) for i in range(documents)]
    (root / "notes.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
    (root / "corpora" / "notes.yml").write_text("title: Notes\nsource: file\npath: notes.jsonl\n")
    counts = Counter(i for ids in tokenizer()(texts)["input_ids"] for i in ids)
    entries = []
    for number, strength in enumerate(STRENGTHS):
        folder = root / "models" / "backwards" / f"m{number}"
        model = save_model(folder, "gpt2", scale=2**number, seed=number, tie_word_embeddings=False)
        table, norm = model.lm_head.weight, model.transformer.ln_f
        frequency = torch.tensor([counts.get(i, 0) + 0.5 for i in range(len(table))]).log()
        with torch.no_grad():  # the first hidden number is always 1 and scores by frequency, the others by context
            norm.weight.fill_(0.3)
            norm.weight[0] = 0
            norm.bias[0] = 1
            table.mul_(50 / table.shape[1] ** 0.5)
            table[:, 0] = strength * (frequency - frequency.mean())
        model.save_pretrained(folder)
        entries.append(f"  - {{id: models/backwards/m{number}}}\n")
    (root / "families" / "backwards.yml").write_text("title: Backwards\nmodels:\n" + "".join(entries))
    return len(table)
