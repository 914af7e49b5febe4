"""From a role's rewards to its credit: what is selected, what each sample gets, whether there is any signal."""

from __future__ import annotations

import torch

from ..games.base import RoleBatch, Rollout, RoundContext
from ..objectives.base import checked_advantages, selected


def credit(
    ctx: RoundContext,
    rollout: Rollout,
    rewards_B: torch.Tensor,
    correct_B: torch.Tensor | None = None,
    mastered_B: torch.Tensor | None = None,
) -> RoleBatch:
    """Advantages over whole groups of this process. correct_B: the verifier's bits, None for a role that has none.
    mastered_B: samples of problems that the objective does not train on any more. Called by all processes."""
    objective = ctx.objectives[rollout.role]
    group = ctx.settings.prover_group if rollout.role == "prover" else ctx.settings.conjecturer_group
    if rollout.penalty_B is not None:
        rewards_B = rewards_B - rollout.penalty_B.to(rewards_B)
    rewards_PG = rewards_B.reshape(-1, group)
    correct_PG = None if correct_B is None else correct_B.reshape(-1, group).to(rewards_PG)
    advantages_PG = checked_advantages(objective, rollout.role, rewards_PG, correct_PG)
    selected_PG = selected(objective, rollout.role, rewards_PG, correct_PG)
    if mastered_B is not None:
        selected_PG = selected_PG & ~mastered_B.reshape(-1, group)
    advantages_PG = advantages_PG * selected_PG
    known = ~torch.isnan(rewards_PG)
    mine = (bool((advantages_PG != 0).any()), float(rewards_PG[known].double().sum()), int(known.sum()))
    signals, sums, counts = zip(*ctx.gather([mine]), strict=True)
    return RoleBatch(
        rollout,
        advantages_PG.reshape(-1),
        has_signal=any(signals),
        selected_B=None if bool(selected_PG.all()) else selected_PG.reshape(-1),
        group=group,
        mean_reward=sum(sums) / sum(counts) if sum(counts) else None,
    )
