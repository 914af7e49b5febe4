"""What the frame counts for every game: rounds, attempts, turns, and what each player generated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Frame:
    """Time of a run. Equal on all processes."""

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
        """What tells a sample's turn and move from all others of the run, beside its player and process: part of its
        seed. The first move has the key of an answer that is written at once."""
        return (self.attempt, self.rounds, self.turn, *([self.move] if self.move else []))

    @property
    def generations(self) -> int:
        """Completions of all players so far."""
        return sum(self.samples.values())

    def count(self, player: str, samples: int, tokens: int) -> None:
        self.samples[player] = self.samples.get(player, 0) + samples
        self.tokens[player] = self.tokens.get(player, 0) + tokens

    def spent(self) -> dict[str, dict[str, int]]:
        """What was generated so far. A rollback takes back what was learnt from it, not what it cost."""
        return {"samples": dict(self.samples), "tokens": dict(self.tokens)}

    def keep_spent(self, spent: dict[str, dict[str, int]]) -> None:
        """After a rollback: the counts of before, which are at least those of the checkpoint."""
        for name, counts in spent.items():
            own = getattr(self, name)
            own.update({player: max(own.get(player, 0), count) for player, count in counts.items()})

    def state_dict(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "attempt": self.attempt, **self.spent()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rounds, self.attempt = state["rounds"], state["attempt"]
        self.samples, self.tokens = dict(state["samples"]), dict(state["tokens"])
