"""Claims of the first page, over the cases of `evidence`."""

import math

from paper.show.claims import MARKS, all_claims, ci_known, judged, noise_known, times_around
from paper.show.prose import interval, number

FRONT = {  # claims of the first page: {name: (the number of a case by which the middle one is found, its words)}
    "top1_line": (
        lambda x: x.alpha,
        lambda x: (
            f"Exponent {number(x.alpha)}, {interval(ci_known(x))} over {noise_known([x])}, "
            f"{interval(x.ci_models)} over other sizes"
        ),
    ),
    "independent_hits": (
        lambda x: x.gap,
        lambda x: (
            f"At k = {x.k} the largest model has {x.N} hits in a row {number(x.times, 2)} times as often as "
            f"independence says, {interval(times_around(x), 2)} over other text"
        ),
    ),
    "equal_exponents": (
        lambda x: x.ratio,
        lambda x: (
            f"The exponent of -log RBP_1 is {number(x.ratio)} times that of cross-entropy, {interval(x.around)} over "
            "other sizes"
        ),
    ),
}


def front_words(name, found):
    """A claim as the first page has it: the verdict, in how many cases it holds, the middle case with 95% intervals."""
    rule, (value, words) = all_claims()[name], FRONT[name]
    place = {id(x): c.place for c in found for x in getattr(c, rule.of)}
    case = judged(rule, [x for c in found for x in getattr(c, rule.of)])
    verdict = f"{MARKS[case.verdict]} {case.verdict}, holds in {case.count} cases{case.but}"
    said = f"- **{case.claim}: {verdict}** (rule: {rule.bound})."
    if name == "top1_line":  # R² does not tell whether the line is true
        said = said.replace("** (rule", "**, each a family on a corpus (rule")
        tests = [
            judged(all_claims()[f"straight_{n}"], [x for c in found for x in c.laws]) for n in ("line", "moderate")
        ]
        each = " and in ".join(f"{one.fails} (k = {', '.join(map(str, one.rule.ks))})" for one in tests)
        said += f" Close is not exact: noise of text and trainings rejects an exact line in {each}."
    if told := sorted((x for x in case.cases if math.isfinite(value(x))), key=value):
        one = told[(len(told) - 1) // 2]
        where, middle = "{family} on {corpus}".format_map(place[id(one)]), "the" if len(told) % 2 else "just below the"
        said += f" {words(one)} (95%; {where}, {middle} median of {len(told)})."
    return said
