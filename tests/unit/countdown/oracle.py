"""Independent references: naive searches over all trees with Fractions, sharing no code with the package."""

from __future__ import annotations

import ast
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from operator import add, mul, sub, truediv

from countdown_selfplay.countdown import Problem


def naive_solvable(numbers: tuple[int, ...], target: int, integers_only: bool = False) -> bool:
    """Pick any two values, combine them in all six ways, recurse."""

    def search(values: list[Fraction]) -> bool:
        if len(values) == 1:
            return values[0] == target
        for i, j in itertools.combinations(range(len(values)), 2):
            a, b = values[i], values[j]
            rest = [v for n, v in enumerate(values) if n not in (i, j)]
            results = [a + b, a - b, b - a, a * b]
            results += [x / y for x, y in ((a, b), (b, a)) if y and not (integers_only and (x / y).denominator > 1)]
            if any(search([*rest, result]) for result in results):
                return True
        return False

    return search([Fraction(n) for n in numbers])


PRIME = (1 << 61) - 1
POINTS = 2


def naive_counts(numbers: tuple[int, ...], integers_only: bool = False) -> dict[Fraction, int]:
    """Value -> number of inequivalent expressions over all numbers, equal numbers interchangeable.

    An expression is identified by its values at random points of a prime field, one variable per operand: equal
    rational functions agree there, different ones do not (but for a chance of about 1e-30). Interchanging equal
    numbers permutes variables, so expressions are counted by their orbits: the least signature over all such
    permutations."""
    k = len(numbers)
    images = itertools.permutations(range(k))
    permutations = [image for image in images if all(numbers[i] == numbers[j] for i, j in enumerate(image))]
    generator = random.Random(5)
    points = [[generator.randrange(1, PRIME) for _ in range(k)] for _ in range(POINTS)]
    # signature: for each permutation, for each point, the value in the field
    width = len(permutations) * POINTS
    found: dict[int, dict[tuple[int, ...], Fraction]] = {}
    for i in range(k):
        found[1 << i] = {tuple(p[image[i]] for image in permutations for p in points): Fraction(numbers[i])}
    for mask in sorted(range(1, 1 << k), key=lambda m: bin(m).count("1")):
        if mask in found:
            continue
        here = found[mask] = {}
        left = (mask - 1) & mask
        while left:
            for (s, x), (t, y) in itertools.product(found[left].items(), found[mask ^ left].items()):
                here[tuple((a + b) % PRIME for a, b in zip(s, t, strict=True))] = x + y
                here[tuple((a - b) % PRIME for a, b in zip(s, t, strict=True))] = x - y
                here[tuple(a * b % PRIME for a, b in zip(s, t, strict=True))] = x * y
                if y and not (integers_only and (x / y).denominator > 1):
                    key = tuple(a * pow(b, -1, PRIME) % PRIME for a, b in zip(s, t, strict=True))
                    here[key] = x / y
            left = (left - 1) & mask
    orbits: dict[tuple[int, ...], Fraction] = {}
    for signature, value in found[(1 << k) - 1].items():
        images_of = [signature[i : i + POINTS] for i in range(0, width, POINTS)]
        orbits[min(images_of)] = value
    return Counter(orbits.values())


OPERATIONS = {ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: truediv}


def python_value(text: str) -> tuple[str, Fraction | None, list[int]]:
    """How Python's own parser reads an expression of plain integers and + - * /: ("value", value, numbers used),
    ("zero", None, numbers) for a division by zero, ("none", None, []) for everything else, unary signs included."""
    try:
        spaced = text.translate(dict.fromkeys(map(ord, "\t\r\n"), " "))  # a newline ends a statement only in Python
        tree = ast.parse(spaced.strip(" "), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return "none", None, []
    numbers: list[int] = []
    kind = "value"

    def value(node: ast.expr) -> Fraction:
        nonlocal kind
        if isinstance(node, ast.Constant) and type(node.value) is int:
            numbers.append(node.value)
            return Fraction(node.value)
        if isinstance(node, ast.BinOp):
            a, b = value(node.left), value(node.right)
            if isinstance(node.op, ast.Div) and not b:
                kind = "zero"
                return Fraction(0)  # the numbers are still collected
            return OPERATIONS[type(node.op)](a, b)
        raise KeyError

    try:
        result = value(tree)
    except KeyError:
        return "none", None, []
    return kind, result if kind == "value" else None, numbers


def random_tree(numbers: tuple[int, ...], generator: random.Random) -> tuple[str, Fraction] | None:
    """A random fully parenthesised expression over all numbers and its value; None if it divides by zero."""
    parts = [(str(n), Fraction(n)) for n in numbers]
    while len(parts) > 1:
        generator.shuffle(parts)
        (a, x), (b, y) = parts.pop(), parts.pop()
        op = generator.choice("+-*/")
        if op == "/" and y == 0:
            return None
        value = x + y if op == "+" else x - y if op == "-" else x * y if op == "*" else x / y
        parts.append((f"({a} {op} {b})", value))
    return parts[0]


def random_problems(generator, count, k, high, low=-20, top=120):
    draw = generator.randint
    return [Problem(tuple(draw(1, high) for _ in range(k)), draw(low, top)) for _ in range(count)]


def reachable(numbers: Sequence[int], high: int) -> set[int]:
    """All ends of all derivations with every value an integer from 1 to `high`, by trying every pair and operation,
    with floats for division."""
    if len(numbers) == 1:
        return set(numbers)
    found: set[int] = set()
    for a, b, *rest in set(itertools.permutations(numbers)):
        for value in (a + b, a - b, a * b, a / b):
            if value == int(value) and 1 <= value <= high:
                found |= reachable(tuple(sorted([int(value), *rest])), high)
    return found
