"""Planted problems, from a random legal derivation: solvable in moves by construction, of any size, without a solver.

Numbers are drawn uniformly; then two of the remaining numbers are combined by a random operation until one number
remains, which is the target. All values are integers from 1 to `value_high`. Problems with more derivations are more
likely, so that easy problems are more frequent than in generator.py. All draws use `Random.random`, whose sequence
Python guarantees for a seed."""

from collections.abc import Collection, Iterable, Iterator
from random import Random

from ..errors import ConfigError
from .generator import Split, check_request
from .problem import Problem, ProblemSpec, heldout_key

VALUE_HIGH = 99
"""Default of the largest value in a derivation: the embedded model's vocabulary has no larger number."""

PATIENCE = 1 << 14
"""Number of draws without a new problem after which a size is exhausted."""

_TRIES = 20  # pairs and operations drawn before new numbers are drawn

Derivation = tuple[Problem, list[str]]
"""Problem and the moves that solve it, in order, such as `6 * 4 = 24`."""


def combine(a: int, op: str, b: int, value_high: int) -> int | None:
    """Return the value of `a op b`, or None if that is not an integer from 1 to `value_high`."""
    if op == "/":
        value = a // b if b and a % b == 0 else 0
    else:
        value = a + b if op == "+" else a - b if op == "-" else a * b
    return value if 1 <= value <= value_high else None


def after(numbers: Iterable[int], a: int, b: int, value: int) -> list[int]:
    """Return the numbers after a move: its value, then the others in order. Raises ValueError if a or b is absent."""
    rest = list(numbers)
    rest.remove(a)
    rest.remove(b)
    return [value, *rest]


def _below(draws: Random, n: int) -> int:
    return int(draws.random() * n)


def derive(numbers: list[int], value_high: int, draws: Random) -> tuple[list[str], int] | None:
    """Return random moves, larger operand first, that leave one number, and that number; None if the draws fail."""
    left, moves = numbers, []
    while len(left) > 1:
        for _ in range(_TRIES):
            i, j = _below(draws, len(left)), _below(draws, len(left) - 1)
            j += j >= i
            a, b, op = max(left[i], left[j]), min(left[i], left[j]), "+-*/"[_below(draws, 4)]
            value = combine(a, op, b, value_high)
            if value is not None:
                break
        else:
            return None
        moves.append(f"{a} {op} {b} = {value}")
        left = after(left, a, b, value)
    return moves, left[0]


def derivations(
    k: int, spec: ProblemSpec, seed: int | str, value_high: int = VALUE_HIGH
) -> Iterator[Derivation | None]:
    """Yield endlessly random derivations of k numbers with a target in range, with repeats; None for a failed draw."""
    draws = Random(f"planted|{seed}|{k}")
    width = spec.number_high - spec.number_low + 1
    while True:
        numbers = [spec.number_low + _below(draws, width) for _ in range(k)]
        derivation = derive(numbers, value_high, draws)
        good = derivation is not None and spec.target_low <= derivation[1] <= spec.target_high
        yield (Problem(tuple(numbers), derivation[1]), derivation[0]) if derivation is not None and good else None


def fresh(draws: Iterator[Problem | None], seen: set[str], split: Split) -> Iterator[Problem]:
    """Yield problems of `split` with keys not in `seen`, add the keys, and end after PATIENCE failed draws."""
    misses = 0
    while misses < PATIENCE:
        problem, misses = next(draws), misses + 1
        if problem is not None and (key := problem.key) not in seen and heldout_key(key) == (split == "heldout"):
            seen.add(key)
            misses = 0
            yield problem


def planted_problems(
    n: int,
    spec: ProblemSpec | None = None,
    seed: int = 0,
    exclude: Iterable[Problem | str] = (),
    split: Split = "train",
    value_high: int = VALUE_HIGH,
    in_turn: bool = False,
) -> list[Problem]:
    """Return `n` problems with distinct keys in the ranges of `spec` (None: the defaults), none of them in `exclude`
    (problems or keys). Deterministic given `seed`; a smaller `n` gives a prefix of the list. Sizes are uniform over
    the spec's operand counts (repeats count); in_turn: one problem of each size in turn, ascending. split: "train" or
    "heldout", disjoint for every pair of seeds, because the key alone decides (`heldout_key`). A size without further
    problems is no longer drawn. Raises ConfigError if all sizes are exhausted."""
    spec = ProblemSpec() if spec is None else spec
    check_request(n, split)
    check_values(spec, value_high)
    seen = {item.key if isinstance(item, Problem) else str(item) for item in exclude}
    draws = {}
    for k in sorted(set(spec.operands)):
        problems_of_k = (drawn and drawn[0] for drawn in derivations(k, spec, seed, value_high))
        draws[k] = fresh(problems_of_k, seen, split)
    sizes, mix = Random(f"sizes|{seed}"), list(spec.operands)
    problems: list[Problem] = []
    while len(problems) < n and draws:
        k = sorted(draws)[len(problems) % len(draws)] if in_turn else mix[_below(sizes, len(mix))]
        one = next(draws[k], None)
        if one is None:  # exhausted: the other sizes go on
            del draws[k]
            mix = [size for size in mix if size != k]
            continue
        problems.append(one)
    if len(problems) < n:
        raise ConfigError(
            f"Only {len(problems)} of {n} problems were found in the '{split}' split of {spec} with values up to "
            f"{value_high}; ask for fewer or widen the ranges."
        )
    return problems


def check_values(spec: ProblemSpec, value_high: int) -> None:
    """Raise ConfigError unless the ranges of `spec` allow moves with values from 1 to `value_high`."""
    if type(value_high) is not int or value_high < 1:
        raise ConfigError(f"`value_high` ({value_high!r}) must be an integer of 1 or more; use {VALUE_HIGH}.")
    for name in ("number_high", "target_low"):
        if getattr(spec, name) > value_high:
            raise ConfigError(
                f"`{name}` ({getattr(spec, name)}) must not exceed `value_high` ({value_high}), the greatest value "
                "in moves; lower it, or raise value_high."
            )


def demonstrated(
    n: int, spec: ProblemSpec, seed: int, exclude: Collection[str] = (), value_high: int = VALUE_HIGH
) -> list[Derivation]:
    """Return `n` derivations for a warm start, sizes uniform over `spec.operands`; problems may repeat. No state of a
    derivation, which is itself a problem, is held out or has a key in `exclude`. Raises ConfigError if none fits."""
    check_request(n, "train")
    check_values(spec, value_high)
    draws = {k: derivations(k, spec, f"shown {seed}", value_high) for k in set(spec.operands)}
    if min(spec.operands) < 2:
        raise ConfigError(
            f"A demonstration in moves has a move, and with {min(spec.operands)} number there is none; leave that out "
            "of `operands` and `demonstration_rungs`."
        )
    sizes = Random(f"shown sizes|{seed}")
    demonstrations: list[Derivation] = []
    misses = 0
    while len(demonstrations) < n:
        one = next(draws[spec.operands[_below(sizes, len(spec.operands))]])
        keys = [Problem(tuple(state), one[0].target).key for state in states_of(one)] if one else []
        if one is None or any(heldout_key(key) or key in exclude for key in keys):
            misses += 1
            if misses > PATIENCE:
                raise ConfigError(f"No demonstration was found in {spec} in {PATIENCE} draws; widen the ranges.")
            continue
        demonstrations.append(one)
        misses = 0
    return demonstrations


def states_of(derivation: Derivation) -> list[list[int]]:
    """Return the numbers before each move of a derivation."""
    problem, moves = derivation
    states = [list(problem.numbers)]
    for move in moves[:-1]:
        a, _, b, _, value = move.split()
        states.append(after(states[-1], int(a), int(b), int(value)))
    return states
