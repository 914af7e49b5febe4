# Tests: studies/detachment.py
"""The study of detachment in small: two rounds of three arms, and what the tables count."""

import json

import detachment as study
import pytest
from many_runs import run_folder

from countdown_selfplay.errors import DataError
from countdown_selfplay.lab.compare import read_counts

pytestmark = pytest.mark.matrix  # three runs, 15 s
ROUNDS = {"replay": 1, "targets": 2}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    study.targets(root, 40)
    for arm in ("replay", "sampling", "sgs"):
        study.run((arm, 0, root, ROUNDS, 4))
    return root


def test_arms_have_equal_answers_and_are_scored_on_the_same_theorems(played):
    text = study.table(played, ["replay", "sampling", "sgs"], [0])
    cost = json.loads((played / "counts.json").read_text())["cost"]
    # 64 theorems x 8 answers; two rounds of 32 theorems x 8
    assert {arm: own[0]["answers"] for arm, own in cost.items()} == {"replay": 512, "sampling": 512, "sgs": 512}
    rows = [json.loads(line) for line in (run_folder(played, "sgs", 0) / "metrics.jsonl").read_text().splitlines()]
    made = [row["round/generations"] for row in rows if "round/generations" in row]
    assert [made[1] - made[0], made[0]] == [256 + 16, 256 + 16]  # of the prover, and a lemma for each of 16 targets
    arms = read_counts(played / "counts.json")
    assert [arm.name for arm in arms] == ["start", "replay", "sampling", "sgs"]
    assert all(len(arm.results[0].correct) == 4 and arm.results[0].n == 32 for arm in arms)
    assert arms[2].results[0].correct == arms[0].results[0].correct  # a rate of 0: the start's answers again
    names = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert names == ["| arm (1 seeds)", "| start", "| replay", "| sampling", "| sgs", "| arm", "| sampling", "| sgs"]


def test_a_finished_run_is_not_played_again_and_one_of_other_rounds_is_refused(played):
    before = (run_folder(played, "sgs", 0) / "metrics.jsonl").stat().st_mtime_ns
    study.run(("sgs", 0, played, ROUNDS, 4))
    assert (run_folder(played, "sgs", 0) / "metrics.jsonl").stat().st_mtime_ns == before
    with pytest.raises(DataError, match="a finished run with rounds 2, and this study is of rounds 3"):
        study.run(("sgs", 0, played, {"replay": 1, "targets": 3}, 4))


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
