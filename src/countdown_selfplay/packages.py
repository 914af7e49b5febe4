"""Optional packages (`warm_starts`, `worlds`, `lab`), and the parts that they add by name. The core does not import
them: it uses only the dotted names below and in cli/commands.py, so that each may be left out of an installation."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import AbsentPackageError

BESIDE = ("warm_starts", "worlds", "lab")
"""Optional packages; each imports from the core and from those before it."""

PARTS: Mapping[str, Mapping[str, str]] = {
    "domain": {
        "detachment": "worlds.detachment.domain:DetachmentDomain",
        "reasoning_gym": "worlds.reasoning_gym:ReasoningGym",
        "math_qa": "worlds.math_qa:MathQA",
        "verifiers": "worlds.verifiers:VerifiersTasks",
    },
    "proposer": {
        "oracle_targets": "lab.proposers.target_oracle:OracleTargets",
        "ucb_rungs": "lab.proposers.rungs:UCBRungs",
        "thompson_rungs": "lab.proposers.rungs:ThompsonRungs",
        "oracle_rungs": "lab.proposers.rungs:OracleRungs",
    },
    "conjecturer reward": {
        "r_zero": "lab.rewards:RZero",
        "frontier_distance": "lab.rewards:FrontierDistance",
        "disagreement": "lab.rewards:Disagreement",
        "adaptive_band": "lab.rewards:AdaptiveBand",
        "solvability_aware": "lab.rewards:SolvabilityAware",
    },
}
"""Map of each type of part to its names and their "module:attribute" below `countdown_selfplay`."""

CALLED: Mapping[str, str] = {
    "report": "lab.report:report",
    "write_report": "lab.report:write_report",
    "ScalingFit": "lab.scaling_fit:ScalingFit",
    "fit_scaling_curve": "lab.scaling_fit:fit_scaling_curve",
    "critic_tasks": "lab.cli.eval_tasks",
    "iterations": "warm_starts.iterated.log",
    "prepare": "warm_starts.cli.prepare:prepare",
}
"""Map of each name that the core calls or exports to its place: "module:attribute" as in PARTS, or a module."""


@dataclass(frozen=True)
class EmbeddedModel:
    """Model that an optional package ships: its folder below `countdown_selfplay`, its domain, and the token limit of
    its answers."""

    folder: str
    domain: str
    max_new_tokens: int


MODELS: Mapping[str, EmbeddedModel] = {
    "tiny-detachment": EmbeddedModel("worlds/detachment/weights/prover", "detachment", 26),
    "tiny-detachment-conjecturer": EmbeddedModel("worlds/detachment/weights/conjecturer", "detachment", 26),
}
"""Embedded models by name, in addition to those of `tiny`."""


def parts_beside(kind: str) -> dict[str, str]:
    """Return the entries of PARTS of one type with absolute names, as a `Registry` takes them."""
    return {name: f"{__package__}.{place}" for name, place in PARTS[kind].items()}


def absent_package(place: str) -> str | None:
    """Return the package of BESIDE that contains the dotted name `place`, if it is not installed; else None. `place`
    may begin with `countdown_selfplay.`, and may have an `:attribute`."""
    package = place.removeprefix(f"{__package__}.").partition(":")[0].partition(".")[0]
    if package not in BESIDE:
        return None
    spec = find_spec(f"{__package__}.{package}")  # without an origin: a remaining folder without modules
    return package if spec is None or spec.origin is None else None


def absent_names(places: Mapping[str, Any]) -> set[str]:
    """Return the names in `places` whose place is in a package of BESIDE that is not installed."""
    return {name for name, place in places.items() if isinstance(place, str) and absent_package(place)}


def need(place: str, what: str) -> None:
    """Raise AbsentPackageError if the package of `place` is not installed. `what`: subject of the message."""
    package = absent_package(place)
    if package is not None:
        raise AbsentPackageError(
            f"{what} needs countdown_selfplay.{package}, which this installation lacks; install the whole wheel."
        )


def attribute_of(place: str, what: str) -> Any:
    """Return the module or attribute at a place below `countdown_selfplay`. Raises AbsentPackageError as `need`."""
    need(place, what)
    module, _, name = place.partition(":")
    loaded = import_module(f"{__package__}.{module}")
    return getattr(loaded, name) if name else loaded
