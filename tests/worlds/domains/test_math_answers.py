# Tests: worlds/math_answers.py, worlds/math_check.py
r"""Which answers are right, for the shapes that right answers of MATH take: numbers, fractions, roots, units, per
cents, angles, money, lists, sets, tuples, intervals, matrices, equations, inequalities, letters and words.

Each verdict is what a person who marks the answer would say, under the rules of docs/critic_game.md: a relation, a
per cent that the right answer does not have, and another unit are wrong; "x =" before a value and a unit that one of
the two leaves out are not."""

import random

import pytest

from countdown_selfplay.worlds.math_answers import last_box, reading, values_of
from countdown_selfplay.worlds.math_qa import MathQA, Question

RIGHT = {
    "5": ["x=5", "x_1 = 5", "AB = 5", r"5\text{ cm}", "5 dollars", "5."],
    r"\frac{1}{2}": [r"P(A) = \frac12", "0.5", r"\frac 12"], "x=5": ["5", "x = 5"], r"x = \frac{3}{2}": ["1.5"],
    "x^2": ["f(x)=x^2"], "y = 2x + 3": ["2x+3", "2x - y + 3 = 0"],
    r"\frac{x^2}{16} - \frac{y^2}{9} = 1": ["9x^2-16y^2=144"], "1,2": ["x=1, x=2", r"x = 2 \text{ or } x = 1"],
    "(1,2)": ["x=1, y=2"], r"7, -2, \text{ and } -5": ["-5,-2,7"], "x>5": ["5<x", r"(5,\infty)"],
    r"1\le x\le 2": ["[1,2]"], r"x \in [-2,7]": ["[-2,7]"], r"x \neq 5": ["x ≠ 5"],
    "f(2) < f(1) < f(4)": ["f(2)<f(1)<f(4)"], r"\{-1\} \cup [0,7)": [r"[0,7)\cup\{-1\}"],
    r"\{1\pm\sqrt{5},-2\}": [r"1+\sqrt5, 1-\sqrt5, -2"], r"15\%": ["15", r"15\text{ percent}"],
    r"3\text{ m}": ["3", "3 m", r"3\text{ meters}"], r"15\mbox{ cm}^2": [r"15\text{ square centimeters}"],
    r"864 \mbox{ inches}^2": ["864 square inches"], r"45\text{ mph}": [r"45\text{ miles per hour}"],
    r"18\text{ ways.}": ["18 ways"], r"8\sqrt{3} \text { square inches}": [r"\sqrt{192}"],
    r"118 \text{ dollars}": [r"\$118"], r"\$18.90": ["18.9"], r"90^\circ": ["90"],
    r"12\text{ degrees}": [r"12^{\circ}"], "2ab": ["2ba"], r"32,\!000": ["32000"], r"11,\! 111,\! 100": ["11111100"],
    r"\frac{12}{5,\!525}": [r"\frac{12}{5525}"], r"\text{(B)}": ["B"], r"\text{even}": ["even"],
    r"\begin{pmatrix} -2 \\ 3 \end{pmatrix}": [r"\begin{bmatrix}-2\\3\end{bmatrix}"], r"\sum_{i=1}^{3} i": ["6"],
    "1018": ["1,018"], r"3\sqrt{2}": [r"\sqrt{18}"], "x^2+2x+1": ["(x+1)^2"], "10, 100": ["10,  100"],
    "1,200": ["1200"], "1200": [r"1,\!200", r"1\,200"], r"\$1,200": ["1200"], "x^2 + 1": ["x^2+1"], "1 2": ["1  2"],
    r"1 \frac{1}{2}": [r"\frac{3}{2}"],
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}": [r"\begin{pmatrix}1\\2\end{pmatrix}"],
}  # fmt: skip
WRONG = {
    "5": [r"\neq 5", r"\not= 5", r"5\approx 6", r"x\approx 5", r"\equiv 5", r"\to 5", "1=2=3=4=5", "y=x=5", "6 = 5",
        "2x=5", "2+3=5", "< 5", r"x \ge 5", r"5\%", r"500\%", r"5\text{ million}", r"\left\{5\right.", r"\foo 5",
        "the 5", "5, 6"], "x=5": ["x=4=5", "y=5"], "x>5": ["x<5", r"x \ge 5", "5"], "x^2 + y^2 = 13": ["13"],
    r"x \neq 5": ["x = 5"], r"(-\infty, 2)": ["x<2"],  # the right answer has no relation
    "(1,2)": ["x=2, y=1", "(2,1)"], "0.15": [r"15\%"], r"15\%": ["0.15", r"15\text{ cm}"], "5, 6": [r"5\%, 6"],
    r"3\text{ m}": ["3 km", r"3\text{ km}", r"3\text{ m}^2"], r"9\text{ a.m.}": [r"9\text{ p.m.}"],
    r"5.4 \text{ cents}": [r"\$5.4"], "12": [r"1\text{ }2", "1~2", r"1\quad 2", "1 2"], "2ab": ["2"], "3c": ["3"],
    r"90^\circ": [r"\frac{\pi}{2}"], "10, 100": ["10100"], r"\text{even}": ["odd"], "3": ["1 2"], "11/2": ["1 1/2"],
    "(1,200)": ["(1200)"],
}  # fmt: skip
"""Right answer -> answers."""
PAIRS = {(gold, said): "correct" for gold, answers in RIGHT.items() for said in answers}
PAIRS |= {(gold, said): "wrong" for gold, answers in WRONG.items() for said in answers}


@pytest.fixture(scope="module")
def verdicts():
    """(right answer, answer) -> the verdict. All in one batch; the deadline is there for a lost machine."""
    domain, pairs = MathQA(deadline=600.0), [*PAIRS]
    found = domain.verify([f"\\boxed{{{said}}}" for _, said in pairs], [Question("?", gold) for gold, _ in pairs])
    domain._pool.close()
    return dict(zip(pairs, found, strict=True))


@pytest.mark.parametrize("pair", PAIRS, ids=" for ".join)
def test_verdicts(verdicts, pair):
    assert verdicts[pair].reason == PAIRS[pair]


@pytest.mark.parametrize(("text", "answer", "boxes"), [
    (r"\boxed{4} then \boxed 5", "5", 2),
    (r"\boxed 4 then \boxed{5}", "5", 2),
    (r"\boxed{3}, in \boxed notation", "3", 1),
    (r"so $x = \boxed 2$", "2", 1),
    (r"\boxed 9.", "9", 1),
    (r"is $\boxed\frac{1}{2}$", r"\frac{1}{2}", 1),
    (r"is \fbox{31}", "31", 1),
    (r"is $\boxed  {C}$", "C", 1),
    (r"is \boxed x", "x", 1),
    (r"\boxed{\left\{5\right.}", r"\left\{5\right.", 1),
    (r"\boxed{\{1,2\}}", r"\{1,2\}", 1),
    (r"\boxed{\}} and so on}", r"\}", 1),
    (r"\boxed{a \\{b}} c", r"a \\{b}", 1),  # a line's end before a group
    (r"\boxed{4} and \boxed{5", None, 2),
    (r"\boxed{}", None, 1),
    ("5", None, 0),
])  # fmt: skip
def test_the_last_box_counts_and_an_escaped_brace_ends_none(text, answer, boxes):
    assert last_box(text) == (answer, boxes, False)


def test_what_is_too_long_or_too_deep_is_not_read_and_no_text_raises():
    assert last_box("\\boxed{" + "{" * 11 + "}" * 11 + "}")[2] is False  # 12 with the box's own
    assert last_box("\\boxed{" + "{" * 12 + "}" * 12 + "}")[2] is True
    assert last_box("\\boxed{" + "\\{" * 20 + "}")[2] is False
    assert [last_box(f"\\boxed {'9' * n}")[2] for n in (256, 257)] == [False, True]
    parts = [*"05x=<,.()[]{}%$^_'°≠/ \\\n", r"\text{", r"\text{ m}", r"\boxed{", r"\circ", r"\neq", r"\in", r"\approx"]
    parts += ["and", "per", "square", "km", r"\%", r"\{", r"\right.", "x="]
    draw = random.Random(0)
    for _ in range(3000):
        text = "".join(draw.choices(parts, k=draw.randrange(1, 12)))
        last_box(text)
        assert values_of(text, text) == (text, text)
        values_of("5", text)
        values_of(text, "5")


@pytest.mark.parametrize(("answer", "unit"), [
    (r"45 \text{ units}^2", "unit^2"),
    (r"100\text{ square units}", "unit^2"),
    (r"0.25\,\text{ cm}", "centimeter"),
    (r"\frac{270}7\text{ degrees}", "degree"),
    (r"65 \text{ children tickets }", "children ticket"),
    (r"60\text{ km/h}", "kilometer / hour"),
    (r"\text{Evelyn}", ""),
    (r"\text{June 20}", ""),
    (r"12\text{ and }13", ""),
    (r"\cos 58^\circ", ""),
    ("3qr", ""),
    ("3 m", ""),  # three times m, unless the right answer is in meters
])  # fmt: skip
def test_the_unit_is_what_ends_the_answer_in_words(answer, unit):
    assert reading(answer).unit == unit
