"""Problems as they come: uniform over what can be written, solvable or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contract.game import Proposal
from ..contract.round import Round
from ..errors import ConfigError
from .rungs import RUNGS, Rungs


class UniformTexts(Rungs):
    """Differs from Rungs in that the domain draws whole problems, size included, uniformly over what is in range
    (`random_text`), and that nobody asks whether they have a solution: what a conjecturer faces before it has learned
    anything."""

    metrics = RUNGS[:1]

    def __init__(self) -> None:
        super().__init__()

    def known(self, domain: Any) -> list[int]:
        if domain.random_text is None or domain.rung is None:
            raise ConfigError(
                f"`proposer` (uniform_texts) draws problems without a solution, and the domain "
                f"{type(domain).__name__} has no `random_text` and `rung` (contract/domain.py); give it "
                "both, or take uniform_rungs."
            )
        return []

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.known(round.domain)
        slots = min(round.room(prover) for prover in round.players("prover"))
        problems = round.domain.random_text(slots, round.seed("texts"), round.held_out)
        rungs = [round.domain.rung(problem) for problem in problems]
        self.slot_of = list(range(len(problems)))
        self.played = {"proposer/rung_mean": float(np.mean(rungs))} if rungs else {}
        return [Proposal(problem, asked={"rung": rung}) for problem, rung in zip(problems, rungs, strict=True)]
