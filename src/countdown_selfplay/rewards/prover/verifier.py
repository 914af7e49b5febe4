"""Rewards of the prover: the verifier's score, penalties for length, the default functions of a run, and a check of
their values."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...contract.game import LARGEST_REWARD
from ...countdown import DEFAULT_RULES, Rules, problem_from_row, verify
from ...errors import ConfigError, DataError, RewardError

_COLUMNS = ("numbers", "nums", "target", "ground_truth")


def make_countdown_reward(rules: Rules = DEFAULT_RULES) -> Callable[..., list[float]]:
    """Make a reward callable, "countdown_reward", that scores under `rules`."""

    def countdown_reward(
        completions: Sequence[Any],
        numbers: Sequence[Any] | None = None,
        target: Sequence[Any] | None = None,
        nums: Sequence[Any] | None = None,
        ground_truth: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> list[float]:
        """Return one score per completion: by default 1.0 correct, 0.1 well-formed but wrong, 0.0 without an
        answer. completions: strings or lists of chat messages. Problems are in the data set's columns `numbers` or
        `nums` with `target`, or `ground_truth`, as TRL passes them. Raises DataError without such a column or for a
        row without a problem."""
        given = dict(zip(_COLUMNS, (numbers, nums, target, ground_truth), strict=True))
        columns = {name: values for name, values in given.items() if values is not None}
        if not columns:
            raise DataError(
                "countdown_reward needs the columns `numbers` (or `nums`) and `target`, or `ground_truth`."
            )
        for name, values in columns.items():
            if len(values) != len(completions):
                raise DataError(f"Column '{name}' has {len(values)} rows for {len(completions)} completions.")
        return [
            verify(completion, problem_from_row({name: values[i] for name, values in columns.items()}, i), rules).score
            for i, completion in enumerate(completions)
        ]

    return countdown_reward


countdown_reward = make_countdown_reward()


def make_verdict_reward(name: str) -> Callable[..., list[float]]:
    """Make a reward callable that returns the score of the domain's verdict, from the column `verdict` of the trainer,
    so that nothing is verified twice. `name`: name in the log."""

    def verdict_reward(completions: Sequence[Any], verdict: Sequence[Any], **kwargs: Any) -> list[float]:
        return [float(v.score) for v in verdict]

    verdict_reward.__name__ = name
    return verdict_reward


def make_length_penalty(alpha: float, max_length: int, floor: float | None = None) -> Callable[..., list[float]]:
    """Make a TRL reward callable, "length_penalty", that penalises each completion by its share of `max_length`
    tokens. With a floor it needs the column `verdict`, which the joint trainer adds. Raises ConfigError for a negative
    or infinite alpha, an infinite floor, or a length below 1.

    alpha: penalty of a completion of full length (Allen and Ståblein: 0.1); an empty one has 0. floor: lower bound of
    score plus penalty, max(floor, score - alpha * length / max_length): 0 in the code of Allen and Ståblein, none in
    their text (a malformed answer of full length has -0.1)."""
    if not math.isfinite(alpha) or alpha < 0:
        raise ConfigError(
            f"`alpha` ({alpha}) of the length penalty must be finite and not negative; Allen and Ståblein use 0.1."
        )
    if floor is not None and not math.isfinite(floor):
        raise ConfigError(f"`floor` ({floor}) of the length penalty must be finite; Allen and Ståblein use 0.")
    if max_length < 1:
        raise ConfigError(f"`max_length` ({max_length}) of the length penalty must be at least 1 token.")

    def length_penalty(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **kwargs: Any
    ) -> list[float]:
        """Return one penalty per completion, in [-alpha, 0] for completions of at most `max_length` tokens."""
        charges = [-alpha * len(ids) / max_length for ids in completion_ids]
        if floor is None:
            return charges
        return [min(max(c, floor - v.score), 0.0) for c, v in zip(charges, kwargs["verdict"], strict=True)]

    return length_penalty


def make_soft_overlong(share: float, max_length: int) -> Callable[..., list[float]]:
    """Make a TRL reward callable, "soft_overlong", that penalises completions close to the limit: 0 up to max_length -
    cache tokens, then linear to -1 at max_length, -1 beyond; cache = share * max_length, rounded to whole tokens, at
    least 1. SGS uses the last 20% of the context: share 0.2. Values equal
    `trl.rewards.get_soft_overlong_punishment(max_length, cache)`. Raises ConfigError for a share outside (0, 1] or a
    length below 1."""
    overlong_charges([], share, max_length)

    def soft_overlong(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **kwargs: Any
    ) -> list[float]:
        """Return one penalty per completion, from -1 to 0."""
        return overlong_charges([len(ids) for ids in completion_ids], share, max_length)

    return soft_overlong


def overlong_charges(lengths: Sequence[int], share: float, max_length: int) -> list[float]:
    """Return the penalties, from -1 to 0, of completions with these numbers of tokens."""
    if not (math.isfinite(share) and 0.0 < share <= 1.0):
        raise ConfigError(f"`share` ({share}) of soft_overlong must lie in (0, 1]; SGS uses 0.2.")
    if max_length < 1:
        raise ConfigError(f"`max_length` ({max_length}) of soft_overlong must be at least 1 token.")
    cache = max(1, round(share * max_length))
    return [-min(max(length - (max_length - cache), 0) / cache, 1.0) for length in lengths]


RewardFunc = Callable[..., Any]


def default_reward_funcs(
    name: str,
    length_penalty: float,
    soft_overlong: float,
    max_completion_length: int,
    length_penalty_floor: float | None = None,
) -> list[RewardFunc]:
    """Return the default reward functions: the verdict's score, logged under `name`; Allen and Ståblein's length
    penalty if its alpha is not 0; and SGS's soft overlong penalty if its share is not 0."""
    rewards: list[RewardFunc] = [make_verdict_reward(name)]
    if length_penalty:
        rewards.append(make_length_penalty(length_penalty, max_completion_length, length_penalty_floor))
    if soft_overlong:
        rewards.append(make_soft_overlong(soft_overlong, max_completion_length))
    return rewards


def checked_reward_funcs(reward_funcs: RewardFunc | list[RewardFunc], rules: Rules | None) -> list[Any]:
    """Wrap the functions so that any result but one finite number, or None, per row raises RewardError. Reward models
    (ids, modules) are unchanged; `countdown_reward` is rebuilt with the run's rules, because its default rules need
    answer tags. rules: None if the domain has none."""
    functions = list(reward_funcs) if isinstance(reward_funcs, list | tuple) else [reward_funcs]
    functions = [make_countdown_reward(rules) if f is countdown_reward and rules else f for f in functions]
    from torch.nn import Module  # the reward itself needs no torch

    return [_checked(f) if callable(f) and not isinstance(f, Module) else f for f in functions]


def _checked(function: RewardFunc) -> RewardFunc:
    """Wrap one function: infinite and NaN rewards, at which TRL fails later, raise RewardError; None is no reward."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        return _one_per_row(function, function(*args, **kwargs), kwargs)

    async def checked_async(*args: Any, **kwargs: Any) -> Any:
        return _one_per_row(function, await function(*args, **kwargs), kwargs)

    wrapper = checked_async if inspect.iscoroutinefunction(function) else checked
    functools.update_wrapper(wrapper, function)
    inner = getattr(function, "func", function)  # TRL logs the name, which a callable object lacks
    wrapper.__name__ = getattr(inner, "__name__", type(inner).__name__)
    return wrapper


def _one_per_row(function: RewardFunc, rewards: Any, given: dict[str, Any]) -> list[float | None]:
    """Return rewards as floats or None; numbers may be bools, NumPy or 0-dim tensors. Raises RewardError otherwise."""
    name = f"Reward function '{getattr(function, '__name__', type(function).__name__)}'"
    rule = f"one number per completion, finite and at most {LARGEST_REWARD:g} in size, or None for a row without one"
    if not hasattr(rewards, "__iter__") or isinstance(rewards, str | bytes | dict) or getattr(rewards, "ndim", 1) == 0:
        raise RewardError(f"{name} returned {_short(rewards)} for the whole batch; it must return {rule}.")
    values = [reward.item() if getattr(reward, "ndim", None) == 0 else reward for reward in rewards]
    rows = len(given["completions"]) if "completions" in given else len(values)
    if len(values) != rows:
        raise RewardError(f"{name} returned {len(values)} rewards for {rows} rows; it must return {rule}.")
    for row, reward in enumerate(values):
        if reward is not None and not (isinstance(reward, int | float) and abs(reward) <= LARGEST_REWARD):
            raise RewardError(f"{name} returned {_short(reward)} for row {row} of the batch; it must return {rule}.")
    return [None if reward is None else float(reward) for reward in values]


def _short(value: Any) -> str:
    shape = f" of shape {tuple(value.shape)}" if getattr(value, "shape", ()) else ""
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return f"{type(value).__name__}{shape}" if shape or len(text) > 40 else text
