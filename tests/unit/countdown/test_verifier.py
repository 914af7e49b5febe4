# Tests: countdown/verifier.py, countdown/problem.py
"""The verifier's options, scores and agreement with an independent reading of the same text."""

from fractions import Fraction

import pytest

from countdown_selfplay.countdown import Problem, Reason, Rules, verify, verify_batch

BARE = Rules(answer_format="bare")


def reason(expression, numbers, target, **rules):
    return verify(expression, Problem(numbers, target), Rules(answer_format="bare", **rules)).reason


def test_precedence_is_that_of_arithmetic_and_a_batch_is_one_verdict_each():
    # 8 - 3 - 2 = 3; 8 / 4 / 2 = 1; 2 + 3 * 4 = 14; 8 / 4 * 2 = 4; (2 + 3) * 4 = 20; 9 - (3 - 2) = 8
    for expression, value in [
        ("8-3-2", 3), ("8/4/2", 1), ("2+3*4", 14), ("8/4*2", 4), ("(2+3)*4", 20), ("9-(3-2)", 8), ("((5))", 5),
    ]:  # fmt: skip
        assert verify(expression, Problem((1,), 1), BARE).value == value
    problems = [Problem((3, 4), 7), Problem((3, 4), 12)]
    assert [v.correct for v in verify_batch(["3+4", "3+4"], problems, BARE)] == [True, False]
    with pytest.raises(ValueError):
        verify_batch(["3+4"], problems, BARE)


def test_a_remainder_an_unused_number_and_an_equation_are_right_where_the_rules_say_so():
    assert reason("8/(3-8/3)", (3, 3, 8, 8), 24, integers_only=True) is Reason.NOT_AN_INTEGER
    assert reason("(7/2)*4", (7, 2, 4), 14, integers_only=True) is Reason.NOT_AN_INTEGER
    assert reason("7*4/2", (7, 2, 4), 14, integers_only=True) is Reason.CORRECT  # 28 / 2
    assert reason("2-9/3", (2, 9, 3), -1, integers_only=True) is Reason.CORRECT
    assert reason("8*3", (3, 8, 1), 24, use_all=False) is Reason.CORRECT
    assert reason("8*3*3", (3, 8, 1), 72, use_all=False) is Reason.WRONG_NUMBERS
    assert reason("8*3+5-5", (3, 8, 1), 24, use_all=False) is Reason.WRONG_NUMBERS
    assert reason("3+4 = 7", (3, 4), 7, allow_equals=True) is Reason.CORRECT
    assert reason("3+4=8", (3, 4), 7, allow_equals=True) is Reason.WRONG_VALUE
    assert reason("3*4=7", (3, 4), 7, allow_equals=True) is Reason.WRONG_VALUE
    for expression in ("3+4=7=7", "3+4=", "3+4=7.0", "3+4=٧", "7=3+4", "3+4==7", "3+4=3+4"):
        assert reason(expression, (3, 4), 7, allow_equals=True) is Reason.EQUALS_SIGN, expression
    assert reason("=7", (3, 4), 7, allow_equals=True) is Reason.MALFORMED
    assert reason("3+4=07", (3, 4), 7, allow_equals=True) is Reason.WRONG_VALUE  # "07" is not how 7 is written


def test_a_minus_sign_and_look_alikes_are_read_if_the_rules_say_so():
    # -3+7 = 4; 7*(-3+4) = 7; -(3-7) = 4; 7*-3 = -21; 12/-3/-4... needs one sign per operand
    for expression, numbers, target in [
        ("-3+7", (3, 7), 4), ("7*(-3+4)", (7, 3, 4), 7), ("-(3-7)", (3, 7), 4), ("7*-3", (3, 7), -21),
        ("12/-3*-1", (12, 3, 1), 4), ("- 3 + 7", (3, 7), 4), ("8--3", (8, 3), 11),
    ]:  # fmt: skip
        assert reason(expression, numbers, target, leading_minus=True) is Reason.CORRECT, expression
        assert reason(expression, numbers, target) is Reason.MALFORMED, expression
    for expression in ("--3+7", "+3+7", "8---3", "-", "3-"):
        assert reason(expression, (3, 7), 10, leading_minus=True) is Reason.MALFORMED, expression
    for expression, numbers, target in [
        ("３＋４", (3, 4), 7), ("٣+٤", (3, 4), 7), ("۳+۴", (3, 4), 7), ("3×4", (3, 4), 12), ("3⋅4", (3, 4), 12),
        ("8÷4", (8, 4), 2), ("8−4", (8, 4), 4), ("8–4", (8, 4), 4), ("3\u00a0+\u20094", (3, 4), 7),
        ("\u200b3+4\u00a0", (3, 4), 7), ("（3+4）×2", (3, 4, 2), 14),
    ]:  # fmt: skip
        assert reason(expression, numbers, target, lenient_unicode=True) is Reason.CORRECT, expression
        assert reason(expression, numbers, target) is Reason.BAD_CHARACTER, expression
    assert reason("3²", (3, 2), 9, lenient_unicode=True) is Reason.BAD_CHARACTER
    assert reason("\u200b", (3, 2), 9, lenient_unicode=True) is not Reason.CORRECT


def test_scores_come_from_the_rules_and_any_takes_the_best_by_merit():
    rules = Rules(answer_format="bare", score_correct=0.0, score_wrong=5.0, score_invalid=-1.0)
    p = Problem((3, 4), 7)
    assert [verify(e, p, rules).score for e in ("3+4", "3*4", "3+")] == [0.0, 5.0, -1.0]
    assert [verify(e, p, rules).correct for e in ("3+4", "3*4", "3+")] == [True, False, False]
    rules = Rules(answer_rule="any", score_correct=0.0, score_wrong=5.0)
    text = "<answer>3*4</answer><answer>3+4</answer><answer>3+</answer>"
    assert verify(text, Problem((3, 4), 7), rules).reason is Reason.CORRECT


def test_whatever_stands_in_the_tags_earns_a_score_of_its_own_if_the_rules_say_so():
    """The program of seed 001's authors: .1 for anything within answer tags, tags inside the thinking too, 0 only
    without a tag. Their text (3.2), and the default: 0 malformed, .1 well-formed but wrong. What is right does not
    change."""
    p = Problem((3, 4), 7)
    tagged = ["", "= 7", "3 + 4.0", "3 + (4", "\\frac{3}{4}", "3 + 4" + " + 0" * 99]
    texts = [f"<answer>{inside}</answer>" for inside in tagged] + ["<think> <answer>3 + 4</answer> </think> 7"]
    lenient = Rules(score_tagged=0.1)
    assert {verify(text, p).score for text in texts} == {0.0}
    assert {verify(text, p, lenient).score for text in texts} == {0.1} and not any(
        verify(t, p, lenient).correct for t in texts
    )
    untagged = ["3 + 4", "<answer>3 + 4", None]
    assert [verify(text, p, lenient).score for text in untagged] == [0.0] * 3
    assert [verify(f"<answer>{e}</answer>", p, lenient).score for e in ("3 + 4", "3 * 4")] == [1.0, 0.1]
    assert verify("3 +", p, Rules(score_tagged=0.1, answer_format="bare")).score == 0.0


def test_white_space_at_the_ends_is_no_part_of_the_limit_and_a_longer_one_stays_exact():
    assert verify(" " * 300 + "3+4" + "\n" * 300, Problem((3, 4), 7), BARE).correct
    assert verify("3" + " " * 254 + "+4", Problem((3, 4), 7), BARE).reason is Reason.TOO_LONG  # 257
    assert verify("3" + " " * 253 + "+4", Problem((3, 4), 7), BARE).correct  # 256
    # 9 * 9 * ... 500 times: 9^500, too long by default
    text = "*".join(["9"] * 500)
    assert verify(text, Problem((9,), 9), BARE).reason is Reason.TOO_LONG
    verdict = verify(text, Problem((9,), 9), Rules(answer_format="bare", max_chars=999))
    assert (verdict.reason, verdict.value) == (Reason.WRONG_NUMBERS, Fraction(9**500))
    most = Rules(answer_format="bare", max_chars=4096)
    assert verify("9" * 4096, Problem((9,), 9), most).reason is Reason.WRONG_NUMBERS
    for text in ("/".join(["7"] * 2048), "-".join(["1/7"] * 1024), "1/(" * 800 + "7" + ")" * 800):
        assert verify(text, Problem((9,), 9), most).reason is Reason.WRONG_NUMBERS
