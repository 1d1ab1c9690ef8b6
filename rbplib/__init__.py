"""rbplib: from a corpus and a family of models to ranks, losses, laws and forecasts."""

from importlib import import_module

__version__ = "0.1.0"

# name -> module. Loaded on first use: `import rbplib` costs nothing, and reading tables needs no
# torch.
_WHERE = {
    "InputError": "families",
    "load_family": "families",
    "Ranks": "ranks",
    "token_ranks": "ranks",
    "head_ranks": "ranks",
    "sequence_ranks": "ranks",
    "RankTable": "table",
    "read_table": "table",
    "plain_table": "table",
    "measure": "measuring",
    "Loss": "losses",
    "rbp_loss": "losses",
    "cross_entropy": "losses",
    "run_loss": "losses",
    "table_losses": "doors",
    "fit": "law",
    "Law": "law",
    "forecast": "forecasting",
    "joint_forecast": "forecasting",
    "compare": "comparing",
}
__all__ = [*_WHERE, "__version__"]


def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError(f"module 'rbplib' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"rbplib.{_WHERE[name]}"), name)
    return value


def __dir__():
    return sorted(__all__)
