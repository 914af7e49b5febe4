# Tests: training/callbacks/progress.py, evaluation/terminal.py, games/metrics.py, statistics/bootstrap.py
"""The bar, the words on it, and the statistics of two independent estimates."""

from types import SimpleNamespace

import pytest

from countdown_selfplay.statistics.bootstrap import Estimate, independent_difference, wilson_interval
from countdown_selfplay.training.callbacks.progress import RoundLines, words_text


def test_the_solve_rate_is_said_once_where_every_problem_was_conjectured():
    shown = [("prover/correct_rate", "solved"), ("round/solve_rate_mean", "solve rate")]
    logs = {"prover/correct_rate": 0.25, "round/solve_rate_mean": 0.25}
    assert words_text(shown, logs | {"round/anchor_slots": 0}) == "solved 0.25"
    assert words_text(shown, logs | {"round/anchor_slots": 8}) == "solved 0.25, solve rate 0.25"
    assert words_text(shown[1:], logs | {"round/anchor_slots": 0}) == "solve rate 0.25"  # a pool has no one share


def test_a_line_says_when_the_run_will_end(monkeypatch, capsys):
    """Begun at round 10 of 20; five rounds took 50 s, so five more take 50 s."""
    clock = iter([100.0, 150.0])
    monkeypatch.setattr("countdown_selfplay.training.callbacks.progress.time.monotonic", lambda: next(clock))
    lines, state = RoundLines([]), SimpleNamespace(is_world_process_zero=True, max_steps=20, global_step=10)
    lines.shown = [("a", "solved")]
    lines.on_train_begin(None, state, None)
    state.global_step = 15
    lines.on_log(None, state, None, {"a": 0.5, "step_time": 10.0})
    assert capsys.readouterr().out == "round 15/20: solved 0.50, 10.00 s/round, ETA 50 s\n"


def test_the_interval_of_an_independent_difference_is_newcombes():
    """Newcombe 1998, table II, method 10: 56/70 - 48/80 with .0524 to .3339, 9/10 - 3/10 with .1705 to .8090."""
    for (a, m), (b, n), low, high in (((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090)):
        found = independent_difference(wilson_interval(b, n), wilson_interval(a, m))
        assert found.difference == pytest.approx(a / m - b / n)
        assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    same = independent_difference(Estimate(0.5, 0.4, 0.6), Estimate(0.5, 0.4, 0.6))
    assert same.high == -same.low == pytest.approx(0.1 * 2**0.5)
