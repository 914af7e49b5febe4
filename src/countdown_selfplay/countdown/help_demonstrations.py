"""Demonstrations for the conjecturer and the guide of self-guided self-play: problems that may help with a target,
found by the exact solver."""

from __future__ import annotations

import random
from collections import Counter

from .exact.batch import is_solvable_batch
from .exact.solver import reachable_targets
from .generator import generate_problems
from .problem import Problem, ProblemSpec, heldout_key
from .rules import Rules

STEP, NEAR, FAR = "step", "near", "far"
KINDS = (STEP, STEP, NEAR, FAR)
"""What a demonstration shows, with these odds: half of them a step towards the target, a quarter a problem with some
of its numbers, a quarter any problem. A guide then has something to choose from, a reviewer something to refuse."""

_TRIES = 40
_POOL: dict[tuple[ProblemSpec, Rules], list[Problem]] = {}


def helping_problem(target: Problem, spec: ProblemSpec, rules: Rules, seed: str) -> Problem:
    """A solvable problem in the ranges of `spec`, on the training side of the split and not the target itself; which
    one is a function of `seed`. Where a kind is not to be had it is any problem."""
    generator = random.Random(f"help|{seed}")
    kind = generator.choice(KINDS)
    for _ in range(_TRIES if kind != FAR else 0):
        found = _part(target, spec, rules, generator) if kind == STEP else _neighbour(target, spec, rules, generator)
        if found is not None and spec.admits(found) and not heldout_key(found.key) and found.key != target.key:
            return found
    if (spec, rules) not in _POOL:
        _POOL[spec, rules] = generate_problems(512, spec, seed=0, rules=rules)
    found = generator.choice(_POOL[spec, rules])
    while found.key == target.key:
        found = generator.choice(_POOL[spec, rules])
    return found


def _part(target: Problem, spec: ProblemSpec, rules: Rules, generator: random.Random) -> Problem | None:
    """Some of the target's numbers and a value of theirs from which the target can be reached."""
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
    """The target's numbers, one of them another and perhaps one fewer, with a value of theirs."""
    sizes = [size for size in spec.operands if size <= len(target.numbers)]
    if not sizes:
        return None
    numbers = generator.sample(target.numbers, generator.choice(sizes))
    numbers[generator.randrange(len(numbers))] = generator.randint(spec.number_low, spec.number_high)
    values = list(reachable_targets(tuple(numbers), spec.target_low, spec.target_high, rules))
    return Problem(tuple(numbers), generator.choice(values)) if values else None
