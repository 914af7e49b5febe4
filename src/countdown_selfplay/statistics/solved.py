"""Cumulative solve rate: the share of a fixed set of problems that has ever been solved, against generations."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.run_files import write_atomically
from ..errors import DataError

FIRST_SOLVED = "first_solved.json"
"""File of a run folder with the round in which each problem was first solved, for a bootstrap over problems."""


class CumulativeSolveRate:
    """Solved problems of a fixed set D, and their rounds (SGS 2026, section 4: R_C against C). `keys`: the distinct
    problems of D (`Problem.key`); other problems count as generations only. A solved problem stays solved, so that the
    rate never falls. `state_dict` is plain JSON."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._round: dict[str, int | None] = dict.fromkeys(keys)
        if not self._round:
            raise DataError("A cumulative solve rate needs at least one problem.")
        self.generations = 0

    def observe(self, keys: Sequence[str], correct: Sequence[int], n: int, round_: int = 0) -> None:
        """Add `n` answers per problem in round `round_`; `correct`: number of right ones per problem in `keys`."""
        for key, count in zip(keys, correct, strict=True):
            self.generations += n
            if count > 0 and self._round.get(key, 0) is None:
                self._round[key] = round_

    @property
    def rate(self) -> float:
        """Share of the problems of D that are solved so far, in [0, 1]."""
        return len(self.first_solved) / len(self._round)

    @property
    def first_solved(self) -> dict[str, int]:
        """Round in which each solved problem was first solved, in the order of D."""
        return {key: round_ for key, round_ in self._round.items() if round_ is not None}

    @property
    def keys(self) -> list[str]:
        """Keys of all problems, in the order of D."""
        return list(self._round)

    def write(self, folder: Path, rounds: int) -> None:
        """Write FIRST_SOLVED to a run folder after `rounds` rounds: each problem's round, null if it is unsolved."""
        record = {"rounds": rounds, "first_solved": self._round}
        write_atomically(folder / FIRST_SOLVED, json.dumps(record) + "\n")

    def state_dict(self) -> dict[str, Any]:
        return {"generations": self.generations, "first_solved": self.first_solved}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state. Raises DataError if a solved problem in it is not in D."""
        foreign = [key for key in state["first_solved"] if key not in self._round]
        if foreign:
            raise DataError(f"The saved solve rate is of other problems: '{foreign[0]}' is not among these.")
        self.generations = int(state["generations"])
        self._round = {key: state["first_solved"].get(key) for key in self._round}
