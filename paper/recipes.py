"""What else than size and text may move an exponent on our grid: learning rates, vocabularies."""

import json
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from paper.steps import spread_of_trainings, step_weights
from rbplib.bootstrap import line
from rbplib.families import held, intact

PLACE = ["vocabulary", "corpus", "k"]


# --- learning rates


def rates():
    """Trainings with other peak rates than the rule's: data frame size, tokens, blocks, tables
    (factors on its rates), heldout_loss, heldout_loss of the rule, gain (nats)."""
    runs = pd.DataFrame(json.loads(intact(held("models", "checks.json")).read_text())["runs"])
    runs = runs[["size", "tokens", "blocks", "tables", "heldout_loss"]]
    rule = (runs["blocks"] == 1) & (runs["tables"] == 1)
    both = runs[~rule].merge(runs[rule], on=["size", "tokens"], suffixes=["", " of the rule"])
    both["gain"] = both["heldout_loss of the rule"] - both["heldout_loss"]
    return both.drop(columns=["blocks of the rule", "tables of the rule"])


def rate_steps(rates):
    """The exponent of held-out loss in the last step of size and in the step before, by the rule
    and with the best rates tried: data frame, a row per number of tokens at which others were.

    sizes: at how many of the two largest. bend: what the last exponent lacks; estimate: what of it
    the rates take, with low and high (95%, by how trainings scatter); stays: the rest.
    """
    files = held("published", "ranks").glob("nano-pythia-*m.json")
    records = pd.concat(pd.read_json(intact(file)) for file in files)
    trained = records.groupby(["tokens", "nonembedding_params"]).ngroup()
    sd, free = spread_of_trainings([*np.log(records["heldout_loss"])], trained)
    records = records.query("seed == 42")
    S = dict(zip(records["size"], records["nonembedding_params"], strict=True))
    rule = records.pivot(index="tokens", columns="nonembedding_params", values="heldout_loss")
    # the best rate of each size and number of tokens
    best, better = rates.sort_values("gain").groupby(["tokens", "size"]).tail(1), rule.astype(float)
    for run in best[best["gain"] > 0].to_dict("records"):
        better.loc[run["tokens"], S[run["size"]]] = run["heldout_loss"]
    # exponents are weighted sums of logs
    before, last = step_weights(rule.columns)[-2:]
    steps = {"rule": rule, "best": better}
    steps = {name: np.log(losses) @ last for name, losses in steps.items()} | {
        f"{name}_before": np.log(losses) @ before for name, losses in steps.items()
    }
    largest = best[best["size"].map(S).isin(rule.columns[-2:])]
    steps = pd.DataFrame(steps | {"sizes": largest.groupby("tokens")["size"].nunique()}).dropna()
    steps["bend"] = steps["rule_before"] - steps["rule"]
    steps["stays"] = steps["best_before"] - steps["best"]
    steps["estimate"] = steps["bend"] - steps["stays"]
    # noise of the losses of both rates at both sizes
    turn = (before - last)[-2:]
    half = stdtrit(free, 0.975) * sd * np.sqrt(2 * turn @ turn)
    ends = {"low": steps["estimate"] - half, "high": steps["estimate"] + half}
    return steps.assign(**ends).reset_index()


# --- vocabularies


def by_vocabulary():
    """Exponents of ladders trained with other vocabularies on the same bytes: data frame
    vocabulary, corpus, k (0: cross-entropy), seed, alpha, r2, tokens (scored)."""
    counts = pd.read_csv(intact(held("published", "vocabularies.csv"))).fillna({"k": 0})
    share, nats = counts["value"] / counts["total"], counts["k"] == 0
    counts["loss"] = np.where(nats, share, -np.log(share.where(~nats, 0.5)))
    rows = []
    for where, ladder in counts.groupby([*PLACE, "seed"]):
        slope, _, r2 = line(np.log(ladder["loss"]), np.log(ladder["size"]))
        rows.append((*where, -slope, float(r2), ladder["total"].iloc[0]))
    return pd.DataFrame(rows, columns=[*PLACE, "seed", "alpha", "r2", "tokens"])


def alignments(ladders):
    """Are exponents alike at one k, or at one share of the vocabulary? A row per base, other
    vocabulary, corpus and seed of the base: at_k, at_share (root mean square difference of logs),
    lead (at_share over at_k), least and most of it over seeds.

    Bases are the largest vocabulary, and that with most seeds.
    """
    seeds = ladders.groupby("vocabulary")["seed"].nunique()
    bases = dict.fromkeys([ladders["vocabulary"].max(), seeds.idxmax()])
    alphas = {}
    for key, part in ladders[ladders["k"] > 0].groupby(["vocabulary", "corpus", "seed"]):
        alphas[key] = part.set_index("k")["alpha"]
    rows, first = [], ladders["seed"].min()
    for (V, corpus, seed), (base, text, number) in product(alphas, repeat=2):
        if base not in bases or V == base or corpus != text or seed != first:
            continue
        own, theirs = alphas[V, corpus, seed], alphas[base, text, number]
        at_share = theirs.reindex(own.index * base / V).to_numpy()
        ratios = pd.DataFrame(
            {"at_k": own / theirs.reindex(own.index), "at_share": own / at_share}
        ).dropna()
        row = {"base": base, "vocabulary": V, "corpus": corpus, "seed": number}
        rows.append(row | np.sqrt((np.log(ratios) ** 2).mean()).to_dict())
    rows = pd.DataFrame(rows)
    lead = rows["at_share"] / rows["at_k"]
    by_seed = lead.groupby([rows[name] for name in ("base", "vocabulary", "corpus")])
    return rows.assign(lead=lead, least=by_seed.transform("min"), most=by_seed.transform("max"))
