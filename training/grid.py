"""The grid of sizes and tokens, kept as counts: weights stay in `results/`, `published/ranks/` gets
what pages read."""

import hashlib
import json
from functools import partial

from paper.counts import k_grid, write_family
from rbplib.families import load_family, root, write_text
from training import data, ladders

# Two kinds of text that the models were trained on, and one that they were not.
CORPORA = ("docs", "code", "descriptions")


def folder():
    """Where the grid's weights are written, which are not committed."""
    return data.folder() / "grid"


def published():
    """Where counts and records are committed."""
    return root() / "published" / "ranks"


def record_of(path):
    """The training record of a model, its curve thinned, with its name and its weights' digest."""
    record = json.loads((path / "training.json").read_text())
    record["curve"] = record["curve"][:5] + record["curve"][5::10]
    weights = (path / "model.safetensors").read_bytes()
    return {"size": path.name, **record, "weights": hashlib.sha256(weights).hexdigest()}


def order_of(record):
    return record["tokens"], record["nonembedding_params"], record["seed"]


def trained(name):
    """Records of a family of the grid whose weights are here, smallest first."""
    files = (folder() / name).glob("*/training.json")
    return sorted((record_of(file.parent) for file in files), key=order_of)


def records():
    """[(family, record)] of the committed grid, by tokens and size."""
    pairs = []
    for file in published().glob(f"{ladders.GRID_FAMILY}-*.json"):
        pairs += [(file.stem, record) for record in json.loads(file.read_text())]
    return sorted(pairs, key=lambda pair: order_of(pair[1]))


def describe(name, tokens, paths, repeats=None):
    """Write the family file of a part of the grid beside its weights: the file's path.

    paths: folders of the models. repeats: path of the family file of the repeats.
    """
    title = load_family(ladders.GRID_FAMILY).title
    note = f"{title} on {tokens:,} tokens of text, each seen once: counts alone, made by "
    lines = [f"title: {title}, {tokens:,} tokens", f"note: '{note}`python -m training grid`.'"]
    if repeats:
        lines.append(f"repeats: {repeats}")
    lines += ["context: 256", "dtype: float32", "models:"]
    lines += [f"  - {{name: {path.name}, id: {path}}}" for path in paths]
    file = folder() / f"{name}.yml"
    write_text(file, "\n".join(lines) + "\n")
    return file


def write():
    """Measure what is here of the grid, and write its counts and training records."""
    for budget, tokens in ladders.BUDGETS.items():
        name = f"{ladders.GRID_FAMILY}-{budget}"
        models, repeats = trained(name), trained(f"{name}.repeats")
        if models:
            write_budget(name, tokens, models, repeats)


def write_budget(name, tokens, models, repeats):
    """Measure one budget of the grid and write its counts and records to `published()`.

    models, repeats: records as `trained` gives them.
    """
    # A family of that name would be taken for the one to measure.
    for old in published().glob(f"{name}.*"):
        old.unlink()
    # The family, and the repeats with the first training of each of their sizes.
    paths = [folder() / name / record["size"] for record in models]
    families = []
    if repeats:
        repeated = ladders.sizes(ladders.GRID_FAMILY)
        several = [path for path in paths if path.name in repeated]
        several += [folder() / f"{name}.repeats" / record["size"] for record in repeats]
        families.append(describe(f"{name}.repeats", tokens, several))
    families.append(describe(name, tokens, paths, *families))
    entry = {"tokens": tokens}
    for family in families:
        path = write_family(family, CORPORA, partial(k_grid, per_decade=3), entry)
        entry["repeats"] = path.stem
    write_text(published() / f"{name}.json", json.dumps(models + repeats) + "\n")
