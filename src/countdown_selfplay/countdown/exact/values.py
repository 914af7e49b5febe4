"""Values of all forms of all operand subsets, for many problems at once, as exact fractions in NumPy arrays.

A value is a numerator and a denominator, not reduced, in float64 while float64 is exact and in Python integers
otherwise. Where a term divides by zero its denominator is NaN; every form that contains it has NaN in numerator or
denominator, and no comparison with NaN is true. Within products a denominator of 0 stays: `x / 0` is not a value, but
the inverse of that product, `0 / x`, is one.

Bounds. Over m operands of at most M, numerator and denominator are multilinear polynomials with at most 2^(m-1) terms
of coefficient +-1. The denominator has degree at most m - 1; the numerator has degree m only if the form is a product
without any sum or division (one term), else at most m - 1. (By induction: n1 d2 +- n2 d1 has degree at most m1 + m2 -
1, and so have n1 d2 and d1 n2 of a quotient; n1 n2 has degree m1 + m2 only if both have full degree.) So both are at
most `largest(m, M)`; up to 5 operands of at most 999 this is below 2^53 and every operation on them is exact in
float64."""

from collections.abc import Iterator

import numpy as np

from .forms import ADD, MUL, SUB, Array, Block, plan, positions, submask

EXACT = 2**53


def largest(m: int, number: int) -> int:
    """Return an upper bound of numerator and denominator of every form over m operands of at most `number`."""
    return max(number**m, 2 ** (m - 1) * number ** (m - 1))


class Values:
    """Values of the forms of every non-empty subset of at most `up_to` operands (at most `first` until `extend` is
    called). numbers_KP: (k, problems) integers. `integers_only` keeps only forms without a remainder in any division:
    those whose terms, factors and value are integers. That suffices, because a product can be computed numerators
    first, so that its intermediate values are integers, and a sum of integers has integer intermediate values."""

    def __init__(self, numbers_KP: Array, integers_only: bool, up_to: int, first: int | None = None) -> None:
        self.k, self.problems = numbers_KP.shape
        self.integers_only = integers_only
        self.up_to = up_to
        self.first = up_to if first is None else first
        subsets = sorted(range(1, 1 << self.k), key=int.bit_count)
        self.masks = [mask for mask in subsets if mask.bit_count() <= up_to]
        self.buffers: dict[tuple[int, str], Array] = {}
        # mask -> numerator and denominator, (count, problems). A denominator None is 1 everywhere.
        self.fractions: dict[int, tuple[Array, Array | None]] = {}
        self.terms: dict[int, tuple[Array, Array | None]] = {}
        self.fill(numbers_KP)

    def fill(self, numbers_KP: Array) -> None:
        """Compute all values for new numbers of the same shape in the same memory: allocation would cost more than
        the arithmetic, because the system clears each page."""
        self.greatest = int(numbers_KP.max())
        exact = largest(max(self.k - 1, 1), self.greatest) < EXACT
        self.dtype = np.dtype(np.float64 if exact else object)
        self.numbers_KP = numbers_KP.astype(self.dtype)
        self._compute_sizes(1, self.first)

    def extend(self) -> None:
        """Compute the values of the subsets of more than `first` operands as well."""
        self._compute_sizes(self.first + 1, self.up_to)

    def _compute_sizes(self, least: int, most: int) -> None:
        for mask in self.masks:
            if least <= mask.bit_count() <= most:
                self._compute(mask)

    def _buffer(self, mask: int, name: str) -> Array:
        """Return a buffer, (count, problems), of the current dtype, the same at every call."""
        buffer = self.buffers.get((mask, name))
        if buffer is None or buffer.dtype != self.dtype:
            buffer = np.empty((plan(mask.bit_count()).count, self.problems), dtype=self.dtype)
            self.buffers[mask, name] = buffer
        return buffer

    def _compute(self, mask: int) -> None:
        where = positions(mask)
        if len(where) == 1:
            self.fractions[mask] = self.terms[mask] = (self.numbers_KP[where[0] : where[0] + 1], None)
            return
        forms = plan(len(where))
        n_FP, d_FP = self._buffer(mask, "numerator"), self._buffer(mask, "denominator")
        blocks = iter(forms.blocks)
        for block in blocks:
            if block.op == ADD:  # the next block has the same operands and a minus
                self._add_and_subtract(mask, block, next(blocks), n_FP, d_FP)
            else:
                self._multiply(mask, block, n_FP[block.start : block.stop], d_FP[block.start : block.stop])
        mixed = slice(forms.sums + forms.pure, forms.up_to_inversion)
        inverse = slice(forms.up_to_inversion, forms.count)
        n_FP[inverse] = d_FP[mixed]
        d_FP[inverse] = n_FP[mixed]
        raw_FP, products = d_FP, slice(forms.sums + forms.pure, forms.count)
        zero_FP = d_FP[products] == 0  # sums and pure products are never divided by
        if zero_FP.any():
            if len(where) < self.up_to:  # the largest sets are not operands
                raw_FP = self._buffer(mask, "raw denominator")
                raw_FP[...] = d_FP
            np.copyto(d_FP[products], np.nan, where=zero_FP)
        self.fractions[mask] = n_FP, raw_FP
        self.terms[mask] = (whole(n_FP, d_FP), None) if self.integers_only else (n_FP, d_FP)

    def operands(self, mask: int, block: Block) -> tuple[Array, Array | None, Array, Array | None]:
        """Return numerators and denominators (None: 1) of both operands of a block of the set `mask`, to broadcast."""
        source = self.terms if block.op in (ADD, SUB) else self.fractions
        ln, ld = source[submask(block.left, mask)]
        rn, rd = source[submask(block.right, mask)]
        left, right = block.left_slice, block.right_slice
        return (
            ln[left, None],
            None if ld is None else ld[left, None],
            rn[None, right],
            None if rd is None else rd[None, right],
        )

    def _add_and_subtract(self, mask: int, add: Block, sub: Block, n_FP: Array, d_FP: Array) -> None:
        ln, ld, rn, rd = self.operands(mask, add)
        shape = (*add.shape, self.problems)
        plus, minus = (n_FP[b.start : b.stop].reshape(shape) for b in (add, sub))
        below, same_below = (d_FP[b.start : b.stop].reshape(shape) for b in (add, sub))
        left = ln if rd is None else np.multiply(ln, rd, out=plus)
        right = rn if ld is None else np.multiply(rn, ld)
        np.subtract(left, right, out=minus)
        np.add(left, right, out=plus)
        product(below, ld, rd)
        same_below[...] = below

    def _multiply(self, mask: int, block: Block, n: Array, d: Array) -> None:
        ln, ld, rn, rd = self.operands(mask, block)
        shape = (*block.shape, self.problems)
        if block.op == MUL:
            np.multiply(ln, rn, out=n.reshape(shape))
            product(d.reshape(shape), ld, rd)
        else:
            product(n.reshape(shape), ln, rd)
            product(d.reshape(shape), ld, rn)

    def quotients(self, mask: int) -> Array:
        """Return the values of the forms of `mask`, (count, problems), correctly rounded."""
        n, d = self.terms[mask]
        return (n if d is None else n / d).astype(np.float64, copy=False)  # Python's integers divide so too

    def quotients_of_all(self, elements: int) -> Iterator[tuple[int, Array]]:
        """Yield (index of the first form, values (forms, problems)) of the whole set, about `elements` at a time."""
        n, d = self.terms[(1 << self.k) - 1]
        size = max(1, elements // self.problems)
        for start in range(0, len(n), size):
            part = slice(start, start + size)
            value_FP = n[part] if d is None else n[part] / d[part]
            yield start, value_FP.astype(np.float64, copy=d is None)


def product(out: Array, x: Array | None, y: Array | None) -> None:
    """Compute out = x * y, where None means 1."""
    if x is None:
        out[...] = 1 if y is None else y
    elif y is None:
        out[...] = x
    else:
        np.multiply(x, y, out=out)


def whole(n: Array, d: Array) -> Array:
    """Return n / d where that is an integer, NaN elsewhere, in the dtype of n."""
    if n.dtype != object:
        value = n / d
        value[value != np.rint(value)] = np.nan
        return value
    flat = [a // b if b and a % b == 0 else np.nan for a, b in zip(n.reshape(-1), d.reshape(-1), strict=True)]
    value = np.empty(len(flat), dtype=object)
    value[:] = flat
    return value.reshape(n.shape)
