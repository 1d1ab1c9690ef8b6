"""rbplib: from a corpus and a family of models to ranks, curves, fits, figures and the pages of the book."""

from importlib import import_module

__version__ = "0.1.0"

# Public name -> module. Loaded on first use, so that `import rbplib` costs nothing and reading tables needs no torch.
_WHERE = {
    "Ranks": "ranks",
    "token_ranks": "ranks",
    "head_ranks": "ranks",
    "topk": "ranks",
    "read_ranks": "tables",
    "rbp_curve": "curves",
    "sequence_success": "curves",
    "fit_law": "laws",
    "paired_bootstrap": "bootstrap",
    "fit_rank_law": "distributions",
    "InputError": "settings",
    "load_family": "settings",
    "load_corpus": "settings",
}
__all__ = [*_WHERE, "measure", "__version__"]


def __getattr__(name):
    if name == "measure":
        return import_module("rbplib.measure")  # the module is callable: see its last lines
    if name in _WHERE:
        value = getattr(import_module(f"rbplib.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rbplib' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
