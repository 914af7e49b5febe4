"""Rewards by name: of the conjecturer (functions of the solve rate) and of the prover (TRL reward callables). No
torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ConfigError, RewardError
from ..registry import Registry
from .binary_band import BinaryBand
from .conjecturer import ConjecturerReward, RewardContext
from .learnability import Learnability
from .tent import Tent

# name -> factory; a user's own factory can be put here: CONJECTURER_REWARDS["mine"] = MyReward
CONJECTURER_REWARDS: Registry[Callable[..., ConjecturerReward]] = Registry(
    "conjecturer reward", {"tent": Tent, "binary_band": BinaryBand, "learnability": Learnability}
)


def make_conjecturer_reward(name: str, arguments: dict[str, Any] | None = None) -> ConjecturerReward:
    """The conjecturer reward called `name`, built with `arguments`."""
    factory = CONJECTURER_REWARDS[name]
    arguments = arguments or {}
    allowed = list(inspect.signature(factory).parameters)
    unknown = [key for key in arguments if key not in allowed]
    if unknown:
        takes = ", ".join(allowed) or "no argument"
        raise ConfigError(f"Conjecturer reward '{name}' does not take {', '.join(unknown)}; it takes {takes}.")
    return factory(**arguments)


def checked_rewards(reward: Callable[..., Any], solve_rate_P: np.ndarray, ctx: RewardContext) -> np.ndarray:
    """Call `reward` and insist on one finite number per problem; RewardError names the function and the problem."""
    name = getattr(reward, "__name__", type(reward).__name__)
    reward_P = np.asarray(reward(solve_rate_P, ctx), dtype=float)
    if reward_P.shape != solve_rate_P.shape:
        raise RewardError(
            f"Conjecturer reward '{name}' returned shape {reward_P.shape} for {solve_rate_P.shape[0]} solve rates; "
            "it must return one reward per problem."
        )
    bad = np.flatnonzero(~np.isfinite(reward_P))
    if bad.size:
        row = int(bad[0])
        raise RewardError(
            f"Conjecturer reward '{name}' returned {reward_P[row]} for problem {row} of the round (solve rate "
            f"{solve_rate_P[row]:.3f}); rewards must be finite."
        )
    return reward_P


__all__ = ["CONJECTURER_REWARDS", "ConjecturerReward", "RewardContext", "checked_rewards", "make_conjecturer_reward"]
