"""Rounds and optimizer steps: a round is `steps_per_round` of them. Users count rounds (max_steps, cadences, warm-up);
the stock Trainer counts optimizer steps, and so do its logs and the names of checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_COUNTED = ("max_steps", "logging_steps", "save_steps", "eval_steps")


@contextmanager
def counted_in_steps(args: Any, rounds: int) -> Iterator[None]:
    """Inside the block the cadences of `args` are in optimizer steps, whole rounds each: checkpoints and evaluations
    fall between two rounds. `rounds`: of the whole run, of which a cadence below 1 is a share."""
    kept = {name: getattr(args, name) for name in _COUNTED}
    if args.steps_per_round > 1:
        for name, value in kept.items():
            if value is not None and value > 0:
                every = math.ceil(value * rounds) if value < 1 else int(value)
                setattr(args, name, every * args.steps_per_round)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(args, name, value)


def ends_round(args: Any, step: int) -> bool:
    """Is optimizer step number `step`, counted from 1, the last one of a round?"""
    return step % args.steps_per_round == 0
