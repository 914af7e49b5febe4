# Tests: distributed/launch.py, evaluation/roles.py, training/evaluation.py
"""`accelerate launch --num_processes 2 --cpu` starts one process: the program refuses to be that one."""

import json
from pathlib import Path

import pytest

from .two_processes import started

pytestmark = pytest.mark.distributed

PROGRAM = str(Path(__file__).parents[2] / "examples" / "joint_rloo.py")


def test_one_process_in_the_place_of_two_is_refused_before_anything_is_written(tmp_path):
    launch = ["-m", "accelerate.commands.accelerate_cli", "launch", "--num_processes", "2", "--cpu"]
    done = started([*launch, PROGRAM, "--output_dir", str(tmp_path / "run"), "--max_steps", "1"])
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if "joint_rloo.py: error: " in line]
    assert len(said) == 1 and "was asked for 2 processes and has started one" in said[0]
    assert f"ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes 2 {PROGRAM}" in said[0]
    assert not (tmp_path / "run").exists()


# Two processes share the evaluations of `joint` before, in and after training, and both would hang or die of the
# time limit if one of them worked alone or made another number of batches.


def test_two_processes_share_the_evaluation_of_an_odd_number_of_problems(tmp_path):
    """33 problems do not divide by 2, and batches of 8 answers do not divide the shares: 5 against 4 without care. The
    time limit of collectives, ten minutes, ends what would hang."""
    command = ["-m", "countdown_selfplay.cli.main", "joint", "--num_processes", "2"]
    command += ["--output_dir", str(tmp_path), "--max_steps", "2", "--eval_problems", "33", "--eval_proposals", "31"]
    command += ["--num_generations_eval", "4", "--per_device_eval_batch_size", "8", "--ddp_timeout", "600"]
    command += ["--eval_strategy", "steps", "--eval_steps", "1"]
    command += ["--report", "false", "--save_strategy", "no", "--guard", "false"]
    process = started(command)
    assert process.returncode == 0, process.stderr[-3000:]
    assert json.loads((tmp_path / "run.json").read_text())["environment"]["processes"] == 2
    result = json.loads((tmp_path / "evaluation.json").read_text())
    for when in ("before", "after"):
        prover, conjecturer = result[when]["prover"], result[when]["conjecturer"]
        assert len(prover["correct"]) == 33 == len(set(prover["keys"])) and max(prover["correct"]) <= 4
        assert sum(prover["reasons"].values()) == 33 * 4 and sum(conjecturer["reasons"].values()) == 31
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    evaluations = [line for line in lines if "eval_pass@1" in line]
    assert [line["eval_problems"] for line in evaluations] == [33, 33]
    assert process.stdout.count("Evaluating before training") == 1  # by one process
    assert f"2 processes on cpu: {tmp_path}" in process.stdout.splitlines()
