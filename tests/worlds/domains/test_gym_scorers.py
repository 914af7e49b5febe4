# Tests: worlds/gym_scorers.py
"""Scorers of ours for tasks of reasoning-gym, on problems that are written here: what is right, and what solves
nothing. The package is not needed."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from countdown_selfplay.worlds import gym_scorers
from countdown_selfplay.worlds.gym_scorers import polynomial_of, score

COUNTDOWN = {"answer": "3*7 + 1", "metadata": {"numbers": [1, 3, 7], "target": 22}}
POWER = {"answer": "8", "metadata": {"numbers": [2, 3], "target": 8}}
PUZZLE24 = {"answer": "2*3*8/2", "metadata": {"numbers": [2, 2, 3, 8]}}
MATRIX = {"answer": "0 1\n1 2", "metadata": {}}
SPIRAL = {"answer": "1 2 4 3", "metadata": {}}
STRING = {"answer": "ABCDA", "metadata": {}}
QUEENS = {"answer": "Q _\n_ _", "metadata": {"valid_answers": ["Q _\n_ _", "_ Q\n_ _"]}}
PRODUCT = {"answer": "x**2*y - 6*y", "metadata": {}}
# d/dx (3x^4/4 - x + C) = 3x^3 - 1
INTEGRAL = {"answer": "3*x**4/4 - x + C", "metadata": {"integrand": "3*x**3 - 1", "variable": "x"}}
FLIPS = {"answer": "9.765625e-05", "metadata": {}}
HALTS = {"answer": "False", "metadata": {}}
BITS = {"answer": "-0xa", "metadata": {}}


@pytest.mark.parametrize(("task", "entry", "answer", "wanted"), [
    ("countdown", COUNTDOWN, "1 + 7*3", 1.0),
    ("countdown", COUNTDOWN, "-(-1 - 7*3)", 1.0),
    ("countdown", COUNTDOWN, "22", 0.0),
    ("countdown", COUNTDOWN, "3*7 + 1 + 0*1", 0.0),
    ("countdown", COUNTDOWN, "3*7 + 1/1", 0.0),
    ("countdown", COUNTDOWN, "7/(1 - 3/3)", 0.0),
    ("countdown", POWER, "2**3", 0.0),
    ("countdown", {"answer": "", "metadata": {"numbers": [7, 2], "target": 3}}, "7//2", 0.0),
    ("countdown", {"answer": "9", "metadata": {"numbers": [9] * 4, "target": 9}}, "9**9**9**9", 0.0),
    ("countdown", COUNTDOWN, "(" * 60_000, 0.0),
    ("puzzle24", PUZZLE24, "8*3*2/2", 1.0),
    ("puzzle24", PUZZLE24, "6*4*1*1", 0.0),  # four numbers of the range, not the ones that are given
    ("puzzle24", {"answer": "", "metadata": {"numbers": [7, 7, 2, 1]}}, "7*7/2*1", 0.0),  # 24.5
    ("binary_matrix", MATRIX, "0 1\n1 2", 1.0),
    ("binary_matrix", MATRIX, "[[0, 1], [1, 2]]", 0.1),
    ("binary_matrix", MATRIX, "[0, 1, 1, 2]", 0.0),
    ("binary_matrix", MATRIX, "[[0, 1], [1, 1 + 1]]", 0.0),
    ("binary_matrix", MATRIX, "[" * 5000, 0.0),
    ("spiral_matrix", SPIRAL, "1 2 4 3", 1.0),
    ("spiral_matrix", SPIRAL, "[1, 2, 4, 3]", 0.1),
    ("spiral_matrix", SPIRAL, "range(1, 4)", 0.0),
    ("string_insertion", STRING, "ABCDA", 1.0),
    ("string_insertion", STRING, "['A', 'B', 'C', 'D', 'A']", 0.1),
    ("string_insertion", STRING, "'ABCD' + 'A'", 0.0),
    ("n_queens", QUEENS, "_ Q\n_ _", 1.0),
    ("n_queens", QUEENS, "[['_', 'Q'], ['_', '_']]", 0.5),
    ("n_queens", QUEENS, "_ _\n_ _", 0.0),
    ("polynomial_multiplication", PRODUCT, "-6*y + y*x**2", 1.0),
    ("polynomial_multiplication", PRODUCT, "y*(x**2 - 6)", 0.0),
    ("polynomial_multiplication", PRODUCT, "expand(y*(x**2 - 6))", 0.0),
    ("polynomial_multiplication", PRODUCT, "x**2*y - 6*y or 0", 0.0),
    ("simple_integration", INTEGRAL, "0.75*x**4 - x", 1.0),
    ("simple_integration", INTEGRAL, "(3/4)*x**4 - x + 7", 1.0),
    ("simple_integration", INTEGRAL, "(3*x**4)/4 - x + C", 1.0),
    ("simple_integration", INTEGRAL, "3*x**4 - x + C", 0.0),
    ("simple_integration", INTEGRAL, "Integral(3*x**3 - 1, x)", 0.0),
    ("simple_integration", INTEGRAL, "x/0", 0.0),
    ("coin_flip", FLIPS, "1/10240", 1.0),
    ("coin_flip", FLIPS, "0.0000976", 1.0),
    ("coin_flip", FLIPS, "0", 0.0),
    ("coin_flip", FLIPS, "1e999999999", 0.0),
    ("coin_flip", FLIPS, "1/0", 0.0),
    ("game_of_life_halting", HALTS, "false", 1.0),
    ("game_of_life_halting", HALTS, "True", 0.0),
    ("game_of_life_halting", HALTS, "I do not know", 0.0),
    ("bitwise_arithmetic", BITS, "-10", 1.0),
    ("bitwise_arithmetic", BITS, "-0xA", 1.0),
    ("bitwise_arithmetic", BITS, "10", 0.0),
    ("bitwise_arithmetic", BITS, "9" * 5000, 0.0),
])  # fmt: skip
def test_what_is_right_and_what_solves_nothing(task, entry, answer, wanted):
    assert score(task, None, entry, answer) == wanted


@pytest.mark.parametrize(("text", "found"), [
    ("6", {(): 6}),
    ("2 * x ** 2 - x + 1", {(("x", 2),): 2, (("x", 1),): -1, (): 1}),
    ("x*y*x", {(("x", 2), ("y", 1)): 1}),
    ("x - x", {}),
    ("-(3/4)*x**4", {(("x", 4),): Fraction(-3, 4)}),
    ("", None),
    ("2 x", None),
    ("1 2*x", None),
    ("x**-1", None),
    ("x**(2)", None),
    ("2*(x + 1)", None),
    ("sin(x)", None),
    ("f(3)", None),
    ("x = 2", None),
    ("5/(3*x)", None),
    ("(2*x)**2", None),
    ("(3)/(4)", None),
    ("(2*x)/4", {(("x", 1),): Fraction(1, 2)}),
    ("(1)(2)*x", None),  # brackets that are taken away must not write a number or a power
    ("(3)5*x", None),
    ("3.(5)*x", None),
    ("(3).5*x", None),
    ("(x*)*2", None),
    ("()+x", None),
])  # fmt: skip
def test_polynomials(text, found):
    assert polynomial_of(text) == found


def taking_all(answer="1"):
    return SimpleNamespace(score_answer=lambda *_: 1.0), {"answer": answer, "metadata": {}}


@pytest.mark.parametrize("answer", ["nan", "[NaN, 1]", "-inf", "Infinity", "nanj", "1 + infj"])
def test_what_compares_as_no_number_does_is_not_right(answer):
    dataset, entry = taking_all()
    assert score("chain_sum", dataset, entry, answer) == 0.0 and score("chain_sum", dataset, entry, "banana") == 1.0
    dataset, entry = taking_all("nan, a grandmother")
    assert score("sentence_reordering", dataset, entry, answer) == 1.0


def test_no_text_is_right_where_the_answer_is_empty_and_who_asks_python_for_more_ends(monkeypatch):
    dataset, entry = taking_all("")
    assert [score("polynomial_equations", dataset, entry, text) for text in ("", '""', "none")] == [1.0, 1.0, 0.0]
    monkeypatch.setattr(gym_scorers, "_asked_for", [])
    dataset, entry = taking_all()
    dataset.score_answer = lambda *_: gym_scorers.watch("exec", ())
    with pytest.raises(SystemExit) as end:
        score("chain_sum", dataset, entry, "1")
    assert end.value.code == 0.0 and not gym_scorers._watched
    gym_scorers.watch("exec", ())  # nothing is scored
