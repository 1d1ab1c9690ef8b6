"""`families/nano-*.yml` out of the training records."""

from rbplib.families import root, write_text
from training.ladders import REPEATED_FAMILY
from training.table import records

TITLES = {
    "nano-pythia": "Nano Pythia",
    "nano-gpt2": "Nano GPT-2",
    "nano-qwen2.5": "Nano Qwen2.5",
    "nano-opt": "Nano OPT",
    "nano-mamba": "Nano Mamba",
}
NOTES = {
    "nano-pythia": (
        "GPT-NeoX's architecture, as Pythia's: rotary positions, parallel blocks, untied output."
    ),
    "nano-gpt2": "GPT-2's architecture: learned positions, tied output.",
    "nano-qwen2.5": (
        "Qwen2's architecture: rotary positions, shared keys and values, gated units, tied output."
    ),
    "nano-opt": "OPT's architecture: learned positions, rectified units, tied output.",
    "nano-mamba": "Mamba's architecture, no transformer: a selective scan, tied output.",
}
NOTE_OF_SEEDS = (
    "{sizes} of {title} three times, from three sets of initial weights and with the text's "
    "windows in three shuffled orders; the first of the three is the ladder itself."
)


def write(out):
    """One YAML per trained family; scores are computed in float32, so that ties are rare."""
    by_family = {}
    for path, record in records(out):
        by_family.setdefault(path.parent.name, []).append((path, record))
    for family, title in TITLES.items():
        repeated = by_family.get(f"{family}-seeds", [])
        if family in by_family:
            # A family that was not trained again takes the scatter of one that was.
            seeds = family if repeated else REPEATED_FAMILY
            lines = ["embedded: true", f"repeats: {seeds}-seeds"]
            write_family(family, title, NOTES[family], lines, by_family[family])
        if repeated:
            # The ladder's own training is the third of each size.
            sizes = {record["nonembedding_params"] for _, record in repeated}
            ladder = [pair for pair in by_family[family] if nonembedding(pair) in sizes]
            few = len(sizes) < len(by_family[family])
            words = f"{len(sizes)} sizes" if few else "Every size"
            note = NOTE_OF_SEEDS.format(title=title, sizes=words)
            models = sorted(repeated + ladder, key=nonembedding)
            write_family(f"{family}-seeds", f"{title}, repeated", note, [], models)


def nonembedding(pair):
    """Size of a (folder, record)."""
    return pair[1]["nonembedding_params"]


def write_family(family, title, note, more, models):
    """Write a family file. more: further lines. models: (folder, record), smallest first."""
    note = note.replace("'", "''")
    lines = [f"title: {title}", f"note: '{note}'", *more, "context: 256", "dtype: float32"]
    lines += [f"tokens: {models[0][1]['tokens']} # of text, each seen once", "models:"]
    for path, record in models:
        model = f"name: {path.name}, id: models/{path.parent.name}/{path.name}"
        size = record["nonembedding_params"]
        lines.append(f"  - {{{model}, nonembedding_params: {size}}}")
    write_text(root() / "families" / f"{family}.yml", "\n".join(lines) + "\n")
