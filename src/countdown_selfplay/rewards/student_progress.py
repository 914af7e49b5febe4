"""Student progress: the conjecturer is paid by how much training on its problems raises the prover on problems that it
does not train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt

from ..errors import ConfigError
from .base import UNKNOWN, RewardContext
from .composition import Composable, parts_of
from .learning_progress import one_per_problem, over_the_largest


@dataclass(frozen=True)
class StudentProgress(Composable):
    """r = max(0, rise) over the largest one of the round; in [0, 1].

    rise: the mean log-prob of right answers to held-back frontier problems after an inner update on the answers to a
    set of proposals, less that before it, in nats (`ctx.rise_P`); the update is then taken back. All proposals of a
    set earn the same. After *SOAR* (2601.18778), whose inner loop is ten steps on a set of 64 problems and whose
    measure is the greedy accuracy on a fixed list of hard ones; here the update is the set's share of the coming one,
    and the measure needs no further answers. A rise below 0 earns 0, as a refused proposal does, for else it would pay
    to write what cannot be read.

    set_size: proposals, side by side, that share an update; at least 1. held_back: share of a round's problems with
    0 < p <= 1/2 that the prover is measured on and not trained on, in (0, 1). All earn 0 as long as no answer is held
    back and before the prover's first step. RewardError if a game gives not one number per problem; ConfigError for a
    size or share out of range.
    """

    set_size: Annotated[int, Ge(1)] = 1
    held_back: Annotated[float, Gt(0), Lt(1)] = 0.25

    def __post_init__(self) -> None:
        if self.set_size < 1 or not 0 < self.held_back < 1:
            raise ConfigError(
                "student_progress needs a set_size of at least 1 and 0 < held_back < 1, got "
                f"set_size={self.set_size} and held_back={self.held_back}."
            )

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        known = (UNKNOWN if ctx is None else ctx).rise_P
        rise_P = one_per_problem(known, solve_rate_P, "student_progress", "rises")
        return over_the_largest(np.maximum(rise_P, 0.0))


def student_of(reward: object) -> StudentProgress | None:
    """The part of a reward that reads `ctx.rise_P`. ConfigError for two that ask for different ones: a round has one
    `rise_P`."""
    found = list(dict.fromkeys(part for part in parts_of(reward) if isinstance(part, StudentProgress)))
    if len(found) > 1:
        both = " and ".join(f"set_size {one.set_size}, held_back {one.held_back}" for one in found)
        raise ConfigError(
            f"`conjecturer_reward` has student_progress with {both}, and a round is measured in one way; give all of "
            "its parts the same."
        )
    return found[0] if found else None
