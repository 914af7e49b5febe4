"""Which forms to count when numbers repeat: with 3, 3 and 8 the form `a - b + c` is written twice.

Equal numbers are interchangeable, everything else of the equivalence of forms.py stays: `8 + 3 - 3` and `8 * 3 / 3`
are two solutions. Two signed forms are the same if their hashes are, where the hash of a sum is a commutative function
of its signed terms, that of a product of its factors, exponents and overall sign. The hashes are fixed 64-bit
functions, so what they tell apart does not change from run to run; a test compares them with explicit trees."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .forms import ADD, MUL, SUB, Array, flippable, plan, positions, submask


def mix(x: Array) -> Array:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit integers that looks random."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_NUMERATOR, _DENOMINATOR, _TERM, _ATOM, _SUM = (np.uint64(0x9E3779B97F4A7C15 * i % 2**64) for i in range(1, 6))
_SIGNS = mix(np.arange(101, 104, dtype=np.uint64))  # of a product: -1, 0 (equal to its own negative), +1


class _Hashes:
    """Per form: hash of it and of its negative; as terms of a sum (both signs); as factors (exponent +1, -1; sign)."""

    def __init__(self, count: int) -> None:
        self.plus, self.minus, self.term_plus, self.term_minus, self.up, self.down = np.zeros((6, count), np.uint64)
        self.sign = np.zeros(count, dtype=np.int64)

    def set_factor(self, part: slice) -> None:
        """From plus and minus to the entries as a single factor: the sign is pulled out."""
        key = np.minimum(self.plus[part], self.minus[part])
        self.up[part] = mix(key + _NUMERATOR)
        self.down[part] = mix(key + _DENOMINATOR)
        self.sign[part] = np.where(self.plus[part] == self.minus[part], 0, np.where(self.plus[part] == key, 1, -1))

    def set_product(self, part: slice) -> None:
        """From up, down and sign of a product to its hashes."""
        self.plus[part] = mix(self.up[part] + _SIGNS[1 + self.sign[part]])
        self.minus[part] = mix(self.up[part] + _SIGNS[1 - self.sign[part]])
        self.set_term(part)

    def set_term(self, part: slice) -> None:
        self.term_plus[part] = mix(self.plus[part] + _TERM)
        self.term_minus[part] = mix(self.minus[part] + _TERM)


def _hashes(symbols: tuple[int, ...]) -> _Hashes:
    """Hashes of all forms over operands of which those with one symbol are equal."""
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
    """Two (count,) masks over the forms of these operands: those to count as they are, and those whose negative
    counts. Of equal signed forms the first is counted. `symbols`: equal numbers have equal symbols, e.g. (0, 0, 1) for
    3, 3, 8."""
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
    """The pattern of equal numbers of an ascending tuple: (3, 3, 8) -> (0, 0, 1)."""
    seen = sorted(set(ordered))
    return tuple(seen.index(number) for number in ordered)
