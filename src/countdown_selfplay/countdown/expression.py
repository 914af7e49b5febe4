"""Reading an arithmetic expression: own tokenizer, iterative operator-precedence parser, exact rationals. No eval,
no recursion."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "~": 3}  # ~ is unary minus
_LENIENT = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "\u00a0": " "})
_MAX_DIGITS = 9  # operands of this library have at most three; nine keep every product small


class Malformed(ValueError):
    """The text is no expression; args[0] says why."""


class DivisionByZero(ArithmeticError):
    """The expression is well-formed and has no value."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """numbers: operands in order of appearance. value: (numerator, denominator > 0) in lowest terms. whole: every
    intermediate value was an integer."""

    numbers: tuple[int, ...]
    value: tuple[int, int]
    whole: bool


def normalize(text: str, lenient_unicode: bool) -> str:
    return text.translate(_LENIENT) if lenient_unicode else text


def tokenize(text: str) -> list[int | str]:
    """Integers (plain ASCII digits without a leading zero) and the characters + - * / ( ); blanks and newlines
    separate."""
    tokens: list[int | str] = []
    position, length = 0, len(text)
    while position < length:
        char = text[position]
        if char in " \t\n\r":
            position += 1
        elif char in "+-*/()":
            tokens.append(char)
            position += 1
        elif "0" <= char <= "9":
            end = position + 1
            while end < length and "0" <= text[end] <= "9":
                end += 1
            if end - position > _MAX_DIGITS or (char == "0" and end - position > 1):
                raise Malformed("a number with a leading zero or too many digits")
            tokens.append(int(text[position:end]))
            position = end
        else:
            raise Malformed("a character that is no digit, operator or parenthesis")
    return tokens


def parse(text: str, unary_minus: bool = False) -> Parsed:
    """Value and operands of `text`. Raises Malformed or DivisionByZero."""
    values: list[tuple[int, int]] = []
    operators: list[str] = []
    numbers: list[int] = []
    whole = True
    operand_next = True
    for token in tokenize(text):
        if isinstance(token, int):
            if not operand_next:
                raise Malformed("two operands without an operator")
            numbers.append(token)
            values.append((token, 1))
            operand_next = False
        elif token == "(":
            if not operand_next:
                raise Malformed("a parenthesis without an operator before it")
            operators.append(token)
        elif token == ")":
            if operand_next:
                raise Malformed("a parenthesis that closes nothing")
            while operators and operators[-1] != "(":
                whole &= _apply(operators.pop(), values)
            if not operators:
                raise Malformed("a parenthesis that was not opened")
            operators.pop()
        elif operand_next:
            if token != "-" or not unary_minus or (operators and operators[-1] == "~"):
                raise Malformed("an operator without a left operand")
            operators.append("~")
        else:
            while operators and operators[-1] != "(" and _PRECEDENCE[operators[-1]] >= _PRECEDENCE[token]:
                whole &= _apply(operators.pop(), values)
            operators.append(token)
            operand_next = True
    if operand_next:
        raise Malformed("an operand is missing")
    while operators:
        if operators[-1] == "(":
            raise Malformed("a parenthesis that is not closed")
        whole &= _apply(operators.pop(), values)
    return Parsed(tuple(numbers), values[0], whole)


def _apply(operator: str, values: list[tuple[int, int]]) -> bool:
    """Replace the operator's operands on the stack by its value; whether that is whole."""
    b, d = values.pop()
    if operator == "~":
        values.append((-b, d))
        return d == 1
    a, c = values.pop()
    if operator == "+":
        a, c = a * d + b * c, c * d
    elif operator == "-":
        a, c = a * d - b * c, c * d
    elif operator == "*":
        a, c = a * b, c * d
    else:
        if b == 0:
            raise DivisionByZero
        a, c = (a * d, c * b) if b > 0 else (-a * d, -c * b)
    if c != 1:
        common = gcd(a, c)
        a, c = a // common, c // common
    values.append((a, c))
    return c == 1
