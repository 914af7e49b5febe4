# Tests: data/anchors.py, cli/joint.py, studies/four_runs_curve.py
"""studies/four_runs.py --mixes: the ablation of the share of fixed data that Allen and Ståblein ask for; and their
RQ1, answers to RLOO's pass@1, by four_runs_curve.py."""

import json
import math

import four_runs
import four_runs_curve
import pytest
from scipy import stats
from tests.cli.test_recipes_played import flags

SMALL = {
    "max_steps": "3",
    "per_device_train_batch_size": "8",
    "problems_per_round": "16",  # for 8 proposals and as many fixed problems
    "proposals_per_round": "8",
    "conjecturer_num_generations": "8",
    "eval_problems": "8",
    "eval_proposals": "16",
    "num_generations_eval": "2",
    "disable_tqdm": "true",
}


@pytest.mark.matrix
def test_the_shares_of_fixed_data_are_played_compared_and_counted(tmp_path):
    page = four_runs.compare([], four_runs.mixed([0.0, 0.5]), flags(SMALL), tmp_path, "four-runs-mixes")
    counts = json.loads((tmp_path / "four-runs-mixes-counts.json").read_text())
    assert list(counts["arms"]) == ["before", "mix-0", "mix-0.5"]
    assert [len(arm[0]["correct"]) for arm in counts["arms"].values()] == [8, 8, 8]
    rounds = {}
    for arm in ("mix-0", "mix-0.5"):
        lines = [json.loads(line) for line in (tmp_path / arm / "metrics.jsonl").read_text().splitlines()]
        rounds[arm] = [line for line in lines if "loss" in line]
        assert [line["step"] for line in rounds[arm]] == [1, 2, 3]
    assert all(line["round/anchor_slots"] == 0 for line in rounds["mix-0"])  # the conjecturer's problems alone
    mixed = [(line["round/conjectured_slots"], line["round/anchor_slots"]) for line in rounds["mix-0.5"]]
    assert all(fixed == max(own, 1) for own, fixed in mixed)  # half of the batch, without padding
    text = page.read_text()
    assert "mix-0.5" in text and "anchor_fraction" in text


def test_a_level_is_reached_between_two_checkpoints_and_tables_set_a_joint_run_against_rloo():
    curve = [(0, 0.2), (100, 0.4), (200, 0.3), (300, 0.5)]
    assert four_runs_curve.answers_to(curve, 0.3) == pytest.approx(
        50
    )  # half of the first stretch, not the later crossing
    assert four_runs_curve.answers_to(curve, 0.45) == pytest.approx(275)  # three quarters of the last
    assert four_runs_curve.answers_to(curve, 0.51) is None
    assert four_runs_curve.answers_to(curve, 0.1) == 0
    # 2, 4 and 8 times fewer: the geometric mean is 4, and the logarithms to base 2 are 1, 2, 3 with deviation 1
    half = stats.t.ppf(0.975, 2) / math.sqrt(3)
    low, high = 4 / 2**half, 4 * 2**half
    assert four_runs_curve.ratio([10, 10, 10], [20, 40, 80]) == f"4.00 [{low:.2f}, {high:.2f}]"
    assert four_runs_curve.ratio([10, None, 10], [20, 40, 80]) == "reached in 2 of 3 seeds"
    assert four_runs_curve.ratio([None], [20]) == "never reached"
    # Two problems with sixteen answers each, eight or none of them right.

    def runs(*correct):
        return [{"n": 16, "correct": [8 * a, 8 * b]} for a, b in correct]

    arms = {"before": runs((0, 0)), "rloo_80@30": runs((1, 0)), "rloo_80@80": runs((1, 1))}
    arms |= {"anchored_shaped@100": runs((1, 0))}
    answers = {"rloo_80@30": [300], "rloo_80@80": [800], "anchored_shaped@100": [100]}
    lines = four_runs_curve.tables({"arms": arms, "answers": answers}).splitlines()
    assert "| rloo_80 | 80 | 0.8 | 0.500 (0.500) | 1.000 |" in lines
    # .25 after 100 answers and after RLOO's 300; .5 never
    assert "| anchored_shaped | RLOO after 30 rounds | 0.250 | 0.1 | 0.3 | 3.00 [3.00, 3.00] |" in lines
    assert "| anchored_shaped | RLOO after 80 rounds | 0.500 | never | 0.8 | never reached |" in lines
    assert "| anchored_shaped | its own last | 0.250 | 0.1 | 0.3 | 3.00 [3.00, 3.00] |" in lines


@pytest.mark.matrix
def test_checkpoints_are_scored_with_the_answers_until_then(tmp_path, monkeypatch, capsys):
    arms = dict.fromkeys(("rloo_80", "fixed_problems"), (1, 2))
    for name, value in {"PROBLEMS": 8, "ANSWERS": 16, "LEVELS": (2,), "ARMS": arms, "SAVED": {}}.items():
        monkeypatch.setattr(four_runs_curve, name, value)
    small = {**SMALL, "max_steps": "2", "save_steps": "1", "num_generations_eval": "16"}
    small = {name: value for name, value in small.items() if not name.startswith("conjecturer")}
    words = ["--seeds", "1", "--arms", "fixed_problems", "--folder", str(tmp_path), *flags(small)]
    assert four_runs_curve.main(words) == 0
    record = json.loads((tmp_path / "four-runs-curve.json").read_text())
    # micro-batches of 8 answers, 16 of them in each of two rounds
    wanted = {f"{arm}@{step}": [step * 8 * 16] for arm in arms for step in (1, 2)}
    assert record["answers"] == wanted and list(record["arms"]) == ["before", *wanted]
    assert {(run[0]["n"], len(run[0]["correct"])) for run in record["arms"].values()} == {(16, 8)}
    assert "| fixed_problems | its own last |" in capsys.readouterr().out
