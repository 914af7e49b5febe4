"""`countdown-selfplay sgs`: self-guided self-play (seed 003), which is `joint` with a recipe of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import ConfigError
from .countdown_options import has_flag
from .joint import parse, play

HELP = "Train on a set of hard targets, with problems proposed for the sake of each that is unsolved"

DEFAULT_RECIPE = "tiny/sgs"


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """As `joint`, with the recipe tiny/sgs by default. `launch`: as in joint."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not any(has_flag(argv, name) for name in ("--recipe", "--config", "--model_name_or_path")):
        argv += ["--recipe", DEFAULT_RECIPE]
    script, training, model = parse(argv, "sgs")
    if training.proposer not in ("targets", "stp"):
        raise ConfigError(
            f"`proposer` ({training.proposer}) must be targets or stp here; other rounds are played by `joint`."
        )
    made = [model.model_name_or_path, *(s.model for s in training.all_roles.values()), script.dataset_name]
    missing = [
        name for name in made if name is not None and name.startswith("runs/tiny-sgs") and not Path(name).exists()
    ]
    if missing and not script.dry_run:
        raise ConfigError(
            f"'{missing[0]}', which the recipe {script.recipe} starts from, is not there yet; `python examples/sgs.py "
            "--prepare` makes it in a few minutes: two warm starts and a set of hard targets."
        )
    return play(script, training, model, launch)
