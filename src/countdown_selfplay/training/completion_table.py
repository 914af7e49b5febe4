"""The table of `log_completions`: what each role wrote, with the run's own rewards and advantages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .. import _trl
from ..contract.round import Rollout, Turn
from .host import Host


def completion_table(
    trainer: Host,
    turns: Sequence[Turn],
    rollouts: Mapping[str, Sequence[Rollout]],
    episode_logs: Mapping[int, dict[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The round's completions of all processes in the form in which TRL prints and writes them, role by role and turn
    by turn. `rollouts`: what each role sampled, in the order of `trainer.completion_logs`. `episode_logs`: what was
    logged of episodes, which are a row each, by identity. Called by all processes.

    TRL has filled in its own GRPO advantages, and 0 for proposals, whose rewards nobody knew by then. Here `reward` is
    what a sample earned (NaN: it was not measured) and `advantages` its credit; the reward functions' columns are
    those of judged samples alone. Samples that fill up a process's part of a turn are left out.
    """
    table = _trl.empty_logs()
    order = list(trainer.roles)
    sampled = [(turn, log) for turn in turns if (log := _log_of(trainer, turn, rollouts, episode_logs))]
    sampled.sort(key=lambda pair: order.index(pair[0].rollout.role))
    functions = list(dict.fromkeys(name for _, log in sampled for name in log["rewards"]))
    extras = list(dict.fromkeys(name for _, log in sampled for name in log["extra"]))
    for turn, log in sampled:
        counts = trainer.processes.gather([len(turn.rollout.texts)])
        own = len(log["prompt"]) // len(counts)  # rows of each process in the log
        rows = [rank * own + i for rank, count in enumerate(counts) for i in range(count)]
        table["rewards"]["reward"] += trainer.processes.gather(_known(turn))
        table["advantages"] += trainer.processes.gather(turn.advantages_B.tolist())
        table["extra"]["role"] += [turn.rollout.role] * len(rows)
        judged = {} if turn.rollout.verdicts is None else log["rewards"]
        columns = [(table[name], log[name]) for name in ("prompt", "completion")]
        columns += [(table["rewards"][name], judged.get(name, [math.nan] * len(log["prompt"]))) for name in functions]
        columns += [(table["extra"][name], log["extra"].get(name, [None] * len(log["prompt"]))) for name in extras]
        for column, values in columns:
            column += [values[row] for row in rows]
    return table


def _log_of(
    trainer: Host,
    turn: Turn,
    rollouts: Mapping[str, Sequence[Rollout]],
    episode_logs: Mapping[int, dict[str, Any]],
) -> dict[str, Any] | None:
    """What TRL collected while the turn was sampled; None if no process had a row."""
    role = turn.rollout.role
    if id(turn.rollout) in episode_logs:
        log = episode_logs[id(turn.rollout)]
        return log if log["prompt"] else None
    logs = zip(rollouts.get(role, ()), trainer.completion_logs[role], strict=True)
    return next((log for rollout, log in logs if rollout is turn.rollout), None)


def _known(turn: Turn) -> list[float]:
    return [math.nan] * len(turn.rollout.texts) if turn.rewards_B is None else turn.rewards_B.tolist()
