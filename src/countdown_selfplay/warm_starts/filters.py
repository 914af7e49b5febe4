"""Filters of training rows, with counts of the reasons for exclusion, and preference pairs of scored samples; all
deterministic given the rows and a seed."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from ..errors import ConfigError, DataError

T = TypeVar("T")

HELD_OUT, WRONG, TOO_LONG = "held-out problem", "wrong", "too long"
UNFINISHED = "cut off"
"""Reason for samples that the token limit cut. They are in no pair: a chosen one would teach not to end."""


@dataclass
class Kept(Generic[T]):
    """Filtered rows. read: number of rows before filtering. left_out: reason -> number of rows."""

    rows: list[T] = field(default_factory=list)
    read: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, row: T, reason: str | None) -> None:
        self.read += 1
        if reason is None:
            self.rows.append(row)
        else:
            self.left_out[reason] += 1

    @property
    def reasons(self) -> str:
        return ", ".join(f"{count} {reason}" for reason, count in sorted(self.left_out.items())) or "none"

    def sentence(self, what: str) -> str:
        """Format one line for the user: `19 of 20 demonstrations kept; left out: 1 held-out problem`."""
        if not self.left_out:
            return f"{len(self.rows)} {what}, none left out"
        return f"{len(self.rows)} of {self.read} {what} kept; left out: {self.reasons}"

    def insist(self, what: str) -> Self:
        """Return self. Raises DataError if no row is left."""
        if self.rows:
            return self
        why = self.reasons if self.left_out else "there are none"
        raise DataError(
            f"None of the {self.read} {what} can be trained on ({why}). Wrong ones are so under the rules of the "
            "prompt (--prover_prompt compact takes bare answers, the others want tags); held-out problems are never "
            "trained on. Pass other data, or leave the option out to make it offline."
        )


def drop_long(rows: list[dict[str, Any]], limit: int | None) -> Kept[dict[str, Any]]:
    """Return rows of at most `limit` tokens: of `input_ids`, or of the prompt with the longer side of a pair. A
    truncated text teaches the model not to end."""
    kept = [row for row in rows if limit is None or _tokens(row) <= limit]
    return Kept(kept, len(rows), +Counter({TOO_LONG: len(rows) - len(kept)}))


def _tokens(row: dict[str, Any]) -> int:
    if "input_ids" in row:
        return len(row["input_ids"])
    return len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"]))


REPEATED = ((40, 5), (128, 2))
"""Pairs (characters of a substring, number of its occurrences from which a text is a loop)."""


def is_loop(text: str) -> bool:
    """Return whether a substring of 40 characters occurs 5 times in a text, or one of 128 twice; occurrences may
    overlap, but a text shorter than all of them together is no loop. Wang et al. 2025, appendix C.3, remove
    "repetitive loops", which their code defines in this way."""
    for size, times in REPEATED:
        if len(text) >= size * times:
            counts = Counter(text[i : i + size] for i in range(len(text) - size + 1))
            if max(counts.values()) >= times:
                return True
    return False


@dataclass(frozen=True)
class ScoredSample:
    """Sampled completion with a score. group: the problem's key; only samples of one group are compared. prompt: the
    text or chat before it. score: higher is better."""

    group: str
    prompt: Any
    completion: str
    score: float


@dataclass(frozen=True)
class PreferencePair:
    """Pair of texts for one `prompt`, of which `chosen` has a strictly higher score than `rejected`."""

    group: str
    prompt: Any
    chosen: str
    rejected: str


def make_preference_pairs(
    samples: Sequence[ScoredSample], *, pairs_per_group: int | None = 4, seed: int = 0
) -> list[PreferencePair]:
    """Return pairs of samples of the same group, the groups in the order of their first occurrence.

    In a group, equal texts count once. The texts are shuffled (by `seed` and the group's name alone, so that other
    groups do not matter) and sorted by score; then the best is paired with the worst, the second best with the second
    worst, and so on, while `chosen` scores at least 1 and strictly more than `rejected`. So every text is in at most
    one pair, a tie never makes one, and a group of c correct and w wrong answers (scores 1 and 0) gives min(c, w,
    pairs_per_group) pairs, in which each answer of a kind is equally likely.

    pairs_per_group: the most pairs of a group, None for no limit. Without it, easy groups do not outweigh hard ones by
    much: n samples give at most n / 2 pairs. Raises DataError for two scores of one text in a group, because a
    verifier gives one, and for a score that is not finite."""
    if pairs_per_group is not None and pairs_per_group < 1:
        raise ConfigError(f"`pairs_per_group` ({pairs_per_group}) must be at least 1, or None for no limit.")
    groups: dict[str, dict[str, ScoredSample]] = {}
    for sample in samples:
        if not math.isfinite(sample.score):
            raise DataError(f"A sample of group '{sample.group}' has the score {sample.score}; scores must be finite.")
        known = groups.setdefault(sample.group, {}).setdefault(sample.completion, sample)
        if known.score != sample.score:
            raise DataError(
                f"Group '{sample.group}' scores one text both {known.score} and {sample.score}: "
                f"{sample.completion[:60]!r}; score all samples with one verifier."
            )
    pairs: list[PreferencePair] = []
    for name, by_text in groups.items():
        ordered = list(by_text.values())
        random.Random(f"pairs|{seed}|{name}").shuffle(ordered)
        ordered.sort(key=lambda sample: -sample.score)  # stable: equal scores stay in random order
        for i in range(min(len(ordered) // 2, pairs_per_group or len(ordered))):
            best, worst = ordered[i], ordered[-1 - i]
            if best.score < 1 or best.score <= worst.score:
                break
            pairs.append(PreferencePair(name, best.prompt, best.completion, worst.completion))
    return pairs
