"""A Countdown problem: k positive integers and a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import DataError


@dataclass(frozen=True, slots=True)
class Problem:
    """`numbers` are to be combined, each exactly once, into `target`. DataError unless all are integers and numbers
    are > 0."""

    numbers: tuple[int, ...]
    target: int

    def __post_init__(self) -> None:
        numbers = tuple(self.numbers)
        if not numbers or any(type(n) is not int or n < 1 for n in numbers):
            raise DataError(f"A problem needs at least one number, all whole and above 0, got {list(numbers)}.")
        if type(self.target) is not int:
            raise DataError(f"A problem's target must be a whole number, got {self.target!r}.")
        object.__setattr__(self, "numbers", numbers)

    @property
    def key(self) -> str:
        """Identity whatever the order of the numbers: "19,35,44=98"."""
        return f"{','.join(map(str, sorted(self.numbers)))}={self.target}"


def problem_from_row(row: Mapping[str, Any], index: int) -> Problem:
    """The problem of a data set row: `numbers` or `nums` with `target`, or `ground_truth` holding both.

    A whole-number float counts as an integer. DataError names row and column.
    """
    source: Mapping[str, Any] = row
    if not ({"numbers", "nums"} & set(row)) and isinstance(row.get("ground_truth"), Mapping):
        source = row["ground_truth"]
    column = next((name for name in ("numbers", "nums") if source.get(name) is not None), None)
    if column is None:
        raise DataError(f"row {index} has no column 'numbers' or 'nums' (columns: {', '.join(map(str, row))}).")
    if source.get("target") is None:
        raise DataError(f"row {index}, column 'target': it is absent; every problem needs a whole number.")
    values = source[column]
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise DataError(f"row {index}, column '{column}': {values!r} is no list of numbers.")
    numbers = tuple(_whole(value, index, column) for value in values)
    if not numbers:
        raise DataError(f"row {index}, column '{column}': it is empty; a problem needs at least one number.")
    if min(numbers) < 1:
        raise DataError(f"row {index}, column '{column}': {min(numbers)} is not above 0.")
    return Problem(numbers, _whole(source["target"], index, "target"))


def _whole(value: Any, index: int, column: str) -> int:
    """Accepts Python and NumPy integers and floats without a fraction; refuses booleans and texts."""
    if isinstance(value, (bool, str, bytes)):
        raise DataError(f"row {index}, column '{column}': {value!r} is no whole number.")
    try:
        whole = int(value)
        if whole == value:
            return whole
    except (TypeError, ValueError, OverflowError):
        pass
    raise DataError(f"row {index}, column '{column}': {value!r} is no whole number.")
