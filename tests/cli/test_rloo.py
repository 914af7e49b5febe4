# Tests: cli/commands.py
"""`countdown-selfplay rloo`: the joint trainer with the prover alone."""

import json

from countdown_selfplay.cli.main import main

from ..installed import PAGE

SHORT = ["--max_steps", "2", "--eval_problems", "16", "--num_generations_eval", "4", "--disable_tqdm", "true"]


def test_the_prover_is_trained_alone_and_leaves_the_folder_of_a_joint_run(tmp_path, capsys):
    assert main(["rloo", "--output_dir", str(tmp_path), "--save_strategy", "no", *SHORT]) == 0
    out = capsys.readouterr().out
    assert "prover pass@1" in out and "conjecturer" not in out
    names = {path.name for path in tmp_path.iterdir()}
    assert {"metrics.jsonl", "samples.jsonl", "run.json", "evaluation.json", "prover", *PAGE} <= names
    assert "conjecturer" not in names
    rounds = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    logged = {name for line in rounds for name in line}
    assert "prover/solve_rate" in logged or any(name.startswith("prover/") for name in logged)
    assert not any(name.startswith("conjecturer/") for name in logged)


def test_a_joint_recipe_gives_its_single_policy_baseline(tmp_path, capsys):
    arguments = ["--recipe", "tiny/default", "--prover_objective", "rloo", "--dry_run"]
    arguments += ["--output_dir", str(tmp_path / "run")]
    assert main(["rloo", *arguments]) == 0
    out = capsys.readouterr().out
    assert "prover: 16 problems x 16 = 256 answers" in out
    assert "problems per round: 16, at least 16 anchors, up to 0 proposals" in out
