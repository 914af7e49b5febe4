# Tests: countdown/verifier.py, countdown/problem.py, countdown/expression.py
"""The verifier's options and scores; and fuzzing: 1,000 examples by hypothesis in the default run, 10,000 marked
`matrix`, a million `nightly`.

Each kind of input has its own way to know what is right, none of which shares code with the verifier: Python's parser
with Fractions for expressions, a scan tag by tag for texts, and for everything else that a verdict comes back."""

import re
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from countdown_selfplay.countdown import Problem, Reason, Rules, verify, verify_batch
from countdown_selfplay.countdown.expression import SHORT, is_expression, to_postfix

from .oracle import python_value

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


GRAMMAR = frozenset("0123456789+-*/() \t\r\n")
LOOK_ALIKES = "×÷−–＋（）３٣²½\u00a0\u200b\ufeff\x0b\x0c\x1c\x85\x00\ud800"


def check_against_python(text: str) -> None:
    """What verify says of `text` must be what Python's own parser and Fractions say of it."""
    kind, value, numbers = python_value(text)
    given_numbers = tuple(n for n in numbers if 0 < n <= 10**9) or (1,)
    target = int(value) if value is not None and abs(value) < 10**9 else 5
    verdict = verify(text, Problem(given_numbers, target), BARE)
    right_numbers = sorted(numbers) == sorted(given_numbers)
    if kind == "none" or any(len(n) > 1 and n[0] == "0" for n in _digit_runs(text)):
        assert verdict.score == 0.0, text
    elif kind == "zero":
        assert verdict.reason is (Reason.DIVISION_BY_ZERO if right_numbers else Reason.WRONG_NUMBERS), text
    else:
        assert verdict.value == value, text
        assert verdict.correct == (right_numbers and value == target), text


def _digit_runs(text: str) -> list[str]:
    return "".join(c if c.isdigit() else " " for c in text).split()


numbers = st.sampled_from(["0", "1", "2", "3", "7", "10", "25", "99", "999"]) | st.integers(0, 10**12).map(str)
gaps = st.sampled_from(["", "", "", " ", " ", "  ", "\n", "\t", "\r\n"])


def joined(parts):
    """`left op right` with some white space, in parentheses or not."""
    left, before, op, after, right, enclosed = parts
    text = f"{left}{before}{op}{after}{right}"
    return f"({before}{text}{after})" if enclosed else text


expressions = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, gaps, st.sampled_from("+-*/"), gaps, inner, st.booleans()).map(joined)
        | inner.map(lambda text: f"({text})")
    ),
    max_leaves=8,
).filter(lambda text: len(text) <= 256)

edits = st.lists(
    st.tuples(
        st.integers(0, 255), st.sampled_from(["insert", "replace", "delete", "double"]),
        st.sampled_from("0123456789+-*/() \n.,%=^!_ejxX#'<>" + LOOK_ALIKES) | st.characters(),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@st.composite
def mutated(draw):
    """An expression after one to four edits: most are wrong in one place, some still right."""
    text = draw(expressions)
    for at, kind, character in draw(edits):
        at %= len(text) + 1
        if kind == "insert":
            text = text[:at] + character + text[at:]
        elif kind == "double":
            text = text[:at] + text[at : at + 3] + text[at:]
        else:
            text = text[:at] + (character if kind == "replace" else "") + text[at + 1 :]
    return text[:256]


def check_mutated(text):
    for signs in (False, True):  # the parser takes the quick way to tell only with long texts
        assert is_expression(text[:SHORT], signs) == (to_postfix(text[:SHORT], signs) is not None), text
    verdict = verify(text, Problem((3, 4), 7), BARE)
    if "=" in text:
        assert (verdict.score, verdict.reason) == (0.0, Reason.EQUALS_SIGN)
    elif set(text) <= GRAMMAR:
        check_against_python(text)
    else:
        assert verdict.score == 0.0 and verdict.value is None, text
        assert verdict.reason is Reason.BAD_CHARACTER, text


tagged_texts = st.lists(
    st.sampled_from(["<answer>", "</answer>", "<think>", "</think>"])
    | st.sampled_from(["<answer", "</", "<", ">", "answer>", "< answer >", "<ANSWER>", "</think", "3 < 4", "\n"])
    | st.sampled_from(["3+4", " 3 * 4 ", "(4+3)", "7", "", "4 - 3 is 1", "٣+٤"])
    | st.text(max_size=4),
    max_size=14,
).map("".join)


def answers_of(pieces):
    """Each close tag with what follows the last open tag since the close before."""
    found, content = [], None
    for piece in pieces:
        if piece == "<answer>":
            content = ""
        elif piece == "</answer>":
            found += [] if content is None else [content]
            content = None
        elif content is not None:
            content += piece
    return found


def outside(pieces):
    """The runs of pieces between stretches of thinking."""
    tags = [piece for piece in pieces if piece in ("<think>", "</think>")]
    thinking, runs = tags[:1] == ["</think>"], [[]]
    for piece in pieces:
        if thinking:
            thinking = piece != "</think>"
        elif piece == "<think>":
            thinking = True
            runs.append([])
        else:
            runs[-1].append(piece)
    return runs


def check_text(text):
    pieces = re.split(r"(</?(?:answer|think)>)", text)
    answers = [answer for run in outside(pieces) for answer in answers_of(run)]
    problem = Problem((3, 4), 7)
    single = [verify(answer, problem, BARE) for answer in answers]
    if not answers:
        reason = Reason.ANSWER_IN_THINKING if answers_of(pieces) else Reason.NO_ANSWER
        assert {verify(text, problem, Rules(answer_rule=rule)).reason for rule in ("last", "first", "any")} == {reason}
        return
    for rule, expected in (("last", single[-1]), ("first", single[0])):
        verdict = verify(text, problem, Rules(answer_rule=rule))
        assert verdict == expected._replace(n_answers=len(answers)), text
    best = verify(text, problem, Rules(answer_rule="any"))
    assert (best.score, best.n_answers) == (max(verdict.score for verdict in single), len(answers)), text


any_text = st.tuples(st.text(max_size=300), st.booleans(), st.sampled_from(["last", "first", "any"]))


def check_any_text(drawn):
    text, lenient, rule = drawn
    rules = Rules(lenient_unicode=lenient, answer_rule=rule, allow_equals=lenient, leading_minus=lenient)
    for wrapped in (text, f"<answer>{text}</answer>", f"<think>{text}</think><answer>3+4</answer>{text}"):
        verdict = verify(wrapped, Problem((3, 4), 7), rules)
        assert verdict.score in (0.0, 0.1, 1.0)
        assert verdict.correct == (verdict.score == 1.0)


any_object = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "text", "type"]), inner, max_size=3)
    ),
)


def check_any_object(completion):
    assert verify(completion, Problem((3, 4), 7)).score in (0.0, 0.1, 1.0)


characters = st.text(alphabet="0123456789+-*/() \n", max_size=60)

# What is drawn, what must hold, examples of 10,000
KINDS = {
    "expressions": (expressions, check_against_python, 2500), "mutated expressions": (mutated(), check_mutated, 3000),
    "tagged texts": (tagged_texts, check_text, 2000),
    "characters of the grammar": (characters, check_against_python, 1000),
    "any text": (any_text, check_any_text, 1000), "any object": (any_object, check_any_object, 500),
}  # fmt: skip


def run(kind, times):
    """Draw and check; how many inputs were judged. A check that does not hold raises AssertionError with the input."""
    strategy, check, examples = KINDS[kind]
    judged = 0

    def counted(drawn):
        nonlocal judged
        judged += 1
        check(drawn)

    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    how = settings(max_examples=round(examples * times), deadline=None, suppress_health_check=quiet)
    how(given(strategy)(counted))()
    return judged


@pytest.mark.parametrize("times", [
    0.1,
    pytest.param(1, marks=pytest.mark.matrix),
    pytest.param(100, marks=[pytest.mark.nightly, pytest.mark.timeout(4 * 3600)]),
], ids=["1,000", "10,000", "1,000,000"])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_judged_as_they_should_be(kind, times):
    assert run(kind, times) >= times * KINDS[kind][2]  # else the drawing ended early and saw less than it claims
