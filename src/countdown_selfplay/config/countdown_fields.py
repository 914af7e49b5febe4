"""Settings of the domain and of Countdown (prompts, ranges, answer rule), shared by self-play, warm starts and
single-policy runs."""

from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from ..options import option


@dataclass
class DomainFields:
    """Settings that select the domain and the form of its answers."""

    domain: str = option("countdown", "Domain of the problems: a name in DOMAINS, or my_package.my_module:MyDomain.")
    domain_kwargs: dict | str | None = option(
        None, "Arguments of the domain as JSON. A recipe and the command line take those of Countdown by name."
    )
    answers: Literal["whole", "moves"] = option(
        "whole",
        "How an answer is given: whole, in one completion; moves: one move a completion, after each of which the game "
        "restates the remaining numbers (Countdown: prover_prompt compact_moves or moves).",
    )


@dataclass
class EvaluationFields(DomainFields):
    """Settings of the domain, and the sampling preset of evaluations."""

    eval_preset: Literal["training", "joint_rloo", "cdg"] = option(
        "training",
        "How answers are sampled in every evaluation of the run, and in `eval` of its models. training: as in "
        "training. joint_rloo: temperature 0.6, top-p 0.95, top-k 20, 2048 tokens (Allen and Ståblein). cdg: "
        "temperature 0.95, top-k 10, 8192 tokens (Wang et al.). Answers are judged by the run's rules: leading_minus "
        "is a separate setting.",
    )


@dataclass
class CountdownProblems:
    """Ranges, prompts and rules of Countdown's problems."""

    prover_prompt: str = option("countdown_3to4", "How a problem is put to the prover: a name in PROVER_PROMPTS.")
    conjecturer_prompt: str = option("completion", "Prompt and parser of proposals: a name in CONJECTURER_PROMPTS.")
    operands: list[int] = option(
        factory=lambda: [3, 4], help="Operand counts that are requested and admitted, each as often as it is listed."
    )
    number_low: int = option(1, "Least operand.")
    number_high: int = option(99, "Greatest operand.")
    target_low: int = option(10, "Least target.")
    target_high: int = option(100, "Greatest target.")
    value_high: int = option(99, "Greatest result of a move (answers: moves).")
    answer_rule: Literal["last", "first", "any"] = option(
        "last", "Which answer tag counts, in training and in evaluation."
    )
    use_all: bool = option(
        True, "Every number must be used exactly once. False: at most once (Task Difficulty and Diversity)."
    )
    leading_minus: bool = option(
        False, "Accept one minus sign before a number or a parenthesis (the checker of Allen and Ståblein)."
    )
    score_tagged: float | None = option(
        None,
        "Score of a malformed or empty answer within answer tags, and of tags inside the thinking (the program of "
        "Allen and Ståblein: 0.1). None: 0, as for an answer without tags (Allen and Ståblein's text).",
    )


@dataclass
class CountdownArguments(CountdownProblems):
    """Arguments of the domain `countdown` (`domain_kwargs`); parse them beside JointSelfPlayConfig."""

    admit_unsolvable: bool = option(
        False, "Play proposals that have no solution, with solve rate 0 (Multimodal LLM Self-Play has no such filter)."
    )


@dataclass
class CountdownFields(CountdownProblems, EvaluationFields):
    """Settings of the domain, of Countdown and of evaluations that warm starts and iterated self-play share."""

    @property
    def countdown(self) -> CountdownProblems:
        """Settings of Countdown, which are fields of this class. Raises ConfigError if `domain_kwargs` is set."""
        if self.domain_kwargs:
            raise ConfigError(
                f"`domain_kwargs` ({self.domain_kwargs}) is not read by the domain '{self.domain}', which has "
                "separate fields, such as operands and prover_prompt; set those."
            )
        return self
