"""Rewards composed of rewards: weighted sums, products, clips. A part is a reward, a function with the same arguments,
or a number.

The reward of a refused proposal is composed of the `invalid_reward` of the parts: the weighted sum, the smallest one
times a product's constants, or the clipped value. If no part has one, the setting `invalid_reward` applies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ..errors import ConfigError
from ..options import is_number
from .base import UNKNOWN, ConjecturerReward, RewardContext, called, refused, takes_context

Part = ConjecturerReward | float


class Composable:
    """Base class of rewards that are terms of a formula: `0.5 * Tent() + FrontierDistance()`, `Learnability() *
    Tent()`, `(RZero(floor=None) + 1).clip(0, 1)`. A number in a sum is a constant reward."""

    def __add__(self, other: ConjecturerReward | float) -> Sum:
        return Sum((cast("ConjecturerReward", self), other))

    def __radd__(self, other: ConjecturerReward | float) -> Sum:
        return Sum((other, cast("ConjecturerReward", self)))

    def __mul__(self, other: ConjecturerReward | float) -> Product:
        return Product((cast("ConjecturerReward", self), other))

    def __rmul__(self, other: ConjecturerReward | float) -> Product:
        return Product((other, cast("ConjecturerReward", self)))

    def clip(self, low: float, high: float) -> Clip:
        """Return the reward clipped to [`low`, `high`]."""
        return Clip(cast("ConjecturerReward", self), low, high)


def parts_of(reward: object) -> Iterator[object]:
    """Yield a reward and all its parts."""
    yield reward
    for part in (*getattr(reward, "terms", ()), *getattr(reward, "factors", ())):
        yield from parts_of(part)
    if hasattr(reward, "of"):
        yield from parts_of(reward.of)


@dataclass(frozen=True)
class Sum(Composable):
    """Weighted sum of rewards: r = sum of weight x term. `weights`: one per term, default 1. Raises ConfigError
    without a term, for a term that is neither callable nor a finite number, and for a weight that is not finite."""

    terms: Sequence[Part]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        _check_parts("sum", self.terms)
        weights = [1.0] * len(self.terms) if self.weights is None else list(self.weights)
        if len(weights) != len(self.terms) or not all(map(is_number, weights)):
            raise ConfigError(f"Conjecturer reward 'sum' needs a finite number for each term, got weights {weights}.")
        object.__setattr__(self, "weights", tuple(weights))

    def _pairs(self) -> list[tuple[Part, float]]:
        return list(zip(self.terms, self.weights or (), strict=True))

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        rate_P = np.asarray(solve_rate_P, dtype=float)
        reward_P = np.zeros(rate_P.shape)
        for term, weight in self._pairs():
            reward_P = reward_P + weight * _values(term, rate_P, ctx)
        return reward_P

    def invalid_reward(self, reason: str) -> float | None:
        values = [(weight, refused(term, reason)) for term, weight in self._pairs()]
        known = [weight * value for weight, value in values if value is not None]
        return sum(known) if known else None


@dataclass(frozen=True)
class Product(Composable):
    """Product of rewards. Raises ConfigError without a factor, and for one that is not callable or a finite number."""

    factors: Sequence[Part]

    def __post_init__(self) -> None:
        _check_parts("product", self.factors)

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        reward_P = np.ones(np.shape(solve_rate_P))
        for factor in self.factors:
            reward_P = reward_P * _values(factor, np.asarray(solve_rate_P, dtype=float), ctx)
        return reward_P

    def invalid_reward(self, reason: str) -> float | None:
        """Return the smallest `invalid_reward` of a factor, times the constant factors; None if no factor has one."""
        known = [value for value in (refused(factor, reason) for factor in self.factors) if value is not None]
        scale = math.prod(float(factor) for factor in self.factors if not callable(factor))
        return scale * min(known) if known else None


@dataclass(frozen=True)
class Clip(Composable):
    """Reward clipped to a range: r = min(max(of, low), high). Raises ConfigError if low > high."""

    of: ConjecturerReward
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_parts("clip", [self.of])
        if self.low > self.high:
            raise ConfigError(f"Conjecturer reward 'clip' needs low <= high, got {self.low} and {self.high}.")

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        return np.clip(_values(self.of, np.asarray(solve_rate_P, dtype=float), ctx), self.low, self.high)

    def invalid_reward(self, reason: str) -> float | None:
        value = refused(self.of, reason)
        return None if value is None else min(max(value, self.low), self.high)


def _values(part: Part, solve_rate_P: np.ndarray, ctx: RewardContext | None) -> np.ndarray:
    if not callable(part):
        return np.full(solve_rate_P.shape, float(part))
    return called(part, solve_rate_P, UNKNOWN if ctx is None else ctx)


def _check_parts(kind: str, parts: Sequence[Part]) -> None:
    if not parts:
        raise ConfigError(f"Conjecturer reward '{kind}' needs at least one part.")
    for part in parts:
        if not callable(part) and not is_number(part):
            raise ConfigError(
                f"Conjecturer reward '{kind}' got {part!r} as a part; a part is a reward or a finite number."
            )
        if callable(part):
            takes_context(part)
