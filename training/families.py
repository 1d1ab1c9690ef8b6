"""`families/nano-*.yml` out of the training records."""

from rbplib.settings import root
from training.table import records

TITLES = {
    "nano-pythia": (
        "Nano Pythia",
        "GPT-NeoX's architecture, as Pythia's: rotary positions, parallel blocks, untied output.",
    ),
    "nano-gpt2": ("Nano GPT-2", "GPT-2's architecture: learned positions; the output is not tied."),
    "nano-qwen2.5": (
        "Nano Qwen2.5",
        "Qwen2's architecture: rotary positions, shared keys and values, gated units, tied output.",
    ),
    "nano-opt": ("Nano OPT", "OPT's architecture: learned positions, rectified units; the output is not tied."),
    "nano-mamba": ("Nano Mamba", "Mamba's architecture, no transformer: a selective scan; the output is not tied."),
}


def write(out):
    """One YAML per trained family; scores are computed in float32 from the 16-bit weights, so that ties are rare."""
    for family, (title, note) in TITLES.items():
        models = [(path, r) for path, r in records(out) if r["family"] == family]
        if not models:
            continue
        lines = [f"title: {title}", f"note: '{note}'", "embedded: true", "context: 256", "dtype: float32", "models:"]
        for path, r in models:
            size = r["nonembedding_params"]
            lines.append(f"  - {{name: {path.name}, id: models/{family}/{path.name}, nonembedding_params: {size}}}")
        (root() / "families" / f"{family}.yml").write_text("\n".join(lines).replace("'s", "''s") + "\n")
