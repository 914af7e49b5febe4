# Tests: warm_starts/cli/sft.py, planning/dry_run.py, warm_starts/cli/ipo.py
"""`countdown-selfplay sft` and `ipo` from end to end, the way from `dataset` to `joint`, and bad input."""

import json

import pytest
from transformers import AutoModelForCausalLM

from countdown_selfplay.cli.main import main
from countdown_selfplay.countdown import generate_problems, heldout_key, problem_from_row
from countdown_selfplay.countdown.rows import compact_solution
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC

QUICK = ["--disable_tqdm", "true", "--use_cpu", "true"]
SHORT = [*QUICK, "--max_steps", "3", "--demonstrations", "64", "--demonstrations_per_problem", "2"]
LITTLE = ["--eval_problems", "24", "--eval_samples", "4"]


def moved(folder):
    """Largest change of a weight since the embedded model."""
    old, new = (AutoModelForCausalLM.from_pretrained(str(f)).state_dict() for f in (TINY_MODEL_PATH, folder))
    assert old.keys() == new.keys()
    return max((new[name] - old[name]).abs().max().item() for name in old)


def test_the_default_run_leaves_a_model_with_card_setting_and_evaluation(tmp_path, capsys):
    out = tmp_path / "sft"
    assert main(["sft", "--output_dir", str(out), *SHORT, *LITTLE]) == 0
    printed = capsys.readouterr().out
    assert "128 demonstrations, none left out, made by the exact solver" in printed and "prover pass@1" in printed
    assert moved(out) > 1e-4
    card = (out / "README.md").read_text()
    assert "128 demonstrations" in card and "'answer_format': 'bare'" in card and "SFTTrainer" in card
    evaluation = json.loads((out / "evaluation.json").read_text())
    assert evaluation["before"]["prover"]["n"] == 4 and len(evaluation["difference"]["pass@1"]) == 3
    assert all(heldout_key(key) for key in evaluation["after"]["prover"]["keys"])
    assert [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    run = json.loads((out / "run.json").read_text())
    assert run["method"] == "sft" and "hub_token" not in run["config"]


def test_an_adapter_is_merged_into_whole_weights(tmp_path, capsys):
    out = tmp_path / "sft"
    assert main(["sft", "--output_dir", str(out), *SHORT, "--eval_problems", "0", "--use_peft", "true",
                 "--lora_target_modules", "q_proj", "v_proj"]) == 0  # fmt: skip
    assert not (out / "adapter_config.json").exists() and not (out / "evaluation.json").exists()
    assert moved(out) > 1e-5


def test_held_out_problems_in_the_data_are_dropped_and_reported(tmp_path, capsys):
    path = tmp_path / "d.jsonl"
    spec = ["--operands", "3", "--number_high", "12", "--target_low", "1", "--target_high", "99"]
    compact = ["--schema", "solved", "--prover_prompt", "compact"]
    assert main(["dataset", str(path), "--count", "20", *spec, *compact]) == 0
    held = tmp_path / "h.jsonl"
    assert main(["dataset", str(held), "--count", "5", "--split", "heldout", *spec, *compact]) == 0
    wrong = {**json.loads(path.read_text().splitlines()[0]), "completion": "1"}
    rows = path.read_text() + held.read_text() + json.dumps(wrong)
    path.write_text(rows + "\n")
    asked = problem_from_row(json.loads(rows.splitlines()[3]), 0)  # one of the training side is evaluated on
    test = write_rows(tmp_path / "t.jsonl", {"nums": list(asked.numbers), "target": asked.target})
    arguments = ["--dataset_name", str(path), "--eval_dataset_name", test, "--dry_run", "true"]
    capsys.readouterr()
    assert main(["sft", "--output_dir", str(tmp_path / "run"), *arguments]) == 0
    out = capsys.readouterr().out
    assert "19 of 26 demonstrations kept; left out: 6 held-out problem, 1 wrong" in out
    assert "optimizer step: 128 x 1 accumulated x 1 process(es) = 128 rows" in out
    assert not (tmp_path / "run").exists()
    assert main(["sft", "--output_dir", str(tmp_path / "run"), "--dataset_name", str(held)]) == 2
    assert "None of the 5 demonstrations can be trained on (5 held-out problem)" in capsys.readouterr().err


def test_a_run_is_resumed_to_the_weights_of_the_straight_run(tmp_path):
    line = [*QUICK, "--demonstrations", "64", "--max_steps", "4", "--per_device_train_batch_size", "16"]
    line += ["--eval_problems", "0", "--save_strategy", "steps", "--save_steps", "2"]
    for name in ("straight", "again"):
        assert main(["sft", "--output_dir", str(tmp_path / name), *line]) == 0
    (tmp_path / "again" / "model.safetensors").unlink()
    for folder in (tmp_path / "again").glob("checkpoint-4"):
        folder.rename(tmp_path / "gone")
    assert main(["sft", "--output_dir", str(tmp_path / "again"), *line, "--resume_from_checkpoint", "true"]) == 0
    load = AutoModelForCausalLM.from_pretrained
    straight, again = (load(str(tmp_path / name)).state_dict() for name in ("straight", "again"))
    assert all(straight[name].equal(again[name]) for name in straight)


@pytest.mark.slow
def test_fine_tuning_raises_pass_at_1_on_numbers_that_the_model_has_not_met(tmp_path):
    """The default recipe: the embedded model was trained on numbers up to 12; here they go up to 20. Held-out
    problems, 95% interval; docs/warm_starts.md has +.075 on 512."""
    out = tmp_path / "sft"
    arguments = ["--eval_problems", "256", *QUICK]
    assert main(["sft", "--output_dir", str(out), *arguments]) == 0
    assert json.loads((out / "evaluation.json").read_text())["difference"]["pass@1"][1] > 0


def test_a_guides_warm_start_is_measured_before_and_after(tmp_path, capsys):
    small = ["--demonstrations", "64", "--num_train_epochs", "1", "--eval_problems", "16"]
    where = ["--output_dir", str(tmp_path / "guide"), "--use_cpu", "--disable_tqdm", "true"]
    assert main(["sft", "--recipe", "tiny/sft_sgs_guide", *small, *where]) == 0
    result = json.loads((tmp_path / "guide" / "evaluation.json").read_text())
    assert [result[when]["guide"]["n"] for when in ("before", "after")] == [16, 16]
    assert "guide readable" in capsys.readouterr().out


FEW = ["--eval_problems", "16", "--eval_samples", "4"]


def test_the_model_learns_from_pairs_of_its_own_answers(tmp_path, capsys):
    out = tmp_path / "ipo"
    assert main(["ipo", "--output_dir", str(out), "--problems", "48", "--logging_steps", "1", *QUICK, *FEW]) == 0
    printed = capsys.readouterr().out
    assert "pairs of 384 samples of the model itself" in printed and "prover pass@1" in printed
    first = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    assert float(first["loss"]) == pytest.approx(25.0, abs=1e-3)  # (0 - 1 / (2 x 0.1))^2: nothing has moved yet
    assert moved(out) > 1e-6
    card = (out / "README.md").read_text()
    assert "DPOTrainer (loss ipo)" in card and "| beta | 0.1 |" in card


def test_equal_seeds_give_equal_weights(tmp_path):
    line = ["--problems", "24", "--eval_problems", "0", *QUICK]
    for name in ("a", "b"):
        assert main(["ipo", "--output_dir", str(tmp_path / name), *line]) == 0
    a, b = (AutoModelForCausalLM.from_pretrained(str(tmp_path / name)).state_dict() for name in ("a", "b"))
    assert all(a[name].equal(b[name]) for name in a)


def write_rows(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.slow
def test_ipo_raises_pass_at_1_on_held_out_problems(tmp_path):
    out = tmp_path / "ipo"
    assert main(["ipo", "--output_dir", str(out), "--problems", "1024", *QUICK]) == 0
    assert json.loads((out / "evaluation.json").read_text())["difference"]["pass@1"][1] > 0


def test_preference_data_is_trained_on_as_it_is(tmp_path, capsys):
    """asingh15/countdown_tasks_3to4-dpo's columns; one held-out problem is left out."""
    problems = [*generate_problems(6, TINY_SPEC, seed=4), *generate_problems(1, TINY_SPEC, seed=4, split="heldout")]
    rows = [
        {"prompt": f"Using the numbers {list(p.numbers)}, create an equation that equals {p.target}.",
         "chosen": compact_solution(p), "rejected": "1 + 1"}
        for p in problems
    ]  # fmt: skip
    file = write_rows(tmp_path / "dpo.jsonl", *rows)
    line = [
        "--dataset_name", file, "--output_dir", str(tmp_path / "ipo"), "--ipo_reduction", "sum", "--warmup_steps", "0",
    ]  # fmt: skip
    assert main(["ipo", *line, "--dry_run", "true", "--eval_problems", "0"]) == 0
    assert "6 pairs of 7 preferences (1 held-out problem)" in capsys.readouterr().out
    assert main(["ipo", *line, "--eval_problems", "0", *QUICK]) == 0
    assert "6 pairs of 7 preferences from" in capsys.readouterr().out and moved(tmp_path / "ipo") > 1e-6
