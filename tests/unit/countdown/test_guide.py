# Tests: countdown/guide.py, countdown/helping.py, countdown/moves.py, countdown/domain.py
"""The rubric of SGS 2026, appendix E.3, at problems that can be judged by hand, for whole answers and in moves; its
prompts, and reviews as texts."""

from dataclasses import replace

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules
from countdown_selfplay.countdown.guide import Review, is_step, moves_between, rubric, rubric_in_moves
from countdown_selfplay.countdown.helping import read_review, review_text
from countdown_selfplay.countdown.moves import solving_moves

TARGET, STEP = Problem((3, 5, 7), 22), Problem((3, 5), 15)  # 3 * 5 + 7
FOUR = Problem((3, 4, 5, 6), 24)
TINY = replace(CountdownDomain.tiny(), spec=ProblemSpec((2, 3, 4), 1, 12, 1, 99))
LADDER = CountdownDomain.ladder()
STYLES = ("json", "completion", "compact")
RULES_OF_E1 = ("useful for", "simpler to solve than the target problem", "NOT be identical", "NOT be equivalent")


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
    assert rubric(TARGET, STEP).redundancy == 0
    assert rubric(TARGET, Problem((1, 3, 5), 15)).redundancy == 1  # 3 * 5; the 1 only pads
    assert rubric(TARGET, Problem((4, 4, 9), 9)).redundancy == 1  # the 9 alone
    assert rubric(TARGET, STEP).complexity == 0
    assert rubric(TARGET, Problem((1, 2, 3, 4), 10)).complexity == 1  # one number more than the target has
    # 3, 3, 8, 8 -> 24 by 8 / (3 - 8 / 3) alone: four numbers, three deep, a fraction: 1 + 1 + 2
    assert rubric(TARGET, Problem((3, 3, 8, 8), 24)).complexity == 4
    assert rubric(Problem((1, 2, 3, 4), 24), Problem((3, 3, 8, 8), 24)).complexity == 3
    assert rubric(TARGET, Problem((1, 1, 1), 99)).complexity == 4  # no solution
    assert rubric(TARGET, Problem((1, 1), 1)).score == 0 + 2 + 0  # one 1 is too many
    assert rubric(TARGET, TARGET).score == 0 + 2 + 1  # relevance 0; a plain problem without a number too many


@pytest.mark.parametrize(("proposal", "relevance"), [
    (Problem((8, 4, 6), 24), 5),  # 3 + 5 = 8; solved by 8 - 4 = 4, 4 * 6
    (Problem((4, 6), 24), 4),  # and 8 - 4 = 4
    (Problem((12, 5, 6), 24), 3),  # 3 * 4 = 12, a dead end: the target, and two of four numbers
    (Problem((6, 5, 4, 3), 24), 0),  # the same problem in another order
    (Problem((24,), 24), 0),  # nothing to play
    (Problem((10, 11), 90), 1),  # unrelated; 21, 1, 110
    (Problem((10, 11), 21), 0),  # unrelated, and one move: 10 + 11
])  # fmt: skip
def test_relevance_in_moves_by_hand(proposal, relevance):
    assert rubric_in_moves(FOUR, proposal, 99).relevance == relevance


def test_moves_to_a_later_state_are_counted_and_so_are_numbers_and_moves_that_change_nothing():
    assert moves_between(FOUR, Problem((12, 5, 6), 24), 99) == 1  # 3 * 4
    assert moves_between(FOUR, Problem((12, 11), 24), 99) == 2  # 3 * 4, 5 + 6
    assert moves_between(FOUR, Problem((12, 5, 6), 23), 99) is None  # another target
    assert moves_between(FOUR, Problem((13, 5, 6), 24), 99) is None  # 3 and 4 leave 7, 1, 12
    assert moves_between(FOUR, Problem((12, 5, 6), 24), 11) is None  # beyond the bound of results
    review = rubric_in_moves(FOUR, Problem((4, 6, 1), 24), 99, [(6, "*", 4, 24), (24, "*", 1, 24)])
    assert (review.redundancy, review.complexity) == (1, 0)
    assert rubric_in_moves(FOUR, Problem((1, 1, 1), 99), 99).complexity == 4  # no moves reach 99
    assert rubric_in_moves(FOUR, Problem((1, 2, 3, 4, 14), 24), 99).complexity == 2  # one number more, 1+2+3+4+14
    seven = Problem((1, 2, 3, 4, 5, 6, 7), 28)
    assert rubric_in_moves(FOUR, seven, 99).complexity == 3  # seven of four numbers, their sum


def test_a_help_may_hold_results_of_moves_and_a_solution_counts_if_its_moves_solve():
    state = Problem((30, 5, 6), 24)  # beyond 12, within 99
    (helping,) = LADDER.check([state], [{"target": FOUR}])
    (plain,) = LADDER.check([state], [None])
    (beyond,) = LADDER.check([Problem((100, 5, 6), 24)], [{"target": FOUR}])
    assert (helping.reason, plain.reason, beyond.reason) == ("ok", "out_of_range", "out_of_range")

    def complexity(solution):
        return LADDER.helping.review(Problem((2,) * 8, 8), EIGHT, solution).complexity

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
    long = "1" * 5000  # more digits than Python converts: the text is a model's
    assert solving_moves(f"{long} + 1 = 2\n{transcript}", Problem((4, 6, 1), 24), rules, 99) == moves


@pytest.mark.parametrize("style", ["json", "completion"])
def test_a_prompt_for_a_target_has_the_sentences_of_the_paper(style):
    domain = CountdownDomain(conjecturer_prompt=style)
    text = str(domain.propose_row(target=TARGET)["prompt"])
    assert all(words in text for words in RULES_OF_E1) and "22" in text
    free = str(domain.propose_row()["prompt"])
    assert "non-trivial, but not too difficult" in free and not any(words in free for words in RULES_OF_E1)


def test_the_tiny_forms_are_words_of_its_vocabulary_and_the_domain_reviews_as_the_rubric_does():
    assert TINY.propose_row(target=TARGET) == {"prompt": "propose like 3 5 7 = 22 :"}
    assert TINY.propose_row() == {"prompt": "propose like :"}
    assert TINY.helping.review_row(TARGET, STEP) == {"prompt": "score 3 5 = 15 like 3 5 7 = 22 :"}
    assert TINY.propose_row(3)["prompt"] == "propose 3 :"  # what other games ask for stays as it was
    assert TINY.helping.review(TARGET, STEP) == rubric(TARGET, STEP)
    one = Problem((1, 3, 5), 16)  # 1 + 3 * 5: every number is needed
    assert TINY.helping.review(TARGET, one, "3 * 5 + 1").redundancy == 0


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("review", [Review(5, 0, 0), Review(0, 1, 4)])
def test_a_review_is_read_as_it_was_written(style, review):
    assert read_review(review_text(review, style), style) == review


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "text",
    ["", "good", None, "6 0 0", "5 2 0", "5 0 5", "5 0", "5 0 0 0", "-1 0 0", "5 0 \u0660", "1" * 6000]
    + [
        f'<answer>{{"relevance": {n}, "redundancy": 0, "complexity": 0}}</answer>'
        for n in ("6", "true", '"5"', "NaN", "4.5")
    ]
    + ["<answer>[5, 0, 0]</answer>", '<answer>{"relevance": 5}</answer>', "<answer>" + "[" * 5000 + "</answer>"],
)
def test_what_is_no_review_on_the_scales_is_none(text, style):
    assert read_review(text, style) is None
