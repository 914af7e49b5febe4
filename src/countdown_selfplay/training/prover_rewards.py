"""Reward functions of the prover: those that are passed, or the verifier's score and the charges for length."""

from __future__ import annotations

from typing import Any

from ..config import JointSelfPlayConfig
from ..domains import name_of
from ..errors import ConfigError
from ..options import is_number
from ..rewards.prover.checked import default_reward_funcs
from .states import refuse_class


def prover_rewards(args: JointSelfPlayConfig, domain: Any, given: Any) -> Any:
    """`given`, or for None the default rewards. ConfigError unless each is a function, an id or a model and has a
    weight, if weights are set; and for charges beside rewards that are passed: they belong to the default ones, and
    would be skipped."""
    functions = given if isinstance(given, list | tuple) else [given]
    for function in functions:
        refuse_class("reward_funcs", function)
        if function is not None and not isinstance(function, str) and not callable(function):
            raise ConfigError(f"`reward_funcs` holds {function!r}; a reward is a function, a model's id or a model.")
    charges = {"length_penalty": args.length_penalty, "soft_overlong": args.added_overlong}
    if given is None:
        longest = args.solver.max_completion_length
        said = (args.length_penalty, args.added_overlong, longest, args.length_penalty_floor)
        given = functions = default_reward_funcs(f"{name_of(domain)}_reward", *said)
    elif any(charges.values()):
        name = next(name for name, charge in charges.items() if charge)
        raise ConfigError(
            f"`{name}` ({getattr(args, name)}) is added to the default rewards only; add make_{name}(...) to your "
            "reward_funcs and leave it unset."
        )
    weights = args.reward_weights
    if weights is not None and (len(weights) != len(functions) or not all(map(is_number, weights))):
        raise ConfigError(
            f"`reward_weights` ({weights}) must hold one finite number for each of the {len(functions)} reward "
            "functions; leave it unset to add them up."
        )
    return given
