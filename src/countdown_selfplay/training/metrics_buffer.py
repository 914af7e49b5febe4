"""Counters of a run, and the metrics of its rounds since the last log."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trl import GRPOTrainer

from ..distributed.processes import Processes

HISTOGRAM = "round/solve_rate_histogram"


@dataclass
class RunCounts:
    """Counters of a run, for every game: rounds, attempts, turns, generated samples. Equal on all processes."""

    rounds: int = 0
    attempt: int = 0
    """Number of rollbacks, part of every seed, so that a rolled-back run draws other samples."""
    samples: dict[str, int] = field(default_factory=dict)
    """Completions generated, by player."""
    tokens: dict[str, int] = field(default_factory=dict)
    """Completion tokens generated, by player."""
    turn: int = field(default=0, compare=False)
    """Number of turns begun in the current round, over all players."""
    move: int = field(default=0, compare=False)
    """Number of earlier moves in the current turn, if answers are episodes."""

    def key(self) -> tuple[int, ...]:
        """Return the changing part of a sampling seed: rollbacks, rounds, turn and, after the first move, the move."""
        return (self.attempt, self.rounds, self.turn, *([self.move] if self.move else []))

    @property
    def generations(self) -> int:
        return sum(self.samples.values())

    def count(self, player: str, samples: int, tokens: int) -> None:
        self.samples[player] = self.samples.get(player, 0) + samples
        self.tokens[player] = self.tokens.get(player, 0) + tokens

    def spent(self) -> dict[str, dict[str, int]]:
        """Return the numbers of samples and tokens generated so far, by player. A rollback keeps these counts."""
        return {"samples": dict(self.samples), "tokens": dict(self.tokens)}

    def keep_spent(self, spent: Mapping[str, Mapping[str, int]]) -> None:
        """Raise each count to its value in `spent`, which was recorded at a rollback, if the count is lower."""
        for totals, counts in ((self.samples, spent.get("samples", {})), (self.tokens, spent.get("tokens", {}))):
            totals.update({player: max(totals.get(player, 0), count) for player, count in counts.items()})

    def state_dict(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "attempt": self.attempt, **self.spent()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rounds, self.attempt = state["rounds"], state["attempt"]
        self.samples, self.tokens = dict(state["samples"]), dict(state["tokens"])


class MetricsBuffer:
    """Metrics of the rounds since the last log, and samples of the last round. The buffer's state is part of a
    checkpoint, so that the logs after a resume equal those of an uninterrupted run."""

    def __init__(self, trl: GRPOTrainer, roles: Iterable[str], processes: Processes) -> None:
        """Start with no metrics. `trl`: trainer whose _trl.LOSS_SINCE_LOG are saved and restored."""
        self.trl: Any = trl
        self.processes = processes
        self.rounds: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []  # of the last round, for samples.jsonl
        self.histogram: list[int] | None = None  # counts per bin of solve rate over the rounds of the last log
        self.collected: dict[str, Any] = {role: {m: defaultdict(list) for m in ("train", "eval")} for role in roles}
        """Metrics that TRL collects until it logs, by role; "round": those without a role, such as times."""

    def record(self, name: str, value: float) -> None:
        """Record a value of the current round, which TRL averages at the next log."""
        self.collected["round"]["train"][name].append(value)

    def take(self) -> dict[str, float]:
        """Return the log entry of the rounds since the last log, and begin a new one."""
        averages = averaged_rounds(self.rounds)
        histograms = [metrics[HISTOGRAM] for metrics in self.rounds if HISTOGRAM in metrics]
        self.histogram = [sum(counts) for counts in zip(*histograms, strict=True)] if histograms else None
        for role, modes in self.collected.items():
            if role != "round":
                averages.update(role_rollout_metrics(role, modes["train"]))
                modes["train"].clear()
        self.rounds = []
        return averages

    def clear(self) -> None:
        self.rounds, self.samples = [], []
        for modes in self.collected.values():
            modes["train"].clear()

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON. All processes call it, because the sums of losses differ between them."""
        return {
            "round_metrics": self.rounds,
            "collected": {role: modes["train"] for role, modes in self.collected.items()},
            "losses": self.processes.gather([float(self.trl._tr_loss)]),
            "logged_at": self.trl._globalstep_last_logged,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state, after the Trainer has set its sums to 0 and before the first round."""
        self.rounds = list(state["round_metrics"])
        for role, modes in self.collected.items():
            for name, values in state["collected"][role].items():
                modes["train"][name] += values
        losses = state["losses"]
        self.trl._tr_loss += losses[self.processes.rank]
        # Removed from the total, so that `train_loss` covers the rounds since the resume.
        self.trl._total_loss_scalar -= math.fsum(losses) / len(losses)
        self.trl._globalstep_last_logged = state["logged_at"]


_COUNT = re.compile(r"round/.+_(proposed|played)")


def averaged_rounds(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each scalar metric over the rounds that have a value of it. Only the counts
    `round/<axis>_<value>_proposed` and `round/<axis>_<value>_played` are averaged over all rounds, with 0 for a
    missing count."""
    values: dict[str, list[float]] = {}
    for metrics in rounds:
        for name, value in metrics.items():
            if name != HISTOGRAM and value is not None:
                values.setdefault(name, []).append(float(value))
    return {
        name: math.fsum(entries) / (len(rounds) if _COUNT.fullmatch(name) else len(entries))
        for name, entries in values.items()
    }


def role_rollout_metrics(role: str, collected: Mapping[str, list[float]]) -> dict[str, float]:
    """Return `prover/rewards/<function>` from TRL's metrics of the prover's rollouts, {} for other roles. Means of
    several turns are weighted by the samples that each function scored (`rewards/<function>/count`). TRL's lengths are
    left out, because they misread stop strings (`truncated_rows` in round.py)."""
    logs = {}
    for name, means in collected.items():
        function = name.removesuffix("/mean")
        counts = collected.get(f"{function}/count", ())
        if role == "prover" and name.startswith("rewards/") and name != function and any(counts):
            turns = zip(means, counts, strict=True)
            logs[f"{role}/{function}"] = math.fsum(mean * count for mean, count in turns if count) / sum(counts)
    return logs
