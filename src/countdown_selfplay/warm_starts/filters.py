"""Rows that may be trained on, with the reasons for those that may not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from ..errors import DataError

T = TypeVar("T")

HELD_OUT, WRONG, TOO_LONG = "held-out problem", "wrong", "too long"
UNFINISHED = "cut off"
"""Samples that the token budget cut are in no pair: a chosen one would teach not to end."""


@dataclass
class Kept(Generic[T]):
    """rows: those to train on. read: how many there were. left_out: reason -> how many were not taken."""

    rows: list[T] = field(default_factory=list)
    read: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, row: T, reason: str | None) -> None:
        """Count a row, and keep it unless there is a reason against it."""
        self.read += 1
        if reason is None:
            self.rows.append(row)
        else:
            self.left_out[reason] += 1

    @property
    def reasons(self) -> str:
        """The reasons with their counts, or "none"."""
        return ", ".join(f"{count} {reason}" for reason, count in sorted(self.left_out.items())) or "none"

    def sentence(self, what: str) -> str:
        """One line for the user: `19 of 20 demonstrations kept; left out: 1 held-out problem`."""
        if not self.left_out:
            return f"{len(self.rows)} {what}, none left out"
        return f"{len(self.rows)} of {self.read} {what} kept; left out: {self.reasons}"

    def insist(self, what: str) -> Self:
        """Itself, or a DataError if nothing is left."""
        if self.rows:
            return self
        why = self.reasons if self.left_out else "there are none"
        raise DataError(
            f"None of the {self.read} {what} can be trained on ({why}). Wrong ones are so under the rules of the "
            "prompt (--prover_prompt compact takes bare answers, the others want tags); held-out problems are never "
            "trained on. Pass other data, or leave the option out to make it offline."
        )


def drop_long(rows: list[dict[str, Any]], limit: int | None) -> Kept[dict[str, Any]]:
    """Rows of at most `limit` tokens: of `input_ids`, or of the prompt with the longer side of a pair. A text that is
    cut off teaches the model not to end."""
    kept = [row for row in rows if limit is None or _tokens(row) <= limit]
    return Kept(kept, len(rows), +Counter({TOO_LONG: len(rows) - len(kept)}))


def _tokens(row: dict[str, Any]) -> int:
    if "input_ids" in row:
        return len(row["input_ids"])
    return len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"]))


REPEATED = ((40, 5), (128, 2))
"""Lengths of a stretch in characters, and the number of occurrences from which a text is a loop."""


def is_loop(text: str) -> bool:
    """Whether some stretch of 40 characters occurs 5 times in a text, or one of 128 twice; places may overlap, and a
    text shorter than the stretches side by side has none. Wang et al. 2025, appendix C.3, remove "repetitive loops",
    and the authors' code finds them so."""
    for size, times in REPEATED:
        if len(text) >= size * times:
            counts = Counter(text[i : i + size] for i in range(len(text) - size + 1))
            if max(counts.values()) >= times:
                return True
    return False
