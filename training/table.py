"""`models/README.md`: the table of the embedded models, out of their training records and files."""

import hashlib
import json

from corpora.make import TRAINING
from training import checks, grid, ladders
from training.train import Plan

HEAD = """# The embedded models

Made by `training/` (all: `make train`; one: `python -m training FAMILY SIZE`; this file: `python -m training table`).
Weights are bfloat16 in safetensors; the committed weights are the ones that are measured. All sizes of a family saw
the same tokens once, in the same shuffled order, and every family reads the same text from its beginning; how far, the
table says. A step reads {batch} windows of {context} tokens; AdamW with a linear warm-up over {warmup:.0%} of the steps
and a linear decay to 0. Peak learning rate: {block} at width {base} for the blocks, falling as 1/width; {table} for the
tables of tokens at every width. The output is tied to the input in all families but `nano-pythia`, as in the real ones.

The text is documentation, code and worked examples of {packages} packages installed here (listed in
`corpora/packages/training.txt`), without documents that repeat another or are near evaluation text, which comes from
other packages. Nothing was trained on licences or on the packages' long descriptions. The SHA-256 of the tokens read,
as little-endian 16-bit numbers: {found}.
The tokenizer of all models, in `tokenizer/`, is a byte-level BPE of 4,096 tokens trained on the same text; with 8,192
tokens a token holds 9% more bytes of the documents held out (3.48 against 3.19) and costs twice the head, which is most
of a small model's work.

`held out` is the loss on documents of the training packages that were not trained on; `S` is the number of
non-embedding parameters; losses are in nats per token; wall time is of one process with one thread, while other work
ran on the same machine; the digest is the first 12 digits of the SHA-256 of `model.safetensors`.

"""
COLUMNS = (
    "family",
    "size",
    "seed",
    "S",
    "all parameters",
    "layers",
    "width",
    "tokens",
    "training loss",
    "held out",
    "wall time",
    "hardware",
    "digest",
)

SUM = """
In all {runs} trainings, {tokens:,} tokens, {minutes:,.0f} minutes of one process by the clock; the checks below
came on top.
"""

CHECKS = """
## Is the learning-rate rule right?

`python -m training check` trains the two ends of a ladder for its whole {tokens:,} tokens, at the rule and with one of
its two rates halved or doubled. Held-out loss, nats per token:

| family | size | the rule | blocks x0.5 | blocks x2 | tables x0.5 | tables x2 |
|---|---|---|---|---|---|---|
{rows}

Another rate gains at most {gain:.3f} nats. Where the best of a row is the last rate tried, a rate further on may gain
more; larger models and other amounts of text were not checked. Runs of a hundred steps ask for higher rates than whole
ones and are not to be trusted.
"""

NOTES = """
## Choices of the recipe

* The rule has two rates because one does not do. A single rate that fell with the width was tried first: the tables
  then learn too slowly in the wide models and the ladder flattens at its top, most of all with a tied output.
* Blocks of `nano-opt` start with what they add scaled by 1/sqrt(2 layers), as OPT was trained; GPT-2's class does so
  itself. Learned positions start small, so that they do not drown the tokens before they are learned.
* `nano-mamba` is `MambaForCausalLM`. `training/scan.py` writes out the gradient of its scan, since the reference makes
  a graph node per position; the state has 4 numbers per channel (16 in the published models), because the scan is
  most of its cost. Its block has half the parameters of a transformer's layer, so its sizes differ a little.
* `nano-pythia-seeds` repeats every size of `nano-pythia` twice, from other initial weights and with the windows of the
  same text in another order; each seed has an order of its own, the same for all sizes. The third of each size is the
  ladder's own.
* `nano-pythia-1m` to `-16m` are the grid of sizes and tokens, with one rung more than the ladders: every budget of
  tokens is the beginning of the same text and has a warm-up and a decay of its own. Their weights are not committed;
  their counts are, in `published/ranks/`, with the whole digests of the weights.
* A batch is of windows from all over the text. Read in the text's order, neighbouring windows are of one document: the
  largest `nano-pythia` then ended at a held-out loss of 3.92 in place of 3.74, on the text before long documents were
  cut.
"""


def records(out):
    """(folder, record): family by family in the order of `ladders.FAMILIES`, smallest size first, then other seeds."""
    for family in (*ladders.FAMILIES, *(f"{family}-seeds" for family in ladders.FAMILIES)):
        found = [(path.parent, json.loads(path.read_text())) for path in (out / family).glob("*/training.json")]
        yield from sorted(found, key=lambda pair: (pair[1]["nonembedding_params"], pair[1]["seed"]))


def row(family, name, r, digest):
    """A line of the table."""
    return (
        f"| {family} | {name} | {r['seed']} | {r['nonembedding_params']:,} | {r['total_params']:,} | "
        f"{r['layers']} | {r['width']} | {r['tokens']:,} | {r['train_loss']:.3f} | {r['heldout_loss']:.3f} | "
        f"{r['wall_seconds']:,.0f} s | {r['hardware']} | {digest} |"
    )


def write(out):
    """Write README.md of the models' folder."""
    lines, digests, runs = [], set(), {}
    for path, r in records(out):
        digest = hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()[:12]
        lines.append(row(path.parent.name, path.name, r, digest))
        digests.add((r["tokens"], r["text_digest"][:12]))
        runs[digest] = r
    for name, r in grid.records():
        lines.append(row(name, r["size"], r, r["weights"][:12]))
        digests.add((r["tokens"], r["text_digest"][:12]))
        runs[r["weights"][:12]] = r  # the ladder is in the grid: one training
    total = {part: sum(r[part] for r in runs.values()) for part in ("tokens", "wall_seconds")}
    total |= {"runs": len(runs), "minutes": total["wall_seconds"] / 60}
    plan = Plan()
    found = ", ".join(f"{digest}... of the first {n + 1:,}" for n, digest in sorted(digests))
    rates = dict(block=ladders.BLOCK_RATE, base=ladders.BASE_WIDTH, table=ladders.TABLE_RATE)
    words = dict(context=ladders.CONTEXT, batch=plan.batch, warmup=plan.warmup, found=found, packages=len(TRAINING))
    head = HEAD.format(**words, **rates)
    rule = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    text = head + "\n".join(rule + lines) + "\n" + SUM.format(**total)
    if (out / "checks.json").is_file():
        checked = json.loads((out / "checks.json").read_text())
        text += CHECKS.format(
            tokens=checked["tokens"], rows="\n".join(checks.rows(checked)), gain=checks.largest_gain(checked)
        )
    (out / "README.md").write_text(text + NOTES)
