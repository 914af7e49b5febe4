# Tests: tools/scaling_checks.py
"""How far a fitted asymptote stands: bootstrap, cut tails, halves, and what may be ranked."""

import json

import numpy as np
import pytest
from tools.scaling_checks import assess, main, rank

from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation import ScalingFit, fit_scaling_curve
from countdown_selfplay.lab.scaling import load_curve
from countdown_selfplay.lab.scaling_fit import ScalingCurve
from countdown_selfplay.statistics.solved import CumulativeSolveRate
from tests.made_up_runs import write_lines
from tools import scaling_checks


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


def test_an_exact_curve_has_no_spread_and_early_points_are_in_no_check():
    found = assess("a", [run(), run()])
    assert found.fit.asymptote == pytest.approx(0.62, rel=1e-4) and found.over == "2 runs"
    assert (found.interval.low, found.interval.high) == pytest.approx((0.62, 0.62), abs=1e-4)
    assert found.tails == pytest.approx(dict.fromkeys((0.1, 0.2, 0.3), 0.62), abs=1e-4)
    assert found.subset_sd < 1e-4 and len(found.subsets) == 20 and (found.failed, found.lost) == (0.0, 0.0)
    compute, rate = run()
    spoiled = np.where((compute > 0) & (compute < 1e5), 0.4, rate)
    found = assess("a", [(compute, spoiled)], drop_below=1e5, resamples=5)
    assert found.fit.asymptote == pytest.approx(0.62, rel=1e-3) and found.subset_sd < 1e-3


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


def cumulative(rng, known=False, problems=200, sd=0.0):
    """The curve that a run logs: problem i is solved for good at a point whose chance is the sigmoid's rise."""
    compute, rate = run(0.62 + rng.normal(0, sd), points=16)
    first = np.searchsorted(rate, rng.random(problems))
    share = (first[:, None] <= np.arange(len(compute))).mean(0)
    keys = tuple(map(str, range(problems)))
    return ScalingCurve(compute, share, True, keys, first) if known else ScalingCurve(compute, share, True)


def test_a_problems_influence_is_what_the_fit_without_it_says():
    """Independent method: leave out each of ten problems, count the rates again and refit. Without one of P problems A
    moves by (A - value) / (P - 1); the linear term is right to a few percent of the largest move."""
    curve = cumulative(np.random.default_rng(1), known=True, problems=100)
    found = assess("a", [curve], subsets=0)
    assert found.values.shape == (1, 100) and found.values.mean() == pytest.approx(found.fit.asymptote, abs=1e-6)
    expected, seen = [], []
    for i in range(10):
        first = np.delete(curve.first, i)
        share = (first[:, None] <= np.arange(len(curve.compute))).mean(0)
        seen.append(fit_scaling_curve(curve.compute, share).asymptote - found.fit.asymptote)
        expected.append((found.fit.asymptote - found.values[0, i]) / 99)
    assert seen == pytest.approx(expected, abs=0.15 * np.abs(expected).max())
    assert found.over == "100 problems of one run" and found.interval.low < 0.62 < found.interval.high


def test_runs_and_their_problems_are_both_resampled_and_hold_the_truth_as_often_as_they_should():
    rng = np.random.default_rng(2)
    runs = [cumulative(rng, known=True) for _ in range(3)]
    found = assess("a", runs, subsets=0)
    assert found.over == "3 runs and 200 problems" and found.values.shape == (3, 200)
    bare = assess("a", [ScalingCurve(one.compute, one.rate, True) for one in runs], subsets=0)
    assert bare.over == "3 runs" and bare.values[:, 0] == pytest.approx(found.values.mean(1))
    # 24 arms of three runs whose asymptotes differ by .02: 22.8 are nominal, with a standard error of 1.07; 19 is 3.6
    # below. Resampling the points' residuals held the truth in 18.
    held = 0
    for number in range(24):
        rng = np.random.default_rng([7, number])
        interval = assess("a", [cumulative(rng, sd=0.02) for _ in range(3)], subsets=0).interval
        held += interval.low <= 0.62 <= interval.high
    assert held >= 19


def test_what_does_not_bend_or_resampling_breaks_has_a_reason_and_no_number():
    line = assess("line", [(np.linspace(1, 1000, 20), np.linspace(0, 0.5, 20))], resamples=5)
    assert line.fit.asymptote is None and line.interval is None
    assert "do not show where the curve bends" in line.fit.reason
    assert line.to_dict()["asymptote"] is None
    (pair,) = rank([line, assess("a", [run()], resamples=5)])
    assert not pair.ranked and pair.sentence == "line and a: not ranked, the fit of line failed."
    # Noise as large as the rise: whatever the point fit says, it must not come out as a number with an interval.
    rng = np.random.default_rng(3)
    found = assess("noise", [(np.arange(1.0, 41), np.clip(0.3 + rng.normal(0, 0.1, 40), 0, 1))], resamples=30)
    assert found.interval is None
    assert found.fit.converged is False and found.fit.reason


def test_a_problem_once_solved_stays_solved(tmp_path):
    rate = CumulativeSolveRate(["a", "b", "c", "d"])
    rate.observe(["a", "b"], [1, 0], n=8, round_=1)
    assert (rate.rate, rate.generations) == (0.25, 16)
    rate.observe(["a", "b", "synthetic"], [0, 3, 8], n=8, round_=2)
    rate.observe(["a"], [5], n=8, round_=3)
    assert (rate.rate, rate.generations, rate.first_solved) == (0.5, 48, {"a": 1, "b": 2})
    again = CumulativeSolveRate(["a", "b", "c", "d"])
    again.load_state_dict(json.loads(json.dumps(rate.state_dict())))
    assert (again.rate, again.generations, again.first_solved) == (0.5, 48, {"a": 1, "b": 2})
    again.write(tmp_path, 3)
    first = {"a": 1, "b": 2, "c": None, "d": None}
    assert json.loads((tmp_path / "first_solved.json").read_text()) == {"rounds": 3, "first_solved": first}
    with pytest.raises(DataError, match="'a' is not among these"):
        CumulativeSolveRate(["x"]).load_state_dict(rate.state_dict())


def test_a_run_folders_curve_is_counted_from_its_problems(tmp_path):
    """Logged every two rounds, 10 texts a round. Solved in rounds 1, 2, 3, never: 2, 3 of 4 at steps 2 and 4. The run
    was killed after step 6, but its record ends at 4, and so does the curve."""
    rates = {2: 0.4, 4: 0.7, 6: 1}
    rows = ({"step": s, "generations": 10 * s, "round/cumulative_solve_rate": rate} for s, rate in rates.items())
    write_lines(tmp_path / "metrics.jsonl", rows)
    curve, compute, rate = load_curve(str(tmp_path), None, None)
    assert (compute, rate, curve.problems) == ("generations", "round/cumulative_solve_rate", None)
    assert curve.cumulative and curve.rate.tolist() == [0.4, 0.7, 1]
    record = {"rounds": 4, "first_solved": {"d": None, "a": 1, "c": 3, "b": 2}}
    (tmp_path / "first_solved.json").write_text(json.dumps(record))
    curve, _, _ = load_curve(str(tmp_path), None, None)
    assert curve.problems == ("a", "b", "c", "d") and curve.first.tolist() == [0, 0, 1, 2]
    assert (curve.compute.tolist(), curve.rate.tolist()) == ([20, 40], [0.5, 0.75])
    (tmp_path / "first_solved.json").write_text("[]")
    with pytest.raises(DataError, match=r"does not hold a JSON object \(it is a list\); delete it to fit"):
        load_curve(str(tmp_path), None, None)


def test_the_tool_ranks_pooled_seeds_and_prints_both_checks(tmp_path, capsys):
    for name, top in (("a", 0.62), ("b", 0.4)):
        for i in range(2):
            compute, rate = run(top, points=25, high=1e8)
            rows = "".join(f"{c},{r}\n" for c, r in zip(compute.tolist(), rate.tolist(), strict=True))
            (tmp_path / f"{name}-{i}.csv").write_text("tokens,solved\n" + rows)
    arms = [f"a={tmp_path}/a-*.csv", f"b={tmp_path}/b-*.csv", "--compute", "tokens", "--rate", "solved"]
    assert main(arms) == 0
    out = capsys.readouterr().out
    assert "a above b: +0.22" in out and "-30% tail" in out and "half of the points" in out
    assert main([str(tmp_path / "a-0.csv"), str(tmp_path / "b-0.csv"), *arms[2:], "--resamples", "10"]) == 0
    assert "a-0.csv and b-0.csv: not ranked, a-0.csv is one cumulative curve." in capsys.readouterr().out
