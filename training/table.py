"""`models/README.md`: the table of the embedded models, out of their training records and files."""

import hashlib
import json
import math
import statistics

from corpora.make import TRAINING
from rbplib.families import write_text
from training import checks, grid, ladders
from training.train import Plan

HEAD = """# The embedded models

Made by `training/` (`python -m training --all`; one: `python -m training FAMILY SIZE`; this file:
`python -m training table`). Weights are bfloat16 in safetensors; the committed weights are the ones
that are measured. All sizes of a family saw the same tokens once, in the same shuffled order, and
every family reads the same text from its beginning; how far, the table says. A step reads {batch}
windows of {context} tokens; AdamW with a linear warm-up over {warmup:.0%} of the steps and a linear
decay to 0. Peak learning rate: {block} at width {base} for the blocks, falling as 1/width; {table}
for the tables of tokens at every width. The output is tied to the input in all families but
`nano-pythia`, as in the real ones.

The text is documentation, code and worked examples of {packages} packages installed here (listed in
`corpora/packages/training.txt`), without documents that repeat another or are near evaluation text,
which comes from other packages. Nothing was trained on licences or on the packages' long
descriptions. The SHA-256 of the tokens read, as little-endian 16-bit numbers:
{digests}.

The tokenizer of all models, in `tokenizer/`, is a byte-level BPE of 4,096 tokens trained on the
same text; with 8,192 tokens a token holds 9% more bytes of the documents held out (3.48 against
3.19) and costs twice the head, which is most of a small model's work.

`held out` is the loss on documents of the training packages that were not trained on; `S` is the
number of non-embedding parameters; losses are in nats per token; wall time is of one process with
one thread, while other work ran on the same machine; the digest is the first 12 digits of the
SHA-256 of `model.safetensors`.

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
In all {runs} trainings, {tokens:,} tokens, {minutes:,.0f} minutes of one process by the clock; the
checks below came on top.
"""

SCATTER = """
## How far do trainings of one size scatter?

Other initial weights and another order of the text change the held-out loss of a size by, pooled
over sizes (standard deviation):

| family | sizes | scatter | degrees of freedom |
|---|---|---|---|
{rows}

"""

CHECKS = """
## Is the learning-rate rule right?

`python -m training check` trains the two ends of a ladder for its whole {tokens:,} tokens, at the
rule and with one of its two rates halved or doubled, and the largest sizes of the grid on its
longest texts with the rate of the blocks doubled. Held-out loss, nats per token:

| family | size | tokens | the rule | blocks x0.5 | blocks x2 | tables x0.5 | tables x2 |
|---|---|---|---|---|---|---|---|
{rows}

Another rate gains at most {gain:.3f} nats. Where the best of a row is the last rate tried, a rate
further on may gain more; an empty cell was not run. Runs of a
hundred steps ask for higher rates than whole ones and are not to be trusted.
"""

NOTES = """
## Choices of the recipe

* The rule has two rates because one does not do. A single rate that fell with the width was tried
  first: the tables then learn too slowly in the wide models and the ladder flattens at its top,
  most of all with a tied output.
* Blocks of `nano-opt` start with what they add scaled by 1/sqrt(2 layers), as OPT was trained;
  GPT-2's class does so itself. Learned positions start small, so that they do not drown the tokens
  before they are learned.
* `nano-mamba` is `MambaForCausalLM`. `training/scan.py` writes out the gradient of its scan, since
  the reference makes a graph node per position; the state has 4 numbers per channel (16 in the
  published models), because the scan is most of its cost. Its block has half the parameters of a
  transformer's layer, so its sizes differ a little.
* `nano-pythia-seeds` repeats every size of `nano-pythia` twice, from other initial weights and with
  the windows of the same text in another order; each seed has an order of its own, the same for all
  sizes. The third of each size is the ladder's own. `nano-gpt2-seeds` and `nano-mamba-seeds` do so
  for three sizes each.
* `nano-pythia-1m` to `-16m` are the grid of sizes and tokens, with one rung more than the ladders:
  every budget of tokens is the beginning of the same text and has a warm-up and a decay of its own.
  Their weights are not committed; their counts are, in `published/ranks/`, with the whole digests
  of the weights.
* `python -m training --probe` trains sizes of `nano-pythia` on the grid's largest budget again and
  asks them on the way what they can do: `published/probes/`.
* `python -m training vocabularies` trains the ladder with vocabularies of 512 to 16,384 tokens on
  the bytes of the grid's smallest budget, measures it and writes `published/vocabularies.csv`:
  three trainings with 4,096 tokens, one with each other vocabulary.
* A batch is of windows from all over the text. Read in the text's order, neighbouring windows are
  of one document: the largest `nano-pythia` then ended at a held-out loss of 3.92 in place of 3.74,
  on the text before long documents were cut.
"""


def records(out):
    """(folder, record) of the models below `out`: family by family, smallest size first."""
    for family in (*ladders.FAMILIES, *(f"{family}-seeds" for family in ladders.FAMILIES)):
        files = (out / family).glob("*/training.json")
        pairs = [(file.parent, json.loads(file.read_text())) for file in files]
        yield from sorted(pairs, key=lambda pair: grid.order_of(pair[1]))


def every_record(out):
    """(family, name, record, digest of the weights): the embedded models, then the grid."""
    for path, record in records(out):
        weights = (path / "model.safetensors").read_bytes()
        digest = hashlib.sha256(weights).hexdigest()
        yield path.parent.name, path.name, record, digest[:12]
    for family, record in grid.records():
        yield family, record["size"], record, record["weights"][:12]


def scatter_rows(out):
    """Lines of the table of scatter, a family each: sd of the logs of held-out losses."""
    by_size = {}
    # losses of each size
    for path, record in records(out):
        family = path.parent.name.removesuffix("-seeds")
        losses = by_size.setdefault(family, {}).setdefault(record["nonembedding_params"], [])
        losses.append(math.log(record["heldout_loss"]))
    # pooled over the sizes that were trained again
    for family, sizes in by_size.items():
        repeated = [losses for losses in sizes.values() if len(losses) > 1]
        free = sum(len(losses) - 1 for losses in repeated)
        if free:
            squares = sum(statistics.pvariance(losses) * len(losses) for losses in repeated)
            yield f"| {family} | {len(repeated)} | {math.sqrt(squares / free):.2%} | {free} |"


def row(family, name, record, digest):
    """A line of the table."""
    # as the columns stand
    cells = (
        family,
        name,
        record["seed"],
        f"{record['nonembedding_params']:,}",
        f"{record['total_params']:,}",
        record["layers"],
        record["width"],
        f"{record['tokens']:,}",
        f"{record['train_loss']:.3f}",
        f"{record['heldout_loss']:.3f}",
        f"{record['wall_seconds']:,.0f} s",
        record["hardware"],
        digest,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def write(out):
    """Write README.md of the models' folder."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    # A training that is in a ladder and in the grid counts once.
    texts, trainings = set(), {}
    for family, name, record, digest in every_record(out):
        lines.append(row(family, name, record, digest))
        texts.add((record["tokens"], record["text_digest"][:12]))
        trainings[digest] = record
    plan = Plan()
    digests = [f"{digest}... of the first {tokens + 1:,}" for tokens, digest in sorted(texts)]
    text = HEAD.format(
        batch=plan.batch,
        context=ladders.CONTEXT,
        warmup=plan.warmup,
        block=ladders.BLOCK_RATE,
        base=ladders.BASE_WIDTH,
        table=ladders.TABLE_RATE,
        packages=len(TRAINING),
        digests=",\n".join(digests),
    )
    text += "\n".join(lines) + "\n"
    text += SUM.format(
        runs=len(trainings),
        tokens=sum(record["tokens"] for record in trainings.values()),
        minutes=sum(record["wall_seconds"] for record in trainings.values()) / 60,
    )
    text += SCATTER.format(rows="\n".join(scatter_rows(out)))
    if (out / "checks.json").is_file():
        checked = json.loads((out / "checks.json").read_text())
        text += CHECKS.format(
            tokens=plan.tokens,
            rows="\n".join(checks.rows(checked)),
            gain=checks.largest_gain(checked),
        )
    write_text(out / "README.md", text + NOTES)
