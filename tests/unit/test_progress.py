# Tests: training/callbacks/progress.py, evaluation/terminal.py, games/metrics.py, statistics/bootstrap.py
"""The bar, the words on it, and the statistics of two independent estimates."""

import io
from types import SimpleNamespace

import pytest
from tqdm.auto import tqdm

from countdown_selfplay.contract.metric import for_players
from countdown_selfplay.evaluation.terminal import duration
from countdown_selfplay.games.metrics import METRICS
from countdown_selfplay.statistics.bootstrap import Estimate, independent_difference, wilson_interval
from countdown_selfplay.training.callbacks.progress import RoundLines, RoundProgress, close_bars, words_text


@pytest.mark.parametrize(
    "columns, words",
    [
        (80, "solved .35 solve rate .26 solvable .50 played 15.5"),
        (120, "solved 0.35, solve rate 0.26, solvable 0.50, played 15.5]"),
    ],
)
def test_the_bar_has_room_beside_the_words(columns, words):
    """A bar of 80 columns had one character left for itself."""
    metrics = for_players(METRICS, {role: [role] for role in ("prover", "conjecturer")})
    progress, stream = RoundProgress(metrics), io.StringIO()
    state = SimpleNamespace(is_world_process_zero=True, max_steps=300, global_step=123)
    progress.on_train_begin(None, state, None)
    progress.training_bar.close()
    progress.training_bar = tqdm(total=300, ncols=columns, file=stream)
    progress.narrow()
    progress.training_bar.n = 123
    logs = {"prover/correct_rate": 0.351, "round/solve_rate_mean": 0.2649, "conjecturer/solvable_rate": 0.5}
    logs["round/conjectured_slots"] = 15.5
    progress.on_log(SimpleNamespace(steps_per_round=1), state, None, logs)
    progress.training_bar.refresh()
    line = stream.getvalue().split("\r")[-1]
    assert line.endswith(words) and len(line) <= columns
    bar = line.split("|")[-2]
    assert len(bar) >= 8 and set(bar) <= set(" ▏▎▍▌▋▊▉█0123456789#") and bar.strip()
    close_bars([progress])


def test_the_solve_rate_is_said_once_where_every_problem_was_conjectured():
    shown = [("prover/correct_rate", "solved"), ("round/solve_rate_mean", "solve rate")]
    logs = {"prover/correct_rate": 0.25, "round/solve_rate_mean": 0.25}
    assert words_text(shown, logs | {"round/anchor_slots": 0}) == "solved 0.25"
    assert words_text(shown, logs | {"round/anchor_slots": 8}) == "solved 0.25, solve rate 0.25"
    assert words_text(shown[1:], logs | {"round/anchor_slots": 0}) == "solve rate 0.25"  # a pool has no one share


def test_a_line_says_when_the_run_will_end(monkeypatch, capsys):
    """Begun at round 10 of 20; five rounds took 60 s, so five more take 60 s: 1 min. At the end nothing is left."""
    clock = iter([100.0, 160.0])
    monkeypatch.setattr("countdown_selfplay.training.callbacks.progress.time.monotonic", lambda: next(clock))
    lines, args = RoundLines([]), SimpleNamespace(steps_per_round=1)
    lines.shown = [("a", "solved")]
    state = SimpleNamespace(is_world_process_zero=True, max_steps=20, global_step=10)
    lines.on_train_begin(args, state, None)
    for step in (15, 20):
        state.global_step = step
        lines.on_log(args, state, None, {"a": 0.5, "step_time": 12.0})
    assert capsys.readouterr().out.splitlines() == [
        "round 15/20: solved 0.50, 12.00 s/round, ETA 1 min",
        "round 20/20: solved 0.50, 12.00 s/round",
    ]
    assert [duration(s) for s in (0.4, 59.4, 60, 3599, 7500)] == ["0 s", "59 s", "1 min", "1 h 0 min", "2 h 5 min"]


def test_the_interval_of_an_independent_difference_is_newcombes():
    """Newcombe 1998, table II, method 10: 56/70 - 48/80 with .0524 to .3339, 9/10 - 3/10 with .1705 to .8090."""
    for (a, m), (b, n), low, high in (((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090)):
        found = independent_difference(wilson_interval(b, n), wilson_interval(a, m))
        assert found.difference == pytest.approx(a / m - b / n)
        assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    same = independent_difference(Estimate(0.5, 0.4, 0.6), Estimate(0.5, 0.4, 0.6))
    assert same.high == -same.low == pytest.approx(0.1 * 2**0.5)
