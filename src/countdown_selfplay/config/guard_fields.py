"""Settings of the collapse guard: what counts as a collapse and what is done about it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from ..contract.metric import Range, read_range
from ..errors import ConfigError
from ..games.metrics import METRICS
from .number_checks import json_object

_DECLARED: dict[str, Any] = {metric.name: metric for metric in METRICS}
_PARSEABLE, _SOLVED = (_DECLARED[name].trip for name in ("{conjecturer}/parseable_rate", "round/solve_rate_mean"))


@dataclass
class GuardFields:
    """Thresholds are compared with means over the last guard_window rounds."""

    guard: bool = field(
        default=True,
        metadata={"help": "Watch the curriculum and roll back to the last healthy checkpoint when it collapses."},
    )
    guard_scope: Literal["run", "conjecturer"] = field(
        default="run",
        metadata={
            "help": "Scope of a rollback. run: the whole run, by all rules of the guard. conjecturer: a conjecturer "
            "whose parseable rate in the current round is under guard_min_parseable_rate gets the weights and the "
            "optimizer state of its last healthy checkpoint, everything else continues, any number of times (seed "
            "001); the other rules still roll the run back."
        },
    )
    guard_window: int = field(
        default=10, metadata={"help": "Rounds that are averaged before a threshold is compared."}
    )
    guard_min_parseable_rate: float = field(
        default=_PARSEABLE[0],
        metadata={"help": "Trip when the mean parseable rate falls under this value (Allen and Ståblein: 0.5)."},
    )
    guard_max_starved_rounds: int = field(
        default=_DECLARED["round/starved"].in_a_row,
        metadata={"help": "Trip when this many rounds in a row played no conjectured problem."},
    )
    guard_min_solve_rate: float = field(
        default=_SOLVED[0],
        metadata={"help": "Trip when the mean solve rate of conjectured problems falls under this value. 0: never."},
    )
    guard_max_solve_rate: float = field(
        default=_SOLVED[1],
        metadata={"help": "Trip when the mean solve rate of conjectured problems rises over this value. 1: never."},
    )
    guard_min_entropy: float = field(
        default=0.0,
        metadata={"help": "Trip when a role's mean entropy (nats per token) falls under this value. 0: never."},
    )
    guard_trips: dict | str | None = field(
        default=None,
        metadata={
            "help": "Trip when the mean of a metric of a round (docs/metrics.md) leaves its range, as JSON: "
            "'{\"prover/entropy\": [0.1, null]}'; null: no bound. It overrides the other fields."
        },
    )
    guard_max_rollbacks: int = field(
        default=3,
        metadata={
            "help": "Rollbacks of the whole run before it stops with an error that names the last trip; those of a "
            "conjecturer alone (guard_scope) are not counted."
        },
    )


def trips_of(given: dict[str, Any] | str | None) -> dict[str, Range]:
    """`guard_trips` as ranges by the metric's name. Whether there is such a metric is known when there is a game."""
    read = json_object("guard_trips", given, '{"prover/entropy": [0.1, null]}')
    found = {}
    for name, bounds in read.items():
        try:
            found[str(name)] = read_range(bounds)
        except ValueError as error:
            raise ConfigError(
                f"`guard_trips` of '{name}' ({bounds!r}) must be a range [low, high] with low <= high and null for no "
                f"bound, such as [0.1, null]: {error}."
            ) from None
    return found
