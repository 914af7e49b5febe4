"""Load reward functions and callbacks that the command line or YAML names as my_module:name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ConfigError
from ..registry import Registry

_REWARDS: Registry[Any] = Registry("prover reward", {"verifier": "verifier"})
_CALLBACKS: Registry[Any] = Registry("callback", {"EarlyStoppingCallback": "transformers:EarlyStoppingCallback"})


def reward_funcs_of(names: Sequence[str] | None, verifier: Callable[..., Any]) -> list[Callable[..., Any]] | None:
    """Load the functions of `reward_funcs`; the word `verifier` stands for `verifier`. None selects the trainer's
    default."""
    functions = [verifier if name == "verifier" else _REWARDS.load(name) for name in names or ()]
    for name, function in zip(names or (), functions, strict=True):
        if isinstance(function, type) or not callable(function):
            raise ConfigError(
                f"`reward_funcs` ({name}) must name a function (prompts, completions, **columns) -> rewards, or an "
                "object that can be called."
            )
    return functions or None


def callbacks_of(names: Sequence[str] | None, patience: int | None = None) -> list[Any]:
    """Build the callbacks of `callbacks` without arguments, and an EarlyStoppingCallback if `patience` is set."""
    from transformers import EarlyStoppingCallback, TrainerCallback

    callbacks = []
    for name in names or ():
        entry = _CALLBACKS.load(name)
        try:
            callback = entry() if isinstance(entry, type) else entry
        except TypeError as error:
            raise ConfigError(f"`callbacks` ({name}) cannot be built without arguments: {error}.") from None
        if not isinstance(callback, TrainerCallback):
            raise ConfigError(f"`callbacks` ({name}) must name a class of TrainerCallback, or an object of one.")
        callbacks.append(callback)
    return callbacks + ([] if patience is None else [EarlyStoppingCallback(patience)])
