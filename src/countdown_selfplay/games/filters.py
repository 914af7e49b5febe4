"""What of a round is trained on, by solve rate: data filters beside rewards (Multimodal LLM Self-Play, algorithm 1,
steps 4 to 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..contract.game import Outcome, Proposal, solve_rates

Frontier = tuple[float, float]
"""Solve rates, ends included."""


def frontier_of(low: float | None, high: float | None) -> Frontier | None:
    """The fields `frontier_low` and `frontier_high`; None if neither is set."""
    if low is None and high is None:
        return None
    return (0.0 if low is None else low, 1.0 if high is None else high)


def in_frontier(frontier: Frontier, problem_of: Sequence[int | None], solve_rate_P: np.ndarray) -> np.ndarray:
    """(N) bools: the proposals that were played and whose solve rate lies in the frontier."""
    low, high = frontier
    return np.array([i is not None and low <= solve_rate_P[i] <= high for i in problem_of], dtype=bool)


def frontier_share(proposals: Sequence[Proposal], played: Sequence[bool], inside_N: np.ndarray) -> dict[str, float]:
    """The share of the frontier among the played problems that players wrote; {} without any."""
    written = [bool(inside) for p, got, inside in zip(proposals, played, inside_N, strict=True) if got and p.by]
    return {"round/frontier_share": sum(written) / len(written)} if written else {}


def wanted_answers(
    trains_on: str, frontier: Frontier | None, solve_rate_P: np.ndarray, correct_MPG: np.ndarray
) -> list[bool] | None:
    """(P) bools: the problems whose answers provers may be trained on. all: None; nontrivial: neither none nor all
    answers of all provers are right, whatever the solve rate is a share of; frontier: the solve rate lies in it."""
    if trains_on == "nontrivial":
        rate_P = solve_rates(correct_MPG)
        return ((rate_P > 0) & (rate_P < 1)).tolist()
    if trains_on == "frontier" and frontier is not None:
        return ((solve_rate_P >= frontier[0]) & (solve_rate_P <= frontier[1])).tolist()
    return None


def is_starved(proposals: Sequence[Proposal], played: Sequence[bool]) -> bool:
    """Was no problem played that a player wrote (where no player writes: none at all)? Problems that a rule adds for
    the provers' sake feed no conjecturer."""
    wrote = any(p.by is not None for p in proposals)
    return not any(got and (p.by is not None or not wrote) for got, p in zip(played, proposals, strict=True))


def unsolvable_share(domain: Any, proposals: Sequence[Proposal], played: Sequence[bool]) -> dict[str, float]:
    """Of the proposals that were played, the share without a solution; {} where none such may be played. Problems that
    a rule adds to those of players, all of them solvable, are not counted."""
    wrote = any(p.by is not None for p in proposals)
    facts = [p.facts for p, got in zip(proposals, played, strict=True) if got and (p.by is not None or not wrote)]
    if not facts or not domain.admit_unsolvable:
        return {}
    unsolvable = [f.get("solvable") is False and not f.get("repaired") for f in facts]
    return {"round/unsolvable_share": sum(unsolvable) / len(unsolvable)}


def shuffled(outcome: Outcome, seed: int) -> Outcome:
    """The placebo of a trained conjecturer, from which nothing can be learned: the outcome with the rewards permuted
    among the proposals that have one, refused ones with an invalid reward included; NaN stays where it is.
    `trainable_N` moves along, for it tells of the solve rate as a reward does."""
    known = np.flatnonzero(~np.isnan(outcome.rewards_N))
    drawn = known[np.random.default_rng(seed).permutation(len(known))]
    rewards_N = np.array(outcome.rewards_N, dtype=float)
    rewards_N[known] = rewards_N[drawn]
    trainable_N = outcome.trainable_N
    if trainable_N is not None:
        trainable_N = trainable_N.copy()
        trainable_N[known] = trainable_N[drawn]
    return replace(outcome, rewards_N=rewards_N, trainable_N=trainable_N)
