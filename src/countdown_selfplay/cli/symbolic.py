"""`countdown-selfplay symbolic`: a symbolic proposer and a prover (seed 004), joint without a conjecturer."""

from __future__ import annotations

import sys

from ..errors import ConfigError
from .countdown_options import has_flag
from .joint import parse, play

HELP = "Train a prover on problems that a symbolic proposer makes and selects"


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """As `joint`, with the recipe tiny/symbolic_ucb by default. `launch`: as in joint."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not any(has_flag(argv, name) for name in ("--recipe", "--config", "--model_name_or_path")):
        argv += ["--recipe", "tiny/symbolic_ucb"]
    script, training, model = parse(argv, "symbolic")
    if training.proposer in (None, "policies"):
        raise ConfigError(
            f"`proposer` ({training.proposer}) is not for `symbolic`; set mutation, ucb, thompson or factorized, or "
            "use `joint`, where a conjecturer proposes."
        )
    if training.players_of("conjecturer"):
        raise ConfigError(
            f"`conjecturer_micro_batches` ({training.conjecturer_micro_batches}) gives the run a conjecturer that "
            f"nobody asks for problems: `proposer` is {training.proposer}; set it to 0."
        )
    return play(script, training, model, launch)
