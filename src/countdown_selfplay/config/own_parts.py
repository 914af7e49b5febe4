"""Parts of a user's own that the command line and YAML name as my_module:name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ConfigError
from ..registry import Registry

_REWARDS: Registry[Any] = Registry("prover reward", {"verifier": "verifier"})
_CALLBACKS: Registry[Any] = Registry("callback", {"EarlyStoppingCallback": "transformers:EarlyStoppingCallback"})


def reward_funcs_of(names: Sequence[str] | None, verifier: Callable[..., Any]) -> list[Callable[..., Any]] | None:
    """The functions that `reward_funcs` names, `verifier` for that word; None for None, the trainer's default ones."""
    found = [verifier if name == "verifier" else _REWARDS.load(name) for name in names or ()]
    for name, function in zip(names or (), found, strict=True):
        if isinstance(function, type) or not callable(function):
            raise ConfigError(
                f"`reward_funcs` ({name}) must name a function (prompts, completions, **columns) -> rewards, or an "
                "object that can be called."
            )
    return found or None


def callbacks_of(names: Sequence[str] | None, patience: int | None = None) -> list[Any]:
    """The callbacks that `callbacks` names, built without arguments, and the one that ends a run early."""
    from transformers import EarlyStoppingCallback, TrainerCallback

    found = []
    for name in names or ():
        entry = _CALLBACKS.load(name)
        try:
            callback = entry() if isinstance(entry, type) else entry
        except TypeError as error:
            raise ConfigError(f"`callbacks` ({name}) cannot be built without arguments: {error}.") from None
        if not isinstance(callback, TrainerCallback):
            raise ConfigError(f"`callbacks` ({name}) must name a class of TrainerCallback, or an object of one.")
        found.append(callback)
    return found + ([] if patience is None else [EarlyStoppingCallback(patience)])
