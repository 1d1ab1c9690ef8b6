"""What others measured for a family and corpus, to be drawn as open marks beside one's own points."""

from dataclasses import dataclass

import numpy as np

from rbplib.laws import published
from rbplib.settings import InputError, load_family


@dataclass(frozen=True)
class Reference:
    """Published -log RBP_k of a family's models. S: float64 (M,). y, uncertainty: float64 (M,), nats."""

    S: np.ndarray
    y: np.ndarray
    uncertainty: np.ndarray
    label: str


def reference_points(family, corpus, k=1):
    """Published points of a family on a corpus, or None where there are none.

    A family file names them: `published: {CORPUS: TABLE}`.

    Args:
        family: a settings.Family, a name or a YAML path. corpus: its name. k: rank that counts as a success.
    Raises:
        InputError: the family file names a table that is not carried.
    """
    family = load_family(family)
    table = family.published.get(corpus)
    if table is None:
        return None
    if table != "gpt2_wikipedia_reference":
        raise InputError(f"family {family.name!r} names the published table {table!r}, which is not carried here.")
    if k != 1:
        return None  # the authors show single models at k = 1 only
    S, y, uncertainty = published.gpt2_reference("neg_log_rbp")
    return Reference(S, y, uncertainty, "authors' repository")
