"""Listing of all solutions: their number, their expressions, and the targets that can be reached.

All forms of the whole set are evaluated; each is one inequivalent expression. If numbers repeat, some forms are equal:
with 3, 3 and 8 the form `a - b + c` occurs twice. Equal numbers are interchangeable; otherwise expressions are
equivalent as in forms.py: `8 + 3 - 3` and `8 * 3 / 3` are two solutions. Two signed forms are equal if their hashes
are; the hash of a sum is a commutative function of its signed terms, that of a product of its factors, exponents and
overall sign. The hashes are fixed 64-bit functions; a test compares them with explicit trees.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from ..problem import DEFAULT_RULES, Problem, Rules
from .forms import ADD, MUL, SUB, Array, Node, flippable, form, plan, positions, submask
from .solver import (
    TOLERANCE,
    Memory,
    checked_operands,
    has_value,
    in_threads,
    integers,
    is_exact,
    sub_multisets,
)
from .values import Values

T = TypeVar("T")

COUNT_CHUNK = {1: 4096, 2: 4096, 3: 1024, 4: 192, 5: 8, 6: 1}
"""Number of operands -> number of problems per chunk."""


Bound = int | Array


class Hits(NamedTuple):
    """Solutions as parallel arrays: problem (row index), value and form of each, and whether the form is negated."""

    problems: Array
    targets: Array
    forms: Array
    negated: Array


SLICE_ELEMENTS = 1 << 14
"""Number of values per slice: these and their temporaries stay in the first two levels of cache."""


def mix(x: Array) -> Array:
    """Apply the finalizer of SplitMix64 (Steele, Lea, Flood 2014), a pseudo-random bijection of 64-bit integers."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_NUMERATOR, _DENOMINATOR, _TERM, _ATOM, _SUM = (np.uint64(0x9E3779B97F4A7C15 * i % 2**64) for i in range(1, 6))
_SIGNS = mix(np.arange(101, 104, dtype=np.uint64))  # of a product: -1, 0 (equal to its own negative), +1


class _Hashes:
    """Hashes of forms and their negatives (plus, minus), as terms, and as factors with exponent 1 or -1 (up, down)."""

    def __init__(self, count: int) -> None:
        self.plus, self.minus, self.term_plus, self.term_minus, self.up, self.down = np.zeros((6, count), np.uint64)
        self.sign = np.zeros(count, dtype=np.int64)

    def set_factor(self, part: slice) -> None:
        """Set `up` and `down`, the hashes as a factor up to sign, and the `sign`, from `plus` and `minus`."""
        key = np.minimum(self.plus[part], self.minus[part])
        self.up[part] = mix(key + _NUMERATOR)
        self.down[part] = mix(key + _DENOMINATOR)
        self.sign[part] = np.where(self.plus[part] == self.minus[part], 0, np.where(self.plus[part] == key, 1, -1))

    def set_product(self, part: slice) -> None:
        """Set `plus` and `minus` of products, and their entries as terms, from `up`, `down` and `sign`."""
        self.plus[part] = mix(self.up[part] + _SIGNS[1 + self.sign[part]])
        self.minus[part] = mix(self.up[part] + _SIGNS[1 - self.sign[part]])
        self.set_term(part)

    def set_term(self, part: slice) -> None:
        self.term_plus[part] = mix(self.plus[part] + _TERM)
        self.term_minus[part] = mix(self.minus[part] + _TERM)


def _hashes(symbols: tuple[int, ...]) -> _Hashes:
    """Return the hashes of all forms over these operands; operands with the same symbol are equal."""
    done: dict[int, _Hashes] = {}
    k = len(symbols)
    for mask in sorted(range(1, 1 << k), key=int.bit_count):
        where = positions(mask)
        own = plan(len(where))
        found = done[mask] = _Hashes(own.count)
        if len(where) == 1:
            symbol = np.array([symbols[where[0]]], dtype=np.uint64)
            found.plus[:], found.minus[:] = mix(mix(symbol + _ATOM)), mix(mix(symbol + _ATOM) + _SUM)
            found.set_factor(slice(0, 1))
            found.set_term(slice(0, 1))
            continue
        for block in own.blocks:
            part = slice(block.start, block.stop)
            x, y = done[submask(block.left, mask)], done[submask(block.right, mask)]
            i, j = block.left_slice, block.right_slice
            if block.op in (ADD, SUB):
                same, other = (y.term_plus, y.term_minus) if block.op == ADD else (y.term_minus, y.term_plus)
                found.term_plus[part] = (x.term_plus[i, None] + same[None, j]).reshape(-1)
                found.term_minus[part] = (x.term_minus[i, None] + other[None, j]).reshape(-1)
                found.plus[part] = mix(found.term_plus[part] + _SUM)
                found.minus[part] = mix(found.term_minus[part] + _SUM)
                found.set_factor(part)
            else:
                up, down = (y.up, y.down) if block.op == MUL else (y.down, y.up)
                found.up[part] = (x.up[i, None] + up[None, j]).reshape(-1)
                found.down[part] = (x.down[i, None] + down[None, j]).reshape(-1)
                found.sign[part] = (x.sign[i, None] * y.sign[None, j]).reshape(-1)
                found.set_product(part)
        mixed = slice(own.sums + own.pure, own.up_to_inversion)
        inverse = slice(own.up_to_inversion, own.count)
        found.up[inverse], found.down[inverse] = found.down[mixed], found.up[mixed]
        found.sign[inverse] = found.sign[mixed]
        found.set_product(inverse)
    return done[(1 << k) - 1]


@lru_cache(maxsize=64)
def counted(symbols: tuple[int, ...]) -> tuple[Array, Array]:
    """Return two (count,) masks over the forms of these operands: the forms to count, and those whose negative is to
    be counted. Of equal signed forms the first is counted. `symbols`: equal numbers have equal symbols, e.g. (0, 0, 1)
    for 3, 3, 8."""
    flips = flippable(len(symbols))
    if len(set(symbols)) == len(symbols):
        return np.ones(len(flips), dtype=bool), flips
    hashes = _hashes(symbols)
    _, first = np.unique(np.concatenate([hashes.plus, hashes.minus[flips]]), return_index=True)
    chosen = np.zeros(len(flips) + int(flips.sum()), dtype=bool)
    chosen[first] = True
    negatives = np.zeros(len(flips), dtype=bool)
    negatives[flips] = chosen[len(flips) :]
    return chosen[: len(flips)], negatives


def symbols_of(ordered: tuple[int, ...]) -> tuple[int, ...]:
    """Return the pattern of equal numbers of an ascending tuple: (3, 3, 8) -> (0, 0, 1)."""
    seen = sorted(set(ordered))
    return tuple(seen.index(number) for number in ordered)


def hits(values: Values, ordered_PK: Array, symbols: tuple[int, ...], low: Bound, high: Bound, rules: Rules) -> Hits:
    """Return every distinct solution over all operands with an integer value from `low` to `high`: one bound for all
    problems, or (problems,). values: Values of all forms over the numbers. ordered_PK: (problems, k), each row
    ascending and with equal numbers where `symbols` (of `symbols_of`) are equal."""
    most = np.maximum(np.abs(low), np.abs(high))
    least = np.where((np.less_equal(low, 0)) & (np.greater_equal(high, 0)), 0, np.minimum(np.abs(low), np.abs(high)))
    exact = is_exact(values.k, values.greatest, int(most.max(initial=0)))
    places, wholes = [], []
    with np.errstate(invalid="ignore"):
        for start, value_FP in values.quotients_of_all(SLICE_ELEMENTS):
            whole_FP = np.rint(value_FP)
            if exact:
                good_FP = whole_FP == value_FP
                np.abs(value_FP, out=value_FP)
                good_FP &= value_FP >= least
                good_FP &= value_FP <= most
            else:
                good_FP = np.abs(value_FP - whole_FP) <= TOLERANCE * np.abs(value_FP)
                good_FP &= (np.abs(whole_FP) >= least) & (np.abs(whole_FP) <= most)
            place = np.flatnonzero(good_FP)
            wholes.append(whole_FP.reshape(-1)[place].astype(np.int64))
            places.append(place + start * values.problems)
    flat, targets = np.concatenate(places), np.concatenate(wholes)
    forms, problems = np.divmod(flat, values.problems)
    chosen_of_signs = []
    for sign, mask in zip((1, -1), counted(symbols), strict=True):
        least_of, most_of = (bound if isinstance(bound, int) else bound[problems] for bound in (low, high))
        chosen = mask[forms] & (sign * targets >= least_of) & (sign * targets <= most_of)
        if not exact:
            chosen[chosen] = [
                # Its negative, which may be the one that counts, has then exactly the other value.
                has_value(form(tuple(ordered_PK[p].tolist()), int(f)), int(t), rules)
                for f, p, t in zip(forms[chosen], problems[chosen], targets[chosen], strict=True)
            ]
        chosen_of_signs.append(chosen)
    plus, minus = chosen_of_signs
    return Hits(
        np.concatenate([problems[plus], problems[minus]]), np.concatenate([targets[plus], -targets[minus]]),
        np.concatenate([forms[plus], forms[minus]]), np.repeat([False, True], [plus.sum(), minus.sum()]),
    )  # fmt: skip


@lru_cache(maxsize=1 << 12)
def _reachable_sorted(numbers: tuple[int, ...], low: int, high: int, rules: Rules) -> tuple[tuple[int, int], ...]:
    found = [_hits(chosen, low, high, rules).targets for chosen in sub_multisets(numbers, rules)]
    targets, counts = np.unique(np.concatenate(found), return_counts=True)
    return tuple(zip(targets.tolist(), counts.tolist(), strict=True))


def reachable_targets(numbers: Sequence[int], low: int, high: int, rules: Rules = DEFAULT_RULES) -> dict[int, int]:
    """Return target -> number of distinct solutions, for every reachable integer from `low` to `high`, ascending.
    Solutions are distinct if they are inequivalent as OEIS A140606 counts expressions (order, grouping and moved signs
    do not matter), with equal numbers interchangeable. Raises DataError for no or more than 6 numbers."""
    checked = Problem(tuple(numbers), 0).numbers
    return dict(_reachable_sorted(checked_operands(checked), int(low), int(high), rules))


def count_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> int:
    """Return the number of distinct solutions, as `reachable_targets` counts them."""
    return reachable_targets(problem.numbers, problem.target, problem.target, rules).get(problem.target, 0)


def solution_trees(problem: Problem, rules: Rules = DEFAULT_RULES) -> list[Node]:
    """Return all distinct solutions as trees, as many as `count_solutions`. Raises DataError beyond 6 numbers."""
    trees: list[Node] = []
    for chosen in sub_multisets(checked_operands(problem.numbers), rules):
        found = _hits(chosen, problem.target, problem.target, rules)
        for index, negated in zip(found.forms.tolist(), found.negated.tolist(), strict=True):
            tree = form(chosen, index)
            signed = tree.negative() if negated else tree
            assert signed is not None  # what is counted as negated can be
            trees.append(signed)
    return trees


def _hits(chosen: tuple[int, ...], low: int, high: int, rules: Rules) -> Hits:
    row = np.array([chosen])
    return hits(Values(row.T, rules.integers_only, len(chosen)), row, symbols_of(chosen), low, high, rules)


def all_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> list[str]:
    """Return all distinct solutions as expressions that `verify` scores as correct; short ones first."""
    return sorted((tree.text() for tree in solution_trees(problem, rules)), key=lambda text: (len(text), text))


def reachable_counts(
    numbers_PK: Array, low: int, high: int, rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> Array:
    """Return `reachable_targets` of many problems at once, (problems, high - low + 1) int64: entry [p, t - low] is the
    number of distinct solutions of target t by the numbers in row p. Raises DataError beyond 6 numbers."""
    ordered_PK, width = np.sort(integers(numbers_PK, 2), axis=1), high - low + 1
    counts = np.zeros((len(ordered_PK), width), dtype=np.int64)

    def tally(found: Hits, rows: Array) -> Array:
        flat = np.bincount(found.problems * width + (found.targets - low), minlength=len(rows) * width)
        return flat.reshape(len(rows), width)

    for taken, chosen_PK in choices(ordered_PK, rules):
        for members, parts in _by_pattern(chosen_PK, low, high, rules, workers, tally):
            counts[taken[members]] += np.concatenate(parts)
    return counts


def choices(ordered_PK: Array, rules: Rules) -> Iterator[tuple[Array, Array]]:
    """Yield (row indices, chosen numbers) for each choice of positions that a solution may use. ordered_PK: ascending
    rows. Of choices of equal numbers only a row's leftmost counts, so that each sub-multiset is yielded once."""
    k = ordered_PK.shape[1]
    for size in [k] if rules.use_all else range(1, k + 1):
        for chosen in combinations(range(k), size):
            taken = np.ones(len(ordered_PK), dtype=bool)
            for i in chosen:
                if i and i - 1 not in chosen:
                    taken &= ordered_PK[:, i] != ordered_PK[:, i - 1]
            yield np.flatnonzero(taken), ordered_PK[taken][:, chosen]


def solution_forms(ordered_PK: Array, low: Bound, high: Bound, rules: Rules, workers: int | None = None) -> Hits:
    """Return every distinct solution over all numbers of its row, for every target from `low` to `high` (one bound for
    all rows, or (problems,)). ordered_PK: ascending rows (problems, k), k up to 6. The solutions are those of
    `solution_trees` that use every number, as indices of forms."""

    def placed(found: Hits, rows: Array) -> Hits:
        return found._replace(problems=rows[found.problems])

    whole = [Hits(*(np.zeros(0, dtype=t) for t in (np.int64, np.int64, np.int64, bool)))]
    for _, parts in _by_pattern(ordered_PK, low, high, rules, workers, placed):
        whole += parts
    return Hits(*(np.concatenate(column) for column in zip(*whole, strict=True)))


def _by_pattern(
    ordered_PK: Array, low: Bound, high: Bound, rules: Rules, workers: int | None, use: Callable[[Hits, Array], T]
) -> Iterator[tuple[Array, list[T]]]:
    """Yield (rows, results of `use` on the hits of each chunk of these rows) for every pattern of equal numbers: rows
    with the same pattern count the same forms."""
    problems, k = ordered_PK.shape
    pattern_P = (np.diff(ordered_PK, axis=1) > 0) @ (1 << np.arange(k - 1)) if k > 1 else np.zeros(problems, np.int64)
    memory = Memory(rules.integers_only, k)
    for pattern in np.unique(pattern_P):
        members = np.flatnonzero(pattern_P == pattern)

        def search(part: slice, members: Array = members) -> T:
            rows = members[part]
            numbers_PK = ordered_PK[rows]
            symbols = symbols_of(tuple(numbers_PK[0].tolist()))
            least, most = (bound if isinstance(bound, int) else bound[rows] for bound in (low, high))
            return use(hits(memory.values(numbers_PK), numbers_PK, symbols, least, most, rules), rows)

        yield members, in_threads(search, len(members), COUNT_CHUNK[k], workers)
