"""How far a fitted asymptote stands: bootstrap, cut tails, halves, and what may be ranked."""

import numpy as np
import pytest

from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation import ScalingFit, fit_scaling_curve, scaling_checks
from countdown_selfplay.evaluation.scaling_checks import assess, rank
from countdown_selfplay.evaluation.solve_rate import CumulativeSolveRate


@pytest.fixture(autouse=True)
def few_halves(monkeypatch):
    """20 fits on halves of the points instead of seed 003's 100: the tests are about what follows from them."""
    assert scaling_checks.SUBSETS == 100
    monkeypatch.setattr(scaling_checks, "SUBSETS", 20)


def run(asymptote=0.62, noise=0.0, seed=0, shift=0.0, points=20, high=2e7):
    """FACTS: A = .62, C_mid = 8e5, B = .9, R0 = .05."""
    truth = ScalingFit(asymptote, 8e5, 0.9, 0.05, True)
    compute = np.concatenate([[0.0], np.geomspace(1e4, high, points)])
    rate = truth(compute) + np.random.default_rng(seed).normal(0, noise, len(compute)) * (compute > 0)
    return compute, np.clip(rate + shift * (compute > 0), 0, 1)


def test_an_exact_curve_has_no_spread():
    found = assess("a", [run()], resamples=5)
    assert found.fit.asymptote == pytest.approx(0.62, rel=1e-4)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.62, 0.62), abs=1e-4)
    assert list(found.tails.values()) == pytest.approx([0.62] * 3, abs=1e-4)
    assert found.subset_sd < 1e-4 and len(found.subsets) == 20 and found.failed == (0.0, 0.0)
    assert set(found.to_dict()["without_tail"]) == {"0.1", "0.2", "0.3"}


def test_the_bootstrap_interval_matches_the_standard_error():
    """Independent normal residuals of sd 0.005. The asymptote's variance has two parts: that of the fit with R0 known
    (its standard error) and R0's own, 0.005 times the asymptote's slope in R0, taken from two fits with R0 moved. The
    half-width is t(17) = 2.110 (tables) of its root. 80 resamples give the ends to about 15%."""
    compute, rate = run(noise=0.005, seed=1)
    found = assess("a", [(compute, rate)], resamples=80)
    assert found.interval.low < 0.62 < found.interval.high
    up, down = (fit_scaling_curve(compute, rate, initial=0.05 + move).asymptote for move in (0.005, -0.005))
    expected = 2 * 2.110 * np.hypot(found.fit.error, (up - down) / 2)
    assert found.interval.high - found.interval.low == pytest.approx(expected, rel=0.3)


def test_seeds_that_lie_apart_widen_the_interval():
    apart = assess(
        "a", [run(noise=0.002, seed=i, shift=s, points=12) for i, s in enumerate((-0.03, 0, 0.03))], resamples=40
    )
    alike = assess("a", [run(noise=0.002, seed=i, points=12) for i in range(3)], resamples=25)
    assert apart.fit.asymptote == pytest.approx(0.62, abs=0.01) == pytest.approx(alike.fit.asymptote, abs=0.02)
    assert apart.interval.high - apart.interval.low > 3 * (alike.interval.high - alike.interval.low)


def test_asymptotes_closer_than_their_spread_are_not_ranked():
    a, near, far = (
        assess(name, [run(asymptote, noise=0.01, seed=seed, points=20)], resamples=25)
        for name, asymptote, seed in (("a", 0.62, 0), ("near", 0.622, 3), ("far", 0.45, 2))
    )
    first, second, third = rank([a, near, far])
    assert not first.ranked and "closer than they are known" in first.sentence
    assert second.ranked and second.sentence.startswith("a above far: +0.1")
    assert third.ranked and third.sentence.startswith("near above far")
    assert second.difference.low > 0.1


def test_a_curve_that_does_not_bend_has_a_reason_and_no_number():
    line = assess("line", [(np.linspace(1, 1000, 20), np.linspace(0, 0.5, 20))], resamples=5)
    assert (
        line.fit.asymptote is None and line.interval is None and "do not show where the curve bends" in line.fit.reason
    )
    assert line.to_dict()["asymptote"] is None
    (pair,) = rank([line, assess("a", [run()], resamples=5)])
    assert not pair.ranked and pair.sentence == "line and a: not ranked, the fit of line failed."


def test_a_fit_that_resampling_breaks_is_no_fit():
    # Noise as large as the rise: whatever the point fit says, it must not come out as a number with an interval.
    rng = np.random.default_rng(3)
    found = assess("noise", [(np.arange(1.0, 41), np.clip(0.3 + rng.normal(0, 0.1, 40), 0, 1))], resamples=30)
    assert found.interval is None
    assert found.fit.converged is False and found.fit.reason


def test_early_points_are_left_out_of_every_check():
    compute, rate = run()
    spoiled = np.where((compute > 0) & (compute < 1e5), 0.4, rate)
    found = assess("a", [(compute, spoiled)], drop_below=1e5, resamples=5)
    assert found.fit.asymptote == pytest.approx(0.62, rel=1e-3) and found.subset_sd < 1e-3


@pytest.mark.parametrize("runs", [[], [([1, 2], [0.1])], [([2, 1], [0.1, 0.2])], [([1, 2], [0.1, 1.2])]])
def test_what_is_no_curve_is_refused(runs):
    with pytest.raises(DataError):
        assess("a", runs)


def test_a_problem_once_solved_stays_solved():
    rate = CumulativeSolveRate(["a", "b", "c", "d"])
    rate.observe(["a", "b"], [1, 0], n=8)
    assert (rate.rate, rate.generations, rate.unsolved) == (0.25, 16, ["b", "c", "d"])
    rate.observe(["a", "b", "synthetic"], [0, 3, 8], n=8)
    assert (rate.rate, rate.generations) == (0.5, 40)
    again = CumulativeSolveRate(["a", "b", "c", "d"])
    again.load_state_dict(rate.state_dict())
    assert (again.rate, again.generations, again.unsolved) == (0.5, 40, ["c", "d"])
    with pytest.raises(DataError, match="'a' is not among these"):
        CumulativeSolveRate(["x"]).load_state_dict(rate.state_dict())
