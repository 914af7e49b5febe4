# Tests: cli/eval.py, evaluation/setting.py, evaluation/answers.py, evaluation/summary.py
"""`countdown-selfplay eval` with the embedded models: table, files, settings, rungs, killed evaluations."""

import json
import os
import re
import shutil
import signal
from itertools import groupby

import pytest
import torch

from countdown_selfplay.asking import DEFAULTS
from countdown_selfplay.cli import main
from countdown_selfplay.cli.eval import parse
from countdown_selfplay.evaluation.answers import AnswerFile
from countdown_selfplay.evaluation.setting import setting_of
from countdown_selfplay.statistics.pass_at_k import pass_at_k
from countdown_selfplay.tiny import TINY_MODEL_PATH


def write_problems(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


ROWS = [{"nums": [3, 5, 7], "target": 22}, {"nums": [1, 2, 3], "target": 6}, {"nums": [2, 4], "target": 8}]


def test_a_prover_is_scored_on_a_problem_file_and_the_same_command_gives_the_same_numbers(tmp_path, shown):
    file = write_problems(tmp_path / "p.jsonl", ROWS)
    output = tmp_path / "out" / "eval.json"
    out = shown("eval --model tiny --samples 8 --problems", file, "--output", output)
    result = json.loads(output.read_text())
    assert (result["problems"], result["n"], result["role"]) == (3, 8, "prover")
    assert result["keys"] == ["3,5,7=22", "1,2,3=6", "2,4=8"]
    assert len(result["correct"]) == 3 and all(0 <= c <= 8 for c in result["correct"])
    assert sum(result["reasons"].values()) == 24
    # The estimate is the mean share of correct answers, and the table shows the same number.
    assert result["pass_at"]["1"]["value"] == pytest.approx(sum(result["correct"]) / 24)
    assert re.search(rf"^pass@1 +{sum(result['correct']) / 24:.4f} +\[", out, re.MULTILINE)
    assert list(result["pass_at"]) == ["1", "2", "4", "8"]
    assert {k: v["problems"] for k, v in result["by_operands"].items()} == {"2": 1, "3": 2}
    assert "setting of the tiny model" in out and "3 problems x 8 answers" in out
    results = []
    for name in ("a", "b"):
        shown("eval --model tiny --n-problems 12 --samples 4 --output", tmp_path / f"{name}.json")
        results.append(json.loads((tmp_path / f"{name}.json").read_text()) | {"seconds": 0})
    assert results[0] == results[1] and results[0]["problems"] == 12


def test_a_conjecturer_is_scored_on_its_proposals_and_a_budget_that_cuts_answers_is_warned_about(tmp_path, shown):
    output = tmp_path / "eval.json"
    out = shown("eval --model tiny --role conjecturer --samples 32 --output", output)
    result = json.loads(output.read_text())
    assert result["n"] == 32 and sum(result["reasons"].values()) == 32
    assert re.search(r"^parseable +[01]\.\d{4} +\[[01]\.\d{4}, [01]\.\d{4}\]$", out, re.MULTILINE)
    file = write_problems(tmp_path / "p.jsonl", ROWS[:1])
    out = shown("eval --model tiny --samples 4 --max_new_tokens 2 --problems", file)
    assert "warning: 100.0% of the texts were cut at 2 tokens" in out
    assert re.search(r"^pass@1 +0\.0000 ", out, re.MULTILINE)


def run_folder(tmp_path, **changes):
    config = dict(operands=[2, 3], number_low=2, number_high=9, target_low=5, target_high=50, prover_prompt="compact")
    config |= dict(conjecturer_prompt="compact", temperature=0.8, top_p=0.9, top_k=7, max_completion_length=20)
    config |= dict(prover_temperature=None, conjecturer_temperature=1.3)
    run = {"name": "mine", "config": {**config, **changes}, "rules": {"answer_format": "bare", "answer_rule": "first"}}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps(run))
    shutil.copytree(TINY_MODEL_PATH, tmp_path / "run" / "prover")
    return tmp_path / "run" / "prover"


def setting(*arguments):
    return setting_of(parse([*map(str, arguments)]))


def test_a_policy_is_scored_in_the_setting_of_its_run(tmp_path):
    folder = run_folder(tmp_path)
    found = setting("--model", folder)
    assert found.source == "run 'mine'"
    assert (found.domain.spec.operands, found.domain.spec.number_high) == ((2, 3), 9)
    assert found.domain.rules.answer_rule == "first"
    assert found.sampling == DEFAULTS | {"temperature": 0.8, "top_p": 0.9, "top_k": 7, "max_new_tokens": 20}
    assert setting("--model", folder, "--role", "conjecturer").sampling["temperature"] == 1.3


def test_options_win_over_the_run_and_an_unknown_model_gets_the_setting_of_the_public_checkpoints(tmp_path):
    found = setting("--model", run_folder(tmp_path), "--temperature=0", "--operands", 3, "--answer_rule", "last")
    assert found.sampling["temperature"] == 0.0
    assert (found.domain.spec.operands, found.domain.rules.answer_rule) == ((3,), "last")
    assert found.domain.rules.answer_format == "bare"
    found = setting("--model", "asingh15/qwen-sft-countdown-defaultproj")
    assert found.domain.prover_prompt == "countdown_3to4" and found.domain.rules.answer_format == "tags"
    assert found.sampling == DEFAULTS | {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 2048}
    assert setting("--model", "x", "--prover-prompt", "compact").domain.rules.answer_format == "bare"


SIZE = "eval --model tiny --n_problems 40 --samples 4 --batch_size 8 --output"  # 20 batches of two problems


def lines(path):
    return path.read_text().splitlines()


def killed_after(batches, *line):
    """How a command ended in a fork of this process, which SIGKILLs itself after so many batches on the disk."""
    append, written = AnswerFile.append, []

    def dying(file, rows):
        append(file, rows)
        written.append(len(file.rows))
        if len(written) == batches:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # a fork has no others
            AnswerFile.append = dying
            main.main(line)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def test_an_evaluation_that_was_killed_ends_with_the_rows_of_a_straight_run(tmp_path, run, shown):
    """Killed after the third batch of 8 answers."""
    straight, killed = tmp_path / "straight.jsonl", tmp_path / "killed.jsonl"
    shown(SIZE, straight)
    assert os.WTERMSIG(killed_after(3, *SIZE.split(), str(killed))) == signal.SIGKILL
    assert len(lines(killed)) == 1 + 3 * 8
    with killed.open("a") as file:  # and as if a line had been half written when it died
        file.write('{"index": 7, "problem": "1,2')
    code, out, err = run(SIZE, killed)
    assert code == 0 and "holds 24 of 160 answers" in err
    assert killed.read_bytes() == straight.read_bytes()
    results = [json.loads(path.with_suffix(".json").read_text()) for path in (straight, killed)]
    assert [result.pop("seconds") > 0 for result in results] == [True, True]
    assert results[0] == results[1]
    # A finished file is summed up again without the model.
    assert shown(SIZE, killed).splitlines()[:9] == out.splitlines()[:9]


def test_every_row_says_what_was_answered_and_the_first_line_in_which_setting(tmp_path, shown):
    path = tmp_path / "a.jsonl"
    file = write_problems(tmp_path / "p.jsonl", [ROWS[0] | {"stratum": "easy"}, ROWS[2] | {"stratum": "hard"}])
    out = shown("eval --model tiny --samples 4 --problems", file, "--output", path)
    header, *answers = map(json.loads, lines(path))
    assert header["domain"]["rules"]["answer_rule"] == "last" and header["domain"]["prover_prompt"] == "compact"
    wanted = {"n": 4, "n_problems": 2, "seed": 0, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": 16}
    assert {name: header[name] for name in wanted} == wanted
    assert {"torch", "transformers", "countdown-selfplay"} <= set(header["versions"])
    order = [(i, j) for i in (1, 0) for j in range(4)]  # short ones first
    assert [(a["index"], a["sample"]) for a in answers] == order
    assert {a["stratum"] for a in answers if a["problem"] == "2,4=8"} == {"hard"}
    assert all(a["tokens"] >= 1 and isinstance(a["truncated"], bool) and a["reason"] for a in answers)
    for words in ("majority@4", "right format", "truncated", "pass@4, easy", "pass@4, hard", "pass@1, 2 operands"):
        assert words in out


def test_rows_of_a_problem_do_not_depend_on_the_other_batches(tmp_path, shown):
    # With one problem per batch, each alone gives the rows that it has among the others.
    found = []
    for name, chosen in (("both", ROWS[::2]), ("one", ROWS[2:])):
        file, output = write_problems(tmp_path / f"{name}.jsonl", chosen), tmp_path / f"{name}-out.jsonl"
        shown("eval --model tiny --samples 8 --batch_size 8 --problems", file, "--output", output)
        own = [json.loads(line) for line in lines(output)[1:]]
        found.append([row["completion"] for row in own if row["problem"] == "2,4=8"])
    assert len(found[0]) == 8 and found[0] == found[1]


def test_the_frozen_set_is_asked_by_name_and_a_file_that_is_no_evaluation_is_kept(tmp_path, run, shown):
    out = shown("eval --model tiny --problems heldout-v1 --operands 3 --n_problems 3 --samples 2")
    assert "3 problems x 2 answers" in out
    file = tmp_path / "problems.jsonl"
    file.write_text('{"nums": [2, 4], "target": 8}\n')
    code, _, err = run("eval --model tiny --samples 2 --problems", file, "--output", file)
    assert code == 2 and "its first line is not a setting" in err
    assert file.read_text() == '{"nums": [2, 4], "target": 8}\n'
    code, _, err = run("eval --model tiny --role conjecturer --output", tmp_path / "a.jsonl")
    assert code == 2 and "which only a prover gives; use a .json file" in err


@pytest.mark.parametrize(("arguments", "message"), [
    ("--seed 1", "was begun with seed 0 and this evaluation has 1"),
    ("--answer_rule any", "rules.answer_rule 'last' and this evaluation has 'any'"),
    ("--n_problems 3", "was begun with n_problems 2 and this evaluation has 3"),
])  # fmt: skip
def test_a_changed_setting_is_refused_in_one_line(tmp_path, run, shown, arguments, message):
    size = ("eval --model tiny --n_problems 2 --samples 4 --output", tmp_path / "a.jsonl")
    shown(*size)
    code, out, err = run(*size, *arguments.split())
    assert (code, out, err.count("\n")) == (2, "", 1) and message in err


def test_equally_many_problems_of_each_rung_are_scored_and_an_interrupted_file_goes_on(tmp_path, shown):
    output = tmp_path / "eval.jsonl"
    asked = "eval --disable_tqdm --model tiny-ladder --rungs 3 4 5 --problems_per_rung 4 --samples 4 --output"
    out = shown(asked, output)
    assert "setting of the ladder's models" in out and "majority" not in out and "operands" not in out
    result, whole = json.loads(output.with_suffix(".json").read_text()), output.read_text()
    rows = sorted(map(json.loads, whole.splitlines()[1:]), key=lambda row: row["index"])
    assert len(rows) == 3 * 4 * 4 and {row["rung"] for row in rows} == {3, 4, 5}
    for rung, found in result["by_rung"].items():  # recounted from the rows
        own = [row for row in rows if str(row["rung"]) == rung]
        counts = [sum(r["reason"] == "correct" for r in rs) for _, rs in groupby(own, lambda row: row["index"])]
        assert found["correct"] == counts and found["problems"] == 4
        for k in (1, 2, 4):
            mean = sum(pass_at_k(4, c, k) for c in counts) / 4
            assert found["pass_at"][str(k)]["value"] == pytest.approx(mean)
    assert result["ladder"]["rungs"] == [4, 5]
    four, five = (result["by_rung"][rung]["pass_at"]["1"]["value"] for rung in ("4", "5"))
    assert result["ladder"]["pass_at"]["1"]["value"] == pytest.approx((four + five) / 2)
    three = result["by_rung"]["3"]["pass_at"]["4"]["value"]
    assert three > 0 and re.search(rf"^pass@4, rung 3 +{three:.4f} +\[", out, re.MULTILINE)
    output.write_text(whole[: len(whole) // 2])
    assert shown(asked, output) and output.read_text() == whole


def test_the_rungs_of_a_file_and_of_the_score_are_chosen(tmp_path, shown):
    sets, output = [[1, 2, 3], [2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4, 5]], tmp_path / "eval.json"
    file = write_problems(tmp_path / "p.jsonl", [{"nums": nums, "target": 5} for nums in sets])
    chosen = "eval --model tiny-ladder --samples 2 --rungs 3 4 --problems_per_rung 1 --ladder_rungs 3 4"
    out = shown(chosen, "--output", output, "--problems", file)
    result = json.loads(output.read_text())
    assert result["keys"] == ["1,2,3=5", "1,2,3,4=5"]
    assert result["ladder"]["rungs"] == [3, 4] and "pass@1, rungs 3, 4" in out
