"""Cases of claims on the authors' histogram and printed pair."""

import numpy as np

from paper import gpt2, lognormal
from paper.lognormal import predicted_ratio
from paper.show.claims import cases


def histogram_ratios():
    """What is left of the printed likelihood ratio: both sides rounded, and on one support as well."""
    _, rounded, cut = np.round(list(gpt2.ratio_parts().values()), 6) + 0.0
    both = {"rounded": rounded, "cut": cut}
    return cases([{"lead_kept": ratio / gpt2.PRINTED_RATIO, **both} for ratio in both.values()])


def approximations():
    """Errors of Eqs. 20 and 21 in percent, and ratios of local exponents, at the printed GPT-2 pair."""
    formulas = lognormal.formulas_and_sums(*gpt2.PRINTED)
    (p1, exact_p1), (entropy, exact_entropy) = formulas["-log p_1"], formulas["H"]
    lam, beta = lognormal.natural(*gpt2.PRINTED)
    first, second = lognormal.local_exponents(lam, beta)
    row = {
        "error_20": float(100 * (p1 / exact_p1 - 1)),
        "error_21": float(100 * (entropy / exact_entropy - 1)),
        "local_ratio": float(first / second),
        "cut_ratio": predicted_ratio(1 + lam, beta, gpt2.VOCABULARY),
    }
    return cases([row])
