"""The table of `log_completions`: what each role wrote, with the run's own rewards and advantages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import _trl
from ..contract.round import Turn
from .host import Host


def completion_table(trainer: Host, turns: Mapping[str, Turn]) -> dict[str, Any]:
    """The round's completions of all processes in the form in which TRL prints and writes them. Called by all of them.

    TRL has filled in its own GRPO advantages, and 0 for proposals, whose rewards nobody knew by then. Here `reward` is
    what a sample earned (NaN: it was not measured) and `advantages` its credit; the reward functions' columns are
    those of judged samples alone. Of a role with several turns it holds the last one.
    """
    table = _trl.empty_logs({}, "")
    turns = {role: turn for role, turn in turns.items() if role in trainer.completion_logs}  # others: nothing sampled
    logs = {role: trainer.completion_logs[role] for role in turns}
    functions = list(dict.fromkeys(name for log in logs.values() for name in log["rewards"]))
    extras = list(dict.fromkeys(name for log in logs.values() for name in log["extra"]))
    for role, turn in turns.items():
        log = logs[role]
        rewards = trainer.processes.gather(_known(turn))
        advantages = trainer.processes.gather(turn.advantages_B.tolist())
        count = len(log["prompt"])
        if len(rewards) != count:
            continue
        table["prompt"] += log["prompt"]
        table["completion"] += log["completion"]
        table["advantages"] += advantages
        table["rewards"]["reward"] += rewards
        for name in functions:
            unscored = turn.rollout.verdicts is None or name not in log["rewards"]
            table["rewards"][name] += [math.nan] * count if unscored else log["rewards"][name]
        table["extra"]["role"] += [role] * count
        for name in extras:
            table["extra"][name] += log["extra"].get(name, [None] * count)
    return table


def _known(turn: Turn) -> list[float]:
    return [] if turn.rewards_B is None else turn.rewards_B.tolist()
