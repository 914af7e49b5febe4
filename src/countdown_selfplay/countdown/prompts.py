"""Prompts of both roles. The prover's `countdown_3to4` and `tinyzero` equal the public data's byte for byte: public
checkpoints fail on other wordings (Multimodal LLM Self-Play, section 3.4). The conjecturer's `completion` and `json`
follow Allen and Ståblein and Multimodal LLM Self-Play, whose texts are not completely public; `compact*` is for tiny
models. A renderer returns a string (raw prompt) or a list of chat messages (the trainer applies the chat template)."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from ..errors import DataError
from ..registry import Registry
from .exact.solver import MAX_OPERANDS
from .generator import generate_problems
from .planted import VALUE_HIGH, planted_problems
from .problem import Problem, ProblemSpec

T = TypeVar("T")
Message = dict[str, str]
Prompt = str | list[Message]

SYSTEM = "You are a helpful assistant."

_INSTRUCTION = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. "
    "The assistant first thinks about the reasoning process in the mind and then provides the user with the answer.\n"
    "User: Using the numbers {numbers}, create an equation that equals {target}. "
    "You can use basic arithmetic operations (+, -, *, /) and each number can only be used once. "
    "Show your work in <think> </think> tags. "
    "And return the final answer in <answer> </answer> tags, for example <answer> (1 + 2) / 3 </answer>.\n"
    "Assistant: Let me solve this step by step."
)

COMPLETION_PREFIX = "<problem> numbers=["
COMPLETION_STOP = "</problem>"
SHOTS = 6
_SHOT_SEED = 1  # seed of the worked examples, which are on the training side of the split


def print_like_numpy(numbers: Sequence[int]) -> str:
    """Format numbers as `str(np.array(numbers))` does: right-aligned, no commas, lines of at most 75 columns."""
    width = max(len(str(number)) for number in numbers)
    how: Any = {"int": lambda number: str(number).rjust(width)}  # whatever the caller's print options
    return np.array2string(np.array(numbers), 75, separator=" ", formatter=how, threshold=len(numbers))


def chat(user: str) -> list[Message]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]


def countdown_3to4(problem: Problem) -> Prompt:
    """Render the chat prompt of `asingh15/countdown_tasks_3to4`; numbers as NumPy prints them: `[14 45  9  1]`."""
    return chat(_INSTRUCTION.format(numbers=print_like_numpy(problem.numbers), target=problem.target))


def tinyzero(problem: Problem) -> Prompt:
    """Render the text of `countdown_3to4` as a raw prompt, numbers with commas, that ends in `<think>`."""
    return _INSTRUCTION.format(numbers=list(problem.numbers), target=problem.target) + "\n<think>"


def compact(problem: Problem) -> Prompt:
    """Render the tiny model's prompt, word-level tokens between single spaces: `3 5 7 = 22 :`."""
    return f"{' '.join(map(str, problem.numbers))} = {problem.target} :"


def compact_moves(problem: Problem, value_high: int = VALUE_HIGH) -> Prompt:
    """Render the tiny model's prompt for one move: the remaining numbers and the target, `24 3 5 : 24`."""
    return f"{' '.join(map(str, problem.numbers))} : {problem.target}"


def moves(problem: Problem, value_high: int = VALUE_HIGH) -> Prompt:
    return chat(
        "Countdown in moves. A move takes two of the numbers that are left and puts the result of one operation "
        "(+, -, * or /) in their place. Each number may be used once, every result must be an integer from 1 to "
        f"{value_high}, and a division must leave no remainder. The game is won when one number is "
        "left and it is the target.\n"
        f"Numbers left: {', '.join(map(str, problem.numbers))}\nTarget: {problem.target}\n"
        "Reply with ONE move, the next one, in <answer> tags, for example <answer> 6 * 4 = 24 </answer>."
    )


_ASKED = re.compile(r"numbers\s*\[([0-9,\s]+)\][^\[\]]*?equals\s+(-?[0-9]+)")


def problem_in_prompt(text: str) -> Problem | None:
    """Return the problem in a prompt of the public data (`... numbers [44 19 35], create an equation that equals 98
    ...`, with or without commas), or None if there is no valid problem."""
    match = _ASKED.search(text[:4096])
    numbers = re.findall("[0-9]+", match[1]) if match else []
    try:
        return Problem(tuple(map(int, numbers)), int(match[2])) if match else None
    except DataError:
        return None


PROVER_PROMPTS: Registry[Callable[..., Prompt]] = Registry(
    "prover prompt", {one.__name__: one for one in (countdown_3to4, tinyzero, compact, compact_moves, moves)}
)

MOVES_PROMPTS = {"compact_moves", "moves"}
"""Names of prompts that request one move and take the argument `value_high`; add a custom prompt for moves here."""

BARE_PROMPTS = {"compact", "compact_moves"}
"""Names of prompts whose answers have no tags."""


def json_example(operands: int) -> Problem:
    """Return the worked example in the JSON prompt: solvable, of the requested size; copies of it are refused."""
    numbers = {1: (24,), 2: (4, 6), 3: (2, 3, 4)}.get(operands, tuple(range(1, operands + 1)))
    return Problem(numbers, 24 if operands <= 6 else sum(numbers))


@lru_cache(maxsize=64)
def completion_shots(operands: int, spec: ProblemSpec) -> tuple[Problem, ...]:
    """Return the six worked examples of the completion prompt: solvable problems in the requested ranges."""
    if operands > MAX_OPERANDS:  # beyond the exact solver
        high = max(VALUE_HIGH, spec.number_high, spec.target_high)
        return tuple(planted_problems(SHOTS, replace(spec, operands=(operands,)), _SHOT_SEED, value_high=high))
    return tuple(generate_problems(SHOTS, replace(spec, operands=(operands,)), seed=_SHOT_SEED))


def problem_json(problem: Problem) -> str:
    """Format a problem as `{"target": 24, "numbers": [2, 3, 4]}`."""
    return json.dumps({"target": problem.target, "numbers": list(problem.numbers)})


def problem_tag(problem: Problem) -> str:
    """Format a problem as `<problem> numbers=[2, 3, 4], target=24 </problem>`."""
    return f"{COMPLETION_PREFIX}{', '.join(map(str, problem.numbers))}], target={problem.target} {COMPLETION_STOP}"


def _request(operands: int, spec: ProblemSpec, or_more: bool = False) -> str:
    count = f"{operands} or more" if or_more else f"exactly {operands}"
    return (
        f"Generate a NEW countdown arithmetic problem that uses {count} distinct positive integers from "
        f"{spec.number_low} to {spec.number_high}. "
        f"The target must be an integer from {spec.target_low} to {spec.target_high} that can be reached by using "
        f"every number exactly once with the operations +, -, *, / and parentheses. "
        "Do NOT copy the example below; invent different numbers and a different target.\n"
        f"Example: <answer>{problem_json(json_example(operands))}</answer>\n"
        "Output ONLY the answer tags with JSON inside: "
        '<answer>{"target": <integer>, "numbers": [<integer>, ...]}</answer>'
    )


def propose_json(operands: int, spec: ProblemSpec, or_more: bool = False) -> Prompt:
    """Render a request for JSON (Multimodal LLM Self-Play, section 3.3) as one user turn of a chat."""
    return chat(_request(operands, spec, or_more))


def propose_tier(operands: int, spec: ProblemSpec, or_more: bool = False) -> Prompt:
    """Render the request of `propose_json` as a tier's system prompt (Multimodal LLM Self-Play, section 3.3)."""
    system = _request(operands, spec, or_more)
    return [{"role": "system", "content": system}, {"role": "user", "content": "Generate one new problem."}]


def _after_shots(count: str, shots: Iterable[Problem], spec: ProblemSpec) -> Prompt:
    return (
        f"Countdown arithmetic problems. Each uses {count} numbers from {spec.number_low} to {spec.number_high} "
        f"and a target from {spec.target_low} to {spec.target_high} that can be reached by using every number exactly "
        f"once with +, -, *, /.\n{chr(10).join(map(problem_tag, shots))}\n{COMPLETION_PREFIX}"
    )


def propose_completion(operands: int, spec: ProblemSpec, or_more: bool = False) -> Prompt:
    """Render six examples (Allen and Ståblein) and the beginning of a seventh, which ends in `<problem> numbers=[`."""
    count = f"{operands} or more" if or_more else f"{operands}"
    return _after_shots(count, completion_shots(operands, spec), spec)


_FIXED_SHOTS = (
    Problem((6, 23, 55), 72),
    Problem((30, 3, 94, 37), 33),
    Problem((86, 52, 6), 40),
    Problem((25, 25, 84, 71), 13),
    Problem((8, 18, 86), 58),
    Problem((10, 19, 49, 5), 63),
)
"""Solvable examples of three and four numbers, in the training split."""


def propose_six_shots(operands: int, spec: ProblemSpec, or_more: bool = False) -> Prompt:
    """Render six fixed examples of three and four numbers, the same prompt for every request, as in Allen and Ståblein
    (whose numbers and header differ)."""
    return _after_shots("3 or 4", _FIXED_SHOTS, spec)


def propose_compact(operands: int, spec: ProblemSpec, or_more: bool = False) -> Prompt:
    """Render the tiny model's prompt: `propose 3 :`, also for "3 or more"."""
    return f"propose {operands} :"


def propose_any(operands: int | None = None, spec: ProblemSpec | None = None, **request: object) -> Prompt:
    """Render the tiny model's prompt `propose :` for every request: the conjecturer chooses the size."""
    return "propose :"


CONJECTURER_PROMPTS: Registry[Callable[..., Prompt]] = Registry(
    "conjecturer prompt",
    dict(json=propose_json, tier=propose_tier, completion=propose_completion, six_shots=propose_six_shots)
    | dict(compact=propose_compact, compact_any=propose_any),
)


def by_style(json: T, completion: T, compact: T, compact_any: T | None = None) -> dict[str, T]:
    """Return a dict from each name in CONJECTURER_PROMPTS to the argument for its style."""
    styles = {"json": json, "tier": json, "completion": completion, "six_shots": completion, "compact": compact}
    return {**styles, "compact_any": compact_any or compact}


def _completed(problem: Problem) -> str:
    return problem_tag(problem).removeprefix(COMPLETION_PREFIX)


def _tagged(problem: Problem) -> str:
    return f"<answer>{problem_json(problem)}</answer>"


def _equation(problem: Problem) -> str:
    return f"{' '.join(map(str, problem.numbers))} = {problem.target}"


PROPOSAL_TEXTS: dict[str, Callable[[Problem], str]] = by_style(_tagged, _completed, _equation)
"""Name of a prompt -> function that formats a problem as the conjecturer writes it."""

SIZELESS_PROMPTS = {"compact_any"}
"""Names of prompts that request one problem of any size."""

EXAMPLES: dict[str, Callable[[ProblemSpec], Iterable[Problem]]] = {
    "completion": lambda spec: (shot for k in spec.operands for shot in completion_shots(k, spec)),
    "six_shots": lambda spec: _FIXED_SHOTS,
}
"""Name of a prompt -> function from a ProblemSpec to the prompt's worked examples. JSON prompts: `json_example`."""
