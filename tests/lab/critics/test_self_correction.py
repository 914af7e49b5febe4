# Tests: lab/critics/self_correction.py, lab/critics/training_rows.py
"""Self-correction and the data of its supervised stage, with scripts in the place of models."""

import pytest

from countdown_selfplay.contract.critique import recheck_prompt
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import DataError
from countdown_selfplay.lab.critics import Reply
from countdown_selfplay.lab.critics.self_correction import correction_figures, rechecks, self_correction
from countdown_selfplay.lab.critics.training_rows import self_correction_rows
from countdown_selfplay.worlds.math_qa import MathQA, Question

TINY = CountdownDomain.tiny()
PROBLEMS = [Problem((3, 5, 7), 22), Problem((2, 4, 5), 13)]
RIGHT, WRONG = {22: "3 * 5 + 7", 13: "2 * 4 + 5"}, {22: "3 + 5 + 7", 13: "2 + 4 + 5"}


def policy(again, first=lambda target, i: RIGHT[target] if i == 0 else WRONG[target]):
    """first: (target, number of the answer) -> text; again: (target, whether the first answer was right) -> reply."""
    seen = []

    def replies(rows, n, seed, greedy):
        seen.append((len(rows), n, greedy))
        found = []
        for row in rows:
            target = row["target"]
            if row["prompt"].startswith("again"):
                found.append([again(target, RIGHT[target] in row["prompt"])])
            else:
                found.append([Reply(first(target, i)) for i in range(n)])
        return found

    replies.seen = seen
    return replies


def test_rates_are_of_the_answers_they_apply_to_and_training_rows_as_many_kept_as_corrected():
    """Two problems, a right and a wrong first answer to each. The first problem's right answer is spoiled, its wrong
    one stays wrong; the second's right one stays, its wrong one is mended. Right to wrong 1 of 2, wrong to right 1 of
    2, accuracy 1/2 before and after. The change is -1/2 for the first problem and +1/2 for the second."""

    def again(target, was_right):
        return Reply(WRONG[target] if target == 22 else RIGHT[target])

    one = policy(again)
    found = self_correction(one, TINY, PROBLEMS, n=2)
    assert one.seen == [(2, 2, False), (4, 1, True)]  # sampled first, then checked greedily (appendix C.3)
    values = {name: found[name]["value"] for name in ("before", "after", "right_to_wrong", "wrong_to_right")}
    assert values == dict.fromkeys(values, 0.5)
    assert found["counts"] == {
        "right_to_right": 1, "right_to_wrong": 1, "wrong_to_right": 1, "wrong_to_wrong": 1,
    }  # fmt: skip
    assert found["change"] == {"difference": 0.0, "low": -0.5, "high": 0.5}
    found = rechecks(policy(lambda target, was_right: Reply("right")), TINY, PROBLEMS, n=2)
    assert [(one.was_right, one.is_right, one.says_right) for one in found] == [
        (True, True, False), (False, False, False),
    ] * 2  # fmt: skip
    found = correction_figures([True, True], [True, False], ["a", "b"])
    assert found["wrong_to_right"] is None and found["right_to_wrong"]["value"] == 0.5
    assert found["change"]["difference"] == -0.5
    # Of 4 answers the first is right: 2 problems give 2 kept and 2 corrected, for equal rows count once.
    rows, counts = self_correction_rows(
        policy(lambda target, was_right: Reply(RIGHT[target])), TINY, PROBLEMS, samples=4, each=10
    )
    assert counts == {"kept": 2, "corrected": 2}
    assert sorted((row["label"], row["target"], row["prompt"], row["completion"]) for row in rows) == [
        ("corrected", 13, "again 2 4 5 = 13 : 2 + 4 + 5 :", "2 * 4 + 5"),
        ("corrected", 22, "again 3 5 7 = 22 : 3 + 5 + 7 :", "3 * 5 + 7"),
        ("kept", 13, "again 2 4 5 = 13 : 2 * 4 + 5 :", "2 * 4 + 5"),
        ("kept", 22, "again 3 5 7 = 22 : 3 * 5 + 7 :", "3 * 5 + 7"),
    ]
    right = policy(lambda target, was_right: Reply(RIGHT[target]))
    few, _ = self_correction_rows(right, TINY, PROBLEMS, samples=4, each=1)
    assert sorted(row["label"] for row in few) == ["corrected", "kept"]


def test_the_prompts_are_figure_10s():
    """With the bare question in mathematics; compact, the game's word without a critique."""
    question = Question("What is 2 + 3?", "5")
    assert MathQA().recheck_row(question, "It is \\boxed{6}.")["prompt"] == [
        {"role": "user", "content": "What is 2 + 3?"},
        {"role": "assistant", "content": "It is \\boxed{6}."},
        {"role": "user", "content": "Please check your answer step by step again. Put your final answer within "
                                    "\\boxed{}."},
    ]  # fmt: skip
    assert TINY.critique.recheck_row(PROBLEMS[0], "3 + 5 + 7")["prompt"] == "again 3 5 7 = 22 : 3 + 5 + 7 :"
    chat = CountdownDomain().critique.recheck_row(PROBLEMS[0], "<answer>1</answer>")["prompt"]
    assert "Put your final answer within <answer> </answer> tags." in (chat if isinstance(chat, str) else str(chat))
    assert recheck_prompt([], "x")[-1]["content"].endswith("within \\boxed{}.")


@pytest.mark.parametrize("said", [Reply("22"), Reply("right"), Reply("3 * 5 + 7", truncated=True)])
def test_what_is_wrong_cut_or_says_nothing_is_not_trained_on(said):
    with pytest.raises(DataError, match="gave 0 right answers that were kept and 0 wrong ones"):
        self_correction_rows(policy(lambda target, was_right: said), TINY, PROBLEMS[:1])
