"""`families/nano-*.yml` out of the training records."""

from rbplib.families import root
from training.ladders import REPEATED_FAMILY
from training.table import records

TITLES = {
    "nano-pythia": (
        "Nano Pythia",
        "GPT-NeoX's architecture, as Pythia's: rotary positions, parallel blocks, untied output.",
    ),
    "nano-gpt2": ("Nano GPT-2", "GPT-2's architecture: learned positions, tied output."),
    "nano-qwen2.5": (
        "Nano Qwen2.5",
        "Qwen2's architecture: rotary positions, shared keys and values, gated units, tied output.",
    ),
    "nano-opt": ("Nano OPT", "OPT's architecture: learned positions, rectified units, tied output."),
    "nano-mamba": ("Nano Mamba", "Mamba's architecture, no transformer: a selective scan, tied output."),
}


SEEDS = (
    "Every size of {title} three times, from three sets of initial weights and with the text's windows in three "
    "shuffled orders; the first of the three is the ladder itself."
)


def write(out):
    """One YAML per trained family; scores are computed in float32 from the 16-bit weights, so that ties are rare."""
    trained = [(path, r["nonembedding_params"], r["tokens"]) for path, r in records(out)]
    for family, (title, note) in TITLES.items():
        _write(family, title, note, True, [model for model in trained if model[0].parent.name == family])
        again = [model for model in trained if model[0].parent.name == f"{family}-seeds"]
        again += [model for model in trained if again and model[0].parent.name == family]
        note = SEEDS.format(title=title)
        _write(f"{family}-seeds", f"{title}, repeated", note, False, sorted(again, key=lambda model: model[1]))


def _write(family, title, note, embedded, models):
    if not models:
        return
    note = note.replace("'", "''")
    lines = [f"title: {title}", f"note: '{note}'"]
    lines += ["embedded: true", f"repeats: {REPEATED_FAMILY}-seeds"] * embedded
    lines += ["context: 256", "dtype: float32", f"tokens: {models[0][2]} # of text, each seen once", "models:"]
    for path, size, _ in models:
        lines.append(
            f"  - {{name: {path.name}, id: models/{path.parent.name}/{path.name}, nonembedding_params: {size}}}"
        )
    (root() / "families" / f"{family}.yml").write_text("\n".join(lines) + "\n")
