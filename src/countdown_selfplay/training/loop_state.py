"""What the training loop holds between two rounds beside weights and curriculum: the rounds that no log covers yet,
and what a stream has given. Part of a checkpoint, so that the logs after a resume are those of the straight run."""

from __future__ import annotations

import math
from typing import Any

from .host import Host


def start_rounds(trainer: Host) -> None:
    """Forget everything between two rounds that neither the Trainer nor a checkpoint restores."""
    trainer._step = 0
    trainer._round = None
    trainer.round_metrics, trainer.round_samples = [], []
    for modes in _collected(trainer).values():
        modes["train"].clear()
    for loss in trainer.losses.values():
        loss.pop_sums()
        loss.pop_maxima()


def loop_state(trainer: Host) -> dict[str, Any]:
    """Plain JSON. Called by all processes: each has a sum of losses of its own."""
    loss, logged_at = _unlogged_loss(trainer)
    marks, done = trainer.anchor_stream.marks if trainer.anchor_stream else [], trainer.frame.rounds
    return {
        "round_metrics": trainer.round_metrics,
        "collected": {role: modes["train"] for role, modes in _collected(trainer).items()},
        "losses": trainer.processes.gather([loss]),
        "logged_at": logged_at,
        "stream": marks[done] if done < len(marks) else None,  # fewer were drawn under ignore_data_skip
    }


def restore_loop(trainer: Host, state: dict[str, Any]) -> None:
    """After the Trainer has set up its loop and before the first round."""
    trainer.round_metrics = list(state["round_metrics"])
    for role, modes in _collected(trainer).items():
        for name, values in state["collected"][role].items():
            modes["train"][name] += values
    losses = state["losses"]
    own, mean = losses[trainer.processes.rank], math.fsum(losses) / len(losses)
    _restore_unlogged_loss(trainer, own, mean, state["logged_at"])
    if trainer.anchor_stream is not None and state["stream"] is not None:
        trainer.anchor_stream.expected = (trainer.frame.rounds, state["stream"])


def _collected(trainer: Host) -> dict[str, Any]:
    """What TRL collects until it logs: of each role's rollouts, and of the round (times)."""
    return {**trainer._role_metrics, "round": trainer._metrics}


def _unlogged_loss(trainer: Host) -> tuple[float, int]:
    """The Trainer's sum of losses since its last log, on this process, and the step of that log."""
    return float(trainer._tr_loss), trainer._globalstep_last_logged


def _restore_unlogged_loss(trainer: Host, own: float, mean: float, logged_at: int) -> None:
    """Put back what `_unlogged_loss` returned, once the Trainer has zeroed both. `mean`: over the processes; taken off
    the total, for `train_loss` is that of the rounds played since the resume."""
    trainer._tr_loss += own
    trainer._total_loss_scalar -= mean
    trainer._globalstep_last_logged = logged_at
