"""`models/README.md`: the table of the embedded models, out of their training records and files."""

import hashlib
import json

from training import ladders
from training.train import Plan

HEAD = """# The embedded models

Made by `training/` (all: `make train`; one: `python -m training FAMILY SIZE`; this file: `python -m training table`).
Weights are bfloat16 in safetensors; the committed weights are the ones that are measured. All sizes of a family saw
the same tokens once, in the same order (every family reads the same text from its beginning; how far, the table says):
windows of {context} tokens, {batch} per step, AdamW with a linear warm-up over {warmup:.0%} of the steps and a linear
decay to 0; peak learning rate 0.02 at width 16, falling with the width to the power 3/4. Runs of 200 steps checked the
rule (nano-pythia, held-out loss): at width 16 a rate of 0.005 gave 6.25, 0.01 gave 5.89 and 0.02 gave 5.71; at width
128 a rate of 0.0071 gave 5.50 and 0.0035 gave 5.46, and the rule says 0.0042.

The text is that of packages installed here (`rbplib/embedded.py` names them). The SHA-256 of the tokens read, as
little-endian 16-bit numbers: {found}.
The tokenizer, in `tokenizer/`, is a byte-level BPE of 4,096 tokens trained on the same text; with 8,192 tokens a token
holds 8% more bytes of unseen training-like text (3.31 against 3.05) and costs twice the head, which is most of a small
model's work.

`held out` is the loss on documents of the training packages that were not trained on; `S` is the number of
non-embedding parameters; losses are in nats per token; wall time is of one process with one thread, on a machine that
was busy with other work; the digest is the first 12 digits of the SHA-256 of `model.safetensors`.

"""
COLUMNS = (
    "family",
    "size",
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

TAIL = """
## Recipes without weights yet

`training/ladders.py` also holds `nano-gpt2`, `nano-opt` and `nano-mamba`. No weights of theirs are committed: their
runs were not good enough or not finished. What was found (nats per token; held out where not said otherwise):

* `nano-gpt2` with a tied output, as the real one, after 1,000 steps: 4.97 at S = 200,064 but 5.25 at S = 655,928. The
  tied table is the obstacle: in runs of 200 steps at S = 21,720 the training loss ends at 5.34 untied and at about 6.0
  tied (`nano-pythia`: 5.36). So these three families keep the two tables apart; neither counts in S.
* `nano-gpt2` untied, after 750 steps: 4.99 at S = 200,064 and 4.95 at S = 655,928: the top of the ladder is nearly
  flat, and both are far above `nano-pythia`. The learning rate is too high there: in runs of 100 steps at S = 655,928
  the training loss ends at 6.34 with the rate of the rule and at 6.13 with 0.4 of it (`nano-pythia`, by rule: 5.80).
* Learned positions drown the tokens at first: started at a quarter of the tokens' scale and with 0.3 of the learning
  rate, the training loss after 100 steps is 6.07 and not 6.27 (untied, S = 21,720). The recipe takes a tenth of it.
* `nano-opt` is helped by scaling what its blocks add by 1/sqrt(2 layers), as OPT was trained: 6.25 and not 6.38 after
  100 steps at S = 21,720. Its ladder was not finished.
* `nano-mamba` (`MambaForCausalLM`) is at 5.82 after 100 steps at S of 14 thousand and costs about twice as much per
  token. `training/scan.py` writes out the gradient of its scan, since the reference makes a graph node per position;
  its state has 4 numbers per channel (16 in the published models), because the scan is most of its cost. Not finished.
"""


def records(out):
    """Training records by family in the order of `ladders.FAMILIES`, smallest size first."""
    for family in ladders.FAMILIES:
        found = [(path.parent, json.loads(path.read_text())) for path in (out / family).glob("*/training.json")]
        yield from sorted(found, key=lambda pair: pair[1]["nonembedding_params"])


def write(out):
    """Write README.md of the models' folder."""
    lines, digests = [], {}
    for path, r in records(out):
        digest = hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()[:12]
        digests[r["tokens"]] = r["text_digest"][:12]
        lines.append(
            f"| {r['family']} | {path.name} | {r['nonembedding_params']:,} | {r['total_params']:,} | {r['layers']} | "
            f"{r['width']} | {r['tokens']:,} | {r['train_loss']:.3f} | {r['heldout_loss']:.3f} | "
            f"{r['wall_seconds']:,.0f} s | {r['hardware']} | {digest} |"
        )
    plan = Plan()
    found = ", ".join(f"{digest}... of the first {n + 1:,}" for n, digest in sorted(digests.items()))
    head = HEAD.format(context=ladders.CONTEXT, batch=plan.batch, warmup=plan.warmup, found=found)
    rule = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    (out / "README.md").write_text(head + "\n".join(rule + lines) + "\n" + TAIL)
