"""The grid of sizes and tokens, kept as counts: weights stay in `results/`, `published/ranks/` gets what pages read."""

import hashlib
import json
import os
from functools import partial
from pathlib import Path

from rbplib.curve import k_grid
from rbplib.families import load_family, root, write_text
from rbplib.measuring import measure
from rbplib.sharing import export_family, import_counts
from training import data, ladders

CORPORA = ("docs", "code", "descriptions")  # two kinds that the models were trained on, and one that they were not
NOTE = "{title} on {tokens:,} tokens of text, each seen once: counts alone, made by `python -m training grid`."


def folder():
    """Where the grid's weights are written, which are not committed."""
    return data.folder() / "grid"


def kept():
    """Where counts and records are committed."""
    return root() / "published" / "ranks"


def record_of(path):
    """The training record of a model, its curve thinned, with its name and the digest of its weights."""
    record = json.loads((path / "training.json").read_text())
    weights = hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()
    return {"size": path.name} | record | {"curve": record["curve"][:5] + record["curve"][5::10], "weights": weights}


def trained(name):
    """Records of a family of the grid whose weights are here, smallest first."""
    found = [record_of(path) for path in (folder() / name).glob("*") if (path / "training.json").is_file()]
    return sorted(found, key=lambda r: (r["nonembedding_params"], r["seed"]))


def records():
    """[(family, record)] of the committed grid, by tokens and size."""
    files = kept().glob(f"{ladders.GRID_FAMILY}-*.json")
    found = [(path.stem, record) for path in files for record in json.loads(path.read_text())]
    return sorted(found, key=lambda pair: (pair[1]["tokens"], pair[1]["nonembedding_params"], pair[1]["seed"]))


def describe(name, tokens, models, repeats=None):
    """Write the file of a family of the grid beside its weights: its path. models: folders below `folder()`."""
    title = load_family(ladders.GRID_FAMILY).title
    said = [f"title: {title}, {tokens:,} tokens", f"note: '{NOTE.format(title=title, tokens=tokens)}'"]
    said += [f"repeats: {repeats}"] if repeats else []
    said += ["context: 256", "dtype: float32", "models:"]
    said += [f"  - {{name: {place.name}, id: {folder() / place}}}" for place in models]
    write_text(folder() / f"{name}.yml", "\n".join(said) + "\n")
    return folder() / f"{name}.yml"


def write():
    """Measure every family of the grid whose weights are here, and write its counts and training records to `kept`."""
    for name, tokens in ((f"{ladders.GRID_FAMILY}-{word}", n) for word, n in ladders.BUDGETS.items()):
        own, again = ([(part, r) for r in trained(part)] for part in (name, f"{name}.repeats"))
        if not own:
            continue
        for old in kept().glob(f"{name}.*"):  # a family of that name would be taken for the one to measure
            old.unlink()
        first = [(part, r) for part, r in own if r["size"] in ladders.sizes(ladders.GRID_FAMILY)]  # the first of three
        places = [[Path(part, r["size"]) for part, r in found] for found in (own, first + again)]
        repeats = describe(f"{name}.repeats", tokens, places[1]) if again else None
        family, counts = describe(name, tokens, places[0], repeats), folder() / f"{name}.counts"
        for part in filter(None, (family, repeats)):
            measure(part, corpora=CORPORA, progress=False)
        export_family(family, counts, partial(k_grid, per_decade=3), CORPORA, by="this project")
        imported = import_counts(counts).parent
        for file in imported.glob(f"{name}.*"):
            if file.suffix == ".yml":
                said = f"tokens: {tokens} # of text, each seen once\nmodels:\n"
                write_text(file, file.read_text(encoding="utf-8").replace("models:\n", said, 1))
            os.replace(file, kept() / file.name)
        write_text(kept() / f"{name}.json", json.dumps([r for _, r in own + again]) + "\n")
