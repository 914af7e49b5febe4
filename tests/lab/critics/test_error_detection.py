# Tests: lab/critics/error_detection.py
"""The test set of stepwise error detection and its figures, with scripts in the place of models."""

import json

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import DataError
from countdown_selfplay.lab.critics import Reply
from countdown_selfplay.lab.critics.error_detection import (
    Solution,
    detection_figures,
    drawn_items,
    eligible_solutions,
    error_detection,
    read_solutions,
    write_solutions,
)
from countdown_selfplay.worlds.math_qa import MathQA, Question

TINY = CountdownDomain.tiny()
PROBLEM, OTHER = Problem((3, 5, 7), 22), Problem((2, 4, 5), 13)
RIGHT, ALSO_RIGHT, WRONG = "3 * 5 + 7", "7 + 3 * 5", "3 * 5 - 7"


def script(texts):
    """A policy that gives the same texts to every row."""
    return lambda rows, n, seed, greedy: [[Reply(text) for text in texts[:n]] for _ in rows]


def test_a_problem_is_eligible_if_more_than_half_of_its_solutions_are_right_with_those_that_were_cut():
    """Section 4.2: the majority of 8; 4 of 8 are none."""
    for right, eligible in ((4, False), (5, True)):
        texts = [RIGHT] * right + [WRONG] * (8 - right)
        found = eligible_solutions(script(texts), TINY, [PROBLEM])
        assert [one.text for one in found] == ([RIGHT, WRONG] if eligible else [])
    assert found[1] == Solution(PROBLEM, WRONG, ("3 * 5", "3 * 5 - 7"), False, first_wrong=2)
    assert found[0].first_wrong is None and found[0].right
    replies = [Reply(RIGHT)] * 3 + [Reply(ALSO_RIGHT, truncated=True)] * 2
    replies += [Reply("words"), Reply("22"), Reply(WRONG)]
    found = eligible_solutions(lambda rows, n, seed, greedy: [replies], TINY, [PROBLEM])
    assert [one.text for one in found] == [RIGHT, WRONG]  # 5 of 8 right with the two that were cut


def solutions(right, wrong):
    steps = ("one", "two", "three")
    return [Solution(PROBLEM, f"right {i}", steps, True) for i in range(right)] + [
        Solution(OTHER, f"wrong {i}", steps, False, first_wrong=2) for i in range(wrong)
    ]


def test_items_are_the_first_wrong_steps_and_as_many_steps_of_right_solutions():
    items = drawn_items(solutions(30, 30), count=20)
    assert [item.wrong for item in items] == [True] * 20 + [False] * 20
    assert {item.number for item in items[:20]} == {2} and {item.step for item in items[:20]} == {"two"}
    assert {item.step for item in items[20:]} == {"one", "two", "three"}  # any step, by lot
    assert len({item.text for item in items}) == 40  # one of each solution
    assert items == drawn_items(solutions(30, 30), count=20) != drawn_items(solutions(30, 30), count=20, seed=1)
    items = drawn_items(solutions(30, 3))
    assert [item.wrong for item in items] == [True] * 3 + [False] * 3
    with pytest.raises(DataError, match=r"there are 30 right solutions and 0 wrong ones .*\(0 without\)"):
        drawn_items(solutions(30, 0))


def test_f1_and_accuracy_from_a_confusion_counted_by_hand():
    """Wrong steps: called wrong twice, once right: TP 2, FN 1. Right steps: one called right, one reply that says
    neither, which counts as the wrong judgement: TN 1, FP 1. Accuracy 3/5; F1 of wrong steps 2*2 / (2*2 + 1 + 1) =
    2/3; of right ones 2*1 / (2*1 + 1 + 1) = 1/2."""
    found = detection_figures([True, True, True, False, False], [True, True, False, False, None], "abcde")
    assert found["confusion"] == {"tp": 2, "fn": 1, "fp": 1, "tn": 1}
    values = [found[name]["value"] for name in ("accuracy", "f1", "f1_right")]
    assert values == pytest.approx([3 / 5, 2 / 3, 1 / 2])
    assert all(found[name]["low"] < found[name]["value"] < found[name]["high"] for name in ("accuracy", "f1"))
    assert found["unreadable"] == 1
    # 200 and 200: accuracy 1/2, F1 of right steps 2*200 / (2*200 + 200) = 2/3, of wrong ones 0.
    found = detection_figures([True] * 200 + [False] * 200, [False] * 400, [str(i) for i in range(400)])
    assert (found["accuracy"]["value"], found["f1"]["value"]) == (0.5, 0)
    assert found["f1_right"]["value"] == pytest.approx(2 / 3)


def test_a_model_that_knows_the_solver_finds_every_wrong_step():
    """The compact question is the game's revision; "right" calls the step right, another answer calls it wrong."""
    items = drawn_items(eligible_solutions(script([RIGHT] * 5 + [WRONG] * 3), TINY, [PROBLEM]))
    assert (items[0].step, items[0].wrong) == ("3 * 5 - 7", True)

    def knowing(rows, n, seed, greedy):
        assert greedy and n == 1
        assert rows[0]["prompt"] == "again 3 5 7 = 22 : 3 * 5 - 7 : 3 * 5 - 7 :"
        return [[Reply(RIGHT if item.wrong else "right")] for item in items]

    found = error_detection(knowing, TINY, items)
    assert found["judged"] == [True, False] and found["accuracy"]["value"] == found["f1"]["value"] == 1.0
    unclear = error_detection(script(["right right"]), TINY, items)
    assert unclear["judged"] == [None, None] and unclear["accuracy"]["value"] == 0.0


def test_solutions_in_words_are_labelled_in_a_file(tmp_path):
    """math_qa: steps stand between blank lines, and the prompt for the annotator is figure 8."""
    domain, question = MathQA(), Question("What is 2 + 3 * 4?", "14")
    text = "First 2 + 3 = 5.\n\nThen 5 * 4 = 20.\n \nSo \\boxed{20}."
    steps = tuple(domain.critique.steps(question, text))
    assert steps == ("First 2 + 3 = 5.", "Then 5 * 4 = 20.", "So \\boxed{20}.")
    path = tmp_path / "steps.jsonl"
    right = Solution(question, "So \\boxed{14}.", ("So \\boxed{14}.",), True)
    write_solutions(path, [Solution(question, text, steps, False), right], domain)
    row, other = [json.loads(line) for line in path.read_text().splitlines()]
    assert row["first_wrong"] is None and "annotate" not in other
    assert row["annotate"][0]["content"] == (
        "Question:\nWhat is 2 + 3 * 4?\nWrong Response:\nStep 1: First 2 + 3 = 5.\n\nStep 2: Then 5 * 4 = 20.\n\n"
        "Step 3: So \\boxed{20}.\nIdentify the first step that contains an error. Please provide the step number in "
        "the format: Step \\boxed{X}"
    )
    with pytest.raises(DataError, match=r"0 wrong ones with a known first wrong step \(1 without\)"):
        drawn_items(read_solutions(path, domain))
    path.write_text(json.dumps({**row, "first_wrong": 1}) + "\n" + json.dumps(other) + "\n")
    items = drawn_items(read_solutions(path, domain))
    assert [(item.step, item.wrong) for item in items] == [("First 2 + 3 = 5.", True), ("So \\boxed{14}.", False)]
    asked = domain.critique.step_row(question, text, items[0].step)["prompt"][0]["content"]
    assert f"[Solution]\n```\n{text}\n```\n[Step]\n```\nFirst 2 + 3 = 5.\n```" in asked
    said = ["\\boxed{right}? No: \\boxed{wrong}", "\\boxed{right}", "It is wrong."]
    assert [domain.critique.calls_wrong(one) for one in said] == [True, False, None]


@pytest.mark.parametrize(("change", "message"), [
    ({"first_wrong": 4}, r"line 1: `first_wrong` \(4\) must be the number of a step, 1 to 3, or null"),
    ({"first_wrong": 0}, r"`first_wrong` \(0\) must be the number of a step"),
    ({"right": True, "first_wrong": 1}, r"`first_wrong` \(1\) names a step of a solution that is `right`"),
    ({"right": None}, "`response` must be a text and `right` true or false"),
    ({"steps": [1]}, "`steps` must be a list of texts"),
    ({"target": None}, "line 1"),
])  # fmt: skip
def test_a_damaged_label_is_one_sentence(tmp_path, change, message):
    path = tmp_path / "steps.jsonl"
    row = {"numbers": [3, 5, 7], "target": 22, "response": WRONG, "steps": ["a", "b", "c"], "right": False}
    path.write_text(json.dumps({**row, **change}) + "\n")
    with pytest.raises(DataError, match=message):
        read_solutions(path, TINY)
