"""`python -m training check`: is the learning-rate rule right at both ends of every ladder? -> `models/checks.json`."""

import json

from rbplib.tables import write_text
from training import data, ladders, train

STEPS = 200
HELDOUT = 16_385  # tokens of the held-out stream
FACTORS = ((1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0))  # on the rates of (blocks, token tables)


def ends(family):
    """Names of the smallest and the largest size."""
    names = list(ladders.sizes(family))
    return names[0], names[-1]


def one(family, name, blocks, tables, stream, heldout):
    """A whole short run, warm-up and decay included: its held-out loss, nats per token."""
    tokens = STEPS * train.Plan.batch * ladders.CONTEXT
    plan = train.Plan(tokens, rate=blocks, table_rate=tables)
    try:
        _, record = train.train(family, ladders.sizes(family)[name], plan, stream, heldout)
        return record["heldout_loss"]
    except RuntimeError:  # it diverged
        return None


def every(path):
    """All runs that the file does not hold yet; each is written as it ends, so that a stopped check goes on.

    Cost: about 25 minutes on one core.
    """
    stream, heldout = data.streams()
    found = json.loads(path.read_text()) if path.is_file() else {"steps": STEPS, "runs": []}
    if found["steps"] != STEPS:
        found = {"steps": STEPS, "runs": []}
    done = {(r["family"], r["size"], r["blocks"], r["tables"]) for r in found["runs"]}
    for family in ladders.FAMILIES:
        for name in ends(family):
            for blocks, tables in FACTORS:
                if (family, name, blocks, tables) in done:
                    continue
                loss = one(family, name, blocks, tables, stream, heldout[:HELDOUT])
                run = {"family": family, "size": name, "blocks": blocks, "tables": tables, "heldout_loss": loss}
                found["runs"].append(run)
                rows = ",\n  ".join(json.dumps(r) for r in found["runs"])
                write_text(path, f'{{"steps": {STEPS}, "runs": [\n  {rows}\n]}}\n')
                print(f"{family} {name}: blocks x{blocks:g}, tables x{tables:g}: {loss}", flush=True)


def rows(found):
    """Lines of the README's table: a line per family and end, a column per pair of factors."""
    losses = {(r["family"], r["size"], r["blocks"], r["tables"]): r["heldout_loss"] for r in found["runs"]}
    for family in ladders.FAMILIES:
        for name in ends(family):
            cells = [losses.get((family, name, *pair), "") for pair in FACTORS]
            if any(c != "" for c in cells):
                shown = ("" if c == "" else "diverged" if c is None else f"{c:.3f}" for c in cells)
                yield f"| {family} | {name} | " + " | ".join(shown) + " |"
