# Tests: cli/eval.py, evaluation/setting.py
"""`countdown-selfplay eval` with the embedded model: the table, the file, the settings, and what it refuses."""

import json
import re
import shutil

import pytest

from countdown_selfplay.asking import DEFAULTS
from countdown_selfplay.cli import main
from countdown_selfplay.cli.eval import parse
from countdown_selfplay.evaluation.setting import setting_of
from countdown_selfplay.tiny import TINY_MODEL_PATH


def write_problems(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


ROWS = [{"nums": [3, 5, 7], "target": 22}, {"nums": [1, 2, 3], "target": 6}, {"nums": [2, 4], "target": 8}]


def evaluate(capsys, *arguments):
    code = main.main(["eval", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_prover_is_scored_on_a_problem_file_and_the_same_command_gives_the_same_numbers(tmp_path, capsys):
    file = write_problems(tmp_path / "p.jsonl", ROWS)
    output = tmp_path / "out" / "eval.json"
    code, out, _ = evaluate(capsys, "--model", "tiny", "--problems", file, "--samples", 8, "--output", output)
    assert code == 0
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
        output = tmp_path / f"{name}.json"
        assert evaluate(capsys, "--model", "tiny", "--n-problems", 12, "--samples", 4, "--output", output)[0] == 0
        results.append({k: v for k, v in json.loads(output.read_text()).items() if k != "seconds"})
    assert results[0] == results[1]
    assert results[0]["problems"] == 12


def test_a_conjecturer_is_scored_on_its_proposals_and_a_budget_that_cuts_answers_is_warned_about(tmp_path, capsys):
    output = tmp_path / "eval.json"
    code, out, _ = evaluate(capsys, "--model", "tiny", "--role", "conjecturer", "--samples", 32, "--output", output)
    assert code == 0
    result = json.loads(output.read_text())
    assert result["n"] == 32 and sum(result["reasons"].values()) == 32
    assert re.search(r"^parseable +[01]\.\d{4} +\[[01]\.\d{4}, [01]\.\d{4}\]$", out, re.MULTILINE)
    file = write_problems(tmp_path / "p.jsonl", ROWS[:1])
    _, out, _ = evaluate(capsys, "--model", "tiny", "--problems", file, "--samples", 4, "--max_new_tokens", 2)
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


def test_an_adapter_folder_is_loaded_with_its_base(tmp_path, capsys):
    from peft import LoraConfig, get_peft_model

    from countdown_selfplay.tiny import load_tiny_model

    model, tokenizer = load_tiny_model()
    adapter = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    adapter.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    file = write_problems(tmp_path / "p.jsonl", ROWS[:1])
    same = [
        "--problems", file, "--samples", "16", "--prover_prompt", "compact", "--max_new_tokens", "16", "--temperature",
        "1",
    ]  # fmt: skip
    counts = []
    for name in (tmp_path / "adapter", TINY_MODEL_PATH):  # a fresh adapter changes nothing: equal answers
        assert (
            evaluate(capsys, "--model", name, *same, "--top_p=1", "--top_k=0", "--output", tmp_path / "e.json")[0] == 0
        )
        counts.append(json.loads((tmp_path / "e.json").read_text())["correct"])
    assert counts[0] == counts[1]
