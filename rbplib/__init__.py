"""rbplib: from a corpus and a family of models to ranks, losses, laws and forecasts."""

from importlib import import_module

__version__ = "0.2.0"

# The public names of each module, loaded on first use: `import rbplib` costs nothing, and reading
# tables needs no torch.
_MODULES = {
    "families": "InputError load_family load_corpus list_families list_corpora default_corpora",
    "texts": "load_documents",
    "models": "load_model",
    "windows": "encode",
    "ranks": "Ranks token_ranks head_ranks sequence_ranks",
    "table": "RankTable Ladder read_table plain_table",
    "measuring": "measure ladders",
    "bootstrap": "resampled percentile_interval line",
    "losses": "Loss rbp_loss rbp_losses cross_entropy rank_entropy run_loss",
    "runs": "hit_dependence run_gap rise_width",
    "doors": "table_losses",
    "law": "fit Law law_table plot_intervals exponent_ratio",
    "forecasting": "forecast extrapolate backtest",
    "joint": "joint_fit joint_forecast",
    "comparing": "compare exponent_difference",
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = [*_WHERE, "__version__"]


def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError(f"module 'rbplib' has no attribute {name!r}")
    try:
        globals()[name] = value = getattr(import_module(f"rbplib.{_WHERE[name]}"), name)
    except ImportError as error:
        from rbplib.families import not_loaded

        raise not_loaded(error) from error
    return value


def __dir__():
    return sorted(__all__)
