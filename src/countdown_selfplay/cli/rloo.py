"""`countdown-selfplay rloo`: single-policy RLOO of the prover, the joint trainer without a conjecturer."""

from __future__ import annotations

import sys

from ..errors import ConfigError
from .countdown_options import flag_value, has_flag
from .joint import parse, play

HELP = "Train a prover alone by RLOO, with the trainer, folder and report of joint"


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """As `joint`, with the recipe tiny/rloo by default and `conjecturer_micro_batches` 0 whatever the recipe says, so
    that a joint run's own recipe gives its baseline on the same number of prover samples. `launch`: as in joint."""
    argv = list(sys.argv[1:] if argv is None else argv)
    asked = flag_value(argv, "--conjecturer_micro_batches")
    if asked not in (None, "0"):
        raise ConfigError(
            f"`conjecturer_micro_batches` ({asked}) must be 0 here: rloo trains the prover alone; `joint` trains both."
        )
    if not any(has_flag(argv, name) for name in ("--recipe", "--config", "--model_name_or_path")):
        argv += ["--recipe", "tiny/rloo"]
    if asked is None:
        argv += ["--conjecturer_micro_batches", "0"]
    script, training, model = parse(argv, "rloo")
    for name, allowed in (("prover_objective", ("rloo",)), ("conjecturer_model_name_or_path", (None,))):
        value = getattr(training if hasattr(training, name) else script, name)
        if value not in allowed:
            raise ConfigError(
                f"`{name}` ({value}) is not for rloo, which trains the prover alone and by RLOO; use `joint`, with "
                "--conjecturer_micro_batches 0 if the prover shall learn alone."
            )
    return play(script, training, model, launch)
