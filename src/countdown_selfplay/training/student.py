"""How much an inner update on a set of problems raises right answers to held-back ones (student progress)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ..config import Role
from ..contract.round import Turn
from ..objectives.base import Replay, checked_loss
from ..policies.optimization import bare
from .credit import merged, one_per_sample
from .learners import Learner
from .losses import RoleLoss
from .micro_batch import micro_batches
from .progress import moments, shifted
from .replay import AnswerBuffer, batch_of
from .rollouts import Rollouts, sampling_as
from .window import RoleBatch, credited, groups_of, trained_counts

HELD_BACK = Replay(rounds=None, per_problem=1, capacity=32)
"""Right answers that a player is measured on: one of a problem, the newest 32."""


def hold_back(rollouts: Rollouts, turn: Turn, held_B: torch.Tensor, round_: int, key: tuple[object, ...]) -> None:
    """Keep the right ones of `held_B` as answers to measure on, and mark all of them. Called by all processes."""
    turn.held_B = held_B = one_per_sample(turn.rollout, "held-back bits", held_B, torch.bool)
    role, correct_B = turn.rollout.role, turn.rollout.correct_B
    buffer = rollouts.learners[role].held_back if role in rollouts.learners else None
    if buffer is not None:
        right_B = held_B if correct_B is None else held_B & (correct_B > 0)
        batch = merged([replace(turn, selected_B=right_B)], rollouts.blank_row([turn.rollout]))
        buffer.take_in(batch, round_, key, rollouts.turns.processes)


def rise_of(rollouts: Rollouts, turn: Turn, size: int) -> torch.Tensor | None:
    """(P) per row of the rollout: mean log-prob of the held-back answers after an inner update less that before it, in
    nats. The update is what `size` rows, side by side, add to Adam's next step: their part of the turn's policy
    gradient, without the momentum of earlier steps, clip, KL, entropy bonus or supervised term. 0 for rows without
    credit; None as long as nothing is held back or the player has taken no step. Weights are bit for bit
    what they were."""
    role = turn.rollout.role
    learner, trained = rollouts.learners.get(role), bare(rollouts.trl.optimizer)
    held = None if learner is None or learner.held_back is None else learner.held_back.kept
    known = list(moments(trained, rollouts.engine.policies, role))
    if learner is None or not held or not known:
        return None
    batch = merged([turn], rollouts.blank_row([turn.rollout]))
    live, found_P = batch.take(credited(batch).nonzero().flatten()), torch.zeros(len(turn.rollout.rows))
    # The set's rows are all here, so the gradient is not averaged over processes and the counts are not either.
    counts = rollouts.turns.processes.total(trained_counts(live) if live.rows else [0.0, 0.0, 0.0])
    if not live.rows:
        return found_P
    measured, sets_B = batch_of(batch, [answer.rows for answer in held], False).tensors, groups_of(live) // size
    learner.loss.normalise_by(*counts)

    def mean_log_prob() -> float:
        logps = rollouts.log_probs(rollouts.engine.policies.module, measured)
        return float((logps.double() * measured["completion_mask"]).sum()) / len(held)

    with sampling_as(rollouts.engine, role):
        before = mean_log_prob()
        for own in sets_B.unique().tolist():
            rows, weights = live.take((sets_B == own).nonzero().flatten()), [weights for weights, *_ in known]
            gradients = zip(known, _gradients(rollouts, learner.loss, rows, weights), strict=True)
            moved = [(w, adam_step(group, state, g)) for (w, group, state), g in gradients if g is not None]
            with torch.no_grad(), shifted(moved, 1.0):
                found_P[own * size : (own + 1) * size] = mean_log_prob() - before
    return found_P


def adam_step(group: dict[str, Any], state: dict[str, Any], gradient: torch.Tensor) -> torch.Tensor:
    """What a gradient adds to the next step: -lr (1 - b1) g / (sqrt(b2 v + (1 - b2) g^2) + eps), both corrected for
    their start. Its own square bounds the step where earlier ones had no gradient."""
    (first, second), step = group["betas"], float(state["step"]) + 1
    square = (second * state["exp_avg_sq"] + (1 - second) * gradient**2) / (1 - second**step)
    moved: torch.Tensor = (1 - first) / (1 - first**step) * gradient / (square.sqrt() + group["eps"])
    return -float(group["lr"]) * moved


def _gradients(
    rollouts: Rollouts, loss: RoleLoss, rows: RoleBatch, weights: list[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Of the objective's loss on these rows, which were sampled by the present weights."""
    (batch,) = micro_batches({"": replace(rows, padding=0)}, {"": 1}, most=rows.rows + 1)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    with torch.enable_grad():
        module, length = rollouts.engine.policies.module, batch["completion_ids"].size(1)
        logps, *_ = rollouts.trl._get_per_token_logps_and_entropies(module, ids, mask, length)
        value = checked_loss(loss.objective, loss.inputs(logps, logps.detach(), None, batch)).loss
        return torch.autograd.grad(value, weights, allow_unused=True)


def keep_held_back(learners: Mapping[str, Learner], roles: Mapping[str, Role], kind: str) -> None:
    """Give the players of a kind a place for held-back answers."""
    for role, learner in learners.items():
        if roles[role].kind == kind:
            learner.held_back = AnswerBuffer(HELD_BACK, roles[role])
