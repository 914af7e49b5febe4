"""From the metrics of rounds to one log entry. A metric that a round did not have is left out of the mean, never
counted as 0."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

HISTOGRAM = "round/solve_rate_histogram"


def averaged_rounds(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of every scalar metric over the rounds that have it. Histograms are not scalars: see
    summed_histogram."""
    names = dict.fromkeys(name for metrics in rounds for name in metrics if name != HISTOGRAM)
    means = {}
    for name in names:
        values = [float(metrics[name]) for metrics in rounds if metrics.get(name) is not None]
        if values:
            means[name] = math.fsum(values) / len(values)
    return means


def summed_histogram(rounds: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Counts per bin of solve rate over the rounds, or None if no round played a conjectured problem."""
    histograms = [metrics[HISTOGRAM] for metrics in rounds if HISTOGRAM in metrics]
    return [sum(counts) for counts in zip(*histograms, strict=True)] if histograms else None


def truncated_rows(
    ids_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    texts: Sequence[str],
    ends: Collection[int],
    stops: Sequence[str],
    limit: int,
) -> list[bool]:
    """Whether the token limit cut each completion:
    it has `limit` tokens, the last is not an end token, and no stop string is in the text.

    `mask_BT`: 1 on a completion's own tokens, which come first. TRL counts a row that ended on a stop string in its
    last column as cut, and its lengths hold the padding behind a stop string, so both are counted here.
    """
    lengths = mask_BT.sum(1).tolist()
    last = ids_BT.gather(1, (mask_BT.sum(1, keepdim=True) - 1).clamp(min=0).to(ids_BT.dtype)).squeeze(1).tolist()
    return [
        length >= limit and token not in ends and not any(stop in text for stop in stops)
        for length, token, text in zip(lengths, last, texts, strict=True)
    ]


def role_rollout_metrics(role: str, collected: Mapping[str, list[float]]) -> dict[str, float]:
    """Of TRL's metrics of a role's rollouts only `<role>/rewards/<function>`, for the prover.

    TRL's lengths and clipped share misread stop strings (truncated_rows). Its reward is `<role>/reward` here, from the
    same numbers, and the conjecturer's rewards are not known yet when TRL scores its proposals. TRL has a mean for
    each turn, which counts by the samples that the function scored in it (`rewards/<function>/count`).
    """
    logs = {}
    for name, means in collected.items():
        function = name.removesuffix("/mean")
        counts = collected.get(f"{function}/count", ())
        if role == "prover" and name.startswith("rewards/") and name != function and any(counts):
            turns = zip(reversed(means), reversed(counts), strict=False)  # a mean of an older checkpoint has none
            logs[f"{role}/{function}"] = math.fsum(mean * count for mean, count in turns if count) / sum(counts)
    return logs
