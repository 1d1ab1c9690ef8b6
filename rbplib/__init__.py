"""rbplib: from a corpus and a family of models to ranks, losses, laws and forecasts."""

from importlib import import_module

__version__ = "0.1.0"

# The public names of each module, loaded on first use: `import rbplib` costs nothing, and reading
# tables needs no torch.
_MODULES = {
    "families": "InputError load_family",
    "ranks": "Ranks token_ranks head_ranks sequence_ranks",
    "table": "RankTable read_table plain_table",
    "measuring": "measure",
    "losses": "Loss rbp_loss cross_entropy run_loss",
    "doors": "table_losses",
    "law": "fit Law",
    "forecasting": "forecast joint_forecast",
    "comparing": "compare",
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = [*_WHERE, "__version__"]


def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError(f"module 'rbplib' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"rbplib.{_WHERE[name]}"), name)
    return value


def __dir__():
    return sorted(__all__)
