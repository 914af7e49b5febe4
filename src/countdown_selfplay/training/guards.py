"""The guards of a run: the collapse guard over its declared metrics, and that of the conjecturers alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..config import JointSelfPlayConfig
from ..config.fields import Thresholds
from ..contract.metric import UNBOUNDED, Metric, Range, declaration_of
from ..curriculum import CollapseGuard, ConjecturerGuard
from ..errors import ConfigError
from ..registry import suggestion

_BOUNDS = (  # threshold, end of the name of the metrics that it is for, which end of their range
    ("min_parseable_rate", "/parseable_rate", 0),
    ("min_solve_rate", "round/solve_rate_mean", 0),
    ("max_solve_rate", "round/solve_rate_mean", 1),
    ("min_entropy", "/entropy", 0),
)


def guard_of(args: JointSelfPlayConfig, metrics: Iterable[Metric]) -> CollapseGuard:
    """The collapse guard over the declared metrics. A threshold that is not at its default wins over the declaration,
    and the range of a metric in `guard_trips` over both."""
    declared, trips = list(metrics), dict[str, Range]()
    asked, usual = args.thresholds, Thresholds()
    for name, end, side in _BOUNDS:
        value = getattr(asked, name)
        for metric in declared:
            if value != getattr(usual, name) and metric.name.endswith(end):
                low, high = trips.get(metric.name, metric.trip) or UNBOUNDED
                bound = UNBOUNDED[side] if value == side else value  # 0 and 1: never
                trips[metric.name] = (low, bound) if side else (bound, high)
    if conjecturer_guard_of(args) is not None:
        trips |= {m.name: UNBOUNDED for m in declared if m.name.endswith("/parseable_rate")}
    rounds = asked.max_starved_rounds
    if rounds != usual.max_starved_rounds:
        declared = [replace(m, in_a_row=rounds) if m.name == "round/starved" else m for m in declared]
    names = {metric.name for metric in declared}
    for name, bounds in args.trips.items():
        found = declaration_of(name, declared)
        if found is None:
            raise ConfigError(
                f"`guard_trips` names '{name}', which no round of this run logs.{suggestion(name, sorted(names))} "
                "docs/metrics.md lists the metrics; times and evaluations are not among those that the guard sees."
            )
        declared += [] if name in names else [found]
        trips[name] = bounds
    return CollapseGuard(declared, args.guard_window, trips)


def conjecturer_guard_of(args: JointSelfPlayConfig) -> ConjecturerGuard | None:
    """The guard of the conjecturers alone, under guard_scope=conjecturer."""
    players = args.players_of("conjecturer")
    if not args.guard or args.guard_scope == "run" or not players:
        return None
    return ConjecturerGuard(players, args.thresholds.min_parseable_rate)
