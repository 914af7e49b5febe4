"""`countdown-selfplay pool`: tiered conjecturers and several provers (seed 000), the joint trainer with a recipe of
its own."""

from __future__ import annotations

import sys

from ..errors import ConfigError
from .countdown_options import has_flag
from .joint import parse, play

HELP = "Train a pool: conjecturers by tiers of difficulty, several provers, expert iteration"


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """As `joint`, with the recipe tiny/pool by default. `launch`: as in joint."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not any(has_flag(argv, name) for name in ("--recipe", "--config", "--model_name_or_path")):
        argv += ["--recipe", "tiny/pool"]
    script, training, model = parse(argv, "pool")
    if training.proposer != "tiers":
        raise ConfigError(
            f"`proposer` ({training.proposer}) must be tiers here; pass --recipe tiny/pool (or "
            "qwen2.5-0.5b/pool), or use `joint`."
        )
    return play(script, training, model, launch)
