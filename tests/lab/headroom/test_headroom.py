# Tests: lab/headroom/gates.py, lab/headroom/settings.py, lab/headroom/measure.py, lab/headroom/runs.py
"""The four gates on counts worked out by hand, the oracle's search on scripted runs, and what is measured on what."""

from itertools import product
from math import comb
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.lab.headroom import gates
from countdown_selfplay.lab.headroom import runs as module
from countdown_selfplay.lab.headroom.gates import frontier, frontier_rung, head_room, support, transfer, verdict
from countdown_selfplay.lab.headroom.measure import candidates, gain, search
from countdown_selfplay.lab.headroom.runs import Measured, Runs, Stop


def test_support_wants_the_lowest_rung_solved_and_the_highest_never_and_counts_mixed_draws():
    # pass@4 of 4 answers is 1 with any right one: 2 of 4 problems on rung 3, so .5; on rung 5 none.
    open_ = support({3: [1, 0, 4, 0], 5: [0, 0]}, 4)
    assert open_.open and open_.figures == {"pass@4": {"3": 0.5, "5": 0.0}}
    assert not support({3: [1, 0, 0, 0], 5: [0, 0]}, 4).open  # .25 is less than .3
    assert support({3: [1, 0, 0, 0], 5: [0, 0]}, 4, lowest_needs=0.25).open
    assert not support({3: [4, 4], 5: [0, 1]}, 4).open  # the highest is solved once
    # Two of four answers: with one right 3 of the 6 pairs hold it, with two right 4 of 6, with three 3 of 6.
    assert gates.mixed_chance(4, 2) == pytest.approx([0, 1 / 2, 2 / 3, 1 / 2, 0])


def test_a_frontier_is_thin_and_moves_not_by_chance_alone():
    # Four rungs of eight problems; n = 4, groups of 2. Before: 1/2 on rung 3 alone, a share of 1/8. After: 1/2 on 4.
    before = {3: [1] * 8, 4: [0] * 8, 5: [0] * 8, 6: [0] * 8}
    after = {**before, 3: [4] * 8, 4: [1] * 8}
    gate = frontier(before, after, 4, 2)
    assert gate.open and gate.figures["share"] == [1 / 8, 1 / 8] and gate.figures["moved"] == 1.0
    assert not frontier(before, before, 4, 2).open  # it does not move
    assert not frontier(before, after, 4, 2, thin=0.125).open  # not less than 12.5%
    # From 1/2 on rung 3 to 2/3 there and 1/2 on rung 4, shares 4/7 and 3/7: 3/7 has moved.
    assert frontier(before, {**after, 3: [2] * 8}, 4, 2).figures["moved"] == pytest.approx(3 / 7)
    nothing = {rung: [0] * 8 for rung in before}
    assert frontier(nothing, nothing, 4, 2).figures["moved"] == 0.0
    came = frontier(nothing, after, 4, 2)
    assert came.figures["moved"] == 1.0 and not came.open  # no start to climb from
    # One problem of each rung. Swapped or not, one of the two has a share of 1 where the other has none: always 1.
    gate = frontier({3: [1], 4: [0], 5: [0], 6: [0]}, {3: [0], 4: [1], 5: [0], 6: [0]}, 4, 2)
    assert gate.figures["moved"] == gate.figures["moved_by_chance"] == 1.0 and not gate.open
    # Eight of each, s and t of which are swapped, both binomial (8, 1/2): |(8 - s) / (8 - s + t) - s / (s + 8 - t)|.
    gate = frontier({3: [1] * 8, 4: [0] * 8}, {3: [0] * 8, 4: [1] * 8}, 4, 2, thin=0.5)
    weight = [comb(8, s) for s in range(9)]
    found = sorted(
        (abs((8 - s) / (8 - s + t) - s / (s + 8 - t)), weight[s] * weight[t])
        for s, t in product(range(9), repeat=2)
        if 0 < 8 - s + t < 16
    )
    found.append((1.0, 2))  # all or none is swapped
    shares = np.cumsum([w for _, w in found]) / 2**16
    low, high = (found[int(np.searchsorted(shares, q))][0] for q in (0.93, 0.97))
    assert low <= gate.figures["moved_by_chance"] <= high < 1


def test_the_rung_that_is_trained_on_is_the_upper_edge_of_the_frontier_and_without_one_nothing_is_transferred():
    # Shares of 1/2, 2/3 and 1/2 on 3 to 5, as above; 6 to 8 have no three above them.
    counts = {3: [1], 4: [2], 5: [1], 6: [2], 7: [2], 8: [2]}
    assert frontier_rung(counts, 4, 2) == 5
    assert frontier_rung(counts, 4, 2, enough=0.6) == 4  # alone above .6
    assert frontier_rung(counts, 4, 2, enough=0.9) == 4  # none is: the one with the most
    assert frontier_rung({3: [4], 4: [0], 5: [0], 6: [2]}, 4, 2) is None
    gate = transfer({}, {}, None, 4, 1)
    assert not gate.open and gate.figures == {}


@pytest.mark.parametrize(("near", "far", "is_open", "said"), [
    ([4] * 8, [0] * 8, True, "reaches the next rung and not the third"),
    ([4] * 8, [4] * 8, False, "need no curriculum"),
    ([0] * 8, [0] * 8, False, "nothing carries upwards"),
])  # fmt: skip
def test_transfer_is_banded_where_the_next_rung_rises_and_the_third_does_not(near, far, is_open, said):
    before = {rung: [0] * 8 for rung in (3, 4, 5, 6)}
    gate = transfer(before, {**before, 4: near, 6: far}, 3, 4, 1)
    assert gate.open is is_open and said in gate.found
    assert gate.figures["pass@1"]["4"][0] == float(np.mean(near)) / 4  # pass@1 of c right answers of 4 is c / 4


def test_head_room_is_the_lead_over_the_best_control_above_the_lowest_rung():
    # pass@1 over rungs 4 and 5: oracle (1 + 1/2) / 2 = .75, uniform (1/2 + 0) / 2 = .25, frozen 0. Rung 3 is not read,
    # and rung 6, where no arm has a right answer, is in no mean.
    counts = {"oracle": (0, 4, 2, 0), "uniform": (4, 2, 0, 0), "frozen": (4, 0, 0, 0)}
    arms = {arm: {rung: [c] * 8 for rung, c in zip((3, 4, 5, 6), own, strict=True)} for arm, own in counts.items()}
    gate = head_room(arms, ["uniform", "frozen"], "oracle", 4, 1)
    assert gate.open and gate.figures["best_control"] == "uniform" and gate.figures["ahead"][0] == 0.5
    assert gate.figures["rungs"] == [4, 5]
    assert gate.figures["mean_pass_at"]["oracle"] == {"1": 0.75}
    tied = {**arms, "frozen": arms["oracle"]}
    assert not head_room(tied, ["uniform", "frozen"], "oracle", 4, 1).open
    assert head_room(arms, ["uniform"], "oracle", 4, 1, margin=0.9).word == "shut"


def test_the_verdict_names_what_is_shut_or_undecided():
    open_ = support({3: [4], 5: [0]}, 4)
    shut = support({3: [0], 5: [0]}, 4)
    said = "in this setting: gate 1 (zero support at the top, known atoms at the bottom) is shut."
    assert verdict([open_, shut]) == f"A curriculum can hardly pay {said}"
    assert "can pay" in verdict([open_] * 4)
    assert verdict([open_]).endswith("all gates that were measured (1) are open.")
    # On rung 4 one of eight problems has all answers right instead of none, the others none: +1/8, and a resample
    # without that problem, (7/8)^8 = .34 of them, gives 0; one that draws it three times, 3/8.
    arms = {"oracle": {3: [4] * 8, 4: [4] + [0] * 7}, "uniform": {3: [4] * 8, 4: [0] * 8}}
    gate = head_room(arms, ["uniform"], "oracle", 4, 1)
    assert gate.word == "undecided" and gate.figures["ahead"][0] == 0.125 and gate.figures["ahead"][1] <= 0
    assert "undecided" in verdict([gate])


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


class Few(BaseDomain):
    """Six problems of each rung, always in the same order, and no held-out side."""

    rungs = (1, 2)

    def key(self, problem):
        return "/".join(map(str, problem))

    def rung(self, problem):
        return problem[0]

    def random_of_rung(self, n, rung, seed, exclude):
        return [p for p in ((rung, i) for i in range(6)) if self.key(p) not in exclude][:n]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(module, "domain_from", lambda config: Few())
    return lambda problems: Runs(
        lambda changes: (JointSelfPlayConfig.from_recipe("tiny/ladder", **changes), {}), Path("unused"), 2, problems
    )


def test_no_held_out_problem_is_a_tuning_problem_and_a_rung_without_any_is_refused(few):
    runs = few(3)
    assert runs.held_out == {rung: [(rung, i) for i in (0, 1, 2)] for rung in (1, 2)}
    assert runs.tuning == {rung: [(rung, i) for i in (3, 4, 5)] for rung in (1, 2)}
    assert runs.group == 8 and runs.trained_conjecturer  # of recipe tiny/ladder
    with pytest.raises(ConfigError, match="makes no training problem of rung 1"):
        few(6)


@pytest.mark.parametrize("save", [True, False])
def test_a_run_stops_at_its_step_with_a_checkpoint_only_where_it_goes_on(save):
    for step in (3, 4):
        seen = SimpleNamespace(global_step=step, should_training_stop=False, should_save=False)
        Stop(4, save).on_step_end(None, seen, seen)
        assert (seen.should_training_stop, seen.should_save) == (step == 4, save and step == 4)
