"""Learning progress: derivative of the log-probabilities of a player's answers along its optimizer step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..contract.episodes import Episodes
from ..contract.round import Rollout
from ..errors import ConfigError, GameError
from ..policies import PolicySet, inner_name
from ..policies.optimization import bare
from ..policies.shared_prefix import drops
from ..rewards.learning_progress import needs_progress
from .rollouts import Rollouts, in_float32, sampling_as

SHARE = 0.1
"""Step of the central difference, as a share of the movement: small for a derivative, large enough for float32."""

Movement = list[tuple[torch.Tensor, torch.Tensor]]
"""Pairs of a weight and its movement."""


@torch.no_grad()
def progress_along(rollouts: Rollouts, rollout: Rollout, weights_B: torch.Tensor | None = None) -> torch.Tensor | None:
    """Return <grad log pi(answer), u> of each right answer, (B), NaN for others; with `weights_B`, that of every
    answer times its weight. u is the player's `movement`. The result is None before the player's first optimizer step,
    and without verdicts unless `weights_B` is given. An episode has the sum over its moves."""
    role, right_B = rollout.role, rollout.correct_B if weights_B is None else (weights_B != 0).float()
    moved = movement(bare(rollouts.trl.optimizer), rollouts.engine.policies, role)
    if not moved or right_B is None:
        return None
    found_B = torch.full((len(rollout.texts),), torch.nan)
    found_B[right_B > 0 if weights_B is None else slice(None)] = 0.0
    parts = [(rollout, list(range(len(rollout.texts))))]
    if isinstance(rollout, Episodes):
        parts = list(zip(rollout.moves, rollout.episode_of, strict=True))
    for part, answers in parts:
        rows = [row for row, answer in enumerate(answers) if right_B[answer] > 0]
        if rows:
            rise = _rise(rollouts, role, {n: value[rows] for n, value in part.tensors.items()}, moved)
            found_B.index_add_(0, torch.tensor([answers[row] for row in rows]), rise)
    return found_B if weights_B is None else found_B * weights_B.to(found_B)


def _rise(rollouts: Rollouts, role: str, tensors: dict[str, torch.Tensor], moved: Movement) -> torch.Tensor:
    sums = []
    with in_float32(rollouts.engine), sampling_as(rollouts.engine, role):
        for share in (SHARE, -SHARE):
            with shifted(moved, share):
                logps = rollouts.log_probs(rollouts.engine.policies.module, tensors, together=False)
            sums.append((logps.double() * tensors["completion_mask"]).sum(1))
    return ((sums[0] - sums[1]) / (2 * SHARE)).float().cpu()


def check_scored_twice(policies: PolicySet, roles: Iterable[str], reward: object) -> None:
    """Raise ConfigError if `reward` needs learning progress (a difference of passes) and a model has dropout."""
    if not needs_progress(reward):
        return
    for role in roles:
        parts = dict(getattr(policies.module, "policies", {}))  # under LoRA all share one module
        if drops(parts.get(inner_name(policies.weights_of[role]), policies.module)):
            raise ConfigError(
                f"`conjecturer_reward` learning_progress is the difference of two passes of the {role}, whose model "
                "has dropout: it would be noise; set its dropout (such as lora_dropout) to 0, or set another reward."
            )


def movement(optimizer: Any, policies: PolicySet, role: str) -> Movement:
    """Return the step that Adam's moments imply for a player's weights: -lr m / (sqrt(v) + eps), bias-corrected,
    without weight decay; [] before the player's first step. Checkpoints hold the moments, so that a resumed run
    returns the same. Raises GameError for an optimizer without Adam's moments."""
    moves: Movement = []
    trained = {id(parameter) for _, parameter in policies.named_parameters(policies.weights_of[role])}
    for group in optimizer.param_groups:
        for weights in group["params"]:
            state = optimizer.state.get(weights)
            if id(weights) not in trained:
                continue
            if "betas" not in group or (state and not {"exp_avg", "exp_avg_sq"} <= state.keys()):
                raise GameError(
                    f"The conjecturer's reward follows Adam's moments, which {type(optimizer).__name__} does not "
                    "keep; pass torch.optim.AdamW, or set `optim` to adamw_torch or adamw_torch_fused."
                )
            if state:
                (first, second), step = group["betas"], float(state["step"])
                mean = state["exp_avg"] / (1 - first**step)
                scale = (state["exp_avg_sq"] / (1 - second**step)).sqrt() + group["eps"]
                moves.append((weights, -float(group["lr"]) * mean / scale))
    return moves


@contextmanager
def shifted(moved: Movement, share: float) -> Iterator[None]:
    """Shift the weights by `share` of the movement inside the block, and restore them after it."""
    kept = [weights.clone() for weights, _ in moved]
    for weights, step in moved:
        weights.add_(step, alpha=share)
    try:
        yield
    finally:
        for (weights, _), value in zip(moved, kept, strict=True):
            weights.copy_(value)
