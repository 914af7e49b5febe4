"""The table of `log_completions`: what each role wrote, with the run's own rewards and advantages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import _trl
from ..games import RoleBatch

if TYPE_CHECKING:
    from .trainer import JointConjecturerProverTrainer


def completion_table(trainer: JointConjecturerProverTrainer, batches: Mapping[str, RoleBatch]) -> dict[str, Any]:
    """The round's completions of all processes in the form in which TRL prints and writes them. Called by all of them.

    TRL has filled in its own GRPO advantages, and 0 for proposals, whose rewards nobody knew by then. Here `reward` is
    what a sample earned (NaN: it was not measured) and `advantages` its credit; the reward functions' columns are the
    prover's alone. A role whose last turn was not the one that is credited (a game of one's own) is left out.
    """
    table = _trl.empty_logs({}, "")
    logs = {role: trainer.completion_logs[role] for role in batches}
    functions = list(dict.fromkeys(name for log in logs.values() for name in log["rewards"]))
    extras = list(dict.fromkeys(name for log in logs.values() for name in log["extra"]))
    for role, batch in batches.items():
        log = logs[role]
        rewards = trainer.processes.gather(batch.rollout.rewards_B.tolist())
        advantages = trainer.processes.gather(batch.advantages_B.tolist())
        count = len(log["prompt"])
        if len(rewards) != count:
            continue
        table["prompt"] += log["prompt"]
        table["completion"] += log["completion"]
        table["advantages"] += advantages
        table["rewards"]["reward"] += rewards
        for name in functions:
            unscored = role == "conjecturer" or name not in log["rewards"]
            table["rewards"][name] += [math.nan] * count if unscored else log["rewards"][name]
        table["extra"]["role"] += [role] * count
        for name in extras:
            table["extra"][name] += log["extra"].get(name, [None] * count)
    return table
