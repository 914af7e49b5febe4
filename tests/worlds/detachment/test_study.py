# Tests: studies/detachment.py
"""What the tables of the study of detachment count."""

import json

import detachment as study


def test_unproved_targets_and_differences_between_arms_are_counted_by_seed(tmp_path):
    rows = [{"theorem": "CpCqp", "right": 3}, {"theorem": "CNpCpq", "right": 0}, {"theorem": "Cpp", "right": 0}]
    (tmp_path / "targets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    keys = study.unproved(tmp_path)
    assert keys == ["CNpCpq", "Cpp"]
    # one of the two is solved in round 2; the one that the start proves does not count
    assert study.rates({"CpCqp": 1, "CNpCpq": 2, "Cpp": None}, keys, 3) == [0.0, 0.5, 0.5]
    solved = {"sgs": [[0.1, 0.4], [0.1, 0.6]], "reinforce_half": [[0.1, 0.1], [0.1, 0.3]]}
    cost = {arm: [{"answers": 512, "steps": 2}] * 2 for arm in solved}
    lines = study.of_targets(solved, cost)
    assert "| sgs | 512 | 2 | 0.100 | 0.500 | 0.400, 0.600 |" in lines
    # means .5 and .2; each side's t interval with 1 degree of freedom is 12.706 x .1, and sqrt(2) of it is 1.797
    assert lines[-1] == "| sgs less reinforce_half | +0.300 [-1.497, +2.097] |"
