# Tests: proposers/variations.py, countdown/variations.py
"""Variations by an exchange in a right answer: solvable, with the same target; and which problems become seeds."""

from itertools import islice
from random import Random

import numpy as np
import pytest
from tests.unit.countdown.oracle import naive_solvable

from countdown_selfplay.contract.game import Outcome, Proposal
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec
from countdown_selfplay.countdown.moves import solving_moves
from countdown_selfplay.countdown.planted import derivations
from countdown_selfplay.countdown.variations import leaf_moves, pairs_of, variation
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.testing import ScriptedRound

DOMAIN = CountdownDomain.ladder()
SPEC = ProblemSpec((4,), 1, 12, 1, 99)


def moves_of(problem, text):
    return solving_moves(text, problem, DOMAIN.rules, DOMAIN.value_high)


def test_the_pairs_of_a_value_are_all_that_one_move_turns_into_it():
    # 7 = 4 + 3, 5 + 2, 6 + 1, 7 * 1 (and 7 / 1), 8 - 1, 9 - 2, 10 - 3, 11 - 4, 12 - 5
    assert pairs_of(7, SPEC, 99) == [(4, 3), (5, 2), (6, 1), (7, 1), (8, 1), (9, 2), (10, 3), (11, 4), (12, 5)]
    # 6 = 3 * 2 and 12 / 2 as well; 60 = 12 * 5 and 10 * 6 alone
    assert {(3, 2), (12, 2), (6, 1)} <= set(pairs_of(6, SPEC, 99)) and pairs_of(60, SPEC, 99) == [(10, 6), (12, 5)]


def test_a_leaf_move_takes_two_numbers_of_the_problem():
    """Of (4, 4, 3, 2): 4 + 4 takes both fours; 3 - 2 two numbers; 8 * 1 two results."""
    problem = Problem((4, 4, 3, 2), 8)
    moves = moves_of(problem, "4 + 4 = 8\n3 - 2 = 1\n8 * 1 = 8")
    assert leaf_moves(problem, moves) == [(4, "+", 4, 8), (3, "-", 2, 1)]
    # One 4 alone: the second one of 4 * 4 is the result of 2 + 2.
    problem = Problem((2, 2, 4), 16)
    assert leaf_moves(problem, moves_of(problem, "2 + 2 = 4\n4 * 4 = 16")) == [(2, "+", 2, 4)]


def test_variations_of_planted_problems_are_solvable_and_keep_target_and_size():
    """By a search that shares no code with the package; two numbers at most are others."""
    found = 0
    for i, derived in enumerate(islice(derivations(4, SPEC, 7), 60)):
        if derived is None:
            continue
        problem, moves = derived
        made = variation(problem, moves_of(problem, "\n".join(moves)), SPEC, 99, Random(i))
        if made is None:
            continue
        found += 1
        assert made.target == problem.target and made.key != problem.key
        assert sum(a != b for a, b in zip(made.numbers, problem.numbers, strict=True)) <= 2
        assert all(1 <= number <= 12 for number in made.numbers)
        assert naive_solvable(made.numbers, made.target, integers_only=True)
    assert found > 20


def test_a_move_without_another_pair_gives_no_variation():
    """11 * 11 = 121 is above value_high; 12 * 12 too. 99 = 11 * 9 alone of numbers up to 12."""
    problem = Problem((11, 9), 99)
    assert variation(problem, [(11, "*", 9, 99)], SPEC, 99, Random(0)) is None


def scripted(slots=16, index=0, **more):
    return ScriptedRound(lambda *_: "", {"prover": (slots * 8, 8)}, DOMAIN, index=index, **more)


def outcome(proposals, rights, texts):
    bits = np.array([[[i < right for i in range(8)] for right in rights]], dtype=float)
    count = len(proposals)
    return Outcome(proposals, np.zeros(count), [p.problem for p in proposals], list(range(count)), bits, texts)


def planted(count):
    rows = (row for row in derivations(4, SPEC, 3) if row is not None and not DOMAIN.is_held_out(row[0]))
    return [(problem, "\n".join(moves)) for problem, moves in islice(rows, count)]


def heard(proposer, rights, varied=False):
    """A round in which problems with known answers were proposed and so many of 8 answers were right."""
    known = planted(len(rights))
    more = {"varied": True} if varied else {}
    proposals = [Proposal(problem, asked={"rung": 4, **more}) for problem, _ in known]
    texts = [text if right else None for (_, text), right in zip(known, rights, strict=True)]
    proposer.slot_of = list(range(len(proposals)))
    proposer.learn(scripted(), outcome(proposals, rights, texts))
    return [problem.key for problem, _ in known]


def test_seeds_are_those_that_are_solved_at_an_eighth_to_a_half_and_variations_to_five_eighths():
    for varied, most in ((False, 4), (True, 5)):
        proposer = make_proposer("variations", {"rungs": [4]})
        keys = heard(proposer, [0, 1, 2, 3, 4, 5, 6, 7, 8], varied)
        assert list(proposer.seeds) == keys[1 : most + 1]
        assert proposer.logged().get("proposer/variation_rate") == (0.5 if varied else None)


def test_half_of_the_slots_are_variations_as_far_as_there_are_seeds_and_all_are_of_the_training_side():
    proposer = make_proposer("variations", {"rungs": [4], "capacity": 6})
    first = proposer.propose(scripted(), [])
    assert len(first) == 16 and not any("varied" in p.asked for p in first)
    heard(proposer, [1] * 10)
    assert len(proposer.seeds) == 6  # the newest
    targets = {problem.target for problem, _ in proposer.seeds.values()}
    second = proposer.propose(scripted(index=1), [])
    made = [p for p in second if "varied" in p.asked]
    assert len(second) == 16 and len(made) == 8 and proposer.slot_of == list(range(16))
    assert {p.problem.target for p in made} <= targets and len({p.problem.key for p in made}) == 8
    assert not any(DOMAIN.is_held_out(p.problem) for p in second)
    assert proposer.logged()["proposer/varied_share"] == 0.5
    barred = frozenset(p.problem.key for p in made)
    again = make_proposer("variations", {"rungs": [4], "capacity": 6})
    again.load_state_dict(proposer.state_dict())
    assert [p.problem for p in again.propose(scripted(index=1), [])] == [p.problem for p in second]
    other = again.propose(scripted(index=1, held_out=barred), [])
    assert not barred & {p.problem.key for p in other}


def test_whole_answers_and_bands_that_are_empty_are_refused():
    with pytest.raises(ConfigError, match="set `answers` to moves"):
        make_proposer("variations").check({"prover": ["prover"]}, CountdownDomain())
    with pytest.raises(ConfigError, match=r"`low` \(0.6\) of variations must not exceed `high` \(0.5\)"):
        make_proposer("variations", {"low": 0.6})
