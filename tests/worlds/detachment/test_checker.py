# Tests: worlds/detachment/checker.py
"""The checker of proofs: known proofs, hostile texts, and a second checker on random proofs."""

import random
from collections import Counter

import pytest

from countdown_selfplay.worlds.detachment import check, conclusion, most_general, read
from countdown_selfplay.worlds.detachment.checker import MOST_PROOF, Reason

from . import second

CPP = read("Cpp").problem


@pytest.mark.parametrize(("proof", "theorem"), [
    ("1", "CpCqp"),
    ("2", "CCpCqrCCpqCpr"),
    ("3", "CCNpNqCqp"),
    ("D11", "CpCqCrq"),  # p := CpCqp in 1
    ("D21", "CCpqCpp"),  # 2 on CpCqp
    ("DD211", "Cpp"),
    ("DD2D121", "CCpqCCrpCrq"),  # the syllogism: 2 on (C q r -> C p C q r) and 1
    ("D D\n2 1 1", "Cpp"),
])  # fmt: skip
def test_known_theorems(proof, theorem):
    assert str(conclusion(proof).conclusion) == theorem
    assert check(proof, read(theorem).problem).correct


def test_a_proof_proves_every_instance_of_its_conclusion_however_deep():
    assert check("DD211", read("CCpqCpq").problem).score == 1
    assert check("DD211", read("CNpNp").problem).correct
    other = check("DD211", read("CpNp").problem)
    assert (other.reason, other.score, str(other.conclusion), other.steps) == ("other_theorem", 0, "Cpp", 5)
    assert check("D21", CPP).reason is Reason.OTHER_THEOREM  # CCpqCpp
    assert conclusion("D" * 4000 + "1" * 4001).reason is Reason.CORRECT
    assert second.polish(second.proved("D" * 200 + "1" * 201)) == str(conclusion("D" * 200 + "1" * 201).conclusion)


HOSTILE = {
    "nothing": ("", "no_proof"),
    "white space": (" \n", "no_proof"),
    "another sign": ("DD214", "no_proof"),
    "small letter": ("dd211", "no_proof"),
    "full-width digit": ("DD21１", "no_proof"),
    "an explanation": ("The proof is DD211", "no_proof"),
    "no text": (None, "no_proof"),
    "bytes": (b"DD211", "no_proof"),
    "D alone": ("D", "unbalanced"),
    "a D too many": ("DDD211", "unbalanced"),
    "a D too few": ("D211", "unbalanced"),
    "axioms alone": ("11", "unbalanced"),
    "a million Ds": ("D" * 1_000_000, "too_long"),
    "a proof of a million signs": ("D" * 499_999 + "1" * 500_000, "too_long"),
    "a megabyte of white space": (" " * 1_000_000 + "1", "too_long"),
    "one sign too many": ("D1" * (MOST_PROOF // 2) + "1", "too_long"),
    "the longest Ds": ("D" * MOST_PROOF, "unbalanced"),
    "a chain that grows": ("D1" * 4999 + "1", "too_large"),
    "a chain of the second axiom": ("D2" * 4999 + "1", "too_large"),
    "no unifier": ("D31", "no_detachment"),
    "a variable inside itself": ("DD221", "no_detachment"),  # the occurs check alone refuses it
}


@pytest.mark.parametrize(("text", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_get_a_reason(text, reason):
    found = check(text, CPP)
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
