"""STP, the baseline of SGS 2026, appendix F.2 (Dong and Ma 2025, arXiv 2502.00212): problems that are asked for as
variants of solved ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract.game import Outcome
from ..contract.round import Round, Turn
from ..registry import Count
from .targets import Targets


class STP(Targets):
    """Differs from Targets in what the conjecturer sees: a target that is solved, with a right answer to it, where
    self-guided self-play shows one that is not.

    A round asks for as many problems as it has unsolved targets, so that both methods spend as many generations; the
    solved ones take turns in an order that is drawn each round. Until one is solved nothing is proposed. A target's
    answer is the first right one of the round that solved it. SGS says no more of STP than that it conditions on
    solved problems, rewards by the solve rate alone, and has expert iteration as its solver's objective. From its own
    paper come the answer in the prompt, and that a conjecture is worth imitating that is solved at a rate of at most
    1/4: `conjecturer_reward: binary_band` with {low: 0.01, high: 0.25} and `conjecturer_objective: rest`. Its filter
    for short proofs of long statements and its weights towards the topics of unproved ones are not here.

    Its state: that of Targets, and the answers.
    """

    def __init__(self, batch: Count | None = None) -> None:
        super().__init__(batch)
        self.answers: dict[str, str] = {}

    def asks(self, round: Round, player: str, groups: int, anchors: Sequence[Any]) -> list[Mapping[str, Any]]:
        """One for each unsolved target of the round, as long as one is solved; several players take turns."""
        players = round.players("conjecturer")
        wanted = len([key for key in self.chosen if key not in self.solved])
        shown = [key for key in self.known if key in self.answers]
        random.Random(round.seed("stp")).shuffle(shown)
        turns = [shown[i % len(shown)] for i in range(wanted)] if shown else []
        own = turns[players.index(player) :: len(players)]
        return [{"variant_of": self.problems[key], "solution": self.answers[key]} for key in own]

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        turns = super().learn(round, outcome)
        for problem, text in zip(outcome.problems, outcome.solution_P, strict=True):
            key = round.domain.key(problem)
            if text is not None and key in self.solved:
                self.answers.setdefault(key, text)
        return turns

    def _helped(self, round: Round, outcome: Outcome, trainable_P: np.ndarray) -> dict[str, bool]:
        return {}  # no problem is asked for the sake of an unsolved target

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "answers": self.answers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.answers = dict(state["answers"])
