"""The collapse guard's judgement on hand-made rounds."""

import math

from countdown_selfplay.curriculum import CollapseGuard, Trip


def healthy(**changes):
    return {
        "conjecturer/parseable_rate": 0.95,
        "round/starved": 0,
        "round/solve_rate_mean": 0.4,
        "loss": 0.1,
    } | changes


def trips(guard, rounds):
    return [trip for trip in (guard.observe(metrics) for metrics in rounds) if trip is not None]


def test_healthy_rounds_never_trip():
    guard = CollapseGuard(window=3)
    assert trips(guard, [healthy()] * 50) == []
    assert guard.healthy


def test_the_parseable_rate_trips_when_its_window_mean_falls_under_one_half():
    guard = CollapseGuard(window=2)
    # means over two rounds: .95, (.95 + .2) / 2 = .575, (.2 + .2) / 2 = .2 -> the third round trips
    assert guard.observe(healthy()) is None
    assert guard.observe(healthy(**{"conjecturer/parseable_rate": 0.2})) is None
    trip = guard.observe(healthy(**{"conjecturer/parseable_rate": 0.2}))
    assert trip.metric == "conjecturer/parseable_rate" and math.isclose(trip.value, 0.2)


def test_a_bad_round_is_unhealthy_before_the_window_trips_and_healthy_again_after_a_good_one():
    guard = CollapseGuard(window=10)
    guard.observe(healthy(**{"conjecturer/parseable_rate": 0.2}))
    assert not guard.healthy
    guard.observe(healthy())
    assert guard.healthy


def test_starvation_counts_rounds_in_a_row():
    starved = {"conjecturer/parseable_rate": 0.9, "round/starved": 1}
    guard = CollapseGuard(window=3, max_starved_rounds=3)
    assert trips(guard, [starved, starved, healthy(), starved, starved]) == []
    assert guard.observe(starved).metric == "round/starved"


def test_solve_rates_near_0_and_near_1_trip_and_say_which_side():
    low = trips(CollapseGuard(window=2), [healthy(**{"round/solve_rate_mean": 0.0})] * 2)
    high = trips(CollapseGuard(window=2), [healthy(**{"round/solve_rate_mean": 1.0})] * 2)
    assert "under 0.01" in str(low[0]) and "over 0.99" in str(high[0])


def test_rounds_without_a_solve_rate_are_not_counted_as_zero():
    absent = healthy()
    del absent["round/solve_rate_mean"]
    assert trips(CollapseGuard(window=2), [absent] * 20) == []


def test_a_value_that_is_not_finite_trips_at_once():
    assert CollapseGuard(window=10).observe(healthy(**{"grad_norm/prover": math.nan})).metric == "grad_norm/prover"


def test_entropy_is_watched_only_with_a_threshold():
    rounds = [healthy(**{"prover/entropy": 0.01})] * 3
    assert trips(CollapseGuard(window=2), rounds) == []
    assert trips(CollapseGuard(window=2, min_entropy=0.05), rounds)[0].metric == "prover/entropy"


def test_its_state_survives_a_round_trip_through_json():
    import json

    rounds = [healthy(**{"conjecturer/parseable_rate": 0.2}), healthy(**{"conjecturer/parseable_rate": 0.2})]
    straight, stopped = CollapseGuard(window=3), CollapseGuard(window=3)
    for metrics in rounds:
        straight.observe(metrics), stopped.observe(metrics)
    resumed = CollapseGuard(window=3)
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    assert resumed == straight
    assert resumed.observe(rounds[0]) == straight.observe(rounds[0]) is not None


def test_the_advice_is_for_the_role_whose_metric_tripped():
    assert Trip("prover/loss", math.nan, "and must be finite").advice == (
        "Lower the prover's learning rate or raise its beta, and look for what is not finite in its rewards or loss"
    )
    assert Trip("grad_norm/prover", math.inf, "").advice.startswith("Lower the prover's learning rate")
    assert Trip("prover/entropy", 0.1, "under 0.2").advice == "Lower the prover's learning rate or raise its beta"
    for name in ("conjecturer/parseable_rate", "round/starved", "round/solve_rate_mean"):
        assert Trip(name, 0.1, "").advice == "Lower the conjecturer's learning rate or raise its beta"
