"""Tables of curves, laws and predictions for pages: records in, a data frame out."""

from paper.show.plain import corpus_title as corpus_title

WAYS = {  # to fit, as pages call them
    "least_squares": "line, least squares",
    "binomial": "line, maximum likelihood",
    "irreducible": "law with a floor",
    "quadratic": "quadratic in log S",
}


def ends(interval, of=""):
    """Both ends of an interval as columns."""
    return {f"{of}low": interval[0], f"{of}high": interval[1]}
