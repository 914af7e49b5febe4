"""Preference pairs from scored samples: a pure function of the samples and a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, DataError


@dataclass(frozen=True)
class ScoredSample:
    """One sampled completion. group: its samples are compared with each other alone, the problem's key or, for a
    conjecturer, `group_of` the request; prompt: the text or chat before it; score: higher is better."""

    group: str
    prompt: Any
    completion: str
    score: float


@dataclass(frozen=True)
class PreferencePair:
    """`chosen` scored strictly higher than `rejected`; both answer `prompt`."""

    group: str
    prompt: Any
    chosen: str
    rejected: str
    margin: float


def group_of(ask: Mapping[str, Any]) -> str:
    """The group of proposals that were asked for alike."""
    return " ".join(str(value) for value in ask.values())


def make_preference_pairs(
    samples: Sequence[ScoredSample], *, chosen_at_least: float = 1.0, pairs_per_group: int | None = 4, seed: int = 0
) -> list[PreferencePair]:
    """Pairs of samples of the same group, the groups in the order in which they first appear.

    In a group, equal texts count once. The rest are put in a random order (of `seed` and the group's name alone, so
    the other groups do not matter) and sorted by score; then the best is paired with the worst, the second best with
    the second worst, and so on, while `chosen` scores at least `chosen_at_least` and strictly more than `rejected`. So
    every text is in at most one pair, a tie never makes one, and a group of c correct and w wrong answers (scores 1
    and 0) gives min(c, w, pairs_per_group) pairs, in which each of them is as likely as any other.

    pairs_per_group: the most pairs of a group, None for no limit. Without it, easy groups do not outweigh hard ones by
    much: of n samples come at most n / 2 pairs. Two scores for one text of a group are a DataError, for a verifier
    gives one; so is a score that is not finite."""
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
            if best.score < chosen_at_least or best.score <= worst.score:
                break
            pairs.append(
                PreferencePair(name, best.prompt, best.completion, worst.completion, best.score - worst.score)
            )
    return pairs
