"""How likely the current solver is to solve a problem: one contract, by rollouts or by a learned predictor (Task
Difficulty and Diversity, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..contract.round import Round
from ..contract.stateful import Stateless
from ..registry import Count, Registry


class Difficulty(Protocol):
    """Called by all processes with the same problems; returns the same on all. Stateful."""

    wants_labels: bool
    """Whether `learn` makes it better: labels cost the solver's samples."""

    def estimate(self, round: Round, problems: Sequence[Any], features_NF: np.ndarray) -> np.ndarray:
        """(N,) probabilities in [0, 1] that one answer of the current solver is right."""
        ...

    def learn(self, features_LF: np.ndarray, rate_L: np.ndarray, attempts: int | np.ndarray) -> dict[str, float]:
        """Take in L measured solve rates, of so many answers each; numbers about it that are logged."""
        ...

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


DIFFICULTIES: Registry[Any] = Registry(
    "difficulty",
    {
        "rollout": "countdown_selfplay.curriculum.difficulty:Rollout",
        "predictor": "countdown_selfplay.curriculum.difficulty_predictor:Predictor",
        "uncertainty": "countdown_selfplay.curriculum.difficulty_predictor:Uncertainty",
    },
)


class Rollout(Stateless):
    """p = the share of `samples` answers that the verifier accepts: only the full reward counts (K = 8 in the paper).
    Of several provers their mean. Its cost is the solver's samples: candidates x samples in each refresh."""

    wants_labels = False

    def __init__(self, samples: Count = 8) -> None:
        self.samples = samples

    def estimate(self, round: Round, problems: Sequence[Any], features_NF: np.ndarray) -> np.ndarray:
        return measured_rates(round, problems, self.samples)

    def learn(self, features_LF: np.ndarray, rate_L: np.ndarray, attempts: int | np.ndarray) -> dict[str, float]:
        return {}


def measured_rates(round: Round, problems: Sequence[Any], samples: int) -> np.ndarray:
    """(N,) the share of right answers among `samples` of each prover to each problem, on all processes. The provers
    are asked for no more at once than a round's micro-batches hold."""
    own = round.share(problems)
    longest = -(-len(problems) // round.world)
    provers = round.players("prover")
    right_N = np.zeros(len(problems))
    for prover in provers:
        size = max(1, round.capacity(prover) // round.world // samples)
        found: list[float] = []
        for start in range(0, longest, size):  # equally many turns on all processes
            part = own[start : start + size]
            rollout = round.sample(prover, [round.domain.prove_row(p) for p in part], samples, part)
            bits = np.array([verdict.correct for verdict in rollout.verdicts or []], dtype=float)
            found += bits.reshape(-1, samples).mean(axis=1).tolist()
        right_N += np.array(round.gather(found))
    return right_N / len(provers)
