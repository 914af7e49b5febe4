# Tests: countdown/guide.py
"""The rubric of seed 003, appendix E.3, at Countdown problems that can be judged by hand."""

import pytest

from countdown_selfplay.countdown import Problem
from countdown_selfplay.countdown.guide import Review, is_step, rubric

TARGET = Problem((3, 5, 7), 22)  # 3 * 5 + 7


@pytest.mark.parametrize(("review", "score"), [
    # equation 3: relevance + (2 - complexity) + (1 - redundancy); 0 from complexity 3 on
    (Review(5, 0, 0), 8),
    (Review(5, 1, 0), 7),
    (Review(2, 1, 2), 2),
    (Review(0, 1, 2), 0),
    (Review(5, 0, 3), 0),
    (Review(5, 0, 4), 0),
])  # fmt: skip
def test_the_score_is_equation_3(review, score):
    assert review.score == score


@pytest.mark.parametrize(("proposal", "relevance"), [
    (Problem((7, 5, 3), 22), 0),  # the target problem itself, in another order
    (Problem((22,), 22), 0),  # nothing to solve
    (Problem((3, 5), 15), 5),  # 15 + 7: a step that leaves two numbers
    (Problem((3, 5), 8), 2),  # 3 + 5, but 8 and 7 make 15, 1, 56, 8/7, 7/8, and not 22: two of three numbers
    (Problem((3, 5, 8), 23), 3),  # two of three numbers; 3 * 5 + 8 alone: needs + and *, as 3 * 5 + 7 does
    (Problem((3, 5, 8), 16), 2),  # 3 + 5 + 8: two of three numbers, other operators
    (Problem((2, 4, 14), 22), 2),  # nothing but the target
    (Problem((2, 4, 14), 20), 1),  # unrelated, and no two of its numbers make 20
    (Problem((1, 1), 1), 0),  # unrelated and trivial: nothing to compute
    (Problem((6, 8), 14), 0),  # one operation
    (Problem((1, 6, 8), 14), 0),  # one operation, and a 1 that only pads
])  # fmt: skip
def test_relevance_by_hand(proposal, relevance):
    assert rubric(TARGET, proposal).relevance == relevance


def test_a_step_must_be_possible_and_lead_on_and_leaves_more_of_a_longer_target():
    assert is_step(TARGET, Problem((5, 3), 15))
    assert not is_step(TARGET, Problem((3, 5), 29))  # 29 - 7 = 22, but 3 and 5 do not make 29
    assert not is_step(TARGET, Problem((3, 3), 15))  # the target has one 3
    assert not is_step(Problem((3, 5, 7), 5), Problem((3, 5), -2))  # -2 + 7 = 5, but a problem's numbers are positive
    longer = Problem((3, 5, 7, 2), 24)  # 3 * 5 + 7 + 2
    assert rubric(longer, Problem((3, 5), 15)).relevance == 4
    assert rubric(longer, Problem((3, 5, 7), 22)).relevance == 5


def test_redundancy_complexity_and_scores_by_hand():
    assert rubric(TARGET, Problem((3, 5), 15)).redundancy == 0
    assert rubric(TARGET, Problem((1, 3, 5), 15)).redundancy == 1  # 3 * 5; the 1 only pads
    assert rubric(TARGET, Problem((4, 4, 9), 9)).redundancy == 1  # the 9 alone
    assert rubric(TARGET, Problem((3, 5), 15)).complexity == 0
    assert rubric(TARGET, Problem((1, 2, 3, 4), 10)).complexity == 1  # one number more than the target has
    # 3, 3, 8, 8 -> 24 by 8 / (3 - 8 / 3) alone: four numbers, three deep, a fraction: 1 + 1 + 2
    assert rubric(TARGET, Problem((3, 3, 8, 8), 24)).complexity == 4
    assert rubric(Problem((1, 2, 3, 4), 24), Problem((3, 3, 8, 8), 24)).complexity == 3
    assert rubric(TARGET, Problem((1, 1, 1), 99)).complexity == 4  # no solution
    assert rubric(TARGET, Problem((3, 3, 8, 8), 24)).score == 0
    assert rubric(TARGET, Problem((1, 1), 1)).score == 0 + 2 + 0  # one 1 is too many
    assert rubric(TARGET, Problem((6, 8), 14)).score == 0 + 2 + 1
    assert rubric(TARGET, Problem((2, 4, 14), 20)).score == 1 + 2 + 1
    assert rubric(TARGET, TARGET).score == 0 + 2 + 1  # relevance 0; a plain problem without a number too many
