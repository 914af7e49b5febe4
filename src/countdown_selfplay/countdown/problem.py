"""Countdown problem, its identity, ranges of problems, and the rules of a right answer. A problem is k positive
integers and a target; a solution uses every number exactly once with + - * / and parentheses."""

import hashlib
import operator
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from ..errors import ConfigError, DataError, shortened
from ..options import is_number

MAX_NUMBERS = 100
"""Largest number of operands. By default an expression has at most 256 characters and thus at most 128 numbers."""

MAX_MAGNITUDE = 10**9
"""Largest number and largest absolute target, which keeps texts and rationals short."""

HELD_OUT_SHARE = 8
"""Reciprocal of the held-out share: one key in 8, such as 638 of the 4,739 problems of the tiny model."""


def _integer(value: object, what: str) -> int:
    """Return `value` as a Python int; NumPy integers are allowed. Raises DataError for bools, floats and others."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise DataError(f"{what} must be an integer, got {shortened(repr(value), 43)}.")
    if abs(number) > MAX_MAGNITUDE:
        raise DataError(
            f"{what} must lie within {MAX_MAGNITUDE:,} of zero, got a number of {number.bit_length()} bits."
        )
    return number


def _is_plain(value: object) -> bool:
    """Return whether `_integer` would return the value unchanged: a faster test, because each move makes a problem."""
    return type(value) is int and -MAX_MAGNITUDE <= value <= MAX_MAGNITUDE


@dataclass(frozen=True, slots=True)
class Problem:
    """Countdown problem. `numbers`: 1 to 100 positive integers in the order in which they are printed; `target`: any
    integer. Problems are equal if they print alike; `key` is the identity by which data sets are compared. Raises
    DataError for other values."""

    numbers: tuple[int, ...]
    target: int

    def __post_init__(self) -> None:
        if isinstance(self.numbers, str | bytes | Mapping) or not hasattr(self.numbers, "__iter__"):
            raise DataError(f"numbers must be a list of integers, got {shortened(repr(self.numbers), 43)}.")
        numbers = tuple(self.numbers)
        if not all(map(_is_plain, numbers)):
            numbers = tuple(_integer(number, f"number {i + 1}") for i, number in enumerate(numbers))
        if not 1 <= len(numbers) <= MAX_NUMBERS:
            raise DataError(f"A problem has 1 to {MAX_NUMBERS} numbers, got {len(numbers)}.")
        if min(numbers) < 1:
            raise DataError(f"numbers must be positive, got {min(numbers)}.")
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "target", _integer(self.target, "target"))

    @property
    def key(self) -> str:
        """Sorted numbers and target, "19,35,44=98": problems with one key have the same solutions."""
        return f"{','.join(map(str, sorted(self.numbers)))}={self.target}"


def heldout_key(key: str) -> bool:
    """Return whether the problem with this key is held out, for every seed and every data set: the first 8 bytes of
    BLAKE2b of the key, modulo 8, are 0, which is one key in 8, uniform over operand counts, numbers and targets."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") % HELD_OUT_SHARE == 0


@dataclass(frozen=True)
class ProblemSpec:
    """Ranges of problems: operand counts, and inclusive ranges of numbers and targets. Defaults are those of the
    public 3-to-4 data set. Raises ConfigError for an empty or impossible range."""

    operands: tuple[int, ...] = (3, 4)
    number_low: int = 1
    number_high: int = 99
    target_low: int = 10
    target_high: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", tuple(self.operands))
        if not self.operands or any(k < 1 or k > MAX_NUMBERS for k in self.operands):
            raise ConfigError(f"`operands` ({self.operands}) must hold counts from 1 to {MAX_NUMBERS}; use (3, 4).")
        if not 1 <= self.number_low <= self.number_high <= MAX_MAGNITUDE:
            raise ConfigError(
                f"`number_low` ({self.number_low}) and `number_high` ({self.number_high}) must be an ascending range "
                "of positive numbers; use 1 and 99."
            )
        if not -MAX_MAGNITUDE <= self.target_low <= self.target_high <= MAX_MAGNITUDE:
            raise ConfigError(
                f"`target_low` ({self.target_low}) and `target_high` ({self.target_high}) must be an ascending range; "
                "use 10 and 100."
            )

    def admits(self, problem: Problem) -> bool:
        """Return whether operand count, all numbers and the target are in range."""
        return self.outside(problem) is None

    def outside(self, problem: Problem) -> str | None:
        """Describe the part of the problem that is out of range, with the bound's name; None if it is in range."""
        if len(problem.numbers) not in self.operands:
            return f"it has {len(problem.numbers)} numbers, and `operands` is {', '.join(map(str, self.operands))}"
        values = (("number", min(problem.numbers)), ("number", max(problem.numbers)), ("target", problem.target))
        for name, value in values:
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if not low <= value <= high:
                side, limit = ("low", low) if value < low else ("high", high)
                return f"its {name} {value} is beyond `{name}_{side}` ({limit})"
        return None


def problem_of_key(key: str) -> Problem:
    """Return the problem with this key, its numbers in ascending order: "19,35,44=98" -> (19, 35, 44), 98."""
    numbers, _, target = key.partition("=")
    return Problem(tuple(int(number) for number in numbers.split(",")), int(target))


def problem_from_row(row: Mapping[str, Any], index: int = 0) -> Problem:
    """Return the problem in a data set's row with columns `numbers` or `nums`, and `target`; else `ground_truth` with
    both. Whole floats count as integers (a missing value makes all integers of a column floats). Other columns are
    ignored. Raises DataError, which names the row by `index` and the column."""
    if not isinstance(row, Mapping):
        raise DataError(f"row {index}: a row maps column names to values, got {shortened(repr(row), 43)}.")
    source, prefix = row, ""
    nested = row.get("ground_truth")
    if isinstance(nested, Mapping) and (row.get("target") is None or _numbers_column(row) is None):
        source, prefix = nested, "ground_truth."
    column = _numbers_column(source)
    if column is None:
        raise DataError(
            f"row {index}, column '{prefix}numbers': absent; a row needs `numbers` or `nums` (a list of positive "
            f"integers) and `target`, it has {', '.join(map(str, source)) or 'no column'}."
        )
    if source.get("target") is None:
        raise DataError(f"row {index}, column '{prefix}target': absent; a row needs an integer `target`.")
    name = "target"
    try:
        target = _integer(_whole(source[name]), name)
        name = column
        return Problem(_whole(source[name]), target)
    except DataError as error:
        raise DataError(f"row {index}, column '{prefix}{name}': {error}") from None


_LISTED = re.compile(r"\[\s*[0-9]+(?:(?:\s*,\s*|\s+)[0-9]+)*\s*\]")
_LONGEST_LIST = 200


def _whole(value: Any) -> Any:
    """Convert whole floats, alone or in a list, to ints, and a list as text in a CSV file, `[1, 10, 6]` or NumPy's
    `[ 1 10  6]`, to a list; other values are returned unchanged."""
    if isinstance(value, str) and len(value) <= _LONGEST_LIST and _LISTED.fullmatch(value.strip()):
        return [int(entry) for entry in re.findall(r"[0-9]+", value)]
    if isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1:
        return [_whole(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _numbers_column(row: Mapping[str, Any]) -> str | None:
    return next((name for name in ("numbers", "nums") if row.get(name) is not None), None)


AnswerRule = Literal["last", "first", "any"]
AnswerFormat = Literal["tags", "bare"]

MAX_CHARS_LIMIT = 4096
"""Largest `max_chars`: Python refuses to convert integers of more than 4300 digits, and arithmetic stays cheap."""


@dataclass(frozen=True)
class Rules:
    """Conditions of a right answer, and the scores: one object that training and evaluation share and every result
    file records. Raises ConfigError for invalid values.

    Attributes:
        integers_only: no division may leave a remainder (if False, `8 / (3 - 8 / 3)` is 24).
        use_all: every number is used exactly once; if False, at most once.
        answer_rule: which of several `<answer>` tags counts; "any" takes the best of the first 32. Over 800
          responses of one model last / first / any scored .359 / .395 / .4525, so that results are comparable under
          one rule only.
        answer_format: "tags", or "bare": the whole completion is the expression (the compact prompt).
        allow_equals: `3 + 4 = 7` is read as `3 + 4` if the right side is the target in digits.
        leading_minus: one minus sign may precede a number or a parenthesis, two may not (24 of 1,500 solutions of a
          public generator need it; the checker of Allen and Ståblein, which evaluates Python, also takes chains,
          `**` and `//`).
        lenient_unicode: look-alike signs, full-width and Arabic digits and spaces are read as
          their ASCII counterparts.
        max_chars: largest number of characters in an expression, after stripping white space at its ends.
        score_*: correct; well-formed but wrong; malformed or without an answer.
        score_tagged: score of answer tags with any content, malformed, empty or inside the thinking (the program of
          Allen and Ståblein: 0.1); None: `score_invalid`, as in the text of section 3.2. Bare answers have no tags.
    """

    integers_only: bool = False
    use_all: bool = True
    answer_rule: AnswerRule = "last"
    answer_format: AnswerFormat = "tags"
    allow_equals: bool = False
    leading_minus: bool = False
    lenient_unicode: bool = False
    max_chars: int = 256
    score_correct: float = 1.0
    score_wrong: float = 0.1
    score_invalid: float = 0.0
    score_tagged: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("answer_rule", get_args(AnswerRule)), ("answer_format", get_args(AnswerFormat))):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"`{name}` ({getattr(self, name)!r}) must be one of {', '.join(allowed)}.")
        for name in ("integers_only", "use_all", "allow_equals", "leading_minus", "lenient_unicode"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"`{name}` ({getattr(self, name)!r}) must be True or False.")
        if type(self.max_chars) is not int or not 1 <= self.max_chars <= MAX_CHARS_LIMIT:
            raise ConfigError(f"`max_chars` ({self.max_chars!r}) must be an integer from 1 to {MAX_CHARS_LIMIT}.")
        for name in ("score_correct", "score_wrong", "score_invalid", "score_tagged"):
            score = getattr(self, name)
            if score is None and name == "score_tagged":
                continue
            if not is_number(score):
                raise ConfigError(f"`{name}` ({score!r}) must be a finite number.")

    @property
    def score_of_tags(self) -> float:
        """Score of a malformed answer: `score_tagged` if that is set and answers have tags, else `score_invalid`."""
        return self.score_invalid if self.score_tagged is None or self.answer_format == "bare" else self.score_tagged

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Rules":
        """Build rules from `to_dict`'s output; absent fields get defaults. Raises ConfigError for unknown fields."""
        known = [field.name for field in fields(cls)]
        unknown = [str(name) for name in values if name not in known]
        if unknown:
            raise ConfigError(f"Rules have no field {', '.join(unknown)}; they have {', '.join(known)}.")
        return cls(**values)


DEFAULT_RULES = Rules()
