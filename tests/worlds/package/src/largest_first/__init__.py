"""`domain: largest_first:LargestFirst`: an expression is right that begins with the largest of three numbers."""

import random
import re
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.errors import DataError

__all__ = ["LargestFirst"]


@dataclass(frozen=True)
class Judged:
    correct: bool
    reason: str

    @property
    def score(self):
        return float(self.correct)


class LargestFirst(BaseDomain):
    """high: the largest number that there is."""

    def __init__(self, high: Annotated[int, Ge(3), Le(99)] = 12):
        self.high = high

    def problem(self, row, index=0):
        numbers = tuple(row.get("three") or ())
        if len(numbers) != 3:
            raise DataError(f"row {index}, column 'three': {row.get('three')!r} must hold three numbers.")
        return numbers

    def key(self, problem):
        return " ".join(map(str, problem))

    def prove_row(self, problem):
        return {"prompt": f"{self.key(problem)} = {sum(problem)} :", "three": list(problem)}

    def verify(self, texts, problems):
        first = [re.match(r"[( ]*(\d+)", text) for text in texts]
        right = [bool(one) and int(one[1]) == max(problem) for one, problem in zip(first, problems, strict=True)]
        return [Judged(good, "largest" if good else "another") for good in right]

    def stop_strings(self, role):
        return None

    def to_dict(self):
        return {"domain": "largest_first", "high": self.high}

    def random(self, n, seed, exclude):
        every = range(1, self.high + 1)
        all_of_them = [(a, b, c) for a in every for b in every for c in every]
        free = [numbers for numbers in all_of_them if self.key(numbers) not in exclude]
        return random.Random(seed).sample(free, min(n, len(free)))
