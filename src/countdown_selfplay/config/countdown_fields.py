"""Settings of Countdown itself, the same for self-play, warm starts and single-policy runs: prompts, ranges, answer
rule."""

from dataclasses import dataclass, field
from typing import Literal

from ..countdown import CountdownDomain, ProblemSpec, Rules


@dataclass
class CountdownFields:
    """Which problems exist and how they are put to a model."""

    prover_prompt: str = field(
        default="countdown_3to4", metadata={"help": "How a problem is put to the prover: a name in PROVER_PROMPTS."}
    )
    conjecturer_prompt: str = field(
        default="completion",
        metadata={"help": "How a problem is asked for and parsed: a name in CONJECTURER_PROMPTS."},
    )
    operands: list[int] = field(
        default_factory=lambda: [3, 4],
        metadata={"help": "Operand counts that are asked for and admitted, each as often as it is listed."},
    )
    number_low: int = field(default=1, metadata={"help": "Least operand."})
    number_high: int = field(default=99, metadata={"help": "Greatest operand."})
    target_low: int = field(default=10, metadata={"help": "Least target."})
    target_high: int = field(default=100, metadata={"help": "Greatest target."})
    answer_rule: Literal["last", "first", "any"] = field(
        default="last",
        metadata={"help": "Which answer tag counts, in training and in evaluation."},
    )


def domain_from(fields: CountdownFields) -> CountdownDomain:
    """Countdown with these ranges, prompts and answer rule. The compact prompt has no answer tags."""
    return CountdownDomain(
        spec=ProblemSpec(
            operands=tuple(dict.fromkeys(fields.operands)),
            number_low=fields.number_low,
            number_high=fields.number_high,
            target_low=fields.target_low,
            target_high=fields.target_high,
        ),
        rules=Rules(
            answer_rule=fields.answer_rule, answer_format="bare" if fields.prover_prompt == "compact" else "tags"
        ),
        prover_prompt=fields.prover_prompt,
        conjecturer_prompt=fields.conjecturer_prompt,
        operands=tuple(fields.operands),
    )
