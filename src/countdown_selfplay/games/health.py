"""Health of a round as numbers; docs/metrics.md explains each. A value that does not exist is left out, never 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..countdown import Verdict
from ..curriculum.admission import Admission, Candidate
from .base import GameSettings, Rollout, RoundContext


def conjecturer_health(
    ctx: RoundContext, candidates: list[Candidate], admission: Admission, reward_N: np.ndarray, kept: int
) -> dict[str, Any]:
    """Shares of all proposals of the round, over all processes."""
    total = len(candidates)
    keys = [ctx.domain.key(c.problem) for c in candidates if c.problem is not None]
    known = reward_N[~np.isnan(reward_N)]
    played = [index is not None and index < kept for index in admission.problem_of]
    metrics: dict[str, Any] = {
        "conjecturer/parseable_rate": len(keys) / total,
        "conjecturer/in_range_rate": sum(c.in_range for c in candidates) / total,
        "conjecturer/solvable_rate": sum(c.solvable for c in candidates) / total,
        "conjecturer/admitted_rate": sum(reason == "ok" for reason in admission.reasons) / total,
        "conjecturer/played_rate": sum(played) / total,
        "conjecturer/contamination_rate": sum(key in ctx.excluded for key in keys) / total,
    }
    if len(set(ctx.settings.operands)) > 1:
        for k in sorted({c.asked for c in candidates}):
            own = [got for got, c in zip(played, candidates, strict=True) if c.asked == k]
            metrics[f"conjecturer/played_rate_operands_{k}"] = sum(own) / len(own)
    if keys:
        metrics["conjecturer/unique_rate"] = len(set(keys)) / len(keys)
    if known.size:
        metrics["conjecturer/reward"] = float(known.mean())
        metrics["conjecturer/reward_std"] = float(known.std())
    return metrics


def solve_rate_health(solve_rate_P: np.ndarray, kept: int, rules: GameSettings) -> dict[str, Any]:
    """Solve rates of the conjectured problems (the first `kept` slots) and, apart from them, of the anchor
    problems."""
    conjectured, anchors = solve_rate_P[:kept], solve_rate_P[kept:]
    metrics: dict[str, Any] = {"round/anchor_slots": int(anchors.size)}
    if rules.proposals:
        metrics["round/conjectured_slots"] = int(kept)
    if conjectured.size:
        metrics["round/solve_rate_mean"] = float(conjectured.mean())
        metrics["round/solve_rate_std"] = float(conjectured.std())
        metrics["round/too_easy_share"] = float((conjectured >= rules.easy_above).mean())
        metrics["round/too_hard_share"] = float((conjectured < rules.hard_below).mean())
        tenths = np.rint(conjectured * 10).astype(int)
        metrics["round/solve_rate_histogram"] = np.bincount(tenths, minlength=11).tolist()
    if anchors.size:
        metrics["round/anchor_solve_rate_mean"] = float(anchors.mean())
    return metrics


def prover_health(
    ctx: RoundContext, answers: Rollout, verdicts: list[Verdict], advantages_B: torch.Tensor
) -> dict[str, Any]:
    """Of the prover's answers on all processes; three sums travel in one gather."""
    zero_groups = (advantages_B.reshape(-1, ctx.settings.prover_group) == 0).all(1)
    known = answers.rewards_B[~torch.isnan(answers.rewards_B)].double()
    sums = np.asarray(
        ctx.gather(
            [
                (
                    len(verdicts),
                    sum(v.correct for v in verdicts),
                    sum(v.n_answers > 1 for v in verdicts),
                    len(zero_groups),
                    int(zero_groups.sum()),
                    known.numel(),
                    float(known.sum()),
                    float((known**2).sum()),
                )
            ]
        )
    ).sum(0)
    total, correct, several, groups, zero, n, reward, square = (float(x) for x in sums)
    metrics: dict[str, Any] = {
        "prover/correct_rate": correct / total,
        "prover/several_answers_rate": several / total,
        "prover/zero_signal_groups": zero / groups,
    }
    if n:
        metrics["prover/reward"] = reward / n
        metrics["prover/reward_std"] = max(square / n - (reward / n) ** 2, 0.0) ** 0.5
    return metrics
