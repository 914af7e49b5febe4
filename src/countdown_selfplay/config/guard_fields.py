"""Settings of the collapse guard: what counts as a collapse and what is done about it."""

from dataclasses import dataclass, field


@dataclass
class GuardFields:
    """Thresholds are compared with means over the last guard_window rounds."""

    guard: bool = field(
        default=True,
        metadata={"help": "Watch the curriculum and roll back to the last healthy checkpoint when it collapses."},
    )
    guard_window: int = field(
        default=10, metadata={"help": "Rounds that are averaged before a threshold is compared."}
    )
    guard_min_parseable_rate: float = field(
        default=0.5, metadata={"help": "Trip when the mean parseable rate falls under this value (seed 001: 0.5)."}
    )
    guard_max_starved_rounds: int = field(
        default=20,
        metadata={"help": "Trip when this many rounds in a row played no conjectured problem."},
    )
    guard_min_solve_rate: float = field(
        default=0.01,
        metadata={"help": "Trip when the mean solve rate of conjectured problems falls under this value. 0: never."},
    )
    guard_max_solve_rate: float = field(
        default=0.99,
        metadata={"help": "Trip when the mean solve rate of conjectured problems rises over this value. 1: never."},
    )
    guard_min_entropy: float = field(
        default=0.0,
        metadata={"help": "Trip when a role's mean entropy (nats per token) falls under this value. 0: never."},
    )
    guard_max_rollbacks: int = field(
        default=3,
        metadata={"help": "Rollbacks before the run stops with an error that names the last trip."},
    )
