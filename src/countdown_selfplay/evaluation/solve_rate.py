"""The cumulative solve rate: what share of a fixed set of problems has ever been solved, against generations spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import DataError


class CumulativeSolveRate:
    """Which of a fixed set of problems D were solved at least once (seed 003, section 4: R_C against C).

    `keys`: the problems of D (`Problem.key`), each once; what is observed of others counts as generations only. One
    correct answer solves a problem for good, so the rate never falls. `state_dict` is plain JSON and gives the same
    rate after a restart.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._solved = dict.fromkeys(keys, False)
        if not self._solved:
            raise DataError("A cumulative solve rate needs at least one problem.")
        self.generations = 0

    def observe(self, keys: Sequence[str], correct: Sequence[int], n: int) -> None:
        """`n` answers to each problem, `correct` of them right."""
        for key, count in zip(keys, correct, strict=True):
            self.generations += n
            if count > 0 and key in self._solved:
                self._solved[key] = True

    @property
    def rate(self) -> float:
        """Solved problems / problems, in [0, 1]."""
        return sum(self._solved.values()) / len(self._solved)

    @property
    def unsolved(self) -> list[str]:
        """Keys that no answer has solved yet, in the order of D."""
        return [key for key, solved in self._solved.items() if not solved]

    def state_dict(self) -> dict[str, Any]:
        return {"generations": self.generations, "solved": [key for key, solved in self._solved.items() if solved]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """DataError if the state is of other problems."""
        foreign = [key for key in state["solved"] if key not in self._solved]
        if foreign:
            raise DataError(
                f"The saved cumulative solve rate is of other problems: '{foreign[0]}' is not among these."
            )
        self.generations = int(state["generations"])
        solved = set(state["solved"])
        self._solved = {key: key in solved for key in self._solved}
