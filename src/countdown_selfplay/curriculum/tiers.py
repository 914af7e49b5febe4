"""Which difficulty each tier of a pool asks for, adapted to the provers' pass rates (Multimodal LLM Self-Play, section
3.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError

LONGEST_WINDOW = 8
"""With hysteresis: a window grows to at most this many times its first length."""


@dataclass
class TierTracker:
    """A tier whose mean pass rate is above `high` goes one rung up its ladder, below `low` one rung down, and stays on
    the ladder. JSON-able; equal on every process.

    window: rounds whose rates are averaged; it is emptied at each move, so that a tier rests as many rounds on a rung.
    1 is the paper's rule. hysteresis: a tier that turns round doubles its own window, up to LONGEST_WINDOW times, and
    one that moves twice in the same direction has the first length again. Under the paper's rule a tier whose rate is
    above `high` on one rung and below `low` on the next moves in every round (its tier 0, between 2 and 3).
    """

    rungs: list[int]
    """By tier, where it stands on its ladder; 0 is the easiest rung."""
    top: int
    """The hardest rung."""
    low: float = 0.2
    high: float = 0.7
    window: int = 1
    hysteresis: bool = False
    rates: list[list[float]] = field(default_factory=list)
    """By tier, its rates since its last move, the newest `window` of them."""
    windows: list[int] = field(default_factory=list)
    """By tier, the length of its window now."""
    last_moves: list[int] = field(default_factory=list)
    """By tier, 1, -1, or 0 before its first move."""

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise ConfigError(
                f"`low` ({self.low}) and `high` ({self.high}) of the tiers must satisfy 0 <= low < high <= 1: a tier "
                "goes down below the first and up above the second; Multimodal LLM Self-Play uses 0.2 and 0.7."
            )
        count = len(self.rungs)
        self.rates = self.rates or [[] for _ in range(count)]
        self.windows = self.windows or [self.window] * count
        self.last_moves = self.last_moves or [0] * count

    def observe(self, rates: Sequence[float | None]) -> list[int]:
        """Take in the mean pass rate of each tier, None for one without problems in the round; which way each
        moved: 1, -1 or 0."""
        return [0 if rate is None else self._observe(tier, rate) for tier, rate in enumerate(rates)]

    def _observe(self, tier: int, rate: float) -> int:
        seen = self.rates[tier] = [*self.rates[tier], float(rate)][-self.windows[tier] :]
        if len(seen) < self.windows[tier]:
            return 0
        mean = sum(seen) / len(seen)
        wanted = 1 if mean > self.high else -1 if mean < self.low else 0
        move = min(max(self.rungs[tier] + wanted, 0), self.top) - self.rungs[tier]
        if move:
            if self.hysteresis and self.last_moves[tier]:
                longer = min(self.windows[tier] * 2, self.window * LONGEST_WINDOW)
                self.windows[tier] = longer if move != self.last_moves[tier] else self.window
            self.rungs[tier] += move
            self.rates[tier], self.last_moves[tier] = [], move
        return move

    def state_dict(self) -> dict[str, Any]:
        names = ("rungs", "rates", "windows", "last_moves")
        return {name: [list(v) if isinstance(v, list) else v for v in getattr(self, name)] for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rungs, self.windows = list(state["rungs"]), list(state["windows"])
        self.rates, self.last_moves = [list(seen) for seen in state["rates"]], list(state["last_moves"])
