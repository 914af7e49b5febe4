# Tests: lab/compare.py, lab/scaling_fit.py, statistics/solved.py
"""Intervals over training seeds, and the sigmoid fit, against hand-derived widths and known curves."""

import re

import numpy as np
import pytest
from tests import real_counts as real

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.evaluation import ScalingFit, fit_scaling_curve, paired_bootstrap, two_level_bootstrap
from countdown_selfplay.lab.compare import Arm, Result, compare_arms
from countdown_selfplay.lab.scaling_fit import ScalingCurve
from countdown_selfplay.statistics.bootstrap import t_interval, t_quantile, two_level_draws


@pytest.mark.parametrize(
    ("share", "freedom", "printed"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 3, 3.182), (0.975, 4, 2.776), (0.975, 9, 2.262),
     (0.975, 10, 2.228), (0.975, 30, 2.042), (0.975, 120, 1.980), (0.95, 5, 2.015), (0.995, 1, 63.657),
     (0.995, 2, 9.925), (0.995, 4, 4.604), (0.9995, 1, 636.619), (0.9995, 4, 8.610), (0.025, 4, -2.776)],
)  # fmt: skip
def test_students_quantiles_are_those_of_printed_tables(share, freedom, printed):
    """Fisher and Yates, Statistical Tables, table III."""
    assert float(t_quantile(share, freedom)) == pytest.approx(printed, abs=6e-4)


def test_students_intervals_of_many_values_and_of_three():
    assert float(t_quantile(0.975, 1e8)) == pytest.approx(1.959964, abs=1e-5)
    assert 2.776 < float(t_quantile(0.975, 3.5)) < 3.182
    assert t_quantile(np.array([0.25, 0.5]), 1).tolist() == pytest.approx([-1, 0])  # tan(-45 degrees), tan 0
    # 1, 2, 6: mean 3, standard deviation sqrt((4 + 1 + 9) / 2) = sqrt(7), half-width 4.3027 sqrt(7 / 3) = 6.5724
    found = t_interval([1, 2, 6])
    assert (found.value, found.low, found.high) == pytest.approx((3, 3 - 6.5724, 3 + 6.5724), abs=1e-4)
    # 0 and 1 alternating, 20 degrees of freedom: t = 2.0860 in every table
    many = t_interval([0, 1] * 10 + [0])
    assert many.high - many.value == pytest.approx(2.0860 * np.std([0, 1] * 10 + [0], ddof=1) / 21**0.5, rel=2e-4)


def test_one_seed_per_method_or_seeds_that_agree_leave_the_interval_over_problems():
    two, one = two_level_bootstrap([real.SFT], [real.IPO], 16), paired_bootstrap(real.SFT, real.IPO, 16)
    assert two.to_dict() == pytest.approx(one.to_dict(), abs=1e-12)
    # Both seeds have the same counts: V = 0 and no residual, so only problems move the difference.
    found = two_level_bootstrap([real.SFT] * 2, [real.IPO] * 2, 16)
    assert found.to_dict() == pytest.approx(paired_bootstrap(real.SFT, real.IPO, 16).to_dict(), abs=1e-12)


def test_two_seeds_of_one_side_widen_what_drawing_them_gives_by_root_two_times_t_over_z():
    """All problems alike, so only seeds matter. b: one run solves all, one none. Drawing b's two seeds gives their
    mean the variance .5^2 / 2, with the normal quantile a half-width of 1.960 x .35355 = .69296. The sample variance
    of the two is .5 and t with one degree of freedom 12.706: 12.706 sqrt(.5 / 2) = 6.353, which is sqrt(2) x 12.706 /
    1.960 = 9.168 times as much. A difference of pass@k lies within [-1, 1], and there the interval is cut."""
    a, b = np.full((1, 10), 0.5), np.array([[1.0] * 10, [0.0] * 10])
    low, high = np.quantile(two_level_draws(a, b, 100_000, 0), (0.025, 0.975))
    assert (low, high) == pytest.approx((-6.353, 6.353), abs=5e-3)
    assert high / 0.69296 == pytest.approx(2**0.5 * 12.706 / 1.960, rel=1e-3)
    found = two_level_bootstrap([[2] * 10], [[4] * 10, [0] * 10], 4)
    assert (found.difference, found.low, found.high) == (0.0, -1.0, 1.0)


def test_sides_have_the_degrees_of_freedom_of_both_and_hold_the_truth_as_often_as_they_should():
    # V_a = V_b = .5 / 2, f = (2 V)^2 / (2 V^2 / 1) = 2, t = 4.3027: half-width 4.3027 sqrt(.5) = 3.0424
    sides = np.array([[1.0] * 10, [0.0] * 10])
    high = np.quantile(two_level_draws(sides, sides, 100_000, 0), 0.975)
    assert high == pytest.approx(3.0424, abs=2e-3)
    # b's two seeds solve problems 1, 2 and 1, 3 of four: their means are equal, so V = 0. The problems' means 1, .5,
    # .5, 0 have the variance 1/6, U = 1/24. The residuals are 0, .5, -.5, 0 and their negatives, mean square 1/3, so W
    # = (1/3) / (2 x 4) = 1/24 = U: nothing is left of the problems' part.
    draws = two_level_draws(np.zeros((1, 4)), np.array([[1.0, 1, 0, 0], [1, 0, 1, 0]]), 200, 0)
    assert draws.tolist() == pytest.approx([0.5] * 200, abs=1e-12)
    # 64 problems, half of them moved by +.5 and half by -.5 in all three seeds; seeds differ by .01 at most. Over
    # problems alone the half-width is 1.96 x .5 / 8 = .1225 x (64 / 63)^.5; seeds may add a tenth.
    b = np.array([[0.5, -0.5] * 32] * 3) + np.array([[-0.005], [0], [0.005]])
    low, high = np.quantile(two_level_draws(np.zeros((1, 64)), b, 4000, 0), (0.025, 0.975))
    assert (high - low) / 2 == pytest.approx(0.1225, rel=0.1)
    # 300 comparisons of equal methods, seeds of standard deviation .1 on 30 problems. 95% nominal is 285 with a
    # standard error of 3.8; 270 is four below. Drawing the seeds held it in 82% (246, standard error 6.7).
    rng = np.random.default_rng(0)
    held = 0
    for number in range(300):
        a, b = (rng.binomial(16, np.clip(0.5 + rng.normal(0, 0.1, (3, 1)), 0, 1), (3, 30)) / 16 for _ in "ab")
        low, high = np.quantile(two_level_draws(a, b, 200, number), (0.025, 0.975))
        held += low <= 0 <= high
    assert held >= 270


@pytest.mark.parametrize("seeds", [(1, 1), (3, 3), (1, 3)])
def test_arms_of_several_seeds_that_never_solve_anything_are_told_apart_by_16_problems(seeds):
    """However many runs: problems are what is drawn, and 0 of 16 has w = 3.841459 / 19.841459 = .193608. Of two
    differences Bonferroni's level is .975: z = 2.241403, w = 5.023886 / 21.023886 = .238961."""
    a, b = ([[0] * 16] * count for count in seeds)
    found = two_level_bootstrap(a, b, 4)
    assert (found.difference, found.low, found.high) == pytest.approx((0, -0.193608, 0.193608), abs=1e-6)
    keys = [str(i) for i in range(16)]
    sides = [Arm(name, [Result(name, keys, row, 4, {}) for row in rows]) for name, rows in (("a", a), ("b", b))]
    table = compare_arms(sides, (1, 4), resamples=100)
    for value in table.values.values():
        assert (value.value, value.low, value.high) == pytest.approx((0, 0, 0.193608), abs=1e-6)
    for d in table.differences:
        assert (d.percentile.low, d.percentile.high) == pytest.approx((-0.193608, 0.193608), abs=1e-6)
        assert (d.bonferroni.low, d.bonferroni.high) == pytest.approx((-0.238961, 0.238961), abs=1e-6)


TRUTH = ScalingFit(asymptote=0.62, c_mid=8e5, slope=0.9, initial=0.05, converged=True)


def points(low=1e4, high=1e8, count=25):
    compute = np.concatenate([[0.0], np.geomspace(low, high, count)])
    return compute, TRUTH(compute)


def test_the_curve_has_its_known_values_and_is_recovered_without_early_points():
    assert TRUTH(np.array([1e5, 8e5, 1e7])) == pytest.approx([0.126020, 0.335, 0.566779], abs=5e-7)
    assert float(TRUTH(0)) == 0.05
    assert TRUTH(1e5).shape == ()
    fit = fit_scaling_curve(*points())
    assert fit.converged and fit.reason == ""
    assert (fit.asymptote, fit.c_mid, fit.slope) == pytest.approx((0.62, 8e5, 0.9), rel=1e-4)
    assert fit.initial == 0.05 and fit.residual < 1e-6
    compute, rate = points()
    spoiled = rate.copy()
    spoiled[(compute > 0) & (compute < 1e5)] = 0.4
    fit = fit_scaling_curve(compute, spoiled, drop_below=1e5)
    assert fit.initial == 0.05
    assert (fit.asymptote, fit.c_mid) == pytest.approx((0.62, 8e5), rel=1e-3)
    assert fit_scaling_curve(compute, spoiled).asymptote != pytest.approx(0.62, rel=1e-2)


def test_the_standard_error_matches_the_spread_over_noisy_repetitions():
    compute, rate = points()
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, size=(100, len(rate)))
    noise[:, 0] = 0  # the first point is taken as exact
    fits = [fit_scaling_curve(compute, np.clip(rate + e, 0, 1)) for e in noise]
    assert all(fit.converged for fit in fits)
    asymptotes = [fit.asymptote for fit in fits]
    assert np.mean(asymptotes) == pytest.approx(0.62, abs=0.003)
    assert np.mean([fit.error for fit in fits]) == pytest.approx(np.std(asymptotes), rel=0.3)


@pytest.mark.parametrize(("compute", "rate", "reason"), [
    ([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4], "at least 4 are needed"),
    ([1, 2, 3, 4, 5], [0.5, 0.4, 0.3, 0.5, 0.2], "never rose above"),
    (np.arange(1, 20), 0.01 * np.arange(1, 20), "bound|standard error"),  # a straight line never bends
    (np.geomspace(1, 9, 9), [0.1] * 4 + [0.8] * 5, "bound"),  # a step is steeper than any slope allowed
])  # fmt: skip
def test_data_that_show_no_curve_give_a_reason_instead_of_a_number(compute, rate, reason):
    fit = fit_scaling_curve(compute, rate)
    assert not fit.converged and (fit.asymptote, fit.c_mid, fit.slope) == (None, None, None)
    assert re.search(reason, fit.reason)
    with pytest.raises(ConfigError, match="has no curve"):
        fit(1.0)


def test_a_curve_that_heads_above_1_or_has_only_begun_has_no_asymptote():
    # Rates of a sigmoid with A = 1.5 that was observed up to .9: the best allowed asymptote is the bound itself.
    compute = np.geomspace(1e4, 1.5e6, 20)
    fit = fit_scaling_curve(compute, 1.5 / (1 + (1e6 / compute) ** 0.9))
    assert not fit.converged and "asymptote 1" in fit.reason
    compute, rate = points(1e3, 1e5, 20)  # an eighth of C_mid at most
    noisy = np.clip(rate + np.random.default_rng(1).normal(0, 0.005, len(rate)), 0, 1)
    noisy[0] = 0.05
    assert not fit_scaling_curve(compute, noisy).converged


def test_a_recentred_fit_begins_at_the_first_point_and_keeps_what_was_solved_when():
    # After C0 = 1e5, where the rate is .2, the curve is .2 + (.62 - .2) / (1 + (8e5 / (C - C0)) ** .9); the two points
    # before it lie far below. With them left out but R0 and C of the whole run the asymptote is another.
    later = np.geomspace(1e4, 3e7, 40)
    compute = np.array([1e4, 5e4, 1e5, *(1e5 + later)])
    rate = np.array([0.05, 0.1, 0.2, *(0.2 + 0.42 / (1 + (8e5 / later) ** 0.9))])
    found = fit_scaling_curve(compute, rate, drop_below=1e5, recenter=True)
    assert (found.asymptote, found.c_mid, found.slope) == pytest.approx((0.62, 8e5, 0.9), rel=1e-4)
    assert (found.initial, found.origin) == (0.2, 1e5)
    assert found(compute[2:]) == pytest.approx(rate[2:], abs=1e-5) and found(0.0) == pytest.approx(0.2)
    assert fit_scaling_curve(compute, rate, drop_below=1e5).asymptote > 0.625
    compute, first = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 2, 3, 4])
    curve = ScalingCurve(compute, (compute - 1) / 4, True, tuple("abcd"), first)
    found = curve.recentred(2.5)
    assert found.compute.tolist() == [0, 1] and found.rate.tolist() == [0.5, 0.75]
    assert found.first.tolist() == [0, 0, 1, 2]  # solved before it begins, at its points 0 and 1, and never
    assert curve.recentred(9.0) is curve
