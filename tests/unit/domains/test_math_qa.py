"""Questions with checked answers: what is read, what is equal, and what hostile text may cost."""

import pickle
import time

import pytest

from countdown_selfplay.contract.critique import MARKER, NOT_CRITICAL
from countdown_selfplay.domains import make_domain
from countdown_selfplay.domains.math_qa import MathQA, Question, read_answer
from countdown_selfplay.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def domain():
    made = MathQA(deadline=20.0)
    yield made
    if made._pool is not None:
        made._pool.close()


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"question": "How many?", "answer": "6 * 3 = <<6*3=18>>18\n#### 1,018"}, "1,018"),  # GSM8K
        ({"problem": "What?", "solution": "So \\boxed{1}, no: \\boxed{\\frac{1}{2}}.", "level": "5"}, "\\frac{1}{2}"),
        ({"problem": "What?", "solution": "...", "answer": "\\left( 3, \\frac{\\pi}{2} \\right)"}, None),  # MATH-500
        ({"question": "What?", "answer": 7}, "7"),
    ],
)
def test_rows_of_the_public_schemas(domain, row, answer):
    found = domain.problem(row)
    assert found == Question(row.get("question") or row["problem"], answer or row["answer"])
    assert domain.problem(domain.prove_row(found)) == found


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answer": "3"}, "row 4, column 'question': absent"),
        ({"question": "What?"}, "row 4, column 'answer': absent or empty"),
        ({"question": "What?", "answer": "thinking #### "}, "absent or empty"),
        ({"question": "What?", "answer": "\\frac{1}{2"}, r"'\\\\frac\{1\}\{2' cannot be read as an answer"),
        ({"question": "What?", "answer": "9" * 300}, "at most 256 characters"),
        ({"problem": "What?", "solution": "42"}, r"column 'solution': it holds no complete \\boxed\{\}"),
    ],
)
def test_a_row_without_question_or_answer_is_one_sentence(domain, row, message):
    with pytest.raises(DataError, match=message):
        domain.problem(row, 4)


@pytest.mark.parametrize(
    ("gold", "said", "reason"),
    [
        ("18", "Therefore, the final answer is: \\boxed{18}. I hope it is correct.", "correct"),
        ("1018", "\\boxed{1,018}", "correct"),
        ("\\frac{1}{2}", "\\boxed{0.5}", "correct"),
        ("3\\sqrt{2}", "\\boxed{\\sqrt{18}}", "correct"),
        ("x^2+2x+1", "\\boxed{(x+1)^2}", "correct"),
        ("(1,2)", "\\boxed{(2,1)}", "wrong"),
        ("18", "\\boxed{18} or rather \\boxed{19}", "wrong"),  # the last one counts
        ("18", "18", "no_answer"),
        ("18", "\\boxed{18", "no_answer"),
        ("18", "\\boxed{}", "no_answer"),
        ("18", NOT_CRITICAL, "no_answer"),  # a rejection is not an answer
        ("18", f"\\boxed{{18}} {NOT_CRITICAL}", "correct"),
        ("18", "\\boxed{" + "{" * 20 + "18" + "}" * 20 + "}", "too_long"),
        ("18", "\\boxed{" + "1+" * 500_000 + "1}", "no_answer"),  # 1 MB: its begin lies beyond what is read
        ("18", "\\boxed{" + "1+" * 200 + "1}", "too_long"),
    ],
)
def test_verdicts(domain, gold, said, reason):
    (verdict,) = domain.verify([said], [Question("?", gold)])
    assert (verdict.reason, verdict.correct, verdict.score) == (
        reason,
        reason == "correct",
        float(reason == "correct"),
    )


def test_hostile_answers_are_bounded_and_the_others_of_the_batch_are_judged():
    domain = MathQA(workers=2, deadline=3.0)
    hostile = ["9^{9^{9^{9}}}", "\\input{/etc/passwd}", "99999999!", "\\frac{1}{" * 11 + "2" + "}" * 11, "{" * 9]
    start = time.monotonic()
    texts = [f"\\boxed{{{answer}}}" for answer in hostile] + ["\\boxed{\\frac{36}{2}}"]
    found = domain.verify(texts, [Question("?", "18")] * len(texts))
    assert found[-1].correct and not any(verdict.correct for verdict in found[:-1])
    assert time.monotonic() - start < 90
    domain._pool.close()


def test_equal_pairs_are_compared_once_and_equal_texts_without_a_process():
    domain = MathQA()
    assert all(v.correct for v in domain.verify(["\\boxed{ 1,018 }", "$\\boxed{1018}$"], [Question("?", "1018")] * 2))
    assert domain._pool is None
    domain._pool = type("Pool", (), {"map": lambda self, pairs: [pair == ["1", "2/2"] for pair in pairs]})()
    seen = domain.verify(["\\boxed{2/2}"] * 3 + ["\\boxed{3}"], [Question("?", "1")] * 4)
    assert [v.correct for v in seen] == [True, True, True, False]


def test_prompts_are_the_papers(domain):
    question = Question("What is 1 + 1?", "2")
    asked = domain.prove_row(question)["prompt"][0]["content"]
    assert asked.endswith("Question: What is 1 + 1?") and "Therefore, the final answer is: \\boxed{answer}." in asked
    critic = domain.critique_row(question, "It is 3.")["prompt"][0]["content"]
    assert critic.index("[Question]\nWhat is 1 + 1?") < critic.index("[Wrong Answer]\n```\nIt is 3.\n```")
    said = f"{MARKER} 'It is 3.' The issue is: 'No.'"
    assert domain.read_critique(f"Step: ...\n**Critic** {said}", "It is 3.") == said
    turns = domain.revise_row(question, "It is 3.", said)["prompt"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"] and turns[1]["content"] == "It is 3."
    assert turns[2]["content"].startswith(f'Please check with this critic. "{said}"')
    assert domain.rejections(f"{NOT_CRITICAL} and {NOT_CRITICAL}") == 2


def test_it_has_a_name_and_settings_and_can_be_pickled():
    made = make_domain("math_qa", {"workers": 1, "deadline": 5})
    assert (made.workers, made.deadline, made.to_dict()["domain"]) == (1, 5, "math_qa")
    assert pickle.loads(pickle.dumps(made)) == made
    assert read_answer("\\boxed{1} \\boxed{ 2 }").vote == "2"
    with pytest.raises(ConfigError, match=r"`deadline` \(0\)"):
        make_domain("math_qa", {"deadline": 0})


def test_a_missing_math_verify_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"countdown-selfplay\[math\]"):
        MathQA().verify(["\\boxed{3}"], [Question("?", "4")])
