# Tests: rewards/solve_rate.py, rewards/sgs.py, rewards/difficulty_diversity.py, rewards/learning_progress.py
"""Conjecturer rewards at points by hand, and properties of every registered one on rounds of random problems."""

import math

import numpy as np
import pytest
import torch
from tests.installed import here

from countdown_selfplay import countdown
from countdown_selfplay.countdown import DEFAULT_RULES, CountdownDomain, Problem, ProblemSpec, generate_problems
from countdown_selfplay.countdown.features import NOVELTY_FEATURES, archive_distance, scaled_features
from countdown_selfplay.games.propose_and_solve import progress_of
from countdown_selfplay.rewards import CONJECTURER_REWARDS, RewardContext, checked_rewards, make_conjecturer_reward
from countdown_selfplay.rewards.learning_progress import needs_progress
from countdown_selfplay.rewards.sgs import SGS
from countdown_selfplay.testing import ScriptedRound

PROBLEMS = generate_problems(24, seed=7)
NEEDED = {
    "sum": {"terms": [{"name": name, "weight": 0.5} for name in ("sgs", "difficulty_diversity")]},
    "product": {"factors": ["learning_progress", "difficulty_diversity"]},
    "clip": {"of": {"name": "sgs", "kwargs": {"top_of": "between"}}, "low": -0.1, "high": 0.5},
}
NAMES = here(CONJECTURER_REWARDS)


def reward(name):
    return make_conjecturer_reward(name, NEEDED.get(name))


def round_of(size, seed):
    """Rates of 8 attempts, some problems alike, half-known guide and provers, an archive of other problems."""
    draw = np.random.default_rng(seed)
    chosen = draw.choice(len(PROBLEMS), size, replace=False)
    provers = draw.integers(0, 9, (3, size)) / 8
    provers[draw.random(provers.shape) < 0.2] = np.nan
    guide = np.where(draw.random(size) < 0.3, np.nan, draw.random(size))
    archive = tuple(PROBLEMS[i].key for i in range(len(PROBLEMS)) if i % 3)
    problems = tuple(PROBLEMS[i] for i in chosen)
    return draw.integers(0, 9, size) / 8, dict(
        attempts=8, problems=problems, guide_P=guide, prover_rates_MP=provers, archive=archive,
        recent_rates=(0.2, 0.9), progress_P=draw.normal(0, 0.1, size),
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_rewards_follow_their_problems_whatever_the_order(name):
    for seed in range(4):
        rates, known = round_of(12, seed)
        order = np.random.default_rng(seed).permutation(12)
        moved = known | dict(
            problems=tuple(known["problems"][i] for i in order), guide_P=known["guide_P"][order],
            prover_rates_MP=known["prover_rates_MP"][:, order], progress_P=known["progress_P"][order],
        )  # fmt: skip
        straight = checked_rewards(reward(name), rates, RewardContext(**known))
        found = checked_rewards(reward(name), rates[order], RewardContext(**moved))
        np.testing.assert_allclose(found, straight[order], atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_reward_is_finite_on_empty_and_degenerate_rounds_and_changes_nothing_that_it_is_given(name):
    rates, known = round_of(0, 0)
    assert checked_rewards(reward(name), rates, RewardContext(**known)).shape == (0,)
    assert checked_rewards(reward(name), rates, RewardContext()).shape == (0,)
    for size in (1, 2, 7):
        _, known = round_of(size, size)
        for rates in (np.zeros(size), np.ones(size), np.full(size, 0.5), np.arange(size) % 2.0):
            for ctx in (RewardContext(**known), RewardContext(), RewardContext(attempts=1)):
                checked_rewards(reward(name), rates, ctx)
            unknown = known | dict(guide_P=np.full(size, np.nan), prover_rates_MP=np.full((2, size), np.nan))
            checked_rewards(reward(name), rates, RewardContext(**unknown))
    rates, known = round_of(9, 3)
    copies = {key: np.array(value, copy=True) for key, value in known.items() if isinstance(value, np.ndarray)}
    before = rates.copy()
    reward(name)(rates, RewardContext(**known))
    assert np.array_equal(before, rates)
    assert all(np.array_equal(copies[key], known[key], equal_nan=True) for key in copies)


P = np.array([0.0, 0.125, 0.375, 0.4, 0.5, 0.75, 0.8, 1.0])
CTX = RewardContext(attempts=8)


def test_rewards_at_points_by_hand():
    # 0.125: 1 - 2.5 * 0.275 = 0.3125; 0.375: 1 - 0.0625; 0.5: 0.75; 0.75: 0.125; zero at 0 and from 0.8 on
    expected = [0.0, 0.3125, 0.9375, 1.0, 0.75, 0.125, 0.0, 0.0]
    assert make_conjecturer_reward("tent")(P, CTX) == pytest.approx(expected)
    aggressive = make_conjecturer_reward("binary_band", {"low": 0.05, "high": 0.75})
    assert aggressive(P, CTX).tolist() == [0, 1, 1, 1, 1, 1, 0, 0]
    assert make_conjecturer_reward("binary_band")(np.array([0.05, 0.049, 0.85, 0.86]), CTX).tolist() == [1, 0, 1, 0]
    assert make_conjecturer_reward("learnability")(np.array([0, 0.25, 0.5, 1]), CTX).tolist() == [0, 0.75, 1, 0]


REWARD = make_conjecturer_reward("sgs")
TEN = np.array([0.0, 0.0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.625, 0.75, 0.875])
BETWEEN = {"top_of": "between"}
FOUR_OF_TEN = np.array([0.0] * 6 + [0.125, 0.25, 0.375, 0.5])


def guided(*scores):
    return RewardContext(guide_P=np.array(scores, dtype=float))


@pytest.mark.parametrize(("given", "rates", "wanted"), [
    # the three highest of ten are .625, .75, .875; the two unsolved earn 0; the rest 1 - p
    ({}, TEN, [0, 0, 0.875, 0.75, 0.625, 0.5, 0.5, 0, 0, 0]),
    # four of ten share the highest rate: more than 30%, so all four stay; three of ten do: dropped
    ({}, [0.25] * 6 + [0.5] * 4, [0.75] * 6 + [0.5] * 4), ({}, [0.25] * 7 + [0.5] * 3, [0.75] * 7 + [0] * 3),
    # of ten problems the three highest go; of the four rates between, those above the one at place int(.7 x 4) = 2
    ({}, FOUR_OF_TEN, [0] * 6 + [0.875, 0, 0, 0]), (BETWEEN, FOUR_OF_TEN, [0] * 6 + [0.875, 0.75, 0.625, 0]),
    # solved ones are no part of the base, and earn nothing themselves
    (BETWEEN, [0.5, 1.0, 1.0, 1.0], [0.5, 0, 0, 0]),
])  # fmt: skip
def test_r_solve_drops_the_unsolved_and_the_top_30_percent_together_or_not_at_all(given, rates, wanted):
    assert SGS(**given).solve_reward(np.array(rates)).tolist() == wanted


def test_of_few_rates_as_many_stay_as_in_the_program_and_without_a_guide_rewards_are_stretched_to_0_1():
    # of 2, 3, 5 and 8 rates 2, 3, 4 and 6 stay: places 1, 2, 3 and 5 are the last (SGS's program)
    kept = {n: int((SGS(**BETWEEN).solve_reward(np.arange(1, n + 1) / 16) > 0).sum()) for n in (1, 2, 3, 5, 8)}
    assert kept == {1: 1, 2: 2, 3: 3, 5: 4, 8: 6}
    # greatest .875, least 0
    assert REWARD(TEN, None) == pytest.approx(np.array([0, 0, 0.875, 0.75, 0.625, 0.5, 0.5, 0, 0, 0]) / 0.875)
    assert REWARD(TEN, guided(*[np.nan] * 10)).tolist() == REWARD(TEN, None).tolist()


def test_the_guide_multiplies_and_a_failed_review_counts_as_the_mean_of_the_scores():
    # R_solve .75, .5, .75 (one of three is more than 30%); x 8, 4, 2 = 6, 2, 1.5; (r - 1.5) / 4.5
    assert REWARD(np.array([0.25, 0.5, 0.25]), guided(8, 4, 2)) == pytest.approx([1, 1 / 9, 0])
    # .5 is the highest of four, 25%: dropped. Scores 8, 4, 2, mean 14/3. Products .75 x 8 = 6, 0, .75 x 2 = 1.5 and
    # .5 x 14/3 = 7/3 for the problem without a review; the scale of the guide does not matter
    p = np.array([0.25, 0.625, 0.25, 0.5])
    for scale in (1, 0.125):
        found = REWARD(p, guided(8 * scale, 4 * scale, 2 * scale, np.nan))
        assert found == pytest.approx([1, 0, 1.5 / 6, 7 / 18])
    # p = [0, .5, .25, .125 x 7] with the first review failed: it earned .778 when the mean was taken of the rewards
    p = np.array([0, 0.5, 0.25, *[0.125] * 7])
    for score in (np.nan, 0, 8):
        assert REWARD(p, guided(score, 8, *[4] * 8))[0] == 0
    assert SGS().parts(np.array([0.25, 0.25]), guided(-3, 2))["r_guide"].tolist() == [0, 2]


@pytest.mark.parametrize("rates", [[0.0] * 4, [1.0] * 4, [0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.5]])
def test_as_in_the_paper_a_batch_without_a_rate_that_earns_starves(rates):
    """Section 4.5: problems with a solve rate of 0 or 1 earn 0. The last batch has its only one in the top 30%."""
    starving = SGS(starved="paper")
    assert starving(np.array(rates)).tolist() == [0] * len(rates)
    assert starving(np.array(rates), guided(*[5] * len(rates))).tolist() == [0] * len(rates)


def test_equal_rewards_are_1_and_a_batch_that_would_starve_prefers_the_solved_or_the_guide():
    assert SGS(starved="paper")(np.full(4, 0.25)).tolist() == [1] * 4
    assert SGS(starved="paper")(np.array([0.25, 0.5, 0.25]), guided(0, 0, 0)).tolist() == [0] * 3
    for p in ([0.5] * 4, [0.0] * 4, [1.0] * 4, [0.375]):
        assert REWARD(np.array(p), None).tolist() == [1] * len(p)
    assert REWARD(np.array([0.25, 0.5]), guided(0, 0)).tolist() == [1, 1]
    # The published code gives the conjecturer no data here.
    assert REWARD(np.array([0.0, 1.0, 0.0, 1.0]), None).tolist() == [0, 1, 0, 1]
    assert REWARD(np.zeros(3), guided(8, 4, 0)).tolist() == [1, 0.5, 0]
    # one of four, 25%, is in the top 30%: R_solve would be 0 for all; it is let in again
    assert REWARD(np.array([0.0, 0.0, 0.0, 0.5]), None).tolist() == [0, 0, 0, 1]


SPEC = ProblemSpec(operands=(3, 4), number_low=1, number_high=11, target_low=1, target_high=101)
CLASSIC = Problem((3, 3, 8, 8), 24)


def test_difficulty_is_the_distance_to_the_band_and_a_repetition_is_charged_and_not_refused():
    # [.2, .6]: 0.2, 0.1, 0, 0, 0, 0.15, 0.4 away
    reward = make_conjecturer_reward("difficulty_diversity")
    p = np.array([0.0, 0.1, 0.2, 0.4, 0.6, 0.75, 1.0])
    assert reward(p, None) == pytest.approx([-0.2, -0.1, 0, 0, 0, -0.15, -0.4])
    # in the band: 0 + 0.5 * 1 for the first problem ever; 0 + 0 for a repeated one; p = 1: -0.4 on top
    reward = make_conjecturer_reward("difficulty_diversity")
    first = RewardContext(problems=(CLASSIC,), spec=SPEC)
    again = RewardContext(problems=(CLASSIC,), archive=(CLASSIC.key,), spec=SPEC)
    assert reward(np.array([0.4]), first) == pytest.approx([0.5])
    assert reward(np.array([0.4]), again) == pytest.approx([0.0])
    assert reward(np.array([1.0]), again) == pytest.approx([-0.4])
    assert make_conjecturer_reward("difficulty_diversity", {"diversity": 2.0})(np.array([0.4]), first) == [2.0]


def test_the_features_are_the_papers_13_scaled_by_the_ranges_and_finite():
    # 3, 3, 8, 8 -> 24 by 8 / (3 - 8 / 3) alone: it needs - and /, depth 3, three nodes; numbers by 11, 23 of 100
    found = dict(zip(NOVELTY_FEATURES, scaled_features([CLASSIC], SPEC, DEFAULT_RULES)[0], strict=True))
    trees = {
        "log_solutions": math.log(2) / math.log(101), "needs_add": 0, "needs_sub": 1, "needs_mul": 0, "needs_div": 1,
        "depth_min": 3 / 4, "nodes_min": 3 / 4,
    }  # fmt: skip
    numbers = {"number_1": 3 / 11, "number_2": 3 / 11, "number_3": 8 / 11, "number_4": 8 / 11, "number_5": 0}
    assert len(found) == 13 and found == pytest.approx({**trees, **numbers, "target": 0.23})
    seven = scaled_features([CLASSIC], SPEC, DEFAULT_RULES, 7)[0]
    assert seven.tolist() == pytest.approx(list(trees.values()))
    six = ProblemSpec(operands=(6,), number_high=10)
    assert scaled_features([Problem((1, 2, 3, 4, 5, 6), 21)], six, DEFAULT_RULES).shape == (1, 14)
    both = scaled_features([Problem((9, 1, 6), 14), Problem((1, 6, 9), 14)], SPEC, DEFAULT_RULES)
    assert (both[0] == both[1]).all()
    assert np.isfinite(scaled_features([Problem((1, 1, 1), 99)], SPEC, DEFAULT_RULES)).all()


def test_the_distance_is_the_root_mean_square_to_the_nearest_and_no_two_collapse_to_a_point():
    # 6 + 9 - 1 against 6 + 9 - 2: the target differs by 1 of 100, the least number by 1 of 11
    one, two = Problem((1, 6, 9), 14), Problem((2, 6, 9), 13)
    features = scaled_features([one, two], SPEC, DEFAULT_RULES)
    expected = math.sqrt((1 / 100**2 + 1 / 11**2 + ((features[0] - features[1])[:7] ** 2).sum()) / 13)
    assert archive_distance([one], [two.key], SPEC, DEFAULT_RULES) == pytest.approx([expected]) and expected > 0
    far = Problem((11, 11, 11), 99)
    assert archive_distance([one], [far.key, two.key], SPEC, DEFAULT_RULES) == pytest.approx([expected])
    problems = generate_problems(20, seed=0)
    keys = [problem.key for problem in problems]
    assert archive_distance(problems, keys, SPEC, DEFAULT_RULES).tolist() == [0] * 20
    assert archive_distance(problems, [], SPEC, DEFAULT_RULES).tolist() == [1] * 20
    assert archive_distance([], keys, SPEC, DEFAULT_RULES).shape == (0,)
    # Seed 004, section 5: with the tree features alone a third of the candidates fell on another one.
    problems = generate_problems(80, seed=1)
    keys = [problem.key for problem in problems]
    assert len(set(keys)) == 80
    for i, problem in enumerate(problems):
        assert archive_distance([problem], keys[:i] + keys[i + 1 :], SPEC, DEFAULT_RULES)[0] > 0
    for problem in [Problem((44, 19, 35), 98), Problem((7,), -3), CLASSIC]:
        again = countdown.problem_of_key(problem.key)
        assert (again.key, again.target) == (problem.key, problem.target)


RATES = np.array([0.5, 0.25, 0.0, 1.0])
KNOWN = RewardContext(progress_P=np.array([0.2, -0.4, 0.0, 0.1]))


def test_the_largest_movement_of_a_round_earns_one_in_composed_rewards_too():
    reward = make_conjecturer_reward("learning_progress")
    assert reward(RATES, KNOWN).tolist() == [0.5, 1.0, 0.0, 0.25]  # over .4
    only_up = make_conjecturer_reward("learning_progress", {"absolute": False})
    assert only_up(RATES, KNOWN).tolist() == [1.0, 0.0, 0.0, 0.5]  # over .2
    assert reward(RATES, RewardContext()).tolist() == [0.0] * 4
    still = RewardContext(progress_P=np.zeros(4))
    assert reward(RATES, still).tolist() == [0.0] * 4
    part = {"name": "learning_progress", "weight": 0.5}
    assert needs_progress(make_conjecturer_reward("sum", {"terms": ["tent", part]}))
    assert needs_progress(make_conjecturer_reward("clip", {"of": "learning_progress"}))
    assert not needs_progress(make_conjecturer_reward("product", {"factors": ["tent", "learnability"]}))
    assert not needs_progress(lambda solve_rate_P: solve_rate_P)


def test_a_problem_has_the_mean_over_right_answers_and_then_over_provers():
    """Two problems, two answers each. Prover 0: .1 and .3 on the first, none right on the second; prover 1: .4 on the
    first, -.2 on the second. Means: (.2 + .4) / 2 and -.2."""
    nan = math.nan
    moved = {"prover/0": [0.1, 0.3, nan, nan], "prover/1": [nan, 0.4, -0.2, nan]}
    domain = CountdownDomain.tiny()
    problems = [Problem((3, 5, 7), 15), Problem((2, 4, 6), 12)]
    rows = [domain.prove_row(problem) for problem in problems]
    sizes = {"prover/0": (2, 2), "prover/1": (2, 2)}
    round = ScriptedRound(lambda *_: "3+5+7", sizes, moved=lambda rollout: torch.tensor(moved[rollout.role]))
    answers = [round.sample(role, rows, problems=problems) for role in sizes]
    np.testing.assert_allclose(progress_of(round, answers, 2), [0.3, -0.2], atol=1e-7)
    np.testing.assert_allclose(progress_of(round, answers, 1), [0.3], atol=1e-7)
    assert progress_of(round.next(moved=None), answers, 2).tolist() == [0.0, 0.0]


def test_the_progress_of_the_objective_weighs_all_answers_by_their_advantages():
    """RLOO of two answers: advantages are the reward less the other's. 3+5+7 is 15: right, then wrong answers of the
    first problem (advantages 1, -1), two right ones of the second (0, 0)."""
    domain = CountdownDomain.tiny()
    problems = [Problem((3, 5, 7), 15), Problem((2, 4, 6), 12)]
    rows = [domain.prove_row(problem) for problem in problems]
    write = lambda _, row, i: "2+4+6" if row["target"] == 12 else ("3+5+7", "3")[i]  # noqa: E731
    moved = lambda rollout: torch.tensor([0.1, 0.3, 0.5, 0.7])  # noqa: E731
    round = ScriptedRound(write, {"prover": (2, 2)}, moved=moved)
    found = round.sample("prover", rows, problems=problems)
    found.rewards_B = found.correct_B
    np.testing.assert_allclose(progress_of(round, [found], 2, "objective"), [(0.1 - 0.3) / 2, 0.0], atol=1e-7)
    of = {"name": "learning_progress", "kwargs": {"of": "objective"}}
    assert needs_progress(make_conjecturer_reward("sum", {"terms": ["tent", of]})) == "objective"
