# Tests: distributed/launch.py
"""`accelerate launch --num_processes 2 --cpu` starts one process: the program refuses to be that one."""

from pathlib import Path

import pytest

from .two_processes import started

pytestmark = pytest.mark.distributed

PROGRAM = str(Path(__file__).parents[2] / "examples" / "joint_rloo.py")


def test_one_process_in_the_place_of_two_is_refused_before_anything_is_written(tmp_path):
    launch = ["-m", "accelerate.commands.accelerate_cli", "launch", "--num_processes", "2", "--cpu"]
    done = started([*launch, PROGRAM, "--output_dir", str(tmp_path / "run"), "--max_steps", "1"])
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if "countdown_selfplay.errors.ConfigError: " in line]
    assert len(said) == 1 and "was asked for 2 processes and has started one" in said[0]
    assert f"ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes 2 {PROGRAM}" in said[0]
    assert not (tmp_path / "run").exists()
