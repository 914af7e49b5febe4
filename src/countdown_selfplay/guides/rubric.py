"""Guide that scores proposals by the domain's exact rules, with the rubric of SGS."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contract.game import BaseGuide, Outcome, Proposal
from ..contract.round import Round
from ..proposers import unsupported
from . import targets_of


class Rubric(BaseGuide):
    """Guide whose score, R_guide, is that of the domain's `review(target, problem, solution)`, 0 to 8 (SGS 2026,
    appendix E.3, equation 3). As in the runs of SGS only problems with a right answer are reviewed; others get NaN."""

    scale = (0.0, 8.0)

    def score(self, round: Round, proposals: Sequence[Proposal], outcome: Outcome) -> np.ndarray:
        domain: Any = round.domain
        if domain.helping is None:
            raise unsupported("The guide rubric", domain, "`helping`", "use a guide of your own")
        review = domain.helping.review
        rated = zip(targets_of(proposals), proposals, outcome.solution_P, strict=False)
        scores = [np.nan if text is None else review(target, p.problem, text).score for target, p, text in rated]
        return np.array(scores, dtype=float)
