# Tests: statistics/solved.py, lab/scaling.py
"""A run folder says in which round each problem of the data set was first solved."""

import json
from pathlib import Path

import pytest
from tests.trainer.conftest import make_trainer, rounds

from countdown_selfplay.data.anchors import problem_keys
from countdown_selfplay.lab.scaling import load_curve


def test_the_logged_curve_is_counted_again_from_the_record_also_after_a_resume(tmp_path):
    straight = make_trainer(tmp_path / "straight", max_steps=4, save_strategy="steps", save_steps=2)
    straight.train()
    folder = Path(straight.args.output_dir)
    record = json.loads((folder / "first_solved.json").read_text())
    asked = set(problem_keys(straight.train_dataset, straight.domain))
    assert record["rounds"] == 4 and set(record["first_solved"]) == asked
    curve, _, _ = load_curve(str(folder), None, None)
    logged = [line["round/cumulative_solve_rate"] for line in rounds(folder)]
    assert curve.rate.tolist() == pytest.approx(logged) and 0 < logged[0] < logged[-1]
    assert curve.compute.tolist() == [48, 96, 144, 192] and curve.problems is not None
    resumed = make_trainer(tmp_path / "resumed", max_steps=4)
    resumed.train(resume_from_checkpoint=str(folder / "checkpoint-2"))
    assert json.loads((Path(resumed.args.output_dir) / "first_solved.json").read_text()) == record
