"""Several provers on the same problems as one: the best of a pool's answers against as many of a single prover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..statistics.bootstrap import Estimate, share_interval
from ..statistics.pass_at_k import pass_at_k_array
from .roles import ProverEvaluation


def pooled(found: Sequence[ProverEvaluation], ks: Sequence[int] = (), resamples: int = 10_000) -> ProverEvaluation:
    """All provers' answers to each problem put together: n is their sum, and pass@k is that of k answers drawn from
    all of them, so that it compares with the pass@k of one prover at equal samples. One prover: itself.

    A setting in which the provers differ, such as their temperatures, is a list with an entry for each; the seed is
    the first one's. The interval of `score` has the mean of the provers' ends, which is not narrower than that of the
    mean.
    """
    if len(found) == 1:
        return found[0]
    correct = [sum(counts) for counts in zip(*(one.correct for one in found), strict=True)]
    n, count = sum(one.n for one in found), len(found)
    scores = [one.score for one in found]
    return replace(
        found[0],
        correct=correct,
        n=n,
        pass_at={k: share_interval(pass_at_k_array(correct, n, k), resamples, 0) for k in ks},
        score=Estimate(*(sum(getattr(s, end) for s in scores) / count for end in ("value", "low", "high"))),
        reasons=sum((one.reasons for one in found), Counter()),
        truncated_rate=sum(one.truncated_rate for one in found) / count,
        several_answers_rate=sum(one.several_answers_rate for one in found) / count,
        seconds=sum(one.seconds for one in found),
        setting={name: _of_all(name, [one.setting.get(name) for one in found]) for name in found[0].setting},
    )


def _of_all(name: str, values: list[Any]) -> Any:
    return values[0] if name == "seed" or all(value == values[0] for value in values) else values
