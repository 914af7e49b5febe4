# Tests: warm_starts/cli/ipo.py
"""`countdown-selfplay ipo` from end to end and its bad input."""

import json

import pytest
from tests.warm_starts.cli.test_sft import moved
from transformers import AutoModelForCausalLM

from countdown_selfplay.cli.main import main
from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.countdown.rows import compact_solution
from countdown_selfplay.tiny import TINY_SPEC

QUICK = ["--disable_tqdm", "true", "--use_cpu", "true"]
LITTLE = ["--eval_problems", "16", "--eval_samples", "4"]


def test_the_model_learns_from_pairs_of_its_own_answers(tmp_path, capsys):
    out = tmp_path / "ipo"
    assert main(["ipo", "--output_dir", str(out), "--problems", "48", "--logging_steps", "1", *QUICK, *LITTLE]) == 0
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


def test_the_dry_run_counts_the_pairs_of_a_file_and_trains_nothing(tmp_path, capsys):
    rows = []
    for p in generate_problems(3, TINY_SPEC, seed=4):
        row = {"numbers": list(p.numbers), "target": p.target}
        rows += [{**row, "completion": text, "score": 0.1} for text in ("1 + 1", "1 + 2")]
        rows.append({**row, "completion": compact_solution(p), "score": 1.0})
    held = generate_problems(1, TINY_SPEC, seed=4, split="heldout")[0]
    rows.append({"numbers": list(held.numbers), "target": held.target, "completion": "1", "score": 0.1})
    path = write_rows(tmp_path / "s.jsonl", *rows)
    assert main(["ipo", "--samples_file", path, "--dry_run", "--output_dir", str(tmp_path / "run")]) == 0
    assert "10 samples (1 held-out problem) give 3 pairs" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


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
