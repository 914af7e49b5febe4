"""The exact verifier as a TRL reward function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..countdown import DEFAULT_RULES, Problem, Rules, verify
from ..errors import DataError


def make_countdown_reward(rules: Rules = DEFAULT_RULES) -> Callable[..., list[float]]:
    """A TRL reward callable under `rules`. It takes the columns `numbers` (or `nums`) and `target`, or `ground_truth`
    holding
    both, and returns one score per completion: 1.0 correct, 0.1 well-formed but wrong, 0.0 else, by default."""

    def countdown_reward(
        completions: Sequence[object],
        numbers: Sequence[Sequence[int]] | None = None,
        target: Sequence[int] | None = None,
        nums: Sequence[Sequence[int]] | None = None,
        ground_truth: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> list[float]:
        numbers = nums if numbers is None else numbers
        if numbers is None and ground_truth is not None:
            numbers = [row["numbers"] for row in ground_truth]
            target = [row["target"] for row in ground_truth]
        if numbers is None or target is None:
            given = ", ".join(sorted(kwargs)) or "none"
            raise DataError(
                "countdown_reward needs the columns `numbers` (or `nums`) and `target`, or `ground_truth`; the data "
                "set's "
                f"other columns are: {given}."
            )
        problems = (Problem(tuple(map(int, n)), int(t)) for n, t in zip(numbers, target, strict=True))
        return [verify(c, problem, rules).score for c, problem in zip(completions, problems, strict=True)]

    return countdown_reward


countdown_reward = make_countdown_reward()
