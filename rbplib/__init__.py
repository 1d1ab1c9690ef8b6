"""rbplib: from a corpus and a family of models to ranks, losses, laws and forecasts."""

from importlib import import_module

__version__ = "0.1.0"

# Module -> public names. Loaded on first use, so that `import rbplib` costs nothing and reading tables needs no torch.
_NAMES = {
    "families": ("InputError", "load_family", "load_corpus"),
    "ranks": ("Ranks", "token_ranks", "head_ranks"),
    "measuring": ("measure",),
    "stored": ("read_ranks",),
    "losses": ("Loss", "rbp_loss", "cross_entropy", "run_loss"),
    "law": ("fit", "Law"),
    "forecasting": ("forecast",),
}
_WHERE = {name: f"rbplib.{module}" for module, names in _NAMES.items() for name in names}
__all__ = [*_WHERE, "__version__"]


def __getattr__(name):
    if name in _WHERE:
        globals()[name] = value = getattr(import_module(_WHERE[name]), name)
        return value
    raise AttributeError(f"module 'rbplib' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
