"""Learning progress: the movement of the prover's last update along the gradient of a problem's right answers."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import RewardError
from .base import UNKNOWN, RewardContext
from .composition import Composable, parts_of


@dataclass(frozen=True)
class LearningProgress(Composable):
    """Learning-progress reward: r = |<g, u>| divided by the largest |<g, u>| of the round, in [0, 1].

    g: gradient of the prover's mean log-prob of its right answers to a problem; u: the step that Adam's moments imply.
    `ctx.progress_P` is <g, u>, in nats. After *Self-Play Pretraining with Zero Data* (2609.30063), whose learner's
    loss is that of a language model on a text; here it is that of expert iteration, so that a problem without a right
    answer gets 0. The division makes the reward independent of the prover's learning rate. All rewards are 0 without
    progress values: before the prover's first step, and in a game that gives none. Raises RewardError unless there is
    one value per problem.

    absolute: False gives max(0, <g, u>), which rewards only answers that become likelier.

    of: "answers", as above; "objective": g is the gradient of the prover's objective, the mean over all answers of
    advantage times log-prob, which under RLOO is 0 if all or none are right.
    """

    absolute: bool = True
    of: Literal["answers", "objective"] = "answers"
    needs_progress = True

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        known, shape = (UNKNOWN if ctx is None else ctx).progress_P, np.shape(solve_rate_P)
        if known is None:
            return np.zeros(shape)
        if np.shape(known) != shape:
            raise RewardError(
                f"Conjecturer reward 'learning_progress' got shape {np.shape(known)} for {shape[0]} problems; a game "
                "must give `progress` of the RewardContext one number per problem."
            )
        gain_P = np.nan_to_num(np.asarray(known, dtype=float))
        gain_P = np.abs(gain_P) if self.absolute else np.maximum(gain_P, 0.0)
        return np.asarray(gain_P / max(float(gain_P.max(initial=0.0)), np.finfo(float).tiny))


def needs_progress(reward: object) -> str:
    """Return the form of `ctx.progress_P` ("answers" or "objective") that a reward, or the first of its parts with
    `needs_progress`, reads; "" if none does."""
    return next((getattr(p, "of", "answers") for p in parts_of(reward) if getattr(p, "needs_progress", False)), "")
