"""Expression language: tokenizer, iterative parser, exact rationals, and the ways to write an expression. Nothing is
evaluated as code.

Grammar: numbers in ASCII digits (the verifier refuses leading zeros), `+ - * / ( )`, and space, tab, carriage return
and newline between tokens. `**` and `//` are two operators in a row and thus errors."""

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import accumulate, permutations
from math import gcd
from operator import add, mul, sub, truediv
from typing import NamedTuple

SHORT = 96
"""Largest number of characters of a typical expression; longer texts are mostly adversarial."""

WHITE_SPACE = " \t\r\n"
"""Characters that may be between tokens and around an expression."""

FOREIGN = re.compile(r"[^0-9+\-*/() \t\r\n]")
"""Pattern of a character outside the grammar."""

NUMBER = re.compile(r"[0-9]+")
_TOKEN = re.compile(r"[0-9]+|[^ \t\r\n]")  # a character outside the grammar is a token that is invalid everywhere
_GAP = r"[ \t\r\n]*"
_OPERAND = rf"(?:SIGN\({_GAP})*SIGN[0-9]+{_GAP}(?:\){_GAP})*"
_UNSIGNED, _SIGNED = (
    re.compile(rf"{_GAP}{_OPERAND}(?:[-+*/]{_GAP}{_OPERAND})*".replace("SIGN", sign)) for sign in ("", f"(?:-{_GAP})?")
)
_ALL_BUT_PARENTHESES = dict.fromkeys(map(ord, "0123456789+-*/ \t\r\n"))
_STEP = {"(": 1, ")": -1}
_DIGITS = "0123456789"
_OPERATORS = frozenset("+-*/")
_FIRST = {"+": "+-*/~", "-": "+-*/~", "*": "*/~", "/": "*/~"}  # operators that are computed before the following one

_LENIENT = str.maketrans(
    {chr(zero + digit): str(digit) for zero in (0xFF10, 0x0660, 0x06F0) for digit in range(10)}
    | dict.fromkeys("×✕⋅·∙∗＊", "*")
    | dict.fromkeys("÷∕⁄／", "/")
    | dict.fromkeys("−‐‑–—－", "-")
    | dict.fromkeys("＋﹢", "+")
    | {"（": "(", "）": ")", "＝": "="}
    | dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " ")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "")
)


def plain(text: str) -> str:
    """Replace look-alike signs, digits and spaces by ASCII, and remove zero-width characters."""
    return text.translate(_LENIENT)


def is_expression(text: str, unary_minus: bool = False) -> bool:
    """Return whether `to_postfix` succeeds: a regular expression checks adjacent tokens, then parentheses are
    counted. Several times faster than parsing a long answer whose error is near the end."""
    if (_SIGNED if unary_minus else _UNSIGNED).fullmatch(text) is None:
        return False
    depths = list(accumulate(map(_STEP.__getitem__, text.translate(_ALL_BUT_PARENTHESES)), initial=0))
    return depths[-1] == 0 and min(depths) == 0


def to_postfix(text: str, unary_minus: bool = False) -> tuple[list[str], list[str]] | None:
    """Return the tokens of an expression in postfix order (a unary minus becomes "~") and its numbers as written, or
    None if it is not an expression. Two stacks and no recursion: depth costs memory, never the interpreter's stack."""
    output: list[str] = []
    numbers: list[str] = []
    pending: list[str] = []
    if len(text) > SHORT and not is_expression(text, unary_minus):
        return None
    operand_next = True
    for token in _TOKEN.findall(text):
        if operand_next:
            if token[0] in _DIGITS:
                output.append(token)
                numbers.append(token)
                operand_next = False
            elif token == "(":
                pending.append(token)
            elif token == "-" and unary_minus and not (pending and pending[-1] == "~"):
                pending.append("~")
            else:
                return None
        elif token in _OPERATORS:
            first = _FIRST[token]
            while pending and pending[-1] in first:
                output.append(pending.pop())
            pending.append(token)
            operand_next = True
        elif token == ")":
            while pending and pending[-1] != "(":
                output.append(pending.pop())
            if not pending:
                return None
            pending.pop()
        else:
            return None
    if operand_next:
        return None
    while pending:
        top = pending.pop()
        if top == "(":
            return None
        output.append(top)
    return output, numbers


def in_whole_numbers(text: str) -> tuple[int, list[str]] | None:
    """Return (value, numbers as written) of an expression in which every step gives an integer, in a single pass with
    a running sum and product, twice as fast as parsing. None for other texts and for irregular spaces, which
    `to_postfix` and `evaluate` decide."""
    if not text.isascii():  # so that only ASCII digits are digits below
        return None
    if " " in text:  # separated tokens, the usual form; otherwise the loop ends at such a piece
        tokens = (text.replace("(", "( ").replace(")", " )") if "(" in text else text).split(" ")
    else:
        tokens = _TOKEN.findall(text)
    numbers: list[str] = []
    enclosing: list[tuple[int, int, str]] = []
    total, term, operator = 0, 0, "+"  # the sum before the current term, that term, and the next operator
    operand_next = True
    for token in tokens:
        if operand_next:
            if token == "(":
                enclosing.append((total, term, operator))
                total, term, operator = 0, 0, "+"
                continue
            if not token.isdigit():
                return None
            numbers.append(token)
            value = int(token)
        elif token == ")":
            if not enclosing:
                return None
            value = total + term
            total, term, operator = enclosing.pop()
        elif token in _OPERATORS:
            operator = token
            operand_next = True
            continue
        else:
            return None
        operand_next = False
        if operator == "+":
            total += term
            term = value
        elif operator == "-":
            total += term
            term = -value
        elif operator == "*":
            term *= value
        elif value and not term % value:
            term //= value
        else:
            return None
    return None if operand_next or enclosing else (total + term, numbers)


class DivisionByZero(Exception):
    """Error for an expression with a division by zero."""


class NotAnInteger(Exception):
    """Error for a division with a remainder, under rules that require integers."""


def evaluate(postfix: list[str], integers_only: bool = False) -> tuple[int, int]:
    """Return numerator and denominator (positive, in lowest terms) of a postfix expression, exactly. Raises
    DivisionByZero, and NotAnInteger for a remainder if `integers_only`."""
    stack: list[tuple[int, int]] = []
    for token in postfix:
        if token not in "+-*/~":
            stack.append((int(token), 1))
            continue
        bottom, below = stack.pop()
        if token == "~":
            stack.append((-bottom, below))
            continue
        top, above = stack.pop()
        if token == "/":
            if bottom == 0:
                raise DivisionByZero
            if integers_only and top % bottom:  # here both are integers: every earlier division came out even
                raise NotAnInteger
            top, above = top * below, above * bottom
        elif token == "*":
            top, above = top * bottom, above * below
        elif above == below:
            top = top + bottom if token == "+" else top - bottom
        else:
            top = top * below + bottom * above if token == "+" else top * below - bottom * above
            above *= below
        if above != 1:
            common = gcd(top, above)
            if above < 0:
                common = -common
            top, above = top // common, above // common
        stack.append((top, above))
    return stack[0]


_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_VALUE = {"+": add, "-": sub, "*": mul, "/": truediv}


class Written(NamedTuple):
    """Written expression: exact value, text with single spaces between tokens, and outermost operator ("": none)."""

    value: Fraction
    text: str
    operator: str


def written_forms(numbers: Iterable[int], orders: Iterable[tuple[int, ...]] | None = None) -> Iterator[Written]:
    """Yield every expression that uses each of `numbers` once, as ordered binary trees. orders: only these orders of
    the numbers. Texts may repeat; for at most three numbers, or a few orders of four, which have 320 trees each."""
    for order in sorted(set(permutations(numbers))) if orders is None else orders:
        yield from _trees(order)


def _trees(order: tuple[int, ...]) -> Iterator[Written]:
    if len(order) == 1:
        yield Written(Fraction(order[0]), str(order[0]), "")
        return
    for cut in range(1, len(order)):
        for left in _trees(order[:cut]):
            for right in _trees(order[cut:]):
                for sign in _PRECEDENCE:
                    if sign != "/" or right.value != 0:
                        yield combined(left, sign, right)


def combined(left: Written, sign: str, right: Written) -> Written:
    """Join two expressions with only the necessary parentheses, and those of `a + ( b - c )` and `a * ( b / c )`."""
    rank = _PRECEDENCE[sign]
    left_text, right_text = left.text, right.text
    if left.operator and _PRECEDENCE[left.operator] < rank:
        left_text = f"( {left_text} )"
    if right.operator:
        same = sign == right.operator and sign in "+*"
        if _PRECEDENCE[right.operator] < rank or (_PRECEDENCE[right.operator] == rank and not same):
            right_text = f"( {right_text} )"
    return Written(_VALUE[sign](left.value, right.value), f"{left_text} {sign} {right_text}", sign)
