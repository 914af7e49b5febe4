# Tests: worlds/detachment/checker.py, worlds/detachment/formulas.py, worlds/detachment/guide.py
"""Formulas, proofs, theorems and lemmas: known ones, hostile texts, and a second checker."""

import random
from collections import Counter

import pytest

from countdown_selfplay.worlds.detachment import (
    check,
    conclusion,
    is_instance,
    is_tautology,
    most_general,
    read,
    shortest_proof,
)
from countdown_selfplay.worlds.detachment.checker import MOST_PROOF, Reason
from countdown_selfplay.worlds.detachment.formulas import MOST_SYMBOLS, MOST_VARIABLES, Formula, subformula
from countdown_selfplay.worlds.detachment.guide import DetachmentHelping, rubric
from countdown_selfplay.worlds.detachment.theorems import hardest_at

from . import second

CPP = read("Cpp").problem


def test_known_theorems():
    known = {
        "1": "CpCqp", "2": "CCpCqrCCpqCpr", "3": "CCNpNqCqp", "DD211": "Cpp", "D D\n2 1 1": "Cpp",
        "D11": "CpCqCrq",  # p := CpCqp in 1
        "D21": "CCpqCpp",  # 2 on CpCqp
        "DD2D121": "CCpqCCrpCrq",  # the syllogism: 2 on (C q r -> C p C q r) and 1
    }  # fmt: skip
    assert {proof: str(conclusion(proof).conclusion) for proof in known} == known
    assert all(check(proof, read(theorem).problem).correct for proof, theorem in known.items())


def test_a_proof_proves_every_instance_of_its_conclusion_however_deep():
    assert check("DD211", read("CCpqCpq").problem).score == 1
    assert check("DD211", read("CNpNp").problem).correct
    other = check("DD211", read("CpNp").problem)
    assert (other.reason, other.score, str(other.conclusion), other.steps) == ("other_theorem", 0, "Cpp", 5)
    assert check("D21", CPP).reason is Reason.OTHER_THEOREM  # CCpqCpp
    assert conclusion("D" * 4000 + "1" * 4001).reason is Reason.CORRECT
    assert second.polish(second.proved("D" * 200 + "1" * 201)) == str(conclusion("D" * 200 + "1" * 201).conclusion)


HOSTILE = {
    "no_proof": ["", " \n", "DD214", "dd211", "DD21１", "The proof is DD211", None, b"DD211"],
    "unbalanced": ["D", "DDD211", "D211", "11", "D" * MOST_PROOF],
    "too_long": [
        "D" * 1_000_000, "D" * 499_999 + "1" * 500_000, " " * 1_000_000 + "1", "D1" * (MOST_PROOF // 2) + "1",
    ],
    "too_large": ["D1" * 4999 + "1", "D2" * 4999 + "1"],
    "no_detachment": ["D31", "DD221"],  # the occurs check alone refuses the second
}  # fmt: skip


@pytest.mark.parametrize("reason", HOSTILE)
def test_hostile_texts_get_a_reason(reason):
    for found in (check(text, CPP) for text in HOSTILE[reason]):
        assert (found.reason, found.correct, found.score) == (reason, False, 0.0)


def test_a_formula_of_astronomical_length_costs_no_more_than_its_steps():
    """With the proof DD2D122 before it, a theorem of n signs becomes one of about 2.618 n: 11, 27, 69, ..."""
    sizes = [conclusion("DDD2D122" * n + "1").conclusion.symbols for n in range(1, 8)]
    assert sizes == [second_size(second.proved("DDD2D122" * n + "1")) for n in range(1, 8)]
    found = conclusion("DDD2D122" * 100 + "1")
    assert found.correct and found.conclusion.symbols > 10**40 and len(found.conclusion.nodes) < 1000
    assert check("DDD2D122" * 100 + "1", CPP).reason is Reason.OTHER_THEOREM


def second_size(term):
    return 1 if isinstance(term, str) else 1 + sum(map(second_size, term[1:]))


def random_proof(generator, leaves):
    if leaves == 1:
        return generator.choice("123")
    left = generator.randint(1, leaves - 1)
    return f"D{random_proof(generator, left)}{random_proof(generator, leaves - left)}"


def damaged(generator, proof):
    at = generator.randrange(len(proof))
    kind = generator.randrange(3)
    return proof[:at] + ("", generator.choice("D123"), generator.choice("D123") + proof[at])[kind] + proof[at + 1 :]


def compared(number, seed):
    """Reasons of random texts, after both checkers agreed on each."""
    generator, reasons = random.Random(seed), Counter()
    for _ in range(number):
        proof = random_proof(generator, generator.randint(1, 9))
        if generator.random() < 0.2:
            proof = damaged(generator, proof)
        found = conclusion(proof)
        try:
            expected = second.proved(proof)
        except ValueError:
            assert found.reason in ("unbalanced", "no_proof"), proof
        else:
            assert (found.conclusion is None) == (expected is None), proof
            if expected is not None:
                assert str(found.conclusion) == second.polish(expected), proof
        reasons[str(found.reason)] += 1
    return reasons


def test_both_checkers_agree_on_2000_random_texts_and_all_theorems_up_to_length_11():
    reasons = compared(2_000, seed=0)
    assert set(reasons) >= {"correct", "no_detachment", "unbalanced"} and min(reasons.values()) > 10
    proofs = {proof: theorem for length in range(1, 12, 2) for theorem, proof in most_general(length).items()}
    assert len(proofs) == 3 + 6 + 15 + 50 + 139 + 435
    for proof, theorem in proofs.items():
        assert check(proof, theorem).correct and conclusion(proof).conclusion == theorem
        assert second.polish(second.proved(proof)) == str(theorem)


@pytest.mark.slow
def test_both_checkers_agree_on_100_000_random_texts():
    reasons = compared(100_000, seed=1)
    assert reasons["correct"] > 20_000 and reasons["no_detachment"] > 10_000 and reasons["unbalanced"] > 5_000


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


def test_what_is_not_a_formula_is_refused_with_a_reason():
    refused = {
        "no_formula": ["", "p -> q", "CpQ", "CpCqp.", None, b"Cpp", 7], "unbalanced": ["C", "Cp", "Cppp", "pC", "N"],
        "too_long": ["N" * MOST_SYMBOLS + "p", "C" * 1_000_000],
    }  # fmt: skip
    for reason, texts in refused.items():
        assert [(one.problem, one.reason) for one in map(read, texts)] == [(None, reason)] * len(texts)


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


def test_theorems_are_tautologies_as_many_as_counted_with_proofs_of_their_length():
    # The counts of issue 29 from length 5 on; those up to 9 are found again below.
    assert [len(most_general(n)) for n in range(1, 14, 2)] == [3, 6, 15, 50, 139, 435, 1420]
    assert most_general(2) == most_general(14) == {}
    for length in range(1, 12, 2):
        for theorem, proof in most_general(length).items():
            assert is_tautology(theorem) and len(proof) == length
    # Peirce's law, the last of them, has no proof of 15 signs.
    proofs = {"CNpNp": "DD211", "CCCpqrCCpqr": "DD211", "CpCqp": "1", "CCCpqpp": None}
    assert {text: shortest_proof(formula(text)) for text in proofs} == proofs
    for text, longest, proof in (("CpCqp", 1, "1"), ("Cpp", 3, None), ("p", 5, None)):
        assert shortest_proof(formula(text), longest) == proof


def test_the_second_checker_finds_the_same_theorems_up_to_length_9():
    levels, seen = {1: [second.tidy(axiom) for axiom in second.AXIOMS.values()]}, set()
    seen |= set(levels[1])
    for length in range(3, 10, 2):
        pairs = [(x, y) for n in range(1, length - 1, 2) for x in levels[n] for y in levels[length - 1 - n]]
        made = {second.detached(x, y) for x, y in pairs} - seen - {None}
        levels[length] = sorted(made, key=str)
        seen |= made
        assert {second.polish(term) for term in made} == {str(f) for f in most_general(length)}


def test_a_theorem_that_a_shorter_proof_proves_is_not_among_the_hardest():
    shorter = []
    for length in range(1, 10, 2):
        new = most_general(length)
        expected = [f for f in new if not any(is_instance(f, general) for general in shorter)]
        assert list(hardest_at(length)) == expected
        shorter += new
    assert [len(hardest_at(n)) for n in range(1, 12, 2)] == [3, 6, 15, 44, 101, 258]


@pytest.mark.parametrize(("target", "lemma", "relevance"), [
    ("CpCqq", "CrCsCtt", 5),  # detached with an axiom it is CsCtt
    ("CpCqq", "CpCqq", 0),  # itself
    ("CpCqq", "CrCCstr", 0),  # an instance of axiom 1
    ("CNpNp", "Cqq", 5),  # the target is an instance
    ("CpCqq", "Cpp", 5),  # D1 on the lemma: CqCpp
    ("CpCqCrr", "Cpp", 4),  # D1D1
    ("CpCqq", "CNpCqq", 3),  # an instance of the target
    ("CCpNqCqNp", "CNNrr", 1),
    ("CCpNqCqNp", "CCCrNstCCrNst", 2),  # CrNs
])  # fmt: skip
def test_relevance(target, lemma, relevance):
    assert rubric(formula(target), formula(lemma)).relevance == relevance


def test_redundancy_and_complexity_by_hand_are_what_the_guide_sees():
    assert rubric(formula("Cpp"), formula("CqCpp")).redundancy == 1  # Cpp holds without q
    assert rubric(formula("Cpp"), formula("CCpqCCqrCpr")).redundancy == 0  # the syllogism needs all three
    assert rubric(formula("Cpp"), formula("CCpqCCqrCsCpr")).redundancy == 1  # s is idle
    target = formula("CCpqCCqrCpr")  # 11 signs, 3 variables, depth 3
    assert rubric(target, formula("CNNpp")).complexity == 1  # NN alone
    # 13 signs, 4 variables, depth 4 (NNs below three C)
    assert rubric(target, formula("CCpqCCqrCsCpr")).complexity == 3
    assert rubric(target, formula("CCpqCCqrCNNsCpr")).complexity == 4
    assert rubric(target, formula("CCpqCCqrCNNsCpr")).score == 0
    helping = DetachmentHelping()
    found = helping.review(formula("CpCqq"), formula("Cpp"), "DD211")
    assert found == rubric(formula("CpCqq"), formula("Cpp"))
    assert found.score == 5 + 2 + 1  # nothing redundant (Cpp without its premise is p), nothing complex
