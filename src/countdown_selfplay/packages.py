"""Packages beside the core (`warm_starts`, `worlds`, `lab`), and what they add by name.

The core imports none of them: it finds what they add by the dotted names below and in cli/commands.py alone, so that
each may be left out of an installation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import AbsentPackageError

BESIDE = ("warm_starts", "worlds", "lab")
"""Each imports from the core and from those before it."""

PARTS: Mapping[str, Mapping[str, str]] = {
    "domain": {
        "detachment": "worlds.detachment.domain:DetachmentDomain",
        "reasoning_gym": "worlds.reasoning_gym:ReasoningGym",
        "math_qa": "worlds.math_qa:MathQA",
        "verifiers": "worlds.verifiers:VerifiersTasks",
    },
    "proposer": {
        "oracle_targets": "lab.proposers.target_oracle:OracleTargets",
        "ucb_rungs": "lab.proposers.rung_bandits:UCBRungs",
        "thompson_rungs": "lab.proposers.rung_bandits:ThompsonRungs",
        "oracle_rungs": "lab.proposers.rung_oracle:OracleRungs",
    },
    "conjecturer reward": {
        "r_zero": "lab.rewards.r_zero:RZero",
        "frontier_distance": "lab.rewards.frontier_distance:FrontierDistance",
        "disagreement": "lab.rewards.disagreement:Disagreement",
        "adaptive_band": "lab.rewards.adaptive_band:AdaptiveBand",
        "solvability_aware": "lab.rewards.solvability_aware:solvability_aware",
    },
}
"""Kind of part -> name -> "module:attribute" below `countdown_selfplay`."""

CALLED: Mapping[str, str] = {
    "report": "lab.report:report",
    "write_report": "lab.report:write_report",
    "ScalingFit": "lab.scaling_fit:ScalingFit",
    "fit_scaling_curve": "lab.scaling_fit:fit_scaling_curve",
    "critic_tasks": "lab.cli.eval_tasks",
    "prepare": "warm_starts.cli.prepare:prepare",
}
"""What the core itself calls or exports of them -> its place, as in PARTS, or a module."""


@dataclass(frozen=True)
class EmbeddedModel:
    """A model that a package beside the core ships: its folder below this one, the domain that it plays, and the
    tokens after which an answer of it is cut."""

    folder: str
    domain: str
    max_new_tokens: int


MODELS: Mapping[str, EmbeddedModel] = {
    "tiny-detachment": EmbeddedModel("worlds/detachment/weights/prover", "detachment", 26),
    "tiny-detachment-conjecturer": EmbeddedModel("worlds/detachment/weights/conjecturer", "detachment", 26),
}
"""Name -> embedded model, beside those of `tiny`."""


def parts_beside(kind: str) -> dict[str, str]:
    """The entries of PARTS of one kind, as a `Registry` takes them."""
    return {name: f"{__package__}.{place}" for name, place in PARTS[kind].items()}


def absent_package(place: str) -> str | None:
    """The package of BESIDE that the dotted name `place` lies in, if it is not installed; else None.

    `place` may begin with `countdown_selfplay.`, and may go on with `:attribute`."""
    package = place.removeprefix(f"{__package__}.").partition(":")[0].partition(".")[0]
    if package not in BESIDE:
        return None
    spec = find_spec(f"{__package__}.{package}")  # without an origin: a folder that is left, without modules
    return package if spec is None or spec.origin is None else None


def absent_names(places: Mapping[str, Any]) -> set[str]:
    """The names of a registry, or of a table above, whose place lies in a package that is not installed."""
    return {name for name, place in places.items() if isinstance(place, str) and absent_package(place)}


def need(place: str, what: str) -> None:
    """AbsentPackageError, which names the package, if `what` lies in a package that is not installed."""
    package = absent_package(place)
    if package is not None:
        raise AbsentPackageError(
            f"{what} needs the package countdown_selfplay.{package}, which this installation lacks; install the whole "
            "wheel of countdown-selfplay."
        )


def attribute_of(place: str, what: str) -> Any:
    """What stands at `place` below `countdown_selfplay`, imported now: "module:attribute", or a module.
    AbsentPackageError as `need`."""
    need(place, what)
    module, _, name = place.partition(":")
    found = import_module(f"{__package__}.{module}")
    return getattr(found, name) if name else found
