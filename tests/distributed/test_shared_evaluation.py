"""Two processes share the evaluations of `joint` before, in and after training, and both would hang or die of the time
limit if one of them worked alone or made another number of batches."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.distributed

DEADLINE = 240


def test_two_processes_share_the_evaluation_of_an_odd_number_of_problems(tmp_path):
    """33 problems do not divide by 2, and batches of 8 answers do not divide the shares: 5 against 4 without care. The
    time limit of collectives is a minute."""
    command = [sys.executable, "-m", "countdown_selfplay.cli.main", "joint", "--num_processes", "2"]
    command += ["--output_dir", str(tmp_path), "--max_steps", "2", "--eval_problems", "33", "--eval_proposals", "31"]
    command += ["--num_generations_eval", "4", "--per_device_eval_batch_size", "8", "--ddp_timeout", "60"]
    command += ["--eval_strategy", "steps", "--eval_steps", "1"]
    command += ["--report", "false", "--save_strategy", "no", "--guard", "false"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.run(command, env=environment, timeout=DEADLINE, capture_output=True, text=True)
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
