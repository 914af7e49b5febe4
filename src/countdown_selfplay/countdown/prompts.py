"""Prompts of both roles, byte for byte as the public checkpoints were trained on (other phrasings give them zero
reward)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..registry import Registry
from .generator import ProblemSpec
from .problem import Problem

Prompt = str | list[dict[str, str]]

_TASK = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The "
    "assistant first "
    "thinks about the reasoning process in the mind and then provides the user with the answer.\nUser: Using the "
    "numbers "
    "{numbers}, create an equation that equals {target}. You can use basic arithmetic operations (+, -, *, /) and "
    "each number "
    "can only be used once. Show your work in <think> </think> tags. And return the final answer in <answer> "
    "</answer> tags, "
    "for example <answer> (1 + 2) / 3 </answer>.\nAssistant: Let me solve this step by step."
)


def numpy_style(numbers: Sequence[int]) -> str:
    """Integers as NumPy prints an array: padded to the widest, no commas, "[14 45  9  1]"."""
    width = max(len(str(n)) for n in numbers)
    return "[" + " ".join(str(n).rjust(width) for n in numbers) + "]"


def countdown_3to4(problem: Problem) -> Prompt:
    """Chat prompt of asingh15/qwen-sft-countdown-defaultproj and its data set."""
    text = _TASK.format(numbers=numpy_style(problem.numbers), target=problem.target)
    return [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": text}]


def tinyzero(problem: Problem) -> Prompt:
    """TinyZero's raw prompt: the same text with commas between the numbers, ending inside the thinking."""
    return _TASK.format(numbers=list(problem.numbers), target=problem.target) + "\n<think>"


def compact(problem: Problem) -> Prompt:
    """Prompt of the embedded tiny model: "3 5 7 = 22 :"."""
    return f"{' '.join(map(str, problem.numbers))} = {problem.target} :"


PROVER_PROMPTS: Registry[Callable[[Problem], Prompt]] = Registry(
    "prover prompt", {"countdown_3to4": countdown_3to4, "tinyzero": tinyzero, "compact": compact}
)

# Worked examples; a proposal that copies one is refused. Solvable: 2*3*4; 35+44+19; 50-4*6; 25*4-10+5; 7+8+9;
# (12-4)*6+3.
JSON_EXAMPLE = Problem((2, 3, 4), 24)
SHOTS = (
    Problem((44, 19, 35), 98),
    Problem((50, 4, 6), 26),
    Problem((25, 4, 10, 5), 95),
    Problem((7, 8, 9), 24),
    Problem((12, 4, 6, 3), 51),
    Problem((81, 9, 30), 39),
)
COMPLETION_PREFIX = "<problem> numbers=["


def propose_json(operands: int, spec: ProblemSpec) -> Prompt:
    """Chat prompt with a JSON answer (seed 000, section 3.3)."""
    text = (
        f"Write a new Countdown problem: {operands} whole numbers from {spec.number_low} to {spec.number_high} and a "
        "target from "
        f"{spec.target_low} to {spec.target_high} that can be made from them. The target must be reachable with +, "
        "-, *, / and "
        "every number used exactly once, and the problem should be neither trivial nor impossible for a strong "
        "student. Think "
        "first, then give the problem as JSON in answer tags, for example "
        '<answer>{"target": 24, "numbers": [2, 3, 4]}</answer>. Do not copy the example.'
    )
    return [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": text}]


def propose_completion(operands: int, spec: ProblemSpec) -> Prompt:
    """Six shots and the beginning of the next problem (seed 001): about 95% of a 0.5B model's continuations parse.

    Half of the shots have the asked-for operand count at the end, where they weigh most.
    """
    shots = sorted(SHOTS, key=lambda shot: len(shot.numbers) == operands)
    lines = [f"<problem> numbers={list(shot.numbers)}, target={shot.target} </problem>" for shot in shots]
    return "\n".join([*lines, COMPLETION_PREFIX])


def propose_compact(operands: int, spec: ProblemSpec) -> Prompt:
    """Prompt of the embedded tiny model: "propose 3 :"."""
    return f"propose {operands} :"


CONJECTURER_PROMPTS: Registry[Callable[[int, ProblemSpec], Any]] = Registry(
    "conjecturer prompt", {"json": propose_json, "completion": propose_completion, "compact": propose_compact}
)
