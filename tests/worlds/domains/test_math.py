# Tests: worlds/math_answers.py, worlds/math_check.py, worlds/math_qa.py, worlds/workers.py
r"""Which answers are right, for the shapes that right answers of MATH take: numbers, fractions, roots, units, per
cents, angles, money, lists, sets, tuples, intervals, matrices, equations, inequalities, letters and words.

Each verdict is what a person who marks the answer would say, under the rules of docs/critic_game.md: a relation, a
per cent that the right answer does not have, and another unit are wrong; "x =" before a value and a unit that one of
the two leaves out are not."""

import pickle
import random

import pytest
import torch

from countdown_selfplay.contract.critique import MARKER, NOT_CRITICAL
from countdown_selfplay.contract.round import Rollout
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.data.files import checked_problems, load_problem_rows
from countdown_selfplay.domains import make_domain
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.games.health import prover_health
from countdown_selfplay.testing import ScriptedRound
from countdown_selfplay.worlds.math_answers import last_box, reading, values_of
from countdown_selfplay.worlds.math_qa import MathQA, MathVerdict, Question, Reason, read_answer
from countdown_selfplay.worlds.workers import Unchecked

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
def test_verdicts_on_shapes_of_answers(verdicts, pair):
    assert verdicts[pair].reason == PAIRS[pair]


def test_the_last_box_counts_and_an_escaped_brace_ends_none():
    boxes = {
        r"\boxed{4} then \boxed 5": ("5", 2), r"\boxed 4 then \boxed{5}": ("5", 2), r"\boxed 9.": ("9", 1),
        r"\boxed{3}, in \boxed notation": ("3", 1), r"so $x = \boxed 2$": ("2", 1), r"is \fbox{31}": ("31", 1),
        r"is $\boxed\frac{1}{2}$": (r"\frac{1}{2}", 1), r"is $\boxed  {C}$": ("C", 1), r"is \boxed x": ("x", 1),
        r"\boxed{\left\{5\right.}": (r"\left\{5\right.", 1), r"\boxed{\{1,2\}}": (r"\{1,2\}", 1),
        r"\boxed{\}} and so on}": (r"\}", 1), r"\boxed{4} and \boxed{5": (None, 2), r"\boxed{}": (None, 1),
        r"\boxed{a \\{b}} c": (r"a \\{b}", 1),  # a line's end before a group
        "5": (None, 0),
    }  # fmt: skip
    assert {text: last_box(text) for text in boxes} == {text: (*found, False) for text, found in boxes.items()}


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


def test_the_unit_is_what_ends_the_answer_in_words():
    units = {
        r"45 \text{ units}^2": "unit^2", r"100\text{ square units}": "unit^2", r"0.25\,\text{ cm}": "centimeter",
        r"\frac{270}7\text{ degrees}": "degree", r"65 \text{ children tickets }": "children ticket",
        r"60\text{ km/h}": "kilometer / hour", r"\text{Evelyn}": "", r"\text{June 20}": "",
        r"12\text{ and }13": "", r"\cos 58^\circ": "", "3qr": "",
        "3 m": "",  # three times m, unless the right answer is in meters
    }  # fmt: skip
    assert {answer: reading(answer).unit for answer in units} == units


@pytest.fixture(scope="module")
def domain():
    made = MathQA(deadline=600.0)  # there for a lost machine
    yield made
    if made._pool is not None:
        made._pool.close()


@pytest.mark.parametrize(("row", "answer"), [
    ({"question": "How many?", "answer": "6 * 3 = <<6*3=18>>18\n#### 1,018"}, "1,018"),  # GSM8K
    ({"problem": "What?", "solution": "So \\boxed{1}, no: \\boxed{\\frac{1}{2}}.", "level": "5"}, "\\frac{1}{2}"),
    ({"problem": "What?", "solution": "so $x = \\boxed 2$"}, "2"),
    ({"problem": "What?", "solution": "...", "answer": "\\left( 3, \\frac{\\pi}{2} \\right)"}, None),  # MATH-500
    ({"question": "What?", "answer": 7}, "7"),
])  # fmt: skip
def test_rows_of_the_public_schemas(domain, row, answer):
    found = domain.problem(row)
    assert found == Question(row.get("question") or row["problem"], answer or row["answer"])
    assert domain.problem(domain.prove_row(found)) == found


@pytest.mark.parametrize(("row", "message"), [
    ({"answer": "3"}, "row 4, column 'question': absent"),
    ({"question": 3, "answer": "4"}, "row 4, column 'question': 3 must be a text"),
    ({"question": "", "problem": ["a"], "answer": "4"}, r"row 4, column 'problem': \['a'\] must be a text"),
    ({"question": "What?"}, "row 4, column 'answer': absent or empty"),
    ({"question": "What?", "answer": "thinking #### "}, "absent or empty"),
    ({"question": "What?", "answer": "\\frac{1}{2"}, r"'\\\\frac\{1\}\{2' cannot be read as an answer"),
    ({"question": "What?", "answer": "9" * 300}, "at most 256 characters"),
    ({"problem": "What?", "solution": "42"}, r"column 'solution': it holds no complete \\boxed\{\}"),
])  # fmt: skip
def test_a_row_without_question_or_answer_is_one_sentence(domain, row, message):
    with pytest.raises(DataError, match=message):
        domain.problem(row, 4)


def test_verdicts_on_texts(domain):
    """All to a question with the answer 18."""
    reasons = {
        "Therefore, the final answer is: \\boxed{18}. I hope it is correct.": "correct",
        "\\boxed{18} or rather \\boxed{19}": "wrong",  # the last one counts
        "18": "no_answer", "\\boxed{18": "no_answer", "\\boxed{}": "no_answer",
        NOT_CRITICAL: "no_answer",  # a rejection is not an answer
        f"\\boxed{{18}} {NOT_CRITICAL}": "correct", "\\boxed{" + "{" * 20 + "18" + "}" * 20 + "}": "too_long",
        "\\boxed{" + "1+" * 500_000 + "1}": "no_answer",  # 1 MB: its begin lies beyond the characters that are read
        "\\boxed{" + "1+" * 200 + "1}": "too_long",
    }  # fmt: skip
    verdicts = domain.verify([*reasons], [Question("?", "18")] * len(reasons))
    assert [str(verdict.reason) for verdict in verdicts] == [*reasons.values()]
    assert all(verdict.score == float(verdict.correct) == (verdict.reason == "correct") for verdict in verdicts)


HOSTILE = ("9^{9^{9^{9}}}", "\\input{/etc/passwd}", "99999999!", "\\frac{1}{" * 11 + "2" + "}" * 11, "{" * 9)


def test_hostile_answers_are_bounded_and_what_comes_after_them_is_judged():
    """Each is wrong or without a verdict, whichever the machine's speed makes it; the right one has time."""
    domain = MathQA(workers=2, deadline=1.0)
    found = domain.verify([f"\\boxed{{{answer}}}" for answer in HOSTILE], [Question("?", "18")] * len(HOSTILE))
    assert not any(verdict.correct for verdict in found)
    domain._pool.deadline = 600.0
    (right,) = domain.verify(["\\boxed{\\frac{36}{2}}"], [Question("?", "18")])
    domain._pool.close()
    assert right.correct


def test_an_answer_without_a_verdict_is_counted_by_its_reason_and_equal_pairs_compared_once():
    domain = MathQA()
    reasons = ["timed_out", "died", "error", "batch_timed_out"]
    said = {f"{i}/1": Unchecked(reason) for i, reason in enumerate(reasons)}
    domain._pool = type("Pool", (), {"map": lambda self, pairs, _: [said.get(pair[1], False) for pair in pairs]})()
    found = domain.verify([f"\\boxed{{{i}/1}}" for i in range(5)], [Question("?", "7")] * 5)
    assert [verdict.reason for verdict in found] == [*reasons, "wrong"]
    assert [verdict.unchecked for verdict in found] == [True] * 4 + [False]
    # of a right answer whose turn never came it is not known whether it can be read
    domain._pool = type("Pool", (), {"map": lambda self, a, b: [Unchecked("batch_timed_out"), Unchecked("died")]})()
    assert domain.unreadable([Question("?", "x"), Question("?", "y")]) == [1]
    domain = MathQA()
    assert all(v.correct for v in domain.verify(["\\boxed{ 1,018 }", "$\\boxed{1018}$"], [Question("?", "1018")] * 2))
    assert domain._pool is None
    domain._pool = type("Pool", (), {"map": lambda self, pairs, _: [pair == ["1", "2/2"] for pair in pairs]})()
    seen = domain.verify(["\\boxed{2/2}"] * 3 + ["\\boxed{3}"], [Question("?", "1")] * 4)
    assert [v.correct for v in seen] == [True, True, True, False]


FIGURE_5 = (
    "Solve the following math problem efficiently and clearly:\n"
    "Regardless of the approach, always conclude with: Therefore, the final answer is: $\\boxed{answer}$. I hope it "
    "is correct.\nWhere [answer] is just the final number or expression that solves the problem.\n"
    "Here is the question you need to answer:\n#### Question: What is 1 + 1?"
)
"""With the line ends of the authors' data (data/test-data/math.jsonl); the figure runs on from "correct." to "Where".
"""
FIGURE_6 = (
    "Please critic the answer carefully.\nYour task is to evaluate a question-answer pair.\n"
    "Carefully review the question and critically assess a wrong answer.\n"
    "[Question]\n```\nWhat is 1 + 1?\n```\n[Wrong Answer]\n```\nIt is 3.\n```\n"
    "Please review the wrong answer step by step, quoting each sentence and analyzing it individually. Use the "
    "following format for your response:\nStep: [Quoted Sentence]\nAnalysis: [Your Explanation]\n"
    "Step: [Quoted Sentence]\nAnalysis: [Your Explanation]\nAfter step-by-step analysis, conclude by quoting the "
    "original sentence which **first** causes the wrong answer and providing a concise yet complete explanation of "
    "the error:\n\"**Critic** The first mistake can be found in: 'Quoted wrong statement here.' The issue is: "
    "'Explanation of the mistake here.'\""
)
FIGURE_7 = (
    "Please check with this critic. \"The first mistake can be found in: 'It is 3.' The issue is: 'No.'\"\n"
    "Evaluate whether this critic is valid. Keep in mind that this critic might be misleading or irrelevant.\n"
    'If you find the critic incorrect, conclude with: "\\boxed{This critic is not critical.}"\n'
    "If you determine the critic to be valid, revise starting from the incorrect step, and present your revised "
    "answer within \\boxed{}."
)
FIGURE_10 = r"Please check your answer step by step again. Put your final answer within \boxed{}."


def said_to(prompt):
    return [(turn["role"], turn["content"]) for turn in prompt]


def test_prompts_are_the_papers(domain):
    question, first = Question("What is 1 + 1?", "2"), ("user", "What is 1 + 1?")
    assert said_to(domain.prove_row(question)["prompt"]) == [("user", FIGURE_5)]
    critique = domain.critique
    assert said_to(critique.critique_row(question, "It is 3.")["prompt"]) == [("user", FIGURE_6)]
    said = f"{MARKER} 'It is 3.' The issue is: 'No.'"
    assert critique.read_critique(f"Step: ...\n**Critic** {said}", "It is 3.") == said
    answer = ("assistant", "It is 3.")
    assert said_to(critique.revise_row(question, "It is 3.", said)["prompt"]) == [first, answer, ("user", FIGURE_7)]
    assert said_to(critique.recheck_row(question, "It is 3.")["prompt"]) == [first, answer, ("user", FIGURE_10)]
    assert critique.rejections(f"{NOT_CRITICAL} and {NOT_CRITICAL}") == 2
    assert critique.rejections("This critic is not critical.") == 0
    assert critique.hints_rejection("So: This critic is not critical.") and not critique.hints_rejection("critical")


def test_answers_that_nothing_can_read_are_counted_and_the_first_is_named(domain, caplog):
    answers = ["3", "\\foo", "x^2", "\\bar", "1,018"]
    rows = [{"question": f"{i}?", "answer": answer} for i, answer in enumerate(answers)]
    assert domain.unreadable([domain.problem(row) for row in rows]) == [1, 3]
    assert len(checked_problems(domain, rows, "q.jsonl")) == 5
    said = "2 of 5 answers of 'q.jsonl' cannot be read as mathematics, the first that of row 1 ('\\\\foo')"
    assert said in caplog.text
    caplog.clear()
    assert len(checked_problems(domain, rows[:1], "q.jsonl")) == 1 and not caplog.text
    assert domain.verify(["\\boxed{\\foo}"], [domain.problem(rows[1])])[0].correct  # the same words


def test_it_has_a_name_and_settings_and_can_be_pickled_and_names_a_missing_extra(monkeypatch):
    made = make_domain("math_qa", {"workers": 1, "deadline": 5})
    assert (made.workers, made.deadline, made.to_dict()["domain"]) == (1, 5, "math_qa")
    assert pickle.loads(pickle.dumps(made)) == made
    assert read_answer("\\boxed{1} \\boxed{ 2 }").vote == "2"
    with pytest.raises(ConfigError, match=r"`deadline` \(0\)"):
        make_domain("math_qa", {"deadline": 0})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"countdown-selfplay\[math\]"):
        MathQA().verify(["\\boxed{3}"], [Question("?", "4")])
    asked = []
    load = "countdown_selfplay.data.files.load_dataset"
    monkeypatch.setattr(load, lambda *given, **more: asked.append((given, more)))
    for source in ("openai/gsm8k:main", "HuggingFaceH4/MATH-500"):
        load_problem_rows(source, "test")
    assert asked == [
        (("openai/gsm8k", "main"), {"split": "test"}),
        (("HuggingFaceH4/MATH-500", None), {"split": "test"}),
    ]


def test_answers_without_a_verdict_are_counted_where_a_checker_may_fail():
    reasons = ("correct", "wrong", "timed_out", "died", "error", "no_answer")
    verdicts = [MathVerdict(Reason(reason)) for reason in reasons]
    found = Rollout("prover", [{}] * 3, [""] * 6, 2, verdicts, torch.zeros(6))
    round = ScriptedRound(lambda *given: "", {"prover": (3, 2)})
    health = prover_health(round, found, torch.zeros(6))
    assert health["prover/unchecked_rate"] == 3 / 6 and health["prover/correct_rate"] == 1 / 6
    found.verdicts = CountdownDomain.tiny().verify(["1"] * 6, [Problem((3, 5), 15)] * 6)
    assert "prover/unchecked_rate" not in prover_health(round, found, torch.zeros(6))
