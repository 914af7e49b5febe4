# Tests: worlds/detachment/theorems.py
"""All most general theorems by proof length, against an enumeration by the second checker."""

from countdown_selfplay.worlds.detachment import is_instance, is_tautology, most_general, read, shortest_proof
from countdown_selfplay.worlds.detachment.theorems import hardest_at

from . import second


def test_theorems_are_tautologies_as_many_as_counted_with_proofs_of_their_length():
    # The counts of issue 29 from length 5 on; those up to 9 are found again below.
    assert [len(most_general(n)) for n in range(1, 14, 2)] == [3, 6, 15, 50, 139, 435, 1420]
    assert most_general(2) == most_general(14) == {}
    for length in range(1, 12, 2):
        for theorem, proof in most_general(length).items():
            assert is_tautology(theorem) and len(proof) == length
    assert shortest_proof(read("CNpNp").problem) == "DD211"
    assert shortest_proof(read("CCCpqrCCpqr").problem) == "DD211"
    assert shortest_proof(read("CpCqp").problem) == "1"
    assert shortest_proof(read("CpCqp").problem, longest=1) == "1"
    assert shortest_proof(read("Cpp").problem, longest=3) is None
    assert shortest_proof(read("CCCpqpp").problem) is None  # Peirce's law has no proof of 15 signs
    assert shortest_proof(read("p").problem, longest=5) is None


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
