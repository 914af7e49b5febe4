"""What counts as a correct answer: one object, shared by training and evaluation and written into every result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ..errors import ConfigError

AnswerRule = Literal["last", "first", "any"]
AnswerFormat = Literal["tags", "bare"]


@dataclass(frozen=True)
class Rules:
    """The rule set of the verifier and the solver; strict by default.

    integers_only: every intermediate value must be whole (default: rationals are legal, 8/(3-8/3) is 24). use_all:
    every number exactly once (False: at most once). answer_rule: which `<answer>` tag counts. answer_format: "tags",
    or "bare" when the whole completion is the expression. allow_equals: an answer may end in `= <anything>`.
    unary_minus: a minus may stand before a number or parenthesis. lenient_unicode: signs such as × ÷ − are read as * /
    -. max_chars: of the expression. score_*: correct, well-formed but wrong, malformed or no answer (FACTS: 1.0, 0.1,
    0.0).
    """

    integers_only: bool = False
    use_all: bool = True
    answer_rule: AnswerRule = "last"
    answer_format: AnswerFormat = "tags"
    allow_equals: bool = False
    unary_minus: bool = False
    lenient_unicode: bool = False
    max_chars: int = 256
    score_correct: float = 1.0
    score_wrong: float = 0.1
    score_invalid: float = 0.0

    def __post_init__(self) -> None:
        for name, allowed in (("answer_rule", get_args(AnswerRule)), ("answer_format", get_args(AnswerFormat))):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"`{name}` ({getattr(self, name)!r}) must be one of {', '.join(allowed)}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Rules:
        return cls(**values)


DEFAULT_RULES = Rules()
