"""Rows of data sets: a problem in the public schemas, and (prompt, completion) pairs for warm starts of both roles;
the prover's completion is a bare solution or a search trace. Traces contain true statements only: exact arithmetic,
and dead ends that the exact solver has verified."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from ..countdown.domain import CountdownDomain
from ..countdown.exact.forms import Node
from ..countdown.exact.listing import reachable_targets
from ..countdown.exact.solver import is_solvable, is_solvable_batch
from ..countdown.generator import generate_problems
from ..countdown.helping import review_text
from ..countdown.problem import DEFAULT_RULES, Problem, ProblemSpec, Rules, heldout_key
from ..countdown.prompts import PROPOSAL_TEXTS, Prompt
from ..countdown.rows import compact_solution, solution_of
from ..countdown.verifier import CLOSE, END_THINK, OPEN, THINK
from ..registry import Registry

Row = dict[str, Any]

STEP, NEAR, FAR = "step", "near", "far"
KINDS = (STEP, STEP, NEAR, FAR)
"""Types of helping problems, drawn uniformly from this list: half are a step towards the target, a quarter have some
of the target's numbers, a quarter are any problem, so that guides and reviewers see useful and useless problems."""
STEPS = (STEP,)
"""Types of helping problems without distractors, for the initial conjecturer of SGS."""

MOST_DEAD_ENDS = 3

WITHOUT_TARGET = 0.2
"""Share of the `helping` rows without a target in the prompt, so that a model learns both prompts of SGS."""


def nums_row(problem: Problem, domain: CountdownDomain) -> Row:
    """Return a row with `nums` and `target`, the schema of `Jiayi-Pan/Countdown-Tasks-3to4`."""
    return {"nums": list(problem.numbers), "target": problem.target}


def ground_truth_row(problem: Problem, domain: CountdownDomain) -> Row:
    """Return `prompt`, `target`, `nums` and `ground_truth`, the schema of `asingh15/countdown_tasks_3to4`."""
    prompt, numbers = domain.prove_row(problem)["prompt"], list(problem.numbers)
    return {"prompt": prompt, "target": problem.target, "nums": numbers, "ground_truth": nums_of(problem)}


def solved_row(problem: Problem, domain: CountdownDomain) -> Row:
    """Return `prompt`, `completion`, `numbers`, `target`: a demonstration for the prover's warm start. The completion
    is a bare solution for the compact prompt, else a search in `<think>` and the solution in `<answer>`."""
    prompt = domain.prove_row(problem)["prompt"]
    if domain.prover_prompt == "compact":
        return _shown(prompt, compact_solution(problem, domain.rules), problem)
    begun = isinstance(prompt, str) and prompt.endswith(THINK)
    return _shown(prompt, solution_trace(problem, domain.rules, thinking_begun=begun), problem)


def move_rows(n: int, domain: CountdownDomain, seed: int, exclude: Collection[str] = ()) -> Iterator[tuple[int, Row]]:
    """Yield, for each move of `n` episodes of the training split, the size of the episode's problem and a row of the
    schema `moves`: `prompt`, `completion`, `numbers` (the remaining ones) and `target`. Sizes are drawn as often as
    the domain lists them."""
    for episode in domain.demonstrations(n, seed, domain.operands or None, exclude):
        for row, text in episode:
            yield len(episode) + 1, _shown(row["prompt"], text, domain.problem(row))


MOVES_SCHEMA = "moves"
"""Name of the schema with several rows per problem, which `move_rows` builds; it is not in ROW_SCHEMAS."""

UNSOLVED_SCHEMAS = frozenset({"nums", "ground_truth", "prover", "proposed"})
"""Schemas whose rows contain no solution, so that the exact solver's limit does not bound the number of operands."""


def proposed_row(problem: Problem, domain: CountdownDomain) -> Row:
    """Return `prompt`, `completion`, `numbers`, `target`: a demonstration for the conjecturer's warm start."""
    prompt = domain.propose_row(len(problem.numbers))["prompt"]
    return _shown(prompt, _proposed(problem, domain), problem)


def _proposed(problem: Problem, domain: CountdownDomain) -> str:
    return PROPOSAL_TEXTS[domain.conjecturer_prompt](problem)


def helping_row(problem: Problem, domain: CountdownDomain, kinds: Sequence[str] = KINDS) -> Row:
    """Return `prompt`, `completion`, `numbers`, `target`: a demonstration for a conjecturer of problems that help to
    solve `problem`; the columns hold the helping problem. One prompt in five does not show `problem`, so that the
    conjecturer also learns the prompt without a target. kinds: `KINDS` or `STEPS`."""
    helping = _helping(problem, domain, kinds)
    hidden = random.Random(f"no target|{problem.numbers}{problem.target}").random() < WITHOUT_TARGET
    prompt = domain.propose_row(target=None if hidden else problem)["prompt"]
    return _shown(prompt, _proposed(helping, domain), helping)


def variant_row(problem: Problem, domain: CountdownDomain, kinds: Sequence[str] = KINDS) -> Row:
    """Return the columns of `helping_row` for a conjecturer whose prompt shows `problem` with a solution (STP)."""
    helping = _helping(problem, domain, kinds)
    text = compact_solution(problem, domain.rules)
    given = text if domain.prover_prompt == "compact" else f"{OPEN} {text} {CLOSE}"
    prompt = domain.propose_row(variant_of=problem, solution=given)["prompt"]
    return _shown(prompt, _proposed(helping, domain), helping)


def reviewed_row(problem: Problem, domain: CountdownDomain, kinds: Sequence[str] = KINDS) -> Row:
    """Return the columns of `helping_row` for a guide; `completion` is the rubric's review of the helping problem."""
    helping = _helping(problem, domain, kinds)
    prompt = domain.helping.review_row(problem, helping)["prompt"]
    return _shown(prompt, review_text(domain.helping.review(problem, helping), domain.conjecturer_prompt), helping)


def _helping(problem: Problem, domain: CountdownDomain, kinds: Sequence[str]) -> Problem:
    return helping_problem(problem, domain.spec, domain.rules, f"{problem.numbers}{problem.target}", kinds)


def nums_of(problem: Problem) -> Row:
    return {"numbers": list(problem.numbers), "target": problem.target}


def _shown(prompt: Prompt, text: str, problem: Problem) -> Row:
    completion = text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
    return {"prompt": prompt, "completion": completion, **nums_of(problem)}


WITH_A_TARGET = {"helping": helping_row, "variant": variant_row, "reviewed": reviewed_row}
"""Schemas of problems that help to solve a target; each has a version without distractors, such as `helping_steps`."""

ROW_SCHEMAS: Registry[Callable[[Problem, CountdownDomain], Row]] = Registry(
    "row schema",
    {
        "nums": nums_row,
        "ground_truth": ground_truth_row,
        # `prompt`, `numbers`, `target`: the schema of these trainers, conversational if the prompt is a chat
        "prover": lambda problem, domain: domain.prove_row(problem),
        "solved": solved_row,
        "proposed": proposed_row,
        **WITH_A_TARGET,
        **{f"{name}_steps": partial(row, kinds=STEPS) for name, row in WITH_A_TARGET.items()},
    },
)


def solution_trace(problem: Problem, rules: Rules = DEFAULT_RULES, thinking_begun: bool = False) -> str:
    """Return a short deterministic search in `<think>` and the solution in `<answer>`, with up to three dead ends
    first. thinking_begun: the prompt already ends in `<think>`. Raises DataError if there is no solution."""
    solution = solution_of(problem, rules)
    numbers = ", ".join(map(str, problem.numbers))
    lines = [f"Use {numbers} to reach {problem.target}.", *_dead_ends(problem, rules)]
    steps, answer = _steps(solution), solution.text()
    lines += [*steps, f"That is {problem.target}."] if steps else [f"The number {answer} is the target."]
    thinking = "\n".join(lines)
    begin = "" if thinking_begun else THINK
    return f"{begin}\n{thinking}\n{END_THINK}\n{OPEN} {answer} {CLOSE}"


def _dead_ends(problem: Problem, rules: Rules) -> list[str]:
    """Return up to MOST_DEAD_ENDS lines, each on a first step after which the target cannot be reached. The lines are
    deterministic given the problem and the rules."""
    generator = random.Random(problem.key)
    numbers = problem.numbers
    steps = [(i, j, op) for i in range(len(numbers)) for j in range(len(numbers)) for op in "+-*" if i != j]
    generator.shuffle(steps)
    wanted = generator.randrange(MOST_DEAD_ENDS + 1)
    lines: list[str] = []
    for i, j, op in steps[: 4 * MOST_DEAD_ENDS]:
        a, b = numbers[i], numbers[j]
        result = a + b if op == "+" else a - b if op == "-" else a * b
        rest = [number for n, number in enumerate(numbers) if n not in (i, j)] + [result]
        if len(lines) < wanted and result > 0 and not is_solvable(Problem(tuple(rest), problem.target), rules):
            left = ", ".join(map(str, rest))
            lines.append(f"Try {a} {op} {b} = {result}: with {left} there is no way to {problem.target}. Go back.")
    return lines


def _steps(tree: Node) -> list[str]:
    """Return the binary steps that compute the tree, innermost first: `8 / 3 = 8/3`."""
    lines: list[str] = []

    def value(node: Node) -> Fraction:
        if node.kind == "number":
            return Fraction(node.number)
        ordered = sorted(node.parts, key=lambda part: -part[0])
        (_, first), *rest = ordered
        total = value(first)
        for sign, part in rest:
            other = value(part)
            if node.kind == "sum":
                op, result = ("+", total + other) if sign > 0 else ("-", total - other)
            else:
                op, result = ("*", total * other) if sign > 0 else ("/", total / other)
            left, right = (str(v) if v.denominator == 1 and v >= 0 else f"({v})" for v in (total, other))
            lines.append(f"{left} {op} {right} = {result}")
            total = result
        return total

    value(tree)
    return lines


_TRIES = 40
_POOL: dict[tuple[ProblemSpec, Rules], list[Problem]] = {}


def helping_problem(
    target: Problem, spec: ProblemSpec, rules: Rules, seed: str, kinds: Sequence[str] = KINDS
) -> Problem:
    """Return a solvable problem of the training split in the ranges of `spec`, other than the target; deterministic
    given `seed`. `kinds`: types to draw from uniformly. If 40 tries give no problem of the type, any is returned."""
    generator = random.Random(f"help|{seed}")
    kind = generator.choice(kinds)
    for _ in range(_TRIES if kind != FAR else 0):
        helping = _part(target, spec, rules, generator) if kind == STEP else _neighbour(target, spec, rules, generator)
        if helping is not None and spec.admits(helping) and not heldout_key(helping.key) and helping.key != target.key:
            return helping
    if (spec, rules) not in _POOL:
        _POOL[spec, rules] = generate_problems(512, spec, seed=0, rules=rules)
    helping = generator.choice(_POOL[spec, rules])
    while helping.key == target.key:
        helping = generator.choice(_POOL[spec, rules])
    return helping


def _part(target: Problem, spec: ProblemSpec, rules: Rules, generator: random.Random) -> Problem | None:
    """Return a problem with some of the target's numbers that is a step towards the target, or None."""
    sizes = [size for size in spec.operands if size < len(target.numbers)]
    if not sizes:
        return None
    numbers = tuple(generator.sample(target.numbers, generator.choice(sizes)))
    values = list(reachable_targets(numbers, max(1, spec.target_low), spec.target_high, rules))
    generator.shuffle(values)
    left = list((Counter(target.numbers) - Counter(numbers)).elements())
    leads = is_solvable_batch([Problem((*left, value), target.target) for value in values], rules)
    return next((Problem(numbers, value) for value, led in zip(values, leads, strict=True) if led), None)


def _neighbour(target: Problem, spec: ProblemSpec, rules: Rules, generator: random.Random) -> Problem | None:
    """Return a problem with the target's numbers, one of them replaced and perhaps some left out, or None."""
    sizes = [size for size in spec.operands if size <= len(target.numbers)]
    if not sizes:
        return None
    numbers = generator.sample(target.numbers, generator.choice(sizes))
    numbers[generator.randrange(len(numbers))] = generator.randint(spec.number_low, spec.number_high)
    values = list(reachable_targets(tuple(numbers), spec.target_low, spec.target_high, rules))
    return Problem(tuple(numbers), generator.choice(values)) if values else None
