"""The prover's reward: the verifier's score, as a reward callable for this trainer and for any other of TRL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...countdown import DEFAULT_RULES, Rules, problem_from_row, verify
from ...errors import DataError

_COLUMNS = ("numbers", "nums", "target", "ground_truth")


def make_countdown_reward(rules: Rules = DEFAULT_RULES) -> Callable[..., list[float]]:
    """A reward callable named "countdown_reward" that scores under `rules`."""

    def countdown_reward(
        completions: Sequence[Any],
        numbers: Sequence[Any] | None = None,
        target: Sequence[Any] | None = None,
        nums: Sequence[Any] | None = None,
        ground_truth: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> list[float]:
        """One score per completion: 1.0 correct, 0.1 well-formed but wrong, 0.0 without an answer, by default.

        completions: strings or lists of chat messages. The problem of each comes from the data set's columns `numbers`
        or `nums` with `target`, or `ground_truth`, as TRL passes them. Raises DataError if there is no such column or
        a row of it holds no problem.
        """
        given = dict(zip(_COLUMNS, (numbers, nums, target, ground_truth), strict=True))
        columns = {name: values for name, values in given.items() if values is not None}
        if not columns:
            raise DataError(
                "countdown_reward needs the columns `numbers` (or `nums`) and `target`, or `ground_truth`; the data "
                "set has none of them."
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
    """A reward callable that hands on the score of the domain's verdict, which the trainer passes as a column: nothing
    is verified twice. `name`: what it is logged under."""

    def verdict_reward(completions: Sequence[Any], verdict: Sequence[Any], **kwargs: Any) -> list[float]:
        return [float(v.score) for v in verdict]

    verdict_reward.__name__ = name
    return verdict_reward
