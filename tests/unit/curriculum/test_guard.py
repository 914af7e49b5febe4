# Tests: curriculum/guard.py
"""The collapse guard's judgement on hand-made rounds, and that on a run's first rounds."""

import json
import math

import pytest

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.contract.game import BaseGame
from countdown_selfplay.contract.metric import UNBOUNDED, Metric
from countdown_selfplay.curriculum import CollapseGuard, Trip
from countdown_selfplay.curriculum.guard import Legibility
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.training.parts import conjecturer_guard_of, declared_metrics, guard_of

PLAYERS = {"prover": ["prover"], "conjecturer": ["conjecturer"]}
METRICS = declared_metrics(ProposeAndSolve(), PLAYERS)


def guard(window=10, **trips):
    """Over what the frame and propose-and-solve declare; `trips` by the last part of a name."""
    named = {m.name: trips[m.name.split("/")[-1]] for m in METRICS if m.name.split("/")[-1] in trips}
    return CollapseGuard(METRICS, window, named)


def healthy(**changes):
    return {
        "conjecturer/parseable_rate": 0.95, "round/starved": 0, "round/solve_rate_mean": 0.4, "loss": 0.1,
    } | changes  # fmt: skip


def tripped(guard, rounds):
    return [trip for trip in (guard.observe(metrics) for metrics in rounds) if trip is not None]


STARVED = {"conjecturer/parseable_rate": 0.9, "round/starved": 1}
UNREAD = healthy(**{"conjecturer/parseable_rate": 0.2})
RATED = "round/solve_rate_mean"


@pytest.mark.parametrize(("window", "rounds", "well", "said"), [
    # means over two rounds: .95, (.95 + .2) / 2 = .575, (.2 + .2) / 2 = .2 -> the third round trips
    (2, [healthy(), UNREAD], False, []),
    (2, [healthy(), UNREAD, UNREAD], False, ["conjecturer/parseable_rate is 0.2, under 0.5 over the last 2 rounds"]),
    (10, [UNREAD, healthy()], True, []),
    (3, [STARVED] * 19 + [healthy()] + [STARVED] * 19, False, []),
    (3, [STARVED] * 20, False, ["round/starved is 1, above 0 in 20 rounds in a row"]),
    (2, [healthy(**{RATED: 0.0})] * 2, False, [f"{RATED} is 0, under 0.01 over the last 2 rounds"]),
    (2, [healthy(**{RATED: 1.0})] * 2, False, [f"{RATED} is 1, over 0.99 over the last 2 rounds"]),
    # rounds without a solve rate are not counted as zero
    (2, [{name: value for name, value in healthy().items() if name != RATED}] * 20, True, []),
])  # fmt: skip
def test_a_metric_trips_over_the_window_or_in_a_row_and_a_bad_round_is_unhealthy_before(window, rounds, well, said):
    watching = guard(window)
    assert [str(trip) for trip in tripped(watching, rounds)] == said and watching.healthy == well


@pytest.mark.parametrize("kind", ["{}/loss", "grad_norm/{}", "{}/reward"])
@pytest.mark.parametrize("role", ["prover", "conjecturer"])
def test_a_value_that_is_not_finite_trips_at_once(kind, role):
    name = kind.format(role)
    nan = pytest.approx(math.nan, nan_ok=True)
    assert guard().observe(healthy(**{name: math.nan})) == Trip(name, nan, "and must be finite")


def test_its_state_survives_a_round_trip_through_json():
    rounds = [UNREAD | {"round/starved": 1}] * 2
    straight, stopped = guard(3), guard(3)
    for metrics in rounds:
        straight.observe(metrics), stopped.observe(metrics)
    resumed = guard(3)
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    assert resumed == straight
    assert resumed.observe(rounds[0]) == straight.observe(rounds[0]) is not None


def test_the_advice_is_for_the_role_whose_metric_tripped():
    assert Trip("prover/loss", math.nan, "and must be finite").advice == (
        "Lower the prover's learning rate or raise its beta, and look for what is not finite in its rewards or loss"
    )
    assert Trip("grad_norm/prover", math.inf, "").advice.startswith("Lower the prover's learning rate")
    assert Trip("prover/entropy", 0.1, "under 0.2").advice == "Lower the prover's learning rate or raise its beta"
    assert Trip("grad_norm/prover/1", 9.0, "").advice == Trip("prover/1/entropy", 0.1, "").advice
    for name in ("conjecturer/parseable_rate", "round/starved", "round/solve_rate_mean", "prover_pass_rate_tier_0"):
        assert Trip(name, 0.1, "").advice == "Lower the conjecturer's learning rate or raise its beta"
    assert "Lower the conjecturer/1's learning rate" in Trip("conjecturer/1/parseable_rate", 0.1, "").advice


# -- from the settings of a run ---------------------------------------------------------------------------------------


def watched(tmp_path, metrics=METRICS, **settings):
    """Name -> (trip, in_a_row) of what the guard of such a run watches."""
    found = guard_of(JointSelfPlayConfig(str(tmp_path), use_cpu=True, **settings), metrics)
    return {m.name: (m.trip, m.in_a_row) for m in found.metrics if m.trip or m.in_a_row}


DEFAULT = {
    "conjecturer/parseable_rate": ((0.5, 1), None),
    "round/solve_rate_mean": ((0.01, 0.99), None),
    "round/starved": (None, 20),
}
"""Seed 001's 0.5, and the thresholds of the guard since its first version."""


@pytest.mark.parametrize(("trips", "changed"), [
    (None, {}),
    ({"prover/entropy": [0.1, None]}, {"prover/entropy": ((0.1, math.inf), None)}),
    ('{"prover/entropy": [0.1, null]}', {"prover/entropy": ((0.1, math.inf), None)}),
    ({RATED: [None, None], "round/starved": [None, None]}, dict.fromkeys([RATED, "round/starved"], (UNBOUNDED, None))),
])  # fmt: skip
def test_guard_trips_add_and_lift_ranges_of_a_default_run_as_a_mapping_and_as_json(tmp_path, trips, changed):
    assert watched(tmp_path, guard_trips=trips) == {**DEFAULT, **changed}


def test_each_player_has_its_own_threshold(tmp_path):
    pool = declared_metrics(ProposeAndSolve(), {"prover": ["prover/0", "prover/1"], "conjecturer": ["conjecturer"]})
    assert {"prover/0/correct_rate", "grad_norm/prover/1"} <= {m.name for m in pool}
    found = watched(tmp_path, pool, guard_trips={"prover/1/entropy": [0.4, None]})
    assert "prover/0/entropy" not in found and found["prover/1/entropy"] == ((0.4, math.inf), None)


def test_a_checkpoint_that_counted_rounds_in_a_row_does_not_hold_a_guard_that_lifts_the_rule(tmp_path):
    lifted = JointSelfPlayConfig(str(tmp_path), use_cpu=True, guard_trips={"round/starved": [None, None]})
    watching = guard_of(lifted, METRICS)
    watching.load_state_dict({"healthy": False, "in_a_row": {"round/starved": 2}, "history": {}})
    assert watching.observe(healthy()) is None and watching.healthy


@pytest.mark.parametrize("bounds", [[None, 0.9], [50, 100]])
def test_a_range_that_the_guard_of_the_conjecturer_alone_cannot_keep_is_refused(tmp_path, bounds):
    trips = {"conjecturer/parseable_rate": bounds}
    args = JointSelfPlayConfig(str(tmp_path), use_cpu=True, guard_scope="conjecturer", guard_trips=trips)
    with pytest.raises(ConfigError, match=r"'conjecturer/parseable_rate' \(.*\) must be \[low, null\] with a share"):
        guard_of(args, METRICS)


def test_the_guard_of_the_conjecturer_alone_leaves_what_is_named_and_what_must_be_finite_to_the_other(tmp_path):
    trips = {"conjecturer/parseable_rate": [0.3, None], "prover/entropy": [0.1, None]}
    args = JointSelfPlayConfig(str(tmp_path), use_cpu=True, guard_scope="conjecturer", guard_trips=trips)
    watching, alone = guard_of(args, METRICS), conjecturer_guard_of(args)
    rounds = [healthy(**{"round/starved": 1.0, "round/solve_rate_mean": 0.0, "conjecturer/parseable_rate": 0.2})] * 30
    assert not tripped(watching, rounds) and alone.fallen(rounds[0]) == {"conjecturer": 0.2}
    assert alone.fallen(healthy(**{"conjecturer/parseable_rate": 0.3})) == {}
    assert watching.observe(healthy(**{"prover/loss": math.nan})) is not None
    assert tripped(watching, [healthy(**{"prover/entropy": 0.05})] * 10)


@pytest.mark.parametrize(("name", "bounds", "logged", "rule"), [
    ("conjecturer/played_rate_operands_4", [0.1, 0.9], [0.95, 0.95], "0.95, over 0.9"),
    ("round/target_26-50_proposed", [2, None], [3, None], "1.5, under 2"),  # a round without that band logs no count
    ("round/target_25-50_proposed", [2, None], [None, None], None),  # no such band: never logged, never counted
    ("round/target_26-50_solve_rate", [0.2, None], [0.1, None], None),  # nor a rate, which is then not counted
])  # fmt: skip
def test_guard_trips_reach_metrics_that_are_declared_by_a_pattern(tmp_path, name, bounds, logged, rule):
    """Such as those of the values of a domain's axes."""
    args = JointSelfPlayConfig(str(tmp_path), use_cpu=True, guard_window=2, guard_trips={name: bounds})
    guard = guard_of(args, METRICS)
    first, second = (guard.observe(healthy(**({} if value is None else {name: value}))) for value in logged)
    assert first is None and (str(second) if second else None) == (rule and f"{name} is {rule} over the last 2 rounds")


def test_a_game_of_ones_own_is_watched_by_what_it_declares(tmp_path):
    class Own(BaseGame):
        metrics = (
            Metric("{prover}/surprise", "", trip=(0.1, 0.9)),
            Metric("{critic}/parseable_rate", "", trip=(0.2, 1)),
            Metric("{role}/entropy", "instead of the frame's", trip=(0.3, math.inf)),
        )

    players = {"prover": ["prover"], "critic": ["critic"]}
    assert watched(tmp_path, declared_metrics(Own(), players)) == {
        "prover/surprise": ((0.1, 0.9), None),
        "critic/parseable_rate": ((0.2, 1), None),  # the field's default, 0.5, is propose-and-solve's
        "prover/entropy": ((0.3, math.inf), None),
        "critic/entropy": ((0.3, math.inf), None),
    }
    assert watched(tmp_path, declared_metrics(BaseGame(), players)) == {}


def test_one_player_trips_while_its_fellow_is_healthy():
    players = {"prover": ["prover"], "conjecturer": ["conjecturer/0", "conjecturer/1"]}
    watching = CollapseGuard(declared_metrics(ProposeAndSolve(), players), 2)
    rounds = [{"conjecturer/0/parseable_rate": 0.9, "conjecturer/1/parseable_rate": 0.1}] * 2
    (trip,) = tripped(watching, rounds)
    assert trip.metric == "conjecturer/1/parseable_rate"


READ = [
    Metric("a/read_rate", "", cure="Warm-start a.", legible=True),
    Metric("b/format_rate", "", cure="Teach b its format.", legible=True),
    Metric("b/correct_rate", ""),
]


def said(rows, declared=READ, rounds=3):
    legibility = Legibility(declared, rounds)
    return [legibility.observe(number, row) for number, row in enumerate(rows, start=1)], legibility


def test_what_can_hardly_be_read_in_the_first_rounds_is_one_sentence_said_once():
    """a: (0 + .1 + .05) / 3 = .05; b in the rounds that have it: (.05 + .11) / 2 = .08. Both are under .1."""
    rows = [{"a/read_rate": 0.0, "b/format_rate": 0.05}, {"a/read_rate": 0.1}, {"a/read_rate": 0.05}]
    rows[2]["b/format_rate"] = 0.11
    found, legibility = said([*rows, rows[0]])
    seen, cure = "(a/read_rate 0.05, b/format_rate 0.08)", "warm-start a; teach b its format"
    assert found == [None, None, f"Hardly anything can be read in the first rounds {seen}: {cure}.", None]
    assert legibility.judge() is None and legibility.observe(3, rows[0]) is None  # played again after a rollback


def test_a_run_of_fewer_rounds_is_judged_when_it_ends_and_one_that_is_resumed_later_is_not():
    found, legibility = said([{"a/read_rate": 0.0}])
    assert found == [None] and legibility.judge().startswith("Hardly anything can be read")
    assert said([{"a/read_rate": 0.0}], rounds=1)[0][0].endswith("(a/read_rate 0): warm-start a.")
    resumed = Legibility(READ)
    assert resumed.observe(9, {"a/read_rate": 0.0}) is None and resumed.judge() is None
