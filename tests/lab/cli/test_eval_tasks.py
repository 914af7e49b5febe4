# Tests: lab/cli/eval_tasks.py
"""`countdown-selfplay eval --task`, on two iterations that `cdg` played with weights that know the game a little."""

import json
import re

import pytest
from tests.made_up_runs import printed, write_lines

from countdown_selfplay.countdown import CountdownDomain, solve
from countdown_selfplay.evaluation.model import load_model
from countdown_selfplay.lab.cli import eval_tasks
from countdown_selfplay.lab.critics import Reply
from countdown_selfplay.lab.critics.win_rates import ROLES, Iteration, Meetings
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.warm_starts.iterated import select
from countdown_selfplay.warm_starts.readers import clean_demonstrations

FEW = ["--n_problems", "24", "--disable_tqdm"]


def evaluate(capsys, *arguments):
    return printed(capsys, "eval", *arguments)


def test_a_prover_gives_the_same_first_answers_to_all_critics():
    iterations = [Iteration(name, dict.fromkeys(ROLES, str(TINY_MODEL_PATH))) for name in "ab"]
    domain = CountdownDomain.tiny()
    meetings = Meetings(iterations, domain, lambda path: load_model(path, "cpu"), {"max_new_tokens": 12})
    rows = [domain.prove_row(problem) for problem in domain.held_out(3)]
    first, other = (meetings("a", critics).sample("prover", rows).texts for critics in "ab")
    assert first == other and len(set(first)) > 1


def test_error_detection_asks_all_models_about_the_same_steps(capsys, tmp_path):
    steps, output = tmp_path / "steps.jsonl", tmp_path / "result.json"
    arguments = ["--task", "error_detection", "--disable_tqdm", "--step_set", steps, "--items", 6, "--output", output]
    found = []
    for model, problems in (("tiny", 40), (TINY_MODEL_PATH, 1)):
        code, out, error = evaluate(capsys, "--model", model, *arguments, "--n_problems", problems)
        assert code == 0, error
        found.append(json.loads(output.read_text()))
        assert re.search(r"^F1, wrong steps +[01]\.\d{4} +\[", out, re.MULTILINE)
    assert found[0]["keys"] == found[1]["keys"] and found[0]["labels"] == found[1]["labels"]
    assert found[0]["replies"] == found[1]["replies"]  # the same weights, greedily: --n_problems made no second set
    assert 0 < found[0]["wrong"] * 2 == found[0]["items"] <= 12
    for result in found:  # the figures are those of the file; a reply that says neither hits nothing
        hits = sum(called == wrong for called, wrong in zip(result["judged"], result["labels"], strict=True))
        assert result["accuracy"]["value"] == pytest.approx(hits / result["items"])


def test_a_step_set_of_wrong_solutions_alone_is_refused_and_not_written(capsys, tmp_path, monkeypatch):
    """No problem is solved by more than half of the solutions: 0 right and 0 wrong ones are eligible. A file of
    nothing would be read by the next call."""
    (tmp_path / "q.jsonl").write_text('{"question": "3 + 4?", "answer": "7"}\n')
    wrong = lambda rows, n, seed, greedy: [[Reply("1 + 1")] * n for _ in rows]  # noqa: E731
    monkeypatch.setattr(eval_tasks, "_policy", lambda options, setting, bar, problems: (wrong, {}))
    steps = tmp_path / "steps.jsonl"
    words = ["--domain", "math_qa", "--problems", tmp_path / "q.jsonl"]
    cases = ((FEW, "there are 0 right solutions and 0 wrong ones"), (words, "of 8 solutions solves, and has 0 right"))
    for more, said in cases:
        code, _, error = evaluate(capsys, "--task", "error_detection", "--model", "tiny", "--step_set", steps, *more)
        assert code == 2 and said in error and not steps.exists(), error


def test_self_correction_is_counted(capsys, tmp_path):
    output = tmp_path / "result.json"
    model = ["--task", "self_correction", "--model", "tiny"]
    code, out, error = evaluate(capsys, *model, *FEW, "--samples", 4, "--output", output)
    assert code == 0, error
    found = json.loads(output.read_text())
    counts = found["counts"]
    assert sum(counts.values()) == found["answers"] == 24 * 4 and re.search(r"^change +", out, re.MULTILINE)
    right = counts["right_to_right"] + counts["right_to_wrong"]
    assert 0 < right < 96 and found["before"]["value"] == pytest.approx(right / 96)
    assert found["right_to_wrong"]["value"] == pytest.approx(counts["right_to_wrong"] / right)
    gained = counts["wrong_to_right"] - counts["right_to_wrong"]
    assert found["change"]["difference"] == pytest.approx(gained / 96)


def test_the_supervised_stage_joins_what_a_prover_was_trained_on(capsys, tmp_path, monkeypatch):
    """A script checks well: the first answer to a problem is right, the second is wrong, and both are checked to be
    right. Of 5 problems 5 are kept and 5 corrected; 2 rows of a prover's data set join them."""
    domain = CountdownDomain.tiny()

    def replies(rows, n, seed, greedy):
        found = []
        for row in rows:
            right = " ".join(re.findall(r"\d+|[-+*/()]", solve(domain.problem(row), domain.rules)))
            wrong = " + ".join(map(str, row["numbers"]))
            found.append([Reply(right), *[Reply(wrong)] * (n - 1)])
        return found

    monkeypatch.setattr(eval_tasks, "_policy", lambda options, setting, bar, problems: (replies, {}))
    problem = domain.random(6, 1, frozenset())[5]
    row = dict.fromkeys(("turn", "reward", "iteration", "chunk"), 0) | {"role": "prover", "weights": "tiny"}
    row |= {"prompt": json.dumps("again ..."), "completion": "right", "label": "resisted", "problem": problem.key}
    stored = {**row, "completion": "1 + 2"}
    select.write(tmp_path / "prover.parquet", [row, stored])
    arguments = ["--task", "self_correction", "--model", "tiny", "--training_data", tmp_path / "train.jsonl"]
    arguments += ["--add", tmp_path / "prover.parquet", "--n_problems", 5, "--samples", 2, "--disable_tqdm"]
    code, out, error = evaluate(capsys, *arguments)
    assert code == 0, error
    assert "10 rows, half kept and half corrected (of 5 and 5), and 2 added" in out
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == ["kept"] * 5 + ["corrected"] * 5 + ["resisted"] * 2
    assert [row["completion"] for row in rows[-2:]] == ["right", "1 + 2"] and rows[-1]["prompt"] == "again ..."
    assert rows[-1]["target"] == problem.target
    kept = clean_demonstrations(rows, "prover", domain, keep_wrong=True)  # as sft reads them
    assert len(kept.rows) == 12 and not kept.left_out
    write_lines(tmp_path / "train.jsonl", rows)
    recipe = ["--recipe", "tiny/sft_self_correction", "--model_name_or_path", "tiny"]
    code, planned, _ = printed(capsys, "sft", *recipe, "--dataset_name", tmp_path / "train.jsonl", "--dry_run")
    assert code == 0
    assert re.search(r"\b12 (kept|demonstrations|rows)", planned) and "x 1 process(es) = 64 rows" in planned, planned
    critics, pair = {"role": "helpful"}, {"before": "", "rejected": "1 + 3"}  # a better text may be a single step
    for wrong in (critics, pair):
        select.write(tmp_path / "prover.parquet", [stored | wrong])
        code, _, error = evaluate(capsys, *arguments)
        assert code == 2 and "holds pairs or another role's samples" in error


def test_greedy_answers_and_majorities_come_out_of_one_command(capsys, tmp_path):
    output = tmp_path / "answers.jsonl"
    arguments = ["--eval_preset", "cdg", "--max_new_tokens", 16, *FEW, "--output", output]
    code, out, error = evaluate(capsys, "--model", "tiny", *arguments)
    assert code == 0, error
    for row in ("greedy pass@1", "majority@8", "majority@32"):
        assert re.search(rf"^{row} +[01]\.\d{{4}} +\[", out, re.MULTILINE)
    result = json.loads((tmp_path / "answers.json").read_text())
    assert result["n"] == 32 and result["greedy"]["setting"]["temperature"] == 0
    alone = [json.loads(line) for line in (tmp_path / "answers.greedy.jsonl").read_text().splitlines()[1:]]
    right = sum(row["reason"] == "correct" for row in alone)
    assert len(alone) == 24 and result["greedy"]["pass_at"]["1"]["value"] == pytest.approx(right / 24)
