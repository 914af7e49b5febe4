"""The prover's reward functions: the default ones, and a wrapper that refuses numbers that are not finite."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch

from .config import RoleSettings
from .countdown import Rules
from .errors import RewardError
from .rewards.countdown import countdown_reward, make_countdown_reward
from .rewards.length import make_length_penalty
from .rewards.soft_overlong import make_soft_overlong

RewardFunc = Callable[..., Any]


def default_reward_funcs(rules: Rules, length_penalty: float, prover: RoleSettings) -> list[RewardFunc]:
    """The verifier's score, seed 001's length penalty if its alpha is not 0, and seed 003's soft overlong charge if
    its share is not 0."""
    rewards: list[RewardFunc] = [make_countdown_reward(rules)]
    if length_penalty:
        rewards.append(make_length_penalty(length_penalty, prover.max_completion_length))
    if prover.soft_overlong:
        rewards.append(make_soft_overlong(prover.soft_overlong, prover.max_completion_length))
    return rewards


def checked_reward_funcs(reward_funcs: RewardFunc | list[RewardFunc], rules: Rules) -> list[Any]:
    """The same functions, with an error instead of a NaN or an infinity. Reward models (ids, modules) pass
    unchanged; the plain `countdown_reward` scores by the run's rules (by its own, which want answer tags, it would
    give every bare answer 0)."""
    functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    functions = [make_countdown_reward(rules) if f is countdown_reward else f for f in functions]
    return [_checked(f) if callable(f) and not isinstance(f, torch.nn.Module) else f for f in functions]


def _checked(function: RewardFunc) -> RewardFunc:
    """In TRL one +inf gives loss 0 now and a crash one step later, and NaN means "no reward": here None means that
    alone."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def checked_async(*args: Any, **kwargs: Any) -> Any:
            return _insist_finite(function, await function(*args, **kwargs))

        return _named(checked_async, function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        return _insist_finite(function, function(*args, **kwargs))

    return _named(checked, function)


def _named(wrapper: RewardFunc, function: Any) -> RewardFunc:
    """TRL logs a reward under its `__name__`, which objects and partials lack."""
    inner = getattr(function, "func", function)
    wrapper.__name__ = getattr(inner, "__name__", type(inner).__name__)
    return wrapper


def _insist_finite(function: RewardFunc, rewards: Any) -> Any:
    for row, reward in enumerate(rewards):
        if reward is not None and not math.isfinite(reward):
            name = getattr(function, "__name__", type(function).__name__)
            raise RewardError(
                f"Reward function '{name}' returned {float(reward)} for row {row} of the batch; rewards must be "
                "finite, or "
                "None for a row that it does not score."
            )
    return rewards
