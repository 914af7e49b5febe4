# Tests: worlds/math_qa.py, worlds/workers.py
"""Questions with checked answers: what is read, what is equal, and what hostile text may cost."""

import pickle

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
from countdown_selfplay.worlds.math_qa import MathQA, MathVerdict, Question, Reason, read_answer
from countdown_selfplay.worlds.workers import Unchecked


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


@pytest.mark.parametrize(("gold", "said", "reason"), [
    ("18", "Therefore, the final answer is: \\boxed{18}. I hope it is correct.", "correct"),
    ("18", "\\boxed{18} or rather \\boxed{19}", "wrong"),  # the last one counts
    ("18", "18", "no_answer"),
    ("18", "\\boxed{18", "no_answer"),
    ("18", "\\boxed{}", "no_answer"),
    ("18", NOT_CRITICAL, "no_answer"),  # a rejection is not an answer
    ("18", f"\\boxed{{18}} {NOT_CRITICAL}", "correct"),
    ("18", "\\boxed{" + "{" * 20 + "18" + "}" * 20 + "}", "too_long"),
    ("18", "\\boxed{" + "1+" * 500_000 + "1}", "no_answer"),  # 1 MB: its begin lies beyond what is read
    ("18", "\\boxed{" + "1+" * 200 + "1}", "too_long"),
])  # fmt: skip
def test_verdicts(domain, gold, said, reason):
    (verdict,) = domain.verify([said], [Question("?", gold)])
    assert (verdict.reason, verdict.correct, verdict.score) == (
        reason, reason == "correct", float(reason == "correct"),
    )  # fmt: skip


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
    with caplog.at_level("WARNING"):
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
