"""The numbers of judged claims as an executed page carries them unseen, for `reference` to compare."""

from string import Formatter

import numpy as np

PLACE = ("family", "corpus", "k", "N")  # what a case is known by, where it has them
KEPT = ("alpha", "r2", "ci_tokens", "ci_trainings", "ci_models", "interval", "status")


def judged_numbers(found):
    """{case or claim: {name: number, [low, high] or word}} of a list of Judged, as JSON holds it: what claims ask of a
    case and KEPT, but for p-values: other resamples move small ones by orders of magnitude; verdicts use them."""
    names, kept = {}, {}  # {id of a case: what it is called}
    for one in found:
        said = {
            name.partition(".")[0].partition(" with ")[0] for _, name, *_ in Formatter().parse(one.rule.found) if name
        }
        asked = {*KEPT, *(one.rule.among or ()), *(one.rule.holds or ()), *said} - {"count"}
        for case in one.cases:
            place = " ".join([one.rule.of, *(f"{n} {v}" for n in PLACE if (v := getattr(case, n, None)) is not None)])
            again = sum(name.partition(" #")[0] == place for name in names.values())
            name = names.setdefault(id(case), f"{place} #{again + 1}" if again else place)
            told = {n: getattr(case, n) for n in sorted(asked) if hasattr(case, n) and not n.endswith("_p")}
            kept.setdefault(name, {}).update({n: recordable(v) for n, v in told.items() if n not in PLACE})
        name = f"claim {one.rule.name}" + (f" at k = {one.rule.k}" if "{k}" in one.rule.claim else "")
        kept[name] = {"verdict": one.verdict, "cases that hold": one.count}
    return kept


def recordable(x):
    """A number, interval or word as JSON holds it; None for a number that is none."""
    return [*map(recordable, x)] if np.ndim(x) else x if isinstance(x, str) else float(x) if np.isfinite(x) else None
