"""Edits of problems: numbers are changed, and a target is chosen that a specified type of expression reaches (Task
Difficulty and Diversity, sections 3.3 and 3.4). The authors name actions without sizes; here sizes are fractions of
the width of the numbers' range, so that they are comparable for numbers up to 12 and up to 99."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..contract.domain import Mutations
from ..errors import ConfigError
from .exact.forms import ADD_BIT, DIV_BIT, MUL_BIT, SUB_BIT, Array
from .exact.solver import MAX_OPERANDS
from .features import (
    FEATURES,
    Found,
    feature_matrix,
    feature_rows,
    number_columns,
    scaled_features,
    solutions_between,
)
from .problem import Problem, ProblemSpec, Rules, problem_of_key

NUMBER_ACTIONS: Mapping[str, str] = {
    "small": "each number with probability 1/2, one at least, moves by at most a twentieth of the range (or by 1)",
    "large": "the same, by more than that and at most a quarter of the range",
    "replace": "one number becomes another one, uniform over the range",
    "resample": "all numbers are drawn anew, uniform over the range",
}
"""Edits of a seed problem's numbers. The first two can leave the range: such a candidate is refused, not clipped."""

EXPRESSION_ACTIONS: Mapping[str, str] = {
    "add_sub": "some solution adds and subtracts only",
    "multiply": "every solution multiplies",
    "divide": "every solution divides",
    "multi_step": "every solution nests: a sum within a product, or a product within a sum",
}
"""Types of solution. A new target is drawn uniformly from those in range that require the type (add_sub: permit it).
Solutions are trees up to rewriting (features.py): a / (b / c) is a x c / b, which multiplies."""

LOCAL, WIDE = 0.05, 0.25
SEED_FEATURES = ("operands", "number_min", "number_max", "number_mean", "number_std", "distinct_numbers", "target")
"""Features of a seed problem that need no solution: inputs of a proposer's policy."""


class Mutants(NamedTuple):
    """Candidates of `mutate`. problems: (N), None for "out_of_range" and "unsolvable". reasons: (N),
    "ok", "out_of_range", "unsolvable" (no target in range needs such an expression) or "trivial". features: (N,
    features) as of `feature_matrix`, NaN unless the reason is "ok"."""

    problems: list[Problem | None]
    reasons: list[str]
    features: Array


def changed(
    numbers: Sequence[Sequence[int]], actions_P: Array, spec: ProblemSpec, generator: np.random.Generator
) -> Array:
    """Return the numbers of P seed problems, (P, k), after one number action on each."""
    numbers_PK = np.array(numbers, dtype=np.int64)
    problems, k = numbers_PK.shape
    width = spec.number_high - spec.number_low + 1
    near = max(1, int(LOCAL * width))
    far = max(near + 1, int(WIDE * width))
    one_PK = np.arange(k) == generator.integers(k, size=(problems, 1))
    some_PK = (generator.random((problems, k)) < 0.5) | one_PK
    sign_PK = generator.choice([-1, 1], size=(problems, k))
    small_PK = sign_PK * generator.integers(1, near + 1, size=(problems, k))
    large_PK = sign_PK * generator.integers(near + 1, far + 1, size=(problems, k))
    fresh_PK = generator.integers(spec.number_low, spec.number_high + 1, size=(problems, k))
    # A uniform different number: a step of 1 to width - 1 around the range.
    step_PK = generator.integers(1, max(width, 2), size=(problems, k))
    other_PK = (numbers_PK - spec.number_low + step_PK) % width + spec.number_low
    action_PK = np.broadcast_to(actions_P[:, None], (problems, k))
    return np.select(
        [(action_PK == "small") & some_PK, (action_PK == "large") & some_PK, (action_PK == "replace") & one_PK],
        [numbers_PK + small_PK, numbers_PK + large_PK, other_PK],
        np.where(action_PK == "resample", fresh_PK, numbers_PK),
    )


def is_trivial(ordered_PK: Array, target_P: Array, rules: Rules) -> Array:
    """Return whether each problem is trivial, as bools (P,). A problem is trivial if its target is the sum or the
    product of all its numbers or, without `rules.use_all`, one of them. Task Difficulty and Diversity excludes trivial
    problems without defining them."""
    product_P = np.prod(ordered_PK.astype(float), axis=1)
    found_P = (ordered_PK.sum(axis=1) == target_P) | (product_P == target_P)
    return found_P if rules.use_all else found_P | (ordered_PK == target_P[:, None]).any(axis=1)


def _targets(found: Found, kinds_P: Array, spec: ProblemSpec, generator: np.random.Generator) -> tuple[Array, Array]:
    """Return a random target for each problem's type of solution, (P,), and whether there is such a target, (P,)."""
    problems, width = len(kinds_P), spec.target_high - spec.target_low + 1
    cells = found.problems * width + (found.targets - spec.target_low)
    adds, multiplies = (found.operators & bits > 0 for bits in (ADD_BIT | SUB_BIT, MUL_BIT | DIV_BIT))
    of_kind = {
        "add_sub": ~multiplies,
        "multiply": found.operators & MUL_BIT > 0,
        "divide": found.operators & DIV_BIT > 0,
        "multi_step": (found.depth > 1) & adds & multiplies,
    }

    def counted(mask: Array | None = None) -> Array:
        return np.bincount(cells, mask, minlength=problems * width).reshape(problems, width)

    count_PT, priority_PT = counted(), generator.random((problems, width))
    for kind, mask in of_kind.items():
        own_P = kinds_P == kind
        least_PT = 1 if kind == "add_sub" else count_PT[own_P]
        fits_PT = (count_PT[own_P] > 0) & (counted(mask)[own_P] >= least_PT)
        priority_PT[own_P] = np.where(fits_PT, priority_PT[own_P], -1.0)
    best_P = priority_PT.argmax(axis=1)
    return best_P + spec.target_low, priority_PT[np.arange(problems), best_P] >= 0


def _features(ordered_PK: Array, target_P: Array, good: Array, found: Found, rules: Rules) -> Array:
    """Return the features of the rows `good`, (good, features)."""
    place_P = np.full(len(target_P), -1)
    place_P[good] = np.arange(len(good))
    kept = (found.targets == target_P[found.problems]) & (place_P[found.problems] >= 0)
    own = Found(*(column[kept] for column in found))
    return feature_rows(
        ordered_PK[good], target_P[good], own._replace(problems=place_P[own.problems]), rules, workers=1
    )


@dataclass(frozen=True)
class CountdownMutations(Mutations):
    """Edits of Countdown problems for symbolic proposers."""

    spec: ProblemSpec
    rules: Rules

    number_actions = tuple(NUMBER_ACTIONS)
    expression_actions = tuple(EXPRESSION_ACTIONS)
    feature_names = tuple(FEATURES)

    def mutate(
        self, seeds: Sequence[Problem], number_actions: Sequence[str], expression_actions: Sequence[str], seed: int
    ) -> Mutants:
        """Return one candidate per seed problem and its pair of actions, deterministic given the arguments. A
        candidate has its seed's number of operands. Raises ConfigError for operand counts above MAX_OPERANDS."""
        spec = self.spec
        if max(spec.operands) > MAX_OPERANDS:
            raise ConfigError(
                f"`operands` ({spec.operands}) must not exceed {MAX_OPERANDS}, the most that the exact solver takes; "
                "in moves use ucb_rungs, thompson_rungs or bandit_rungs, which need no solver."
            )
        generator = np.random.default_rng(seed)
        total = len(seeds)
        problems: list[Problem | None] = [None] * total
        reasons = np.full(total, "out_of_range", dtype=object)
        features = np.full((total, len(FEATURES)), np.nan)
        numbers_of, kinds = np.array(number_actions), np.array(expression_actions)
        for k in sorted({len(problem.numbers) for problem in seeds} & set(spec.operands)):
            rows = np.array([i for i, problem in enumerate(seeds) if len(problem.numbers) == k])
            numbers_PK = changed([seeds[i].numbers for i in rows], numbers_of[rows], spec, generator)
            inside_P = ((numbers_PK >= spec.number_low) & (numbers_PK <= spec.number_high)).all(axis=1)
            rows, numbers_PK = rows[inside_P], numbers_PK[inside_P]
            if not len(rows):
                continue
            ordered_PK = np.sort(numbers_PK, axis=1)
            found = solutions_between(ordered_PK, spec.target_low, spec.target_high, self.rules, workers=1)
            target_P, found_P = _targets(found, kinds[rows], spec, generator)
            trivial_P = found_P & is_trivial(ordered_PK, target_P, self.rules)
            reasons[rows] = np.where(trivial_P, "trivial", np.where(found_P, "ok", "unsolvable"))
            for i in np.flatnonzero(found_P):
                problems[rows[i]] = Problem(tuple(numbers_PK[i].tolist()), int(target_P[i]))
            good = np.flatnonzero(found_P & ~trivial_P)
            features[rows[good]] = _features(ordered_PK, target_P, good, found, self.rules)
        return Mutants(problems, reasons.tolist(), features)

    def features(self, problems: Sequence[Problem]) -> Array:
        return feature_matrix(problems, self.rules)

    def novelty(self, problems: Sequence[Problem], feature_set: int = 13, features_PF: Any = None) -> Array:
        return scaled_features(problems, self.spec, self.rules, feature_set, features_PF)

    def seed_features(self, problems: Sequence[Problem]) -> Array:
        """Return SEED_FEATURES, (P, 7), divided by the largest operand count, number or absolute target of `spec`."""
        found_PF = np.zeros((len(problems), len(SEED_FEATURES)))
        spec = self.spec
        most, high = max(spec.operands), spec.number_high
        scale = dict.fromkeys(SEED_FEATURES, high) | {"operands": most, "distinct_numbers": most}
        scale["target"] = max(abs(spec.target_low), abs(spec.target_high), 1)
        for k in {len(problem.numbers) for problem in problems}:  # a row of a data set may have more than are solved
            rows = [i for i, problem in enumerate(problems) if len(problem.numbers) == k]
            ordered_PK = np.sort(np.array([problems[i].numbers for i in rows], dtype=np.int64), axis=1)
            columns = number_columns(ordered_PK, np.array([problems[i].target for i in rows], dtype=np.int64))
            found_PF[rows] = np.stack([columns[name] / scale[name] for name in SEED_FEATURES], axis=1)
        return found_PF

    def problem_of_key(self, key: str) -> Problem:
        return problem_of_key(key)

    def reordered(self, problem: Problem, seed: int) -> Problem:
        """Return the problem with its numbers in a random order, as in generated data sets."""
        return Problem(tuple(np.random.default_rng(seed).permutation(problem.numbers).tolist()), problem.target)
