"""A domain in one file, in words of the embedded model's tokenizer: "3 + 5 :" is answered by "8"."""

import random
import re
from collections import Counter
from typing import Any, NamedTuple

from countdown_selfplay.contract.domain import BaseDomain, Checked
from countdown_selfplay.errors import DataError


class Judged(NamedTuple):
    """A verdict without `n_answers` and `vote`, which no domain needs to have."""

    correct: bool
    reason: str

    @property
    def score(self) -> float:
        return float(self.correct)


class Read(NamedTuple):
    problem: tuple[int, int] | None
    reason: str


class Sums(BaseDomain):
    """Two numbers from 1 to `high` are to be added. A proposal is written as "3 + 5"."""

    asks = ({"terms": 2},)
    facts = ("in_range",)

    def __init__(self, high: int = 49) -> None:
        self.high = high

    def problem(self, row: Any, index: int = 0) -> tuple[int, int]:
        if not {"a", "b"} <= set(row):
            raise DataError(f"row {index}, columns 'a' and 'b': absent.")
        return int(row["a"]), int(row["b"])

    def key(self, problem: tuple[int, int]) -> str:
        return f"{problem[0]}+{problem[1]}"

    def prove_row(self, problem: tuple[int, int]) -> dict[str, Any]:
        return {"prompt": f"{problem[0]} + {problem[1]} :", "a": problem[0], "b": problem[1]}

    def verify(self, texts: Any, problems: Any) -> list[Judged]:
        right = [text.split() == [str(sum(p))] for text, p in zip(texts, problems, strict=True)]
        return [Judged(ok, "right" if ok else "not the sum") for ok in right]

    def stop_strings(self, role: str) -> None:
        return None

    def to_dict(self) -> dict[str, Any]:
        return {"domain": "sums", "high": self.high}

    def propose_row(self, terms: int) -> dict[str, Any]:
        return {"prompt": f"propose {terms} :", "terms": terms}

    def parse(self, texts: Any) -> list[Read]:
        found = [re.fullmatch(r"\s*(\d+) \+ (\d+)\s*", text) for text in texts]
        return [Read((int(m[1]), int(m[2])), "ok") if m else Read(None, "no sum") for m in found]

    def check(self, problems: Any, asked: Any) -> list[Checked]:
        good = [all(1 <= number <= self.high for number in problem) for problem in problems]
        return [Checked("ok" if ok else "out_of_range", {"in_range": ok}) for ok in good]

    def random(self, n: int, seed: int, exclude: frozenset[str]) -> list[tuple[int, int]]:
        every = [(a, b) for a in range(1, self.high + 1) for b in range(1, self.high + 1)]
        left = [problem for problem in every if self.key(problem) not in exclude]
        if len(left) < n:
            raise DataError(f"There are {len(left)} sums up to {self.high}, fewer than {n}; raise `high`.")
        return random.Random(seed).sample(left, n)


class CountingDomain:
    """Domain that counts the verifications of each (text, problem)."""

    def __init__(self, domain):
        self.domain, self.verified = domain, Counter()

    def __getattr__(self, name):
        return getattr(self.domain, name)

    def verify(self, texts, problems):
        self.verified.update((text, self.domain.key(p)) for text, p in zip(texts, problems, strict=True))
        return self.domain.verify(texts, problems)
