# Tests: countdown/guide.py, countdown/helping.py, countdown/moves.py, countdown/domain.py
"""The rubric of SGS 2026 for answers in moves, at problems that can be judged by hand."""

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem, Rules
from countdown_selfplay.countdown.guide import moves_between, rubric_in_moves
from countdown_selfplay.countdown.moves import solving_moves

TARGET = Problem((3, 4, 5, 6), 24)
DOMAIN = CountdownDomain.ladder()


@pytest.mark.parametrize(("proposal", "relevance"), [
    (Problem((8, 4, 6), 24), 5),  # 3 + 5 = 8; solved by 8 - 4 = 4, 4 * 6
    (Problem((4, 6), 24), 4),  # and 8 - 4 = 4
    (Problem((12, 5, 6), 24), 3),  # 3 * 4 = 12, a dead end: the target, and two of four numbers
    (Problem((6, 5, 4, 3), 24), 0),  # the same problem in another order
    (Problem((24,), 24), 0),  # nothing to play
    (Problem((10, 11), 90), 1),  # unrelated; 21, 1, 110
    (Problem((10, 11), 21), 0),  # unrelated, and one move: 10 + 11
])  # fmt: skip
def test_relevance_by_hand(proposal, relevance):
    assert rubric_in_moves(TARGET, proposal, 99).relevance == relevance


def test_moves_to_a_later_state_are_counted_and_so_are_numbers_and_moves_that_change_nothing():
    assert moves_between(TARGET, Problem((12, 5, 6), 24), 99) == 1  # 3 * 4
    assert moves_between(TARGET, Problem((12, 11), 24), 99) == 2  # 3 * 4, 5 + 6
    assert moves_between(TARGET, Problem((12, 5, 6), 23), 99) is None  # another target
    assert moves_between(TARGET, Problem((13, 5, 6), 24), 99) is None  # 3 and 4 leave 7, 1, 12
    assert moves_between(TARGET, Problem((12, 5, 6), 24), 11) is None  # beyond the bound of results
    review = rubric_in_moves(TARGET, Problem((4, 6, 1), 24), 99, [(6, "*", 4, 24), (24, "*", 1, 24)])
    assert (review.redundancy, review.complexity) == (1, 0)
    assert rubric_in_moves(TARGET, Problem((1, 1, 1), 99), 99).complexity == 4  # no moves reach 99
    assert rubric_in_moves(TARGET, Problem((1, 2, 3, 4, 14), 24), 99).complexity == 2  # one number more, 1+2+3+4+14
    seven = Problem((1, 2, 3, 4, 5, 6, 7), 28)
    assert rubric_in_moves(TARGET, seven, 99).complexity == 3  # seven of four numbers, their sum


def test_a_help_may_hold_results_of_moves_and_a_solution_counts_if_its_moves_solve():
    state = Problem((30, 5, 6), 24)  # beyond 12, within 99
    (helping,) = DOMAIN.check([state], [{"target": TARGET}])
    (plain,) = DOMAIN.check([state], [None])
    (beyond,) = DOMAIN.check([Problem((100, 5, 6), 24)], [{"target": TARGET}])
    assert (helping.reason, plain.reason, beyond.reason) == ("ok", "out_of_range", "out_of_range")

    def complexity(solution):
        return DOMAIN.helping.review(Problem((2,) * 8, 8), EIGHT, solution).complexity

    assert complexity("\n".join(SUMS)) == 1  # as many numbers as the target problem
    wrong = [None, "", "right", "\n".join(SUMS[:-1]), "\n".join([*SUMS[:-1], "7 + 1 = 9"]), "\n".join(SUMS[1:])]
    assert [complexity(text) for text in wrong] == [4] * len(wrong)  # not known to be solvable


EIGHT = Problem((1, 1, 1, 1, 1, 1, 1, 1), 8)  # beyond the numbers whose moves are searched
SUMS = [f"{n} + 1 = {n + 1}" for n in range(1, 8)]


@pytest.mark.parametrize(("transcript", "rules"), [
    ("6*4=24\n\n24 * 1 = 24 ", Rules(answer_format="bare")),
    ("So <answer>6 * 4 = 24</answer>\nthen\n<answer> 24 * 1 = 24 </answer>", Rules()),
    ("<answer> 6 * 5 = 30 </answer><answer> 6 * 4 = 24 </answer>\n<answer>24 * 1 = 24</answer>", Rules()),
], ids=["bare", "tags", "a draft with a number that is not there"])  # fmt: skip
def test_the_moves_of_a_transcript_are_read_in_either_form(transcript, rules):
    moves = solving_moves(transcript, Problem((4, 6, 1), 24), rules, 99)
    assert moves == [(6, "*", 4, 24), (24, "*", 1, 24)]
    assert solving_moves(transcript, Problem((4, 6, 2), 24), rules, 99) is None
