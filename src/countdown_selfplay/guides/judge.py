"""Guide that is a language model; in SGS 2026, section 3.2, a copy of the initial model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contract.game import BaseGuide, Outcome, Proposal
from ..contract.metric import SHARE, Metric, Panel
from ..contract.round import Round
from ..proposers import unsupported
from . import targets_of


class Judge(BaseGuide):
    """Guide whose score, R_guide, is read from a review that the role `guide` writes, with the rubrics in its prompt
    (SGS 2026, appendix E.3). Only problems that a prover solved are reviewed, once by each player of the role; the
    score is the mean of the readable reviews, or NaN. SGS uses a frozen guide: `roles: {guide: {weights: start}}`.
    In SGS 54.7% of reviews were readable, and 99% after fine-tuning on 2,048 reviews."""

    scale = (0.0, 8.0)
    needs: Sequence[str] = ("guide",)
    metrics = (
        Metric(
            "{guide}/format_rate",
            "Share of its reviews that can be read; absent in a round without a review. A failed one counts as the "
            "mean of the others.",
            healthy=(0.9, np.inf),
            cure="Warm-start the guide (`countdown-selfplay sft --role guide`).",
            legible=True,
            panel=Panel("Reviews that can be read", SHARE, "Targets", "share"),
            subject="share of readable reviews",
        ),
        Metric(
            "{guide}/reviews",
            "Problems that it reviewed: those with a right answer.",
            panel=Panel("Reviews", (0,), "Targets", "problems"),
        ),
    )

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def score(self, round: Round, proposals: Sequence[Proposal], outcome: Outcome) -> np.ndarray:
        domain: Any = round.domain
        if domain.helping is None or domain.helping.review_row is None:
            raise unsupported("The guide judge", domain, "`helping.review_row`", "use a guide of your own")
        targets, self.values = targets_of(proposals), {}
        with_solution = [i for i, text in enumerate(outcome.solution_P[: len(proposals)]) if text is not None]
        mine = round.share(with_solution)
        rows = [domain.helping.review_row(targets[i], proposals[i].problem, outcome.solution_P[i]) for i in mine]
        players = round.players("guide")
        scores_GP = np.full((len(players), len(proposals)), np.nan)
        for player, scores_P in zip(players, scores_GP, strict=True):
            texts = round.sample(player, rows, n=1).texts
            reviews = [domain.helping.read_review(text) for text in texts]
            rated = [(i, None if r is None else float(r.score)) for i, r in zip(mine, reviews, strict=True)]
            for i, score in round.gather(rated):
                scores_P[i] = np.nan if score is None else score
            self.values[f"{player}/reviews"] = len(with_solution)
            if with_solution:
                self.values[f"{player}/format_rate"] = float(np.isfinite(scores_P[with_solution]).mean())
        known_P = np.isfinite(scores_GP).any(0)
        score_P = np.full(len(proposals), np.nan)
        score_P[known_P] = np.nanmean(scores_GP[:, known_P], axis=0)
        return score_P

    def logged(self) -> dict[str, float]:
        return self.values
