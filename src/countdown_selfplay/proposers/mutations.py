"""Candidates by actions drawn uniformly: the control of the proposers that learn, and the paper's P-Solver with a
predictor (Task Difficulty and Diversity, sections 3.3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract.round import Round
from .symbolic import Choice, Symbolic, pairs


@dataclass
class Mutation(Symbolic):
    """Differs from Symbolic in that it says which actions: any pair of a number action and an expression action is as
    likely as any other. It learns nothing."""

    def choose(self, round: Round, seeds: Sequence[Any]) -> Choice:
        generator = np.random.default_rng(round.seed("actions"))
        numbers = generator.choice(list(round.domain.mutations.number_actions), len(seeds)).tolist()
        kinds = generator.choice(list(round.domain.mutations.expression_actions), len(seeds)).tolist()
        return Choice(numbers, kinds, pairs(numbers, kinds))
