"""rbplib: from a corpus and a family of models to ranks, curves, fits, figures and the pages of the book."""

from importlib import import_module

__version__ = "0.1.0"

# Public name -> module. Loaded on first use, so that `import rbplib` costs nothing and reading tables needs no torch.
_WHERE = {
    "Ranks": "ranks.engine",
    "token_ranks": "ranks.engine",
    "head_ranks": "ranks.engine",
    "measure": "ranks.measure",
    "read_ranks": "ranks.table",
    "rbp_curve": "laws.curve",
    "sequence_success": "laws.curve",
    "fit_law": "laws.law",
    "paired_bootstrap": "laws.bootstrap",
    "fit_rank_law": "distributions.fit",
    "InputError": "settings",
    "load_family": "settings",
    "load_corpus": "settings",
}
__all__ = [*_WHERE, "__version__"]


def __getattr__(name):
    if name in _WHERE:
        value = getattr(import_module(f"rbplib.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rbplib' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
