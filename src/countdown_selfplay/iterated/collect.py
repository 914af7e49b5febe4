"""Play rounds of a game for their samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..evaluation.sampled_round import CollectingRound, Player

__all__ = ["CollectingRound", "Player", "play"]


def play(game: Any, round: CollectingRound, problems: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(a row per sample of every turn, the game's metrics). What the token budget cut is left out: trained on, it
    would teach not to end. A row of a turn holds its problem's columns, from which the domain reads it."""
    result = game.play(round, problems)
    rows = []
    for number, turn in enumerate(result.turns):
        said = turn.rollout
        labels = turn.labels or [""] * len(said.texts)
        shown = turn.shown or [None] * len(said.texts)
        rewards = torch.as_tensor(turn.rewards_B).tolist()
        cut = round.truncated[id(said)]
        for i, text in enumerate(said.texts):
            if not cut[i]:
                asked = said.rows[i // said.n]
                rows.append(
                    {
                        "role": said.role,
                        "turn": number,
                        "prompt": asked["prompt"],
                        "completion": text,
                        "reward": rewards[i],
                        "label": labels[i],
                        "shown": shown[i],
                        "problem": round.domain.key(round.domain.problem(asked, i)),
                    }
                )
    return rows, result.metrics
