"""pass@k rung by rung, and the score of the whole ladder, for domains whose problems come in rungs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..statistics.bootstrap import SHARE, Estimate, ends, resampled_means, share_interval
from ..statistics.pass_at_k import pass_at_k_array

LADDER = tuple(range(4, 11))
"""The rungs whose mean is the score of the ladder: Countdown's from 4 to 10 numbers, by which issues compare arms."""


def rungs_of(domain: Any, problems: Sequence[Any]) -> list[int] | None:
    """The rung of each problem; None for a domain without rungs, and where all problems are of one."""
    rung = getattr(domain, "rung", None)
    found = None if rung is None else [int(rung(problem)) for problem in problems]
    return found if found is not None and len(set(found)) > 1 else None


def by_rung(
    correct: Sequence[int], rungs: Sequence[int], n: int, ks: Sequence[int], resamples: int = 10_000, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Plain JSON values by rung, ascending: {"problems", "n", "correct", "pass_at"}. correct: right answers to each
    problem, of `n`; those of a rung in the problems' order. pass_at: with the intervals of `share_interval`."""
    found = {}
    for rung in sorted(set(rungs)):
        own = [count for count, one in zip(correct, rungs, strict=True) if one == rung]
        pass_at = {str(k): share_interval(pass_at_k_array(own, n, k), resamples, seed).to_dict() for k in ks}
        found[str(rung)] = {"problems": len(own), "n": n, "correct": own, "pass_at": pass_at}
    return found


def ladder(
    figures: Mapping[str, Mapping[str, Any]],
    ks: Sequence[int],
    rungs: Sequence[int] = LADDER,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Any] | None:
    """The mean over those of `rungs` that `by_rung` has figures of, each rung with equal weight: {"rungs", "pass_at"};
    None without any. The interval resamples the problems within each rung (a stratified bootstrap)."""
    known = [rung for rung in rungs if str(rung) in figures]
    if not known:
        return None
    pass_at = {}
    for k in ks:
        values = [pass_at_k_array(figures[str(rung)]["correct"], figures[str(rung)]["n"], k) for rung in known]
        pass_at[str(k)] = stratified(values, resamples, seed).to_dict()
    return {"rungs": known, "pass_at": pass_at}


def stratified(groups: Sequence[np.ndarray], resamples: int, seed: int) -> Estimate:
    """The mean of the groups' means with a percentile interval; where all resamples are alike as `alike_ends`."""
    drawn = [resampled_means(group, resamples, seed + i) for i, group in enumerate(groups)]
    value = float(np.mean([group.mean() for group in groups]))
    size = sum(map(len, groups))
    low, high = ends(np.full(size, value), np.mean(drawn, 0), 0.95, "percentile", SHARE)
    return Estimate(value, low, high)


def held_out_by_rung(domain: Any, rungs: Sequence[int] | None, each: int) -> list[Any]:
    """`each` held-out problems of each of `rungs` (None: all that the domain has), rung by rung. ConfigError for a
    rung that it does not have."""
    if not callable(getattr(domain, "held_out_of_rung", None)):
        raise ConfigError(
            f"The domain '{type(domain).__name__}' has no problems by rung (`held_out_of_rung`); leave `--rungs` and "
            "`--problems_per_rung` out."
        )
    known = list(domain.rungs)
    asked = known if rungs is None else list(dict.fromkeys(rungs))
    for rung in asked:
        if rung not in known:
            raise ConfigError(
                f"`--rungs` has {rung}, and the rungs of this domain are {', '.join(map(str, known))}; leave it out, "
                "or widen the problems (Countdown: --operands)."
            )
    return [problem for rung in asked for problem in domain.held_out_of_rung(each, rung)]
