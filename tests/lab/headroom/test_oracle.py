# Tests: lab/headroom/measure.py, lab/headroom/runs.py
"""The oracle's search on runs whose counts are given: what it tries, what it measures on, and what it plays."""

from pathlib import Path

from countdown_selfplay.lab.headroom.measure import candidates, gain, search
from countdown_selfplay.lab.headroom.runs import Measured

TUNING = {rung: ["t"] * 2 for rung in (3, 4, 5, 6, 7)}
HELD_OUT = {rung: ["h"] * 2 for rung in TUNING}


class ScriptedRuns:
    """Every run ends with two of four answers right on rungs 3 and 4, and, after a probe of rung r, r of them more on
    rung 5: trained on 4 it gains more than on 3."""

    rungs, rounds, seed, group, tuning = [3, 4, 5, 6, 7], 4, 0, 2, TUNING

    def __init__(self):
        self.played, self.dropped = [], []

    def play(self, name, changes, measured, *, start=None, rounds=None, keep=False):
        self.played.append((name, changes.get("proposer_kwargs", {}), start, rounds))
        solved = {rung: [2, 2] if rung < 5 else [0, 0] for rung in self.rungs}
        if name.startswith("probe"):
            assert all(one.problems.keys() == {4, 5, 6} for one in measured)  # above the lowest, to two above rung 4
            solved[5] = {3: [0, 1], 4: [1, 2]}[changes["proposer_kwargs"]["rungs"][0]]
        if self.rounds != rounds:
            assert all("h" not in own for one in measured for own in one.problems.values())
        found = [{rung: solved[rung] for rung in one.problems} for one in measured]
        return found, Path(f"checkpoint-{rounds}") if keep else None

    def drop(self, name):
        self.dropped.append(name)


def test_each_stage_tries_the_rungs_within_reach_and_plays_by_what_they_gained():
    runs = ScriptedRuns()
    (found,), gains = search(runs, [Measured(HELD_OUT, 4, 0)], stage=2, probe=1, n=4)
    assert found.keys() == HELD_OUT.keys()
    # pass@1 on rung 5 rises from 0 to the mean of 0/4 and 1/4, or of 1/4 and 2/4.
    assert gains == {0: {3: 0.125, 4: 0.375}, 2: {3: 0.125, 4: 0.375}}
    table = {"0": {"3": 0.125, "4": 0.375}}
    assert runs.played == [
        ("oracle_gain", {}, None, 0), ("probe_0_3", {"rungs": [3]}, None, 1), ("probe_0_4", {"rungs": [4]}, None, 1),
        ("oracle_gain", {"gains": table}, None, 2), ("probe_2_3", {"rungs": [3]}, Path("checkpoint-2"), 3),
        ("probe_2_4", {"rungs": [4]}, Path("checkpoint-2"), 3),
        ("oracle_gain", {"gains": {**table, "2": table["0"]}}, Path("checkpoint-2"), 4),
    ]  # fmt: skip
    assert runs.dropped == ["probe_0_3", "probe_0_4", "probe_2_3", "probe_2_4"]


def test_candidates_have_the_most_mixed_groups_and_gains_are_summed_over_rungs_measured_after():
    # Pairs of four answers: mixed by 1/2, 2/3, 1/2 for 1, 2, 3 right ones. Seven rungs have some; five are tried.
    counts = {3: [4], 4: [3], 5: [2], 6: [2], 7: [1], 8: [1, 0], 9: [1, 0], 10: [1, 0, 0], 11: [0]}
    assert candidates(counts, 4, 2) == [4, 5, 6, 7, 8]
    assert candidates({3: [0], 4: [0]}, 4, 2) == [3]
    # Rung 4 from 1/4 to 3/4, rung 5 from 1/4 to 0; rung 3 was not measured.
    assert gain({3: [4], 4: [1], 5: [1]}, {4: [3], 5: [0]}, 4) == 0.25
