"""What of the large ladder is trained within its time, from the seconds that steps of each size take."""

from dataclasses import replace

from rbplib.families import InputError
from training import ladders

MORE = 1.1  # times the tokens, for which what was trained by an earlier plan is done again
LEAST = 0.5  # of the planned tokens: with fewer the largest size is left out
START = 20  # seconds of a process until its first step


def settle(recipe, timed, budget, before=0):
    """What is trained within `budget` seconds, from {size: seconds of a step}: sizes, tokens, graphs, and in words why.

    timed: {name: {"eager": seconds, "graph": seconds or words, "look": seconds}}. before: tokens of an earlier plan,
    kept where MORE times as many are not possible.
    """
    graphs = all(isinstance(t.get("graph"), float) for t in timed.values())
    graphs = graphs and sum(t["graph"] for t in timed.values()) < sum(t["eager"] for t in timed.values())
    way, words = "graph" if graphs else "eager", []
    names, workers = [n for n in recipe.sizes() if n in timed], recipe.workers or 1
    if lost := [n for n in recipe.sizes() if n not in timed]:
        words.append(f"{', '.join(lost)} could not be timed and is left out")

    looks = len(recipe.marks) + 1

    def seconds(tokens):
        steps, jobs = tokens // (recipe.batch * ladders.CONTEXT), recipe.jobs(names, seeds)
        spent = sum(steps * timed[n][way] + looks * timed[n].get("look", 0.0) for n, _ in jobs)
        return spent / workers + START * -(-len(jobs) // workers) * bool(recipe.workers)

    def possible():
        fixed, whole = seconds(0), seconds(recipe.tokens)
        return min(1.0, (budget - fixed) / max(whole - fixed, 1e-9))

    seeds = len(recipe.seeds)
    while names and seeds > 1 and possible() < 1:
        seeds -= 1
    while len(names) > 1 and possible() < LEAST:
        words.append(f"{names.pop()} is left out: with it every size would get less than {LEAST:.0%} of the tokens")
    if not names:
        raise InputError("no size of the ladder could be timed: for want of time, or the messages above say why.")
    if seeds < len(recipe.seeds):
        words.append(f"repeated sizes get {seeds} of the {len(recipe.seeds)} seeds planned")
    step, share = recipe.batch * ladders.CONTEXT * recipe.every, possible()
    tokens = max(step, int(recipe.tokens * max(0.0, share)) // step * step)
    tokens = before if before <= tokens < MORE * before else tokens
    if tokens < recipe.tokens:
        words.append(f"every size gets {tokens:,} of the {recipe.tokens:,} tokens planned")
    words.append(f"steps are {'recorded and replayed' if graphs else 'launched one by one'}")
    words.append(f"{workers} models are trained at once" if workers > 1 else "models are trained one after the other")
    found = {"sizes": names, "seeds": seeds, "tokens": tokens, "graphs": graphs, "workers": recipe.workers}
    return found | {"expected_seconds": round(seconds(tokens), 1), "words": words}


def as_alone(timed, name, alone):
    """Times of all sizes, timed at once, as if each were alone on the device: by how much faster `name` is then."""
    faster = {what: alone[what] / t for what, t in timed[name].items() if type(t) is type(alone.get(what)) is float}
    numbers = {n: {what: t for what, t in told.items() if isinstance(t, float)} for n, told in timed.items()}
    return {n: timed[n] | {what: t * faster.get(what, 1.0) for what, t in told.items()} for n, told in numbers.items()}


def faster_way(recipe, timed, alone, budget, before=0):
    """The plan that holds more, or takes less time: with as many models at once as the recipe has, or with one.

    alone: {size: times} of one of them that was alone on the device; empty where none was.
    """
    plans = [settle(recipe, timed, budget, before)]
    for name, told in alone.items():
        plans.append(settle(replace(recipe, workers=1), as_alone(timed, name, told), budget, before))
    seconds = [p["expected_seconds"] for p in plans]
    best = max(plans, key=lambda p: (len(p["sizes"]), p["tokens"], p["seeds"], -p["expected_seconds"]))
    return best | {"expected_seconds_of_ways": seconds}


def renewed(old, new):
    """The plan to go on with: a new one where it is larger, else the one that was begun. Less takes nothing away."""
    large = [(p["tokens"], len(p["sizes"]), p["seeds"]) for p in (old, new)]
    return new if large[0] != large[1] and all(a <= b for a, b in zip(*large, strict=True)) else old
