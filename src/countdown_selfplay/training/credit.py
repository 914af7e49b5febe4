"""Credit of a player's samples (selection, advantages, signal), and a player's turns of a round as one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..contract.episodes import Episodes
from ..contract.round import Rollout, Turn
from ..errors import ConfigError, RewardError
from ..objectives.base import Objective, checked_advantages, selected
from .window import RoleBatch, joined


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
        return Turn(rollout, torch.zeros(count), rewards_B, has_signal=False, group=group)
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
    mine = (bool((advantages_PG != 0).any()), float(rewards_PG[known].double().sum()), int(known.sum()))
    signals, sums, counts = zip(*gather([mine]), strict=True)
    return Turn(
        rollout,
        advantages_PG.reshape(-1),
        rewards_B,
        selected_B=None if bool(selected_PG.all()) else selected_PG.reshape(-1),
        has_signal=any(signals),
        group=group,
        reward_sum=sum(sums),
        reward_count=sum(counts),
    )


def mark_imitated(rollout: Rollout, imitate_B: Any, gather: Callable[[list[Any]], list[Any]]) -> bool:
    """Give the rollout `sft_mask`, the tokens of the supervised term; whether any process has one. Called by all
    processes."""
    chosen_B = one_per_sample(rollout, "imitated", imitate_B, torch.bool)
    if rollout.texts:
        mask = rollout.tensors["completion_mask"]
        rollout.tensors["sft_mask"] = mask * chosen_B.to(mask.device)[:, None].to(mask.dtype)
    return any(gather([bool(chosen_B.any())]))


def one_per_sample(rollout: Rollout, what: str, values: Any, dtype: torch.dtype) -> torch.Tensor:
    """(B) `values` of a game as `dtype`, also where this process has no sample; RewardError for another number."""
    found = torch.as_tensor(values).to(dtype)
    if found.shape != (len(rollout.texts),):
        raise RewardError(
            f"The game credits the {rollout.role} with {what} of shape {tuple(found.shape)} for "
            f"{len(rollout.texts)} samples; pass one per sample, in the order of rollout.texts."
        )
    return found


_KEPT = (
    "prompt_ids",
    "prompt_mask",
    "completion_ids",
    "completion_mask",
    "old_per_token_logps",
    "sampling_per_token_logps",
    "ref_per_token_logps",
    "sft_mask",
)


def merged(turns: Sequence[Turn], blank: dict[str, torch.Tensor]) -> RoleBatch:
    """A player's turns as one batch; without a sample of its own one row of `blank`, which is not selected."""
    parts, first = [], 0
    for turn in turns:
        count = turn.advantages_B.size(0)
        if count:
            rollout, groups_B = turn.rollout, torch.arange(count) // turn.group + first
            if isinstance(rollout, Episodes):
                parts.append(_episode_rows(rollout, turn, groups_B))
            else:
                tensors = _kept(rollout)
                parts.append(RoleBatch(tensors, turn.advantages_B, turn.selected_B, groups_B, turn.has_signal))
            first = int(groups_B[-1]) + 1
    if not parts:
        nothing = torch.zeros(1, dtype=torch.bool)
        batch = RoleBatch(blank, torch.zeros(1), nothing, torch.zeros(1, dtype=torch.long))
    else:
        batch = parts[0] if len(parts) == 1 else joined(parts)
    # Of all turns: where this process has no row of a role, others may have some, and all must step or hold together.
    batch.has_signal = any(turn.has_signal for turn in turns)
    return batch


def _kept(rollout: Rollout) -> dict[str, torch.Tensor]:
    return {name: rollout.tensors[name] for name in _KEPT if name in rollout.tensors}


def _episode_rows(episodes: Episodes, turn: Turn, group_B: torch.Tensor) -> RoleBatch:
    """A row per move: it has the credit, the selection and the group of its episode. The moves of an episode are side
    by side, in their order."""
    parts, of = [], []
    for rollout, own in zip(episodes.moves, episodes.episode_of, strict=True):
        if own:
            places = torch.tensor(own, dtype=torch.long)
            selected_B = None if turn.selected_B is None else turn.selected_B[places]
            parts.append(RoleBatch(_kept(rollout), turn.advantages_B[places], selected_B, group_B[places]))
            of.append(places)
    sequence_B = torch.cat(of)
    rows = replace(joined(parts), has_signal=turn.has_signal, sequence_B=sequence_B)
    return rows.take(torch.argsort(sequence_B, stable=True))


def token_counts(rollout: Rollout) -> list[int]:
    """(B) tokens of each sample; of an episode those of its longest move, for the bound of a length is a move's."""
    if not isinstance(rollout, Episodes):
        return list(rollout.tensors["completion_mask"].sum(1).tolist())
    found = [0] * len(rollout.texts)
    for move, own in zip(rollout.moves, rollout.episode_of, strict=True):
        for episode, count in zip(own, token_counts(move) if own else [], strict=True):
            found[episode] = max(found[episode], count)
    return found
