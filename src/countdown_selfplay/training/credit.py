"""Credit of a player's samples: selection and advantages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..contract.episodes import Episodes
from ..contract.round import Rollout, Turn
from ..errors import ConfigError, RewardError
from ..objectives.base import Objective, checked_advantages, selected


def credit(
    objective: Objective | None,
    gather: Callable[[list[Any]], list[Any]],
    rollout: Rollout,
    rewards_B: Any = None,
    correct_B: Any = None,
    kept_B: Any = None,
    group: int | None = None,
    overlong_B: Any = None,
    overlong_on: str = "all",
) -> Turn:
    """As `Round.credit`. objective: None for a player that is not trained. overlong_B: charges at most 0; where one is
    below, it stands in the place of what a sample earned: of its reward (and its bit) before the baseline, or of the
    credit of a selected sample, as the objective's `overlong_replaces` says. overlong_on: `correct` drops the charges
    of samples whose bit, or without bits whose reward, is not above 0. Called by all processes."""
    group = rollout.n if group is None else group
    count = len(rollout.texts)
    rewards_B = one_per_sample(rollout, "rewards", rollout.rewards_B if rewards_B is None else rewards_B, torch.float)
    correct_B = rollout.correct_B if correct_B is None else correct_B
    charged_B = rewards_B if rollout.penalty_B is None else rewards_B - rollout.penalty_B.to(rewards_B)
    if torch.isinf(charged_B).any():
        row = int(torch.isinf(charged_B).nonzero()[0])
        raise RewardError(
            f"The game's reward of the {rollout.role}'s sample {row} is {float(charged_B[row])}; a reward must be a "
            "finite number, or NaN for a sample that was not measured."
        )
    if count % group:
        raise ConfigError(
            f"The game credits {count} samples of the {rollout.role} in groups of {group}; pass a `group` that "
            "divides them."
        )
    if objective is None:
        return Turn(rollout, torch.zeros(count), rewards_B, group=group)
    needed = objective.needs_samples
    if group < needed:
        raise ConfigError(
            f"The {rollout.role}'s objective ({type(objective).__name__}) needs groups of at least {needed} samples, "
            f"and the game credits it in groups of {group}; sample more per row, pass credit(..., group=...), or use "
            "an objective without a baseline, such as reinforce or rest."
        )
    rewards_PG = charged_B.reshape(-1, group)
    correct_PG = None
    if correct_B is not None:
        correct_PG = one_per_sample(rollout, "correct", correct_B, torch.float).reshape(-1, group).to(rewards_PG)
    selected_PG = selected(objective, rollout.role, rewards_PG, correct_PG)
    earlier, charge_PG = objective.overlong_replaces == "reward", None
    if overlong_B is not None:
        charge_PG = one_per_sample(rollout, "charges", overlong_B, torch.float).reshape(-1, group).to(rewards_PG)
        if overlong_on == "correct":
            charge_PG = charge_PG * ((rewards_PG if correct_PG is None else correct_PG) > 0)
    if charge_PG is not None and earlier:
        rewards_PG = torch.where(charge_PG < 0, charge_PG, rewards_PG)
        correct_PG = None if correct_PG is None else torch.where(charge_PG < 0, charge_PG, correct_PG)
    advantages_PG = checked_advantages(objective, rollout.role, rewards_PG, correct_PG)
    if kept_B is not None:
        selected_PG = selected_PG & one_per_sample(rollout, "kept", kept_B, torch.bool).reshape(-1, group)
    if charge_PG is not None and not earlier:
        advantages_PG = torch.where(charge_PG < 0, charge_PG.to(advantages_PG), advantages_PG)
    advantages_PG = advantages_PG * selected_PG
    known = ~torch.isnan(rewards_PG)
    sums, counts = zip(*gather([(float(rewards_PG[known].double().sum()), int(known.sum()))]), strict=True)
    return Turn(
        rollout,
        advantages_PG.reshape(-1),
        rewards_B,
        selected_B=None if bool(selected_PG.all()) else selected_PG.reshape(-1),
        group=group,
        reward_sum=sum(sums),
        reward_count=sum(counts),
    )


def one_per_sample(rollout: Rollout, what: str, values: Any, dtype: torch.dtype) -> torch.Tensor:
    """(B) `values` of a game as `dtype`, also where this process has no sample; RewardError for another number."""
    found = torch.as_tensor(values).to(dtype)
    if found.shape != (len(rollout.texts),):
        raise RewardError(
            f"The game credits the {rollout.role} with {what} of shape {tuple(found.shape)} for "
            f"{len(rollout.texts)} samples; pass one per sample, in the order of rollout.texts."
        )
    return found


def token_counts(rollout: Rollout) -> list[int]:
    """(B) tokens of each sample; of an episode those of its longest move, for the bound of a length is a move's."""
    if not isinstance(rollout, Episodes):
        return list(rollout.tensors["completion_mask"].sum(1).tolist())
    found = [0] * len(rollout.texts)
    for move, own in zip(rollout.moves, rollout.episode_of, strict=True):
        for episode, count in zip(own, token_counts(move) if own else [], strict=True):
            found[episode] = max(found[episode], count)
    return found
