"""From a round's turns to rows: a player's turns as one batch, in which an episode is the rows of its moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..contract.episodes import Episodes
from ..contract.round import Rollout, Turn
from .window import RoleBatch, joined

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
            groups_B = torch.arange(count) // turn.group + first
            if isinstance(turn.rollout, Episodes):
                parts.append(_episode_rows(turn.rollout, turn, groups_B))
            else:
                parts.append(
                    RoleBatch(_kept(turn.rollout), turn.advantages_B, turn.selected_B, groups_B, turn.has_signal)
                )
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
