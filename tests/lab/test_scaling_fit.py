# Tests: lab/scaling_fit.py, statistics/solved.py
"""The sigmoid fit: recovers known curves, and says so when the data cannot tell."""

import re

import numpy as np
import pytest

from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.evaluation import ScalingFit, fit_scaling_curve
from countdown_selfplay.lab.scaling_fit import ScalingCurve

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


@pytest.mark.parametrize(("compute", "rate", "message"), [
    ([1, 2], [0.1], "of one length, got 2 and 1"),
    ([2, 1], [0.1, 0.2], "must not fall"),
    ([-1, 1], [0.1, 0.2], "0 or above"),
    ([1, 2], [0.1, 1.2], r"must lie in \[0, 1\]"),
    ([1, float("nan")], [0.1, 0.2], "`compute` must be finite"),
    ([], [], "at least one number"),
])  # fmt: skip
def test_impossible_data_are_refused(compute, rate, message):
    with pytest.raises(DataError, match=message):
        fit_scaling_curve(compute, rate)


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
    curve = ScalingCurve(
        np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 0.25, 0.5, 0.75]), True, tuple("abcd"), np.array([1, 2, 3, 4])
    )
    found = curve.recentred(2.5)
    assert found.compute.tolist() == [0, 1] and found.rate.tolist() == [0.5, 0.75]
    assert found.first.tolist() == [0, 0, 1, 2]  # solved before it begins, at its points 0 and 1, and never
    assert curve.recentred(9.0) is curve
