"""What the authors published of GPT-2: the digitised rank histogram, the printed fit, the counts.

Nothing here was measured by this project; see published/README.md.
"""

from paper import published
from paper.distributions import RankHistogram, table_histogram
from paper.show.claims import NAME
from paper.show.claims import RANKS as RANKS
from rbplib.families import yaml_file
from rbplib.table import family_tables

VOCABULARY = 50_257
MU, SIGMA, ZETA = -65.192, 12.892, 1.402  # printed in the authors' figure of GPT-2's ranks
PRINTED = (MU, SIGMA)
PRINTED_RATIO = -3818.005  # printed there: log likelihood of the power law less the lognormal's
N_TOKENS = 317_414  # as counted


def ranked(raw):
    """Rank tables of a family on Wikipedia by size; none where `raw` is empty, or is the authors'
    and was not fetched. InputError: another name that is not here, or what is damaged."""
    if not raw or (raw == NAME and not yaml_file("family", raw)):
        return []
    return family_tables(raw, "wikipedia")[0]


def gpt2_ranks(raw=""):
    """RankHistogram of the smallest GPT-2: of the authors' own ranks, the family `raw`, where they
    were fetched, of single ranks; else digitised from their figure, N_TOKENS tokens in wide bins.

    Raises InputError: another family that is not here, or damaged tables.
    """
    if tables := ranked(raw):
        return table_histogram(tables[0])
    rows = published.read("gpt2_rank_histogram")
    low, high, mass = (column.to_numpy() for _, column in rows.items())
    return RankHistogram(low, high, N_TOKENS * mass / mass.sum(), VOCABULARY)
