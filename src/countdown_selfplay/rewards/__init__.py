"""Rewards by name: of the conjecturer (functions of the solve rate) and of the prover (TRL reward callables). No
torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..countdown import problem_of_key
from ..errors import RewardError
from .base import LARGEST_REWARD, ConjecturerReward, RewardContext, called
from .composition import Clip, Composable, Product, Sum
from .factory import CONJECTURER_REWARDS, make_conjecturer_reward


def checked_rewards(reward: Callable[..., Any], solve_rate_P: np.ndarray, ctx: RewardContext) -> np.ndarray:
    """Call `reward` and insist on one finite number per problem; RewardError names the function and the problem."""
    name = _name(reward)
    reward_P = called(reward, solve_rate_P, ctx)
    if reward_P.shape != solve_rate_P.shape:
        raise RewardError(
            f"Conjecturer reward '{name}' returned shape {reward_P.shape} for {solve_rate_P.shape[0]} solve rates; "
            "it must return one reward per problem."
        )
    bad = np.flatnonzero(~(np.abs(reward_P) <= LARGEST_REWARD))  # NaN is not <= anything
    if bad.size:
        row = int(bad[0])
        raise RewardError(
            f"Conjecturer reward '{name}' returned {reward_P[row]} for problem {row} of the round (solve rate "
            f"{solve_rate_P[row]:.3f}); rewards must be finite, and at most {LARGEST_REWARD:g} in size."
        )
    return reward_P


def refused_reward(reward: Callable[..., Any], reason: str, otherwise: float) -> float:
    """What a proposal earns that was refused for `reason`: what the reward's method `invalid_reward` says, or
    `otherwise` where it has none or says None. RewardError if that is not a finite number."""
    hook = getattr(reward, "invalid_reward", None)
    value = None if hook is None else hook(reason)
    if value is None:
        return otherwise
    if not abs(value) <= LARGEST_REWARD:
        raise RewardError(
            f"`invalid_reward` of conjecturer reward '{_name(reward)}' returned {value} for reason '{reason}'; "
            f"rewards must be finite, and at most {LARGEST_REWARD:g} in size."
        )
    return float(value)


def _name(reward: Callable[..., Any]) -> str:
    return getattr(reward, "__name__", type(reward).__name__)


__all__ = [
    "CONJECTURER_REWARDS",
    "Clip",
    "Composable",
    "ConjecturerReward",
    "Product",
    "RewardContext",
    "Sum",
    "checked_rewards",
    "make_conjecturer_reward",
    "problem_of_key",
    "refused_reward",
]
