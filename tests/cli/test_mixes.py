# Tests: data/anchors.py, cli/joint.py
"""studies/four_runs.py --mixes: the ablation of the share of fixed data that Allen and Ståblein ask for."""

import json

import four_runs
import pytest

from .test_recipes_played import flags

SMALL = {
    "max_steps": "3",
    "per_device_train_batch_size": "8",
    "prover_micro_batches": "16",  # 16 problems x 8: room for 8 proposals and as many fixed problems
    "conjecturer_micro_batches": "1",
    "conjecturer_num_generations": "8",
    "eval_problems": "8",
    "eval_proposals": "16",
    "num_generations_eval": "2",
    "disable_tqdm": "true",
}


@pytest.mark.matrix
def test_the_shares_of_fixed_data_are_played_compared_and_counted(tmp_path):
    page = four_runs.compare([], [0.0, 0.5], flags(SMALL), tmp_path)
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
    assert all(fixed >= max(own, 8) and (own + fixed) % 8 == 0 for own, fixed in mixed)
    text = page.read_text()
    assert "mix-0.5" in text and "anchor_fraction" in text
