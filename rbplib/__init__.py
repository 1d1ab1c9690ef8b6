"""rbplib: from a corpus and a family of models to ranks, curves, fits, figures and the pages of the book."""

from importlib import import_module

__version__ = "0.1.0"

# Module -> public names. Loaded on first use, so that `import rbplib` costs nothing and reading tables needs no torch.
_NAMES = {
    "families": ("InputError", "load_family", "load_corpus"),
    "ranks": ("Ranks", "token_ranks", "head_ranks"),
    "measuring": ("measure",),
    "stored": ("read_ranks",),
    "curve": ("rbp_curve", "sequence_success"),
    "law": ("fit_law",),
    "bootstrap": ("paired_bootstrap",),
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
