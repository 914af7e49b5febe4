"""Counts of a run, the metrics of its rounds since the last log, and what a checkpoint keeps of both."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from trl import GRPOTrainer

from ..distributed.processes import Processes

HISTOGRAM = "round/solve_rate_histogram"


@dataclass
class Frame:
    """Counts of a run for every game: rounds, attempts, turns, generated samples. Equal on all processes."""

    rounds: int = 0
    """Rounds played."""
    attempt: int = 0
    """Rollbacks so far: part of every seed, so that a rolled-back run does not repeat the samples that led to the
    collapse."""
    samples: dict[str, int] = field(default_factory=dict)
    """Completions generated, by player."""
    tokens: dict[str, int] = field(default_factory=dict)
    """Completion tokens generated, by player."""

    turn: int = field(default=0, compare=False)
    """Turns of the round at hand that have begun, of all players; between two rounds of no meaning."""
    move: int = field(default=0, compare=False)
    """Moves of the turn at hand that were played before, where answers are episodes."""

    def key(self) -> tuple[int, ...]:
        """Tells a sample's turn and move from all others of the run, beside its player and process: part of its seed.
        The first move has the key of an answer that is written at once."""
        return (self.attempt, self.rounds, self.turn, *([self.move] if self.move else []))

    @property
    def generations(self) -> int:
        return sum(self.samples.values())

    def count(self, player: str, samples: int, tokens: int) -> None:
        self.samples[player] = self.samples.get(player, 0) + samples
        self.tokens[player] = self.tokens.get(player, 0) + tokens

    def spent(self) -> dict[str, dict[str, int]]:
        """Generated samples and tokens so far. A rollback takes back the learning, not the cost."""
        return {"samples": dict(self.samples), "tokens": dict(self.tokens)}

    def keep_spent(self, spent: Mapping[str, Mapping[str, int]]) -> None:
        """After a rollback: the counts of before, which are at least those of the checkpoint."""
        for totals, counts in ((self.samples, spent.get("samples", {})), (self.tokens, spent.get("tokens", {}))):
            totals.update({player: max(totals.get(player, 0), count) for player, count in counts.items()})

    def state_dict(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "attempt": self.attempt, **self.spent()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rounds, self.attempt = state["rounds"], state["attempt"]
        self.samples, self.tokens = dict(state["samples"]), dict(state["tokens"])


class Book:
    """Metrics of the rounds since the last log, and samples of the last round. Its state, part of a checkpoint, is
    what lies between two rounds beside weights and curriculum, so that the logs after a resume are those of the
    straight run."""

    def __init__(self, trl: GRPOTrainer, roles: Iterable[str], processes: Processes) -> None:
        """`trl`: for its counters of a loop (_trl.LOSS_SINCE_LOG)."""
        self.trl: Any = trl
        self.processes = processes
        self.rounds: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        """Of the last round, for samples.jsonl."""
        self.histogram: list[int] | None = None
        """Of the last log."""
        modes = ("train", "eval")
        self.collected: dict[str, Any] = {role: {mode: defaultdict(list) for mode in modes} for role in roles}
        """Metrics that TRL collects until it logs, by role of the rollouts; "round", the trainer's own dict: those of
        no role, such as times."""

    def record(self, name: str, value: float) -> None:
        """A value of the round at hand that TRL averages at the next log."""
        self.collected["round"]["train"][name].append(value)

    def add(self, metrics: dict[str, Any], samples: list[dict[str, Any]]) -> None:
        """A round that was played."""
        self.rounds.append(metrics)
        self.samples = samples

    def take(self) -> dict[str, float]:
        """One log entry of the rounds since the last log, which begin again."""
        averages, self.histogram = averaged_rounds(self.rounds), summed_histogram(self.rounds)
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
        """Plain JSON. Called by all processes: the sum of losses differs between them."""
        return {
            "round_metrics": self.rounds,
            "collected": {role: modes["train"] for role, modes in self.collected.items()},
            "losses": self.processes.gather([float(self.trl._tr_loss)]),
            "logged_at": self.trl._globalstep_last_logged,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """After the Trainer has set up its loop, which zeroes its sums, and before the first round."""
        self.rounds = list(state["round_metrics"])
        for role, modes in self.collected.items():
            for name, values in state["collected"][role].items():
                modes["train"][name] += values
        losses = state["losses"]
        self.trl._tr_loss += losses[self.processes.rank]
        # Off the total: `train_loss` is that of the rounds played since the resume.
        self.trl._total_loss_scalar -= math.fsum(losses) / len(losses)
        self.trl._globalstep_last_logged = state["logged_at"]


def averaged_rounds(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of every scalar metric over the rounds that have it: one that a round did not have is left out of the
    mean, never counted as 0. Histograms are not scalars: see summed_histogram."""
    names = dict.fromkeys(name for metrics in rounds for name in metrics if name != HISTOGRAM)
    values = {name: [float(metrics[name]) for metrics in rounds if metrics.get(name) is not None] for name in names}
    return {name: math.fsum(entries) / len(entries) for name, entries in values.items() if entries}


def summed_histogram(rounds: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Counts per bin of solve rate over the rounds, or None if no round played a conjectured problem."""
    histograms = [metrics[HISTOGRAM] for metrics in rounds if HISTOGRAM in metrics]
    return [sum(counts) for counts in zip(*histograms, strict=True)] if histograms else None


def truncated_rows(
    ids_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    texts: Sequence[str],
    ends: Collection[int],
    stops: Sequence[str],
    limit: int,
) -> list[bool]:
    """Whether the token limit cut each completion: it has `limit` tokens, the last is not an end token, and no stop
    string is in the text. `mask_BT`: 1 on a completion's own tokens, which come first. TRL counts a row that ended on
    a stop string in its last column as cut, and its lengths hold the padding behind a stop string, so both are counted
    here."""
    lengths = mask_BT.sum(1).tolist()
    last = ids_BT.gather(1, (mask_BT.sum(1, keepdim=True) - 1).clamp(min=0).to(ids_BT.dtype)).squeeze(1).tolist()
    return [
        length >= limit and token not in ends and not any(stop in text for stop in stops)
        for length, token, text in zip(lengths, last, texts, strict=True)
    ]


def role_rollout_metrics(role: str, collected: Mapping[str, list[float]]) -> dict[str, float]:
    """Of TRL's metrics of a role's rollouts only `<role>/rewards/<function>`, for the prover. TRL's lengths and
    clipped share misread stop strings (truncated_rows). Its reward is `<role>/reward` here, from the same numbers, and
    the conjecturer's rewards are not known yet when TRL scores its proposals. TRL has a mean for each turn, which
    counts by the samples that the function scored in it (`rewards/<function>/count`)."""
    logs = {}
    for name, means in collected.items():
        function = name.removesuffix("/mean")
        counts = collected.get(f"{function}/count", ())
        if role == "prover" and name.startswith("rewards/") and name != function and any(counts):
            turns = zip(reversed(means), reversed(counts), strict=False)  # a mean of an older checkpoint has none
            logs[f"{role}/{function}"] = math.fsum(mean * count for mean, count in turns if count) / sum(counts)
    return logs
