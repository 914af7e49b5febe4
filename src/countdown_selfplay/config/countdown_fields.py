"""Settings of the domain, and of Countdown itself: prompts, ranges, answer rule. They are the same for self-play, warm
starts and single-policy runs."""

from dataclasses import dataclass, field
from typing import Literal

from ..domains import domain_from

__all__ = ["CountdownFields", "DomainFields", "domain_from"]


@dataclass
class DomainFields:
    """What is played."""

    domain: str = field(
        default="countdown",
        metadata={"help": "Domain of the problems: a name in DOMAINS, or my_package.my_module:MyDomain."},
    )
    domain_kwargs: dict | str | None = field(
        default=None,
        metadata={"help": "Arguments of the domain as JSON. Countdown has the fields below instead."},
    )
    answers: Literal["whole", "moves"] = field(
        default="whole",
        metadata={
            "help": "How an answer is given: whole, in one completion; moves: one move a completion, after each of "
            "which the game restates the remaining numbers (Countdown: prover_prompt compact_moves or moves)."
        },
    )


@dataclass
class EvaluationFields(DomainFields):
    """How a prover is measured."""

    eval_preset: Literal["training", "joint_rloo", "cdg"] = field(
        default="training",
        metadata={
            "help": "How answers are sampled in every evaluation of the run, and in `eval` of its models. training: "
            "as in training. joint_rloo: temperature 0.6, top-p 0.95, top-k 20, 2048 tokens (Allen and Ståblein). "
            "cdg: temperature 0.95, top-k 10, 8192 tokens (Wang et al.). Answers are judged by the run's rules: "
            "leading_minus is a separate setting."
        },
    )


@dataclass
class CountdownFields(EvaluationFields):
    """Which problems exist and how they are put to a model."""

    prover_prompt: str = field(
        default="countdown_3to4", metadata={"help": "How a problem is put to the prover: a name in PROVER_PROMPTS."}
    )
    conjecturer_prompt: str = field(
        default="completion",
        metadata={"help": "Prompt and parser of proposals: a name in CONJECTURER_PROMPTS."},
    )
    operands: list[int] = field(
        default_factory=lambda: [3, 4],
        metadata={"help": "Operand counts that are requested and admitted, each as often as it is listed."},
    )
    number_low: int = field(default=1, metadata={"help": "Least operand."})
    number_high: int = field(default=99, metadata={"help": "Greatest operand."})
    target_low: int = field(default=10, metadata={"help": "Least target."})
    target_high: int = field(default=100, metadata={"help": "Greatest target."})
    value_high: int = field(default=99, metadata={"help": "Greatest result of a move (answers: moves)."})
    answer_rule: Literal["last", "first", "any"] = field(
        default="last",
        metadata={"help": "Which answer tag counts, in training and in evaluation."},
    )
    use_all: bool = field(
        default=True,
        metadata={
            "help": "Every number must be used exactly once. False: at most once (Task Difficulty and Diversity)."
        },
    )
    leading_minus: bool = field(
        default=False,
        metadata={
            "help": "Accept one minus sign before a number or a parenthesis (the checker of Allen and Ståblein)."
        },
    )
    score_tagged: float | None = field(
        default=None,
        metadata={
            "help": "Score of a malformed or empty answer within answer tags, and of tags inside the thinking (the "
            "program of Allen and Ståblein: 0.1). None: 0, as for an answer without tags (Allen and Ståblein's text)."
        },
    )
