"""Rules of a run: one frozen object that training and evaluation share and every result file records."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from ..errors import ConfigError
from ..options import is_number

AnswerRule = Literal["last", "first", "any"]
AnswerFormat = Literal["tags", "bare"]

MAX_CHARS_LIMIT = 4096
"""Largest `max_chars`: Python refuses to convert integers of more than 4300 digits, and arithmetic stays cheap."""


@dataclass(frozen=True)
class Rules:
    """Conditions of a right answer, and the scores. Raises ConfigError for invalid values.

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
