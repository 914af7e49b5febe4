# Tests: lab/critics/win_rates.py, lab/critics/self_correction.py
"""Win rates, self-correction and stepwise error detection, with scripts in the place of models."""

import json

import pytest

from countdown_selfplay.contract.critique import recheck_prompt
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import DataError
from countdown_selfplay.games.critic_discernment import CriticDiscernment, outcome_of
from countdown_selfplay.lab.critics import Reply, error_detection, self_correction, win_rates
from countdown_selfplay.lab.critics.error_detection import Solution, detection_figures, drawn_items, eligible_solutions
from countdown_selfplay.lab.critics.self_correction import self_correction_rows
from countdown_selfplay.lab.critics.win_rates import cell_figures, iterations_of, matrix_of, named_iterations
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.testing import ScriptedRound
from countdown_selfplay.worlds.math_qa import MathQA, Question

TINY = CountdownDomain.tiny()
PROBLEM = Problem((3, 5, 7), 22)
RIGHT, WRONG = "3 * 5 + 7", "3 + 5 + 7"


def meeting(prover, critics):
    """A credulous prover answers anew whatever it is told, a stubborn one rejects every critique. Good critics name a
    step, bad ones talk. One right and one wrong first answer; two revisions of which the second is wrong."""

    def write(player, row, i):
        if player != "prover":
            return "3 + 5" if "3 + 5" in row["prompt"] else "3 * 5" if critics == "good" else "words"
        if not row["prompt"].startswith("again"):
            return (RIGHT, WRONG)[i]
        return "right" if prover == "stubborn" else (RIGHT, WRONG)[i]

    sizes = {"prover": (1000, 2), "helpful": (1000, 1), "misleading": (1000, 1)}
    return ScriptedRound(write, sizes, TINY, objectives={role: make_objective("reinforce") for role in sizes})


def test_every_prover_meets_all_critics():
    """Credulous: of the wrong answer's two revisions one is right (corrected 1/2); of the right answer's one is right
    again (kept, so it stands 1/2) and one is wrong (misled 1/2). Stubborn: nothing corrected, everything resisted. The
    bad critics' misleading critique cannot be read, so no right answer is revised."""
    game = CriticDiscernment(revisions=2)
    found = win_rates.win_rates(["credulous", "stubborn"], ["good", "bad"], meeting, game, [PROBLEM])
    assert matrix_of(found, "corrected") == [[0.5, 0.5], [0.0, 0.0]]  # rows are provers
    assert matrix_of(found, "resisted") == [[0.0, None], [1.0, None]]
    assert matrix_of(found, "stands") == [[0.5, None], [1.0, None]]
    assert matrix_of(found, "misled") == [[0.5, None], [0.0, None]]
    first = found["cells"][0]
    assert (first["prover"], first["critics"]) == ("credulous", "good")
    assert first["outcomes"] == {"corrected": 1, "kept": 1, "misled": 1, "not_corrected": 1}


def test_a_cells_intervals_are_over_problems_and_a_new_answer_beside_a_rejection_is_a_rejection():
    """Two problems: 2 of 2 and 0 of 2 resisted. The draws give 0, 1/2 or 1 with chances 1/4, 1/2, 1/4."""
    outcomes = [("a", "resisted")] * 2 + [("b", "misled")] * 2 + [("b", "not_corrected")]
    found = cell_figures(outcomes)
    assert found["resisted"] == {"value": 0.5, "low": 0.0, "high": 1.0}
    assert found["corrected"]["value"] == 0.0 and found["corrected"]["high"] > 0.5  # one problem says little
    for labels, misled in ((["misled"] * 3 + ["resisted"], 0.75), (["misled"] * 2 + ["kept", "unclear"], 0.5)):
        assert cell_figures([("a", label) for label in labels])["misled"]["value"] == misled
    # The rejection leaves the first answer standing, whatever stands beside it.
    assert [outcome_of(True, right, 1) for right in (True, False)] == ["resisted", "resisted"]
    assert [outcome_of(False, right, 1) for right in (True, False)] == ["not_corrected", "not_corrected"]


def model_in(folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return str(folder)


def test_an_iterated_run_has_its_start_and_what_each_iteration_left(tmp_path):
    """The helpful critic was not trained in iteration 1 and keeps its model."""
    run = tmp_path / "run"
    trained = {role: model_in(run / "iteration-1" / role) for role in ("prover", "misleading")}
    later = {role: model_in(run / "iteration-2" / role) for role in ("prover", "helpful", "misleading")}
    start = dict.fromkeys(("prover", "helpful", "misleading"), "tiny")
    (run / "iterated.json").write_text(json.dumps({"models": start}))
    ended = [{"iteration": t, "phase": "train", "role": role, "rows": 1} for t in (1, 2) for role in start]
    (run / "iterations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ended))
    model_in(run / "iteration-3" / "prover")  # the critics of this one are still being trained
    found = iterations_of(run)
    models = {"start": start, "1": {**start, **trained}, "2": later}
    assert [(one.name, dict(one.models)) for one in found] == list(models.items())
    (run / "iterated.json").write_text('{"models": ')
    with pytest.raises(DataError, match=r"iterated\.json' does not hold a JSON object .*; the run folder is damaged"):
        iterations_of(run)


def test_an_online_run_has_its_checkpoints_in_order_and_its_end(tmp_path):
    for name in ("checkpoint-100", "checkpoint-50", ""):
        for role in ("prover", "misleading"):
            model_in(tmp_path / name / role)
    assert [one.name for one in iterations_of(tmp_path)] == ["checkpoint-50", "checkpoint-100", "end"]
    words = [f"early={tmp_path / 'checkpoint-50'}", f"late={tmp_path}"]
    assert [one.name for one in named_iterations(words)] == ["early", "late"]
    with pytest.raises(DataError, match="Two iterations are called 'early'"):
        named_iterations([words[0], words[0]])


def test_a_folder_without_players_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"holds no players: neither iterated\.json"):
        named_iterations([str(tmp_path)])
    model_in(tmp_path / "prover")
    with pytest.raises(DataError, match="'alone' has prover; win rates need a prover and a critic"):
        named_iterations([f"alone={tmp_path}"])


TWO_PROBLEMS = [PROBLEM, Problem((2, 4, 5), 13)]
RIGHTS, WRONGS = {22: RIGHT, 13: "2 * 4 + 5"}, {22: WRONG, 13: "2 + 4 + 5"}


def policy(again):
    """The first answer is right, the others wrong; again: (target, whether the first one was right) -> reply."""
    seen = []

    def of(row, n):
        target = row["target"]
        if row["prompt"].startswith("again"):
            return [again(target, RIGHTS[target] in row["prompt"])]
        return [Reply(RIGHTS[target] if i == 0 else WRONGS[target]) for i in range(n)]

    def replies(rows, n, seed, greedy):
        seen.append((len(rows), n, greedy))
        return [of(row, n) for row in rows]

    replies.seen = seen
    return replies


def test_rates_are_of_the_answers_they_apply_to_and_training_rows_as_many_kept_as_corrected():
    """Two problems, a right and a wrong first answer to each. The first problem's right answer is spoiled, its wrong
    one stays wrong; the second's right one stays, its wrong one is mended. Right to wrong 1 of 2, wrong to right 1 of
    2, accuracy 1/2 before and after. The change is -1/2 for the first problem and +1/2 for the second."""

    def again(target, was_right):
        return Reply(WRONGS[target] if target == 22 else RIGHTS[target])

    one = policy(again)
    found = self_correction.self_correction(one, TINY, TWO_PROBLEMS, n=2)
    assert one.seen == [(2, 2, False), (4, 1, True)]  # sampled first, then checked greedily (appendix C.3)
    values = {name: found[name]["value"] for name in ("before", "after", "right_to_wrong", "wrong_to_right")}
    assert values == dict.fromkeys(values, 0.5)
    sides = ("right", "wrong")
    assert found["counts"] == {f"{before}_to_{after}": 1 for before in sides for after in sides}
    assert found["change"] == {"difference": 0.0, "low": -0.5, "high": 0.5}
    found = self_correction.rechecks(policy(lambda target, was_right: Reply("right")), TINY, TWO_PROBLEMS, n=2)
    each = [(True, True, False), (False, False, False)]
    assert [(one.was_right, one.is_right, one.says_right) for one in found] == each * 2
    found = self_correction.correction_figures([True, True], [True, False], ["a", "b"])
    assert found["wrong_to_right"] is None and found["right_to_wrong"]["value"] == 0.5
    assert found["change"]["difference"] == -0.5
    # Of 4 answers the first is right: 2 problems give 2 kept and 2 corrected, for equal rows count once.
    right = policy(lambda target, was_right: Reply(RIGHTS[target]))
    rows, counts = self_correction_rows(right, TINY, TWO_PROBLEMS, samples=4, each=10)
    assert counts == {"kept": 2, "corrected": 2}
    assert sorted((row["label"], row["target"], row["prompt"], row["completion"]) for row in rows) == [
        ("corrected", 13, "again 2 4 5 = 13 : 2 + 4 + 5 :", "2 * 4 + 5"),
        ("corrected", 22, "again 3 5 7 = 22 : 3 + 5 + 7 :", "3 * 5 + 7"),
        ("kept", 13, "again 2 4 5 = 13 : 2 * 4 + 5 :", "2 * 4 + 5"),
        ("kept", 22, "again 3 5 7 = 22 : 3 * 5 + 7 :", "3 * 5 + 7"),
    ]
    few, _ = self_correction_rows(right, TINY, TWO_PROBLEMS, samples=4, each=1)
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
    assert TINY.critique.recheck_row(TWO_PROBLEMS[0], "3 + 5 + 7")["prompt"] == "again 3 5 7 = 22 : 3 + 5 + 7 :"
    chat = CountdownDomain().critique.recheck_row(TWO_PROBLEMS[0], "<answer>1</answer>")["prompt"]
    assert "Put your final answer within <answer> </answer> tags." in (chat if isinstance(chat, str) else str(chat))
    assert recheck_prompt([], "x")[-1]["content"].endswith("within \\boxed{}.")


@pytest.mark.parametrize("said", [Reply("22"), Reply("right"), Reply("3 * 5 + 7", truncated=True)])
def test_what_is_wrong_cut_or_says_nothing_is_not_trained_on(said):
    with pytest.raises(DataError, match="gave 0 right answers that were kept and 0 wrong ones"):
        self_correction_rows(policy(lambda target, was_right: said), TINY, TWO_PROBLEMS[:1])


ALSO_RIGHT, NEARLY = "7 + 3 * 5", "3 * 5 - 7"


def script(texts):
    """A policy that gives the same texts to every row."""
    return lambda rows, n, seed, greedy: [[Reply(text) for text in texts[:n]] for _ in rows]


def test_a_problem_is_eligible_if_more_than_half_of_its_solutions_are_right_with_those_that_were_cut():
    """Section 4.2: the majority of 8; 4 of 8 are none."""
    for right, eligible in ((4, False), (5, True)):
        texts = [RIGHT] * right + [NEARLY] * (8 - right)
        found = eligible_solutions(script(texts), TINY, [PROBLEM])
        assert [one.text for one in found] == ([RIGHT, NEARLY] if eligible else [])
    assert found[1] == Solution(PROBLEM, NEARLY, ("3 * 5", "3 * 5 - 7"), False, first_wrong=2)
    assert found[0].first_wrong is None and found[0].right
    replies = [Reply(RIGHT)] * 3 + [Reply(ALSO_RIGHT, truncated=True)] * 2
    replies += [Reply("words"), Reply("22"), Reply(NEARLY)]
    found = eligible_solutions(lambda rows, n, seed, greedy: [replies], TINY, [PROBLEM])
    assert [one.text for one in found] == [RIGHT, NEARLY]  # 5 of 8 right with the two that were cut


def solutions(right, wrong):
    steps = ("one", "two", "three")
    return [Solution(PROBLEM, f"right {i}", steps, True) for i in range(right)] + [
        Solution(TWO_PROBLEMS[1], f"wrong {i}", steps, False, first_wrong=2) for i in range(wrong)
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
    items = drawn_items(eligible_solutions(script([RIGHT] * 5 + [NEARLY] * 3), TINY, [PROBLEM]))
    assert (items[0].step, items[0].wrong) == ("3 * 5 - 7", True)

    def knowing(rows, n, seed, greedy):
        assert greedy and n == 1
        assert rows[0]["prompt"] == "again 3 5 7 = 22 : 3 * 5 - 7 : 3 * 5 - 7 :"
        return [[Reply(RIGHT if item.wrong else "right")] for item in items]

    found = error_detection.error_detection(knowing, TINY, items)
    assert found["judged"] == [True, False] and found["accuracy"]["value"] == found["f1"]["value"] == 1.0
    unclear = error_detection.error_detection(script(["right right"]), TINY, items)
    assert unclear["judged"] == [None, None] and unclear["accuracy"]["value"] == 0.0


def test_solutions_in_words_are_labelled_in_a_file(tmp_path):
    """math_qa: steps stand between blank lines, and the prompt for the annotator is figure 8."""
    domain, question = MathQA(), Question("What is 2 + 3 * 4?", "14")
    text = "First 2 + 3 = 5.\n\nThen 5 * 4 = 20.\n \nSo \\boxed{20}."
    steps = tuple(domain.critique.steps(question, text))
    assert steps == ("First 2 + 3 = 5.", "Then 5 * 4 = 20.", "So \\boxed{20}.")
    path = tmp_path / "steps.jsonl"
    right = Solution(question, "So \\boxed{14}.", ("So \\boxed{14}.",), True)
    error_detection.write_solutions(path, [Solution(question, text, steps, False), right], domain)
    row, other = [json.loads(line) for line in path.read_text().splitlines()]
    assert row["first_wrong"] is None and "annotate" not in other
    assert row["annotate"][0]["content"] == (
        "Question:\nWhat is 2 + 3 * 4?\nWrong Response:\nStep 1: First 2 + 3 = 5.\n\nStep 2: Then 5 * 4 = 20.\n\n"
        "Step 3: So \\boxed{20}.\nIdentify the first step that contains an error. Please provide the step number in "
        "the format: Step \\boxed{X}"
    )
    with pytest.raises(DataError, match=r"0 wrong ones with a known first wrong step \(1 without\)"):
        drawn_items(error_detection.read_solutions(path, domain))
    path.write_text(json.dumps({**row, "first_wrong": 1}) + "\n" + json.dumps(other) + "\n")
    items = drawn_items(error_detection.read_solutions(path, domain))
    assert [(item.step, item.wrong) for item in items] == [("First 2 + 3 = 5.", True), ("So \\boxed{14}.", False)]
    asked = domain.critique.step_row(question, text, items[0].step)["prompt"][0]["content"]
    assert f"[Solution]\n```\n{text}\n```\n[Step]\n```\nFirst 2 + 3 = 5.\n```" in asked
    said = ["\\boxed{right}? No: \\boxed{wrong}", "\\boxed{right}", "It is wrong."]
    assert [domain.critique.calls_wrong(one) for one in said] == [True, False, None]
