"""What the findings page says first, and its tables of open questions, from rows that other pages keep."""

import numpy as np
import pandas as pd

from paper.evidence import law_rows, surely
from paper.show.claims import known_interval, known_noise
from paper.show.prose import MARKS, interval, number
from paper.show.tables import corpus_title, ends
from rbplib.families import InputError, load_family

PLACE = {"family": "family", "corpus": "corpus"}  # headings of columns
LAW = {
    "alpha": "alpha",
    "ci_tokens": "other text",
    "ci_trainings": "and trainings",
    "ci_models": "other sizes",
    "r2": "R²",
}
NOISE = {"worst_residual": "largest residual", "explained_by": "explained by"}
MIDDLE = {
    "top1_line": "alpha",
    "independent_hits": "gap",
    "equal_exponents": "ratio",
}  # sorted by this


def front_words(judged):
    """Claims as the first page has them: the verdict, in how many cases each holds, its middle case.

    judged: {name: Judged}, with those of MIDDLE, straight_line and straight_moderate.
    """
    return "\n".join(front_line(judged[name], judged, column) for name, column in MIDDLE.items())


def front_line(claim, judged, column):
    """One claim of the first page; column: the number by which the middle case is found."""
    name, where = claim.words.name, "** (rule"
    rejected = ""
    if name == "top1_line":  # R² does not tell whether the line is true
        where = "**, each a family on a corpus (rule"
        tests = [judged["straight_line"], judged["straight_moderate"]]
        each = [f"{test.fails} (k = {', '.join(map(str, test.ranks))})" for test in tests]
        rejected = " Close is not exact: noise of text and trainings rejects an exact line in "
        rejected += f"{' and in '.join(each)}."
    verdict = f"{MARKS[claim.verdict]} {claim.verdict}, holds in {claim.count} cases{claim.but}"
    line = f"- **{claim.title}: {verdict}{where}: {claim.words.rule}).{rejected}"
    # the middle case, with its interval
    if column not in claim.rows or not claim.rows[column].notna().any():
        return line
    known = claim.rows.dropna(subset=column).sort_values(column, kind="stable")
    middle = known.iloc[[(len(known) - 1) // 2]]
    row = middle.iloc[0]
    of = "the" if len(known) % 2 else "just below the"
    place = f"{row['family']} on {corpus_title(row['corpus'])}"
    return f"{line} {middle_words(name, row, middle)} (95%; {place}, {of} median of {len(known)})."


def middle_words(name, row, middle):
    """What the middle case of a claim of the first page shows; middle: the same row as a frame."""
    if name == "top1_line":
        text = interval(known_interval(middle).iloc[0])
        words = f"Exponent {number(row['alpha'])}, {text} over {known_noise(middle)}, "
        return words + f"{interval(row['ci_models'])} over other sizes"
    if name == "equal_exponents":
        words = (
            f"The exponent of -log RBP_1 is {number(row['ratio'])} times that of cross-entropy, "
        )
        return words + f"{interval(row['around'])} over other sizes"
    words = f"At k = {row['k']:g} the largest model has {row['N']:g} hits in a row {number(row['times'], 2)} times"
    return (
        f"{words} as often as independence says, {interval(row['times_around'], 2)} over other text"
    )


def ladder_tokens(family):
    """How many tokens each model of a measured ladder saw in training; NaN where that is not one number."""
    try:
        tokens = {model.tokens for model in load_family(family).models}
    except InputError:
        return np.nan
    return float(tokens.pop() or np.nan) if len(tokens) == 1 else np.nan


def with_grid(rows, grid):
    """Rows of laws with the tokens of their ladders, and below them those of the grid at the same k."""
    if not len(rows):
        return law_rows([])
    tokens = {family: ladder_tokens(family) for family in rows["family"].unique()}
    ladder = rows.assign(ladder_tokens=rows["family"].map(tokens))
    if not len(grid):
        return ladder
    same = grid[grid["k"] == rows["k"].iloc[0]]
    same = same.assign(ci_models=same["ci_tokens"])
    return surely(pd.concat([ladder, same], ignore_index=True))


def row_table(rows, headings):
    """Kept rows as a table: {column: heading} of those to take, intervals as two columns each."""
    table = {}
    for column, heading in headings.items():
        values = rows[column] if column in rows else []
        if len(values) and isinstance(values.iloc[0], tuple):
            table |= ends(list(zip(*values, strict=True)), f"{heading}: ")
        else:
            table[heading] = map(corpus_title, values) if column == "corpus" else values
    return pd.DataFrame({heading: list(values) for heading, values in table.items()})
