# Tests: worlds/detachment/formulas.py
"""Formulas: reading, renaming, instances and truth tables, against nested tuples."""

import random

import pytest

from countdown_selfplay.worlds.detachment import is_instance, is_tautology, read
from countdown_selfplay.worlds.detachment.formulas import MOST_SYMBOLS, MOST_VARIABLES, Formula, subformula

from . import second


def formula(text):
    found = read(text)
    assert found.problem is not None, (text, found.reason)
    return found.problem


def random_text(generator, size, letters="pqrs"):
    if size == 1:
        return generator.choice(letters)
    if size == 2 or generator.random() < 0.2:
        return "N" + random_text(generator, size - 1, letters)
    left = generator.randint(1, size - 2)
    return f"C{random_text(generator, left, letters)}{random_text(generator, size - 1 - left, letters)}"


def test_formulas_have_variables_in_order_sizes_and_subformulas():
    assert str(formula("CbCab")) == "CpCqp" and formula("CbCab") == formula("CpCqp")
    assert str(formula(" C x\nN y ")) == "CpNq"
    assert formula("CpCqp") != formula("CpCqq") and formula("CpCqr") != formula("CpCqp")
    # CCpqNNp: 7 signs; p lies below C, C and q beside it, the second p below C, N, N
    found = formula("CCpqNNp")
    assert (found.symbols, found.variables, found.depth) == (7, 2, 3)
    assert (formula("p").symbols, formula("p").variables, formula("p").depth) == (1, 1, 0)
    found = formula("CCpqCNqNp")
    texts = {str(subformula(found, place)) for place in range(len(found.nodes))}
    assert texts == {"p", "Cpq", "Np", "CNpNq", "CCpqCNqNp"}
    assert subformula(found, len(found.nodes) - 1) == found


def test_a_text_that_is_read_is_written_the_same_and_instances_agree_with_nested_tuples():
    generator = random.Random(0)
    for _ in range(300):
        text = random_text(generator, generator.randint(1, 40))
        assert str(formula(text)) == second.polish(second.of_polish(text))
        assert str(formula(str(formula(text)))) == str(formula(text))
    generator = random.Random(1)
    yes = true = 0
    for _ in range(3000):
        general, text = (random_text(generator, generator.randint(1, n), "pqr") for n in (5, 9))
        expected = second.matches(second.of_polish(general), second.of_polish(text), {})
        assert is_instance(formula(text), formula(general)) == expected, (text, general)
        tautology = second.always_true(second.of_polish(text))
        assert is_tautology(formula(text)) == tautology, text
        yes, true = yes + expected, true + tautology
    assert yes > 100 and true > 100


@pytest.mark.parametrize(("text", "reason"), [
    ("", "no_formula"),
    ("p -> q", "no_formula"),
    ("CpQ", "no_formula"),
    ("CpCqp.", "no_formula"),
    (None, "no_formula"),
    (b"Cpp", "no_formula"),
    (7, "no_formula"),
    ("C", "unbalanced"),
    ("Cp", "unbalanced"),
    ("Cppp", "unbalanced"),
    ("pC", "unbalanced"),
    ("N", "unbalanced"),
    ("N" * MOST_SYMBOLS + "p", "too_long"),
    ("C" * 1_000_000, "too_long"),
])  # fmt: skip
def test_what_is_not_a_formula_is_refused_with_a_reason(text, reason):
    found = read(text)
    assert (found.problem, found.reason) == (None, reason)


def test_the_longest_text_is_read_and_one_that_cannot_be_written_has_its_size():
    deep = formula("N" * (MOST_SYMBOLS - 1) + "p")
    assert (deep.symbols, deep.depth, len(str(deep))) == (MOST_SYMBOLS, MOST_SYMBOLS - 1, MOST_SYMBOLS)
    assert is_instance(deep, deep) and is_tautology(deep) is False
    # each node is an implication from the one before to itself: 2 n + 1 signs, 2**61 - 1 after 60
    doubled = Formula(((-1, -1), *((i, i) for i in range(60))))
    assert doubled.symbols == 2**61 - 1 and doubled.depth == 60
    assert is_instance(doubled, formula("Cpp")) and not is_instance(doubled, formula("CpCqp"))
    letters = "pqrstuvwxyzabc"
    chain = lambda n: "".join(f"C{x}" for x in letters[:n]) + "p"  # noqa: E731
    assert is_tautology(formula(chain(MOST_VARIABLES))) is True
    assert is_tautology(formula(chain(MOST_VARIABLES + 1))) is None
    assert is_tautology(formula("CCpqp")) is False and is_tautology(formula("CCCpqpp")) is True  # Peirce's law
