"""Scorers for tasks of reasoning-gym whose own scorers evaluate the answer (Python's `eval`, SymPy's `parse_expr`) or
reward texts that solve nothing. For worker processes only. Nothing is evaluated: sums are read by Countdown's parser,
boards by `ast.literal_eval`, polynomials by a grammar."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from ..countdown.expression import DivisionByZero, evaluate, to_postfix

Entry = Mapping[str, Any]
Scorer = Callable[[str, Entry], float]

LONGER, MORE = 4, 1000
"""Largest length of an answer, as a multiple of the right one's plus a number of characters."""
MAX_LITERAL = 4096
"""Largest number of characters of a board in Python's list syntax."""


def _number_game(target: Callable[[Entry], int]) -> Scorer:
    """Score an expression that uses each number exactly once."""

    def score(answer: str, entry: Entry) -> float:
        parsed = to_postfix(answer, unary_minus=True)
        if parsed is None or sorted(parsed[1]) != sorted(map(str, entry["metadata"]["numbers"])):
            return 0.0
        try:
            return float(evaluate(parsed[0]) == (target(entry), 1))
        except DivisionByZero:
            return 0.0

    return score


def _board(written: Callable[[Any], str], share: float) -> Scorer:
    """Score 1 for a right text, or `share` for the same as a Python list."""

    def score(answer: str, entry: Entry) -> float:
        right = entry["metadata"].get("valid_answers", [entry["answer"].strip()])
        if answer in right:
            return 1.0
        if len(answer) > MAX_LITERAL:
            return 0.0
        try:
            return share * (written(ast.literal_eval(answer)) in right)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return 0.0

    return score


def _spaced(items: Iterable[Any]) -> str:
    return " ".join(map(str, items))


def _rows(board: Iterable[Any]) -> str:
    return "\n".join(map(_spaced, board))


_NUMBER = r"[0-9]{1,4000}(?:\.[0-9]{1,4000})?"
_FACTOR = rf"(?:{_NUMBER}|[A-Za-z](?:\*\*[0-9]{{1,4}})?)(?:/{_NUMBER})?"
_MULTIPLIED = rf"{_FACTOR}(?:\*{_FACTOR})*"
_TERM = re.compile(rf"([+-]?)({_MULTIPLIED})")
_FACTORS = re.compile(_FACTOR)
_POWER = re.compile(r"([A-Za-z])(?:\*\*([0-9]+))?")
_SPACE = re.compile(r"(?<=[-+*/(]) | (?=[-+*/)])")
_PRODUCT = re.compile(rf"(?<![/\w.])(?<!\*\*)\(({_MULTIPLIED})\)(?!\*\*|[\w.(])")
"""Product in redundant brackets."""
Polynomial = dict[tuple[tuple[str, int], ...], Fraction]
"""Monomial -> non-zero coefficient."""


def polynomial_of(text: str) -> Polynomial | None:
    """Parse a sum of products of numbers, fractions and powers of letters; None for any other text, such as a
    function, or a product of sums."""
    text, at = _PRODUCT.sub(r"\1", _SPACE.sub("", " ".join(text.split()))), 0
    terms: defaultdict[tuple[tuple[str, int], ...], Fraction] = defaultdict(Fraction)
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None or (at and not term[1]):
            return None
        at, coefficient, powers = term.end(), Fraction(-1 if term[1] == "-" else 1), Counter[str]()
        for factor in _FACTORS.findall(term[2]):
            above, _, below = factor.partition("/")
            if power := _POWER.fullmatch(above):
                powers[power[1]] += int(power[2] or 1)
            else:
                coefficient *= Fraction(above)
            divisor = Fraction(below or 1)
            if not divisor:
                return None
            coefficient /= divisor
        terms[tuple(sorted((one, power) for one, power in powers.items() if power))] += coefficient
    return {monomial: number for monomial, number in terms.items() if number} if text else None


def _derivative(polynomial: Polynomial, variable: str) -> Polynomial:
    derivative: Polynomial = {}
    for monomial, number in polynomial.items():
        powers = dict(monomial)
        if power := powers.get(variable, 0):
            powers[variable] -= 1
            derivative[tuple(sorted((one, n) for one, n in powers.items() if n))] = number * power
    return derivative


def _polynomial(derived: bool) -> Scorer:
    """Score the expanded product, or a polynomial whose derivative is the integrand; brackets around sums, and
    functions such as `expand` and `Integral`, are refused."""

    def score(answer: str, entry: Entry) -> float:
        meta = entry["metadata"]
        polynomial = polynomial_of(answer)
        if polynomial is None:
            return 0.0
        if derived:
            return float(_derivative(polynomial, meta["variable"]) == polynomial_of(meta["integrand"]))
        return float(polynomial == polynomial_of(entry["answer"]))

    return score


def _coin_flip(answer: str, entry: Entry) -> float:
    """Score a decimal number or a fraction within .0001 and a hundredth of the probability."""
    above, _, below = answer.replace(",", "").partition("/")
    right = float(entry["answer"])
    try:
        return float(abs(float(above) / float(below or 1) - right) <= min(1e-4, right / 100))
    except (ValueError, ArithmeticError):
        return 0.0


def _halting(answer: str, entry: Entry) -> float:
    return float(answer.lower() == entry["answer"].lower())


def _bitwise(answer: str, entry: Entry) -> float:
    """Score a number in any of Python's notations."""
    try:
        return float(int(answer, 0) == int(entry["answer"], 0))
    except ValueError:
        return 0.0


OURS: dict[str, Scorer] = {
    "countdown": _number_game(lambda entry: entry["metadata"]["target"]), "puzzle24": _number_game(lambda entry: 24),
    "string_insertion": _board("".join, 0.1), "spiral_matrix": _board(_spaced, 0.1),
    "binary_matrix": _board(_rows, 0.1), "n_queens": _board(_rows, 0.5),
    "polynomial_multiplication": _polynomial(derived=False), "simple_integration": _polynomial(derived=True),
    "bitwise_arithmetic": _bitwise, "coin_flip": _coin_flip, "game_of_life_halting": _halting,
}  # fmt: skip
_NO_NUMBER = re.compile(r"(?<![a-z])(?:nan|inf(?:inity)?)j?(?![a-z])", re.IGNORECASE)


_asked_for: list[str] = []
_watched = False


def watch(event: str, _: Any) -> None:
    """Install the audit hook of a worker."""
    if _watched:
        _asked_for.append(event)
        raise RuntimeError(f"a scorer asks Python for '{event}'")


def score(task: str, dataset: Any, entry: Entry, answer: str) -> float:
    """Score by our scorer of the task, else by the task's. 0 for texts much longer than the right answer; for `nan`
    and `inf`, which compare unlike numbers; and for any text if the right answer is empty. The scorers compute from
    the text alone: an action that Python audits (PEP 578: to compile, execute, import, open, start a process) ends the
    process with the score 0."""
    global _watched
    right, text = str(entry["answer"]), answer.strip()
    if len(text) > LONGER * len(right) + MORE:
        return 0.0
    if (_NO_NUMBER.search(text) and not _NO_NUMBER.search(right)) or (text.strip("\"'") and not right.strip()):
        return 0.0
    if task in OURS:
        return OURS[task](text, entry)
    if task == "number_sorting":  # its scorer evaluates a right answer that is not JSON
        entry = {**entry, "answer": right.replace("'", '"')}
    try:
        _watched = True
        return float(dataset.score_answer(answer, entry))
    finally:
        _watched = False
        if _asked_for:
            raise SystemExit(0.0)
