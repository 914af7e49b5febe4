"""Generated problems: which of them enter training, the buffer that the solver trains from, and the reservoir that
labels are asked from (Task Difficulty and Diversity, sections 3.3 and 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Gt

from ...errors import ConfigError
from ...registry import Amount, Count

Rule = Literal["top_k", "hard_band", "soft_penalty", "sampled"]


class Selected(NamedTuple):
    """chosen: (at most k) rows, the best first. verdicts: (N) "admitted" for all that might have been chosen, else
    "too_hard", "too_easy" or "low_diversity"."""

    chosen: np.ndarray
    verdicts: list[str]


@dataclass(frozen=True)
class Selection:
    """R_gen = R_diff + diversity x R_div of a candidate with estimated solve rate p. R_diff is minus the distance of p
    to [low, high]; R_div, in [0, 1], the distance to the archive.

    top_k: the k candidates of highest R_gen, none refused (the paper's UCB).
    hard_band: candidates outside the band, and of the others those with R_div < least_diversity, are refused first
        (the paper's gate).
    soft_penalty: nothing is refused; leaving the band costs `penalty` times as much as in R_gen, and R_div below
        least_diversity `penalty` times what is missing (the paper's wish, section 6).
    sampled: k candidates drawn without replacement, with weights exp(R_gen / temperature).

    The paper gives no weight for R_div and no least diversity. Equal scores: the earlier candidate.
    """

    rule: Rule = "top_k"
    low: Amount = 0.2
    high: Amount = 0.6
    diversity: Amount = 0.5
    least_diversity: Amount = 0.01
    penalty: Amount = 3.0
    temperature: Annotated[float, Gt(0)] = 0.1

    def __post_init__(self) -> None:
        if not self.low <= self.high <= 1:
            raise ConfigError(
                f"`low` ({self.low}) and `high` ({self.high}) must be an ascending band of solve rates within [0, 1]; "
                "Task Difficulty and Diversity uses 0.2 and 0.6."
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest R_gen."""
        return -max(self.low, 1 - self.high), self.diversity

    def outside(self, p_N: np.ndarray) -> np.ndarray:
        """(N,) distances of solve rates to the band."""
        return np.maximum(np.maximum(self.low - p_N, p_N - self.high), 0.0)

    def reward(self, p_N: np.ndarray, diversity_N: np.ndarray) -> np.ndarray:
        """(N,) R_gen."""
        return self.diversity * diversity_N - self.outside(p_N)

    def select(self, p_N: np.ndarray, diversity_N: np.ndarray, count: int, seed: int) -> Selected:
        """At most `count` candidates by the rule. seed: of the draw of `sampled`."""
        score_N = self.reward(p_N, diversity_N)
        verdicts = np.full(len(p_N), "admitted", dtype=object)
        if self.rule == "hard_band":
            verdicts[diversity_N < self.least_diversity] = "low_diversity"
            verdicts[p_N < self.low] = "too_hard"
            verdicts[p_N > self.high] = "too_easy"
        elif self.rule == "soft_penalty":
            missing_N = np.maximum(self.least_diversity - diversity_N, 0.0)
            score_N = score_N - (self.penalty - 1) * self.outside(p_N) - self.penalty * missing_N
        elif self.rule == "sampled":  # the k greatest of scores with Gumbel noise are such a draw
            noise_N = np.random.default_rng(seed).gumbel(size=len(score_N))
            score_N = score_N / self.temperature + noise_N
        open_N = np.flatnonzero(verdicts == "admitted")
        best = open_N[np.argsort(-score_N[open_N], kind="stable")][:count]
        return Selected(best, verdicts.tolist())


@dataclass
class Entry:
    """A problem in the buffer. p: its solve rate, as estimated or last measured. measured: whether it was played.
    added: the round it came in. arm: what proposed it."""

    key: str
    p: float
    added: int
    arm: str
    measured: bool = False


class ProblemReplay:
    """Generated problems that the solver is trained on, the paper's buffer B_gen. A draw is uniform over all entries,
    as in the paper, which says that the buffer is sampled from and no more. As an option of ours a draw has weights
    2^(-age / half_life) x exp(-outside / softness), with the age in rounds and `outside` the distance of p to the
    band: a second selection by difficulty. When there are more than `capacity` entries, those of least weight go; of
    equal weights, the oldest.

    half_life 0: age does not count. softness 0: difficulty does not count.
    """

    def __init__(self, capacity: Count = 10_000, half_life: Amount = 0.0, softness: Amount = 0.0) -> None:
        self.capacity, self.half_life, self.softness = capacity, half_life, softness
        self.entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, keys: Sequence[str], p_N: Sequence[float], arms: Sequence[str], now: int, band: Selection) -> None:
        """A round's selected problems. `band`: of which the distance to its band counts."""
        for key, p, arm in zip(keys, p_N, arms, strict=True):
            self.entries[key] = Entry(key, float(p), now, arm)
        if len(self.entries) > self.capacity:
            listed = list(self.entries.values())
            added_E = np.array([entry.added for entry in listed])
            order = np.lexsort((-added_E, -self._log_weights(listed, now, band)))[: self.capacity]
            self.entries = {listed[i].key: listed[i] for i in sorted(order.tolist())}

    def draw(self, count: int, now: int, band: Selection, seed: int) -> list[Entry]:
        """At most `count` different problems, without replacement."""
        listed = list(self.entries.values())
        if not listed:
            return []
        noise = np.random.default_rng(seed).gumbel(size=len(listed))
        order = np.argsort(-(self._log_weights(listed, now, band) + noise), kind="stable")[:count]
        return [listed[i] for i in order]

    def _log_weights(self, listed: Sequence[Entry], now: int, band: Selection) -> np.ndarray:
        age_E = np.array([now - entry.added for entry in listed], dtype=float)
        outside_E = band.outside(np.array([entry.p for entry in listed]))
        by_age_E = age_E * np.log(2) / self.half_life if self.half_life else 0.0
        return -(by_age_E + (outside_E / self.softness if self.softness else 0.0)) + 0.0 * age_E

    def state_dict(self) -> dict[str, Any]:
        return {"entries": [vars(entry) for entry in self.entries.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.entries = {values["key"]: Entry(**values) for values in state["entries"]}


class Reservoir:
    """Candidates that passed the symbolic checks, whether they were selected or not; the last `capacity` of them. One
    that was drawn is taken out: its label is in the predictor's data."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.keys: list[str] = []
        self.p_R = np.zeros(0)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Sequence[str], p_N: np.ndarray) -> None:
        """A round's candidates, which replace earlier entries of the same problems."""
        again = set(keys)
        kept = [i for i, key in enumerate(self.keys) if key not in again]
        self.keys = [*(self.keys[i] for i in kept), *keys][-self.capacity :]
        self.p_R = np.concatenate([self.p_R[kept], p_N])[-self.capacity :]

    def draw(self, count: int, low: float, high: float, seed: int) -> list[str]:
        """At most `count` problems, as many with p below `low` as from `low` to `high` and above `high`; where a
        stratum has too few the others fill up."""
        generator = np.random.default_rng(seed)
        strata = [self.p_R < low, (low <= self.p_R) & (self.p_R <= high), self.p_R > high]
        lines = [generator.permutation(np.flatnonzero(mask)).tolist() for mask in strata]
        drawn: list[int] = []
        while len(drawn) < count and any(lines):  # one of each in turn
            drawn += [line.pop() for line in lines if line][: count - len(drawn)]
        taken = set(drawn)
        found = [self.keys[i] for i in drawn]
        kept = [i for i in range(len(self.keys)) if i not in taken]
        self.keys, self.p_R = [self.keys[i] for i in kept], self.p_R[kept]
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "p": self.p_R.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.keys, self.p_R = list(state["keys"]), np.array(state["p"], dtype=float)
