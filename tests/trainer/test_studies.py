# Tests: studies/pool_expert_iteration.py
"""The study of pools from start to end in miniature: that it runs, goes on and refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).resolve().parents[2] / "studies"


def play(script, folder, *options):
    command = [sys.executable, str(STUDIES / script), "--quick", *options]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.nightly
def test_the_pools_study_plays_compares_and_refuses_what_is_of_another_one(tmp_path):
    arms = ["--arms", "start", "pool", "single", "fixed", "identical", "--rounds", "2"]
    code, _, err = play("pool_expert_iteration.py", tmp_path, *arms)
    assert code == 0, err[-2000:]
    root = tmp_path / "runs" / "pool-quick"
    found = {arm: json.loads((root / arm / "seed-1" / "evaluation.json").read_text()) for arm in arms[1:6]}
    # 32 problems with 32 answers each, of two provers or of one
    for result in found.values():
        prover = result["after"]["prover"]
        assert len(prover["correct"]) == 32 and prover["n"] == 32
    assert found["pool"]["samples"].keys() == {"prover/0", "prover/1", "conjecturer/0", "conjecturer/1"}
    assert found["pool"]["samples"]["prover/0"] == found["pool"]["samples"]["prover/1"] > 0
    assert found["single"]["samples"]["prover"] % 8 == 0  # twice the answers to a problem
    fixed = found["fixed"]["samples"]  # its answers within half a micro-batch of 32 a round, and no conjecturer
    assert fixed.keys() == {"prover"} and abs(fixed["prover"] - found["single"]["samples"]["prover"]) <= 2 * 16
    assert list(json.loads((root / "counts.json").read_text())["arms"]) == arms[1:6]
    text = (root / "study.md").read_text()
    assert "| pool | 2 |" in text and "each prover" in text and (root / "report.html").exists()
    code, again, _ = play("pool_expert_iteration.py", tmp_path, *arms)
    assert code == 0 and "seed 1" not in again  # nothing is played twice
    code, _, err = play("pool_expert_iteration.py", tmp_path, *arms[:-1], "3")
    assert code == 2 and "holds a finished run with rounds 2, and this study is of rounds 3" in err
    assert "Traceback" not in err
