"""Interface of conjecturer rewards: pure functions of solve rates and of the round's context."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..contract.game import LARGEST_REWARD
from ..countdown import DEFAULT_RULES, Problem, ProblemSpec, Rules
from ..errors import ConfigError, RewardError

DEFAULT_SPEC = ProblemSpec()


@dataclass(frozen=True, eq=False)
class RewardContext:
    """Inputs of a reward besides the solve rates. Every field has a default for callers that do not know the value.

    Attributes:
        attempts: denominator of a solve rate: answers per problem over all provers, or the number of provers.
        round: index from 0.
        problems: the P problems, in the order of the solve rates.
        guide_P: a guide's score per problem, on any scale; NaN if a review failed.
        prover_rates_MP: solve rate per prover and problem; NaN if a prover did not try. None for a single prover.
        archive: keys (`Problem.key`) of conjectured problems of earlier rounds, oldest first;
          `problem_of_key` converts them.
        recent_rates: mean solve rates of the conjectured problems of earlier rounds, oldest first.
        progress_P: inner product of the prover's last update and, per problem, the gradient of the log-prob of the
          right answers, or of the objective (`needs_progress`); 0 without a right answer or a step. None: unknown.
        spec, rules: ranges and rules of the problems.
    """

    attempts: int = 0
    round: int = 0
    problems: tuple[Problem, ...] = ()
    guide_P: np.ndarray | None = None
    prover_rates_MP: np.ndarray | None = None
    archive: tuple[str, ...] = ()
    recent_rates: tuple[float, ...] = ()
    progress_P: np.ndarray | None = None
    spec: ProblemSpec = DEFAULT_SPEC
    rules: Rules = DEFAULT_RULES


UNKNOWN = RewardContext()
"""Context for a caller that has only solve rates."""


class ConjecturerReward(Protocol):
    """Callable from solve rates in [0, 1] of played problems, (P,), to finite rewards, (P,). An optional method
    `invalid_reward(reason) -> float | None` gives the reward of a refused proposal by reason; if the method is absent
    or returns None, the setting `invalid_reward` applies."""

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext) -> np.ndarray: ...


def takes_context(reward: Callable[..., Any]) -> bool:
    """Return True if `reward` is called as (solve_rate_P, ctx), False if as (solve_rate_P). A second argument is the
    context unless it has a default other than None. Raises ConfigError for a class or a callable of another form."""
    name = _name(reward)
    if isinstance(reward, type):
        raise ConfigError(f"The conjecturer reward {name} is a class; pass an object of it, such as {name}().")
    if isinstance(reward, np.ufunc):
        return reward.nin > 1
    try:
        signature = inspect.signature(reward)
    except ValueError:  # a function in C without a signature
        return True
    for arguments in (2, 1):
        try:
            bound = signature.bind(*[None] * arguments).arguments
        except TypeError:
            continue
        parameters = [signature.parameters[given] for given in bound]
        return arguments == 2 and parameters[-1].default in (None, inspect.Parameter.empty)
    raise ConfigError(
        f"The conjecturer reward {name}{signature} must be callable as (solve_rate_P, ctx) or as (solve_rate_P)."
    )


def called(reward: Callable[..., Any], solve_rate_P: np.ndarray, ctx: RewardContext) -> np.ndarray:
    """Call `reward`, with the context if it takes one; return a float array. Raises RewardError unless it has one
    number per solve rate."""
    returned = reward(solve_rate_P, ctx) if takes_context(reward) else reward(solve_rate_P)
    try:
        reward_P: np.ndarray | None = np.asarray(returned, dtype=float)
        shown = f"shape {np.shape(returned)}"
    except (TypeError, ValueError):
        reward_P, shown = None, f"{str(returned)[:80]!r}"
    if reward_P is None or reward_P.shape != np.shape(solve_rate_P):  # NumPy would broadcast one value to all problems
        raise RewardError(
            f"Conjecturer reward '{_name(reward)}' returned {shown} for {np.size(solve_rate_P)} solve rates; it must "
            "return one number per problem."
        )
    return reward_P


def problems_of(reward: str, solve_rate_P: np.ndarray, ctx: RewardContext) -> tuple[Problem, ...]:
    """Return the context's problems, () if unknown. Raises RewardError if their number is not that of the rates."""
    if ctx.problems and len(ctx.problems) != len(solve_rate_P):
        raise RewardError(
            f"Conjecturer reward '{reward}' got {len(ctx.problems)} problems for {len(solve_rate_P)} solve rates; a "
            "game must give the RewardContext one problem per solve rate, or none."
        )
    return ctx.problems


def tent(solve_rate_P: np.ndarray, peak: float, left: float, right: float) -> np.ndarray:
    """Return the tent: 1 at `peak`, decreasing linearly to 0 at a distance of `left` below it and `right` above it."""
    distance_P = np.asarray(solve_rate_P, dtype=float) - peak
    return np.maximum(0.0, 1.0 - np.where(distance_P < 0, -distance_P / left, distance_P / right))


def checked_rewards(reward: Callable[..., Any], solve_rate_P: np.ndarray, ctx: RewardContext) -> np.ndarray:
    """Return the values of `reward`, (P,). Raises RewardError unless each is a number within +-1e12."""
    reward_P = called(reward, solve_rate_P, ctx)
    bad = np.flatnonzero(~(np.abs(reward_P) <= LARGEST_REWARD))  # NaN is not <= anything
    if bad.size:
        row = int(bad[0])
        raise RewardError(
            f"Conjecturer reward '{_name(reward)}' returned {reward_P[row]} for problem {row} of the round "
            f"(solve rate {solve_rate_P[row]:.3f}); rewards must be finite, and at most {LARGEST_REWARD:g} in size."
        )
    return reward_P


def refused(reward: Any, reason: str) -> float | None:
    """Return `invalid_reward(reason)` of a reward, or None if the reward has no such method."""
    hook = getattr(reward, "invalid_reward", None)
    return None if hook is None else hook(reason)


def refused_reward(reward: Callable[..., Any], reason: str, otherwise: float) -> float:
    """Return the reward of a proposal that was refused for `reason`: the result of `reward.invalid_reward`, or
    `otherwise` if that method is absent or returns None. Raises RewardError for NaN and beyond +-1e12."""
    value = refused(reward, reason)
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
