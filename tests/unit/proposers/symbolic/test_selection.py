# Tests: proposers/symbolic/selection.py
"""R_gen and the four rules of seed 004, by hand; the buffer, the reservoir and the archive behind them."""

import numpy as np
import pytest

from countdown_selfplay.proposers.symbolic.selection import (
    Nearest,
    NoveltyArchive,
    ProblemReplay,
    Reservoir,
    Selection,
)

# too hard by .2, in the band, in the band and near the archive, too easy by .4 and new
P = np.array([0.0, 0.4, 0.5, 1.0])
DIVERSITY = np.array([0.3, 0.2, 0.0, 1.0])


def test_the_score_is_minus_the_distance_to_the_band_and_hard_band_refuses_by_it_first():
    assert Selection().reward(P, DIVERSITY) == pytest.approx([-0.2 + 0.15, 0.1, 0.0, -0.4 + 0.5])
    assert Selection().bounds == (-0.4, 0.5)
    found = Selection("hard_band").select(P, DIVERSITY, 3, seed=0)
    assert found.verdicts == ["too_hard", "admitted", "low_diversity", "too_easy"] and found.chosen.tolist() == [1]
    edges = Selection("hard_band").select(np.array([0.2, 0.6]), np.array([0.01, 0.01]), 2, seed=0)
    assert edges.verdicts == ["admitted", "admitted"]  # both ends and the threshold belong to it


@pytest.mark.parametrize(("rule", "p", "diversity", "count", "chosen"), [
    ("top_k", P, DIVERSITY, 3, [1, 3, 2]),  # scores -.05, .1, 0, .1: the first of equals
    # charged three times, where twice or four times would be another order: -3 x .3 + .45 = -.45, -3 x .2 + .1 =
    # -.5; and in the band 0 - 3 x .01 for what is missing of diversity, beside -3 x .01 + .01 = -.02
    ("soft_penalty", np.array([0.9, 0.8, 0.4, 0.61]), np.array([0.9, 0.2, 0.0, 0.02]), 4, [3, 2, 0, 1]),
])  # fmt: skip
def test_rules_that_refuse_nothing_take_the_best(rule, p, diversity, count, chosen):
    found = Selection(rule).select(p, diversity, count, seed=0)
    assert found.chosen.tolist() == chosen and set(found.verdicts) == {"admitted"}


def test_the_reservoir_keeps_the_newest_and_draws_evenly_from_three_strata():
    reservoir = Reservoir(100)
    p = np.array([0.1] * 2 + [0.2] + [0.4] * 18 + [0.6] + [0.9] * 20)  # both ends belong to the band
    reservoir.add([f"{i}" for i in range(42)], p)
    drawn = [int(key) for key in reservoir.draw(12, 0.2, 0.6, seed=0)]
    # two too hard are all there are; the other ten are shared by the other two
    assert [sum(i < 2 for i in drawn), sum(2 <= i < 22 for i in drawn), sum(i >= 22 for i in drawn)] == [2, 5, 5]
    assert len(reservoir.keys) == 30 and not {f"{i}" for i in drawn} & set(reservoir.keys)
    assert len(reservoir.draw(99, 0.2, 0.6, seed=0)) == 30 and len(reservoir.keys) == 0
    reservoir = Reservoir(3)
    reservoir.add(["a", "b", "c"], np.array([0.1, 0.2, 0.3]))
    reservoir.add(["b", "d"], np.array([0.9, 0.4]))
    assert reservoir.keys == ["c", "b", "d"] and reservoir.p_R.tolist() == [0.3, 0.9, 0.4]
    again = Reservoir(3)
    again.load_state_dict(reservoir.state_dict())
    assert again.keys == reservoir.keys and (again.p_R == reservoir.p_R).all()


def test_the_buffer_draws_alike_or_by_weights_and_sampled_selection_by_the_score():
    band = Selection()
    replay = ProblemReplay()
    keys = ["unsolvable", "in the band", "always solved"]
    replay.add(keys, [0.0, 0.4, 1.0], ["x"] * 3, now=-90, band=band)
    replay.entries["in the band"].added = 0
    first = [replay.draw(1, 0, band, seed)[0].key for seed in range(4000)]
    for key in keys:  # a third each; standard error sqrt(1/3 x 2/3 / 4000) = .0075
        assert first.count(key) / 4000 == pytest.approx(1 / 3, abs=0.025)
    band = Selection()
    replay = ProblemReplay(capacity=10, half_life=50, softness=0.2)
    replay.add(["old", "young", "easy"], [0.4, 0.4, 0.8], ["x"] * 3, now=0, band=band)
    replay.entries["old"].added = -50
    # weights 1/2, 1 and 1/e
    first = [replay.draw(1, 0, band, seed)[0].key for seed in range(4000)]
    total = 0.5 + 1 + np.exp(-1)
    for key, weight in (("old", 0.5), ("young", 1), ("easy", np.exp(-1))):
        assert first.count(key) / 4000 == pytest.approx(weight / total, abs=0.025)
    assert len(replay.draw(9, 0, band, 0)) == 3  # each once
    rule = Selection("sampled", temperature=0.1)
    p, diversity = np.array([0.4, 0.4]), np.array([0.2, 0.0])  # scores .1 and 0: odds of e to 1
    first = [rule.select(p, diversity, 1, seed).chosen[0] for seed in range(4000)]
    assert np.mean(np.array(first) == 0) == pytest.approx(np.e / (1 + np.e), abs=0.025)
    assert sorted(rule.select(p, diversity, 2, 0).chosen) == [0, 1]


def test_a_full_buffer_drops_the_oldest_or_what_weighs_least():
    replay = ProblemReplay(capacity=3)
    replay.add(["a", "b"], [0.4, 0.4], ["x"] * 2, now=0, band=Selection())
    replay.add(["c", "d"], [0.0, 1.0], ["x"] * 2, now=10, band=Selection())
    assert list(replay.entries) == ["a", "c", "d"]
    band = Selection()
    replay = ProblemReplay(capacity=2, half_life=10, softness=0.2)
    replay.add(["a", "b", "c"], [0.0, 0.4, 0.5], ["x", "y", "z"], now=0, band=band)
    assert list(replay.entries) == ["b", "c"]
    replay.entries["b"].p, replay.entries["b"].measured = 0.75, True
    again = ProblemReplay(capacity=2, half_life=10, softness=0.2)
    again.load_state_dict(replay.state_dict())
    assert again.entries == replay.entries
    weights = ProblemReplay(half_life=0, softness=0)._log_weights(list(again.entries.values()), 9, band)
    assert weights.tolist() == [0, 0]


@pytest.mark.parametrize("total", [1, 1500, 6000])
def test_distances_are_those_of_a_search_through_all(total):
    generator = np.random.default_rng(total)
    known, points = generator.random((total, 5)), generator.random((40, 5))
    points[0] = known[0]
    index = Nearest(5)
    for start in range(0, total, 1500):
        index.add(known[start : start + 1500])
    found = index.distance(points)
    brute = np.sqrt(((points[:, None] - known[None]) ** 2).sum(2)).min(1)
    assert found == pytest.approx(brute, abs=1e-12) and found[0] == 0
    at_once = Nearest(5)
    at_once.add(known)
    assert (at_once.distance(points) == found).all()  # a resumed run adds all at once
    assert np.array_equal(index.points_AF, known) and len(index) == total


def test_the_archives_distance_is_the_root_mean_square_and_1_without_a_point():
    archive = NoveltyArchive(7)
    archive.add(["a"], np.zeros((1, 7)))
    point = np.zeros((1, 7))
    point[0, :2] = 0.6, 0.8  # length 1, over the root of 7 columns
    assert archive.distance(point) == pytest.approx([1 / 7**0.5])
    assert "a" in archive and "b" not in archive and len(archive) == 1
    assert Nearest(3).distance(np.zeros((2, 3))).tolist() == [np.inf] * 2
    assert NoveltyArchive(7).distance(np.zeros((2, 7))).tolist() == [1.0] * 2
    index = Nearest(4)
    index.add(np.repeat(np.eye(4), 5000, axis=0))
    assert index.distance(np.zeros((1, 4))).tolist() == [1.0] and len(index) == 20_000


def test_a_saved_archive_comes_back():
    archive = NoveltyArchive(7)
    archive.open({"rules": {"use_all": True}, "prover_prompt": "compact"})
    archive.add(["a", "b"], np.random.default_rng(0).random((2, 7)))
    again = NoveltyArchive(7)
    again.load_state_dict(archive.state_dict())
    point = np.full((1, 7), 0.3)
    assert again.listed == ["a", "b"] and (again.distance(point) == archive.distance(point)).all()
    again.open({"rules": {"use_all": True}, "prover_prompt": "tinyzero"})  # a prompt changes no distance
