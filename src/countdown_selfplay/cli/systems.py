"""`countdown-selfplay pool`, `sgs` and `symbolic`: `joint` with a recipe of its own and a check that it fits. What is
heavy is imported when one of them runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..config import JointSelfPlayConfig


@dataclass(frozen=True)
class System:
    """A command that is `joint` for one kind of run."""

    help: str
    """Its line in `countdown-selfplay --help`."""
    recipe: str
    """What it runs where neither a recipe, a config file nor a model is named."""
    refusal: Callable[[JointSelfPlayConfig], str | None]
    """Why other settings are not for it, or None."""
    prepares: str | None = None
    """The folder that its --prepare fills, for a system that has it."""

    def epilog(self) -> str:
        """The paragraph of its --help."""
        said = f"With no argument it plays recipe {self.recipe}. The options are those of joint"
        if self.prepares is None:
            return f"{said}.\n"
        return (
            f"{said}, and --prepare [--recipe NAME]:\nit makes what the recipe starts from in {self.prepares}, once, "
            "in a few minutes, and ends. A second call finds it there.\n"
        )


def _pool(args: JointSelfPlayConfig) -> str | None:
    if args.proposer == "tiers":
        return None
    return (
        f"`proposer` ({args.proposer}) must be tiers here; pass --recipe tiny/pool (or qwen2.5-0.5b/pool), or use "
        "`joint`."
    )


def _sgs(args: JointSelfPlayConfig) -> str | None:
    if args.proposer in ("targets", "stp"):
        return None
    return f"`proposer` ({args.proposer}) must be targets or stp here; other rounds are played by `joint`."


def _symbolic(args: JointSelfPlayConfig) -> str | None:
    if args.proposer in (None, "policies", "tiers", "targets", "stp"):
        return (
            f"`proposer` ({args.proposer}) is not for `symbolic`; set mutation, ucb, thompson or factorized, or use "
            "`joint`, where a conjecturer proposes."
        )
    if args.players_of("conjecturer"):
        return (
            f"`conjecturer_micro_batches` ({args.conjecturer_micro_batches}) gives the run a conjecturer that nobody "
            f"asks for problems: `proposer` is {args.proposer}; set it to 0."
        )
    return None


SYSTEMS = {
    "pool": System(
        "Train a pool: conjecturers by tiers of difficulty, several provers, expert iteration",
        "tiny/pool",
        _pool,
        "runs/pool-start",
    ),
    "sgs": System(
        "Train on a set of hard targets, with problems proposed for each unsolved one",
        "tiny/sgs",
        _sgs,
        "runs/tiny-sgs",
    ),
    "symbolic": System(
        "Train a prover on problems that a symbolic proposer makes and selects", "tiny/symbolic_ucb", _symbolic
    ),
}


def main(command: str, argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """As `joint`, for a command of SYSTEMS. `launch`: as in joint."""
    from .countdown_options import has_flag
    from .joint import parse, play

    system, argv = SYSTEMS[command], list(sys.argv[1:] if argv is None else argv)
    if not any(has_flag(argv, name) for name in ("--recipe", "--config", "--model_name_or_path")):
        argv += ["--recipe", system.recipe]
    script, training, model = parse(argv, command, system.epilog())
    refused = system.refusal(training)
    if refused is not None:
        raise ConfigError(refused)
    return play(script, training, model, launch)
