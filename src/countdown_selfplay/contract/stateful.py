"""What a checkpoint asks of a part that remembers something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..errors import ConfigError


@runtime_checkable
class Stateful(Protocol):
    """State is built from gathered records, so that all processes hold the same: the main process writes it, all read
    it. Values are JSON's (None, bool, int, float, str, list, dict with text keys) and NumPy arrays."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to go on bit for bit."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict."""
        ...


class Stateless:
    """Base of parts that remember nothing."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to load."""


def check_part(what: str, part: Any, base: type, methods: Sequence[str]) -> None:
    """ConfigError for a part, or a class of parts, that is not derived from `base`, lacks one of the `methods` that
    `base` leaves to it, or has one of the two methods on state alone, whose state no checkpoint would hold."""
    cls = part if isinstance(part, type) else type(part)
    if not issubclass(cls, base):
        raise ConfigError(
            f"{what} must be derived from {base.__name__} (`from {base.__module__} import {base.__name__}`), which "
            f"has the defaults of all optional methods; {cls.__name__} is not."
        )
    states = {"state_dict", "load_state_dict"}
    overridden = {name for name in (*methods, *states) if _written(cls, name) is not _written(base, name)}
    for name in methods:
        if name not in overridden:
            raise ConfigError(f"{what} must have a method `{name}`; {base.__module__} describes it ({base.__name__}).")
    if len(overridden & states) == 1:
        (missing,) = states - overridden
        raise ConfigError(
            f"{what} has no method `{missing}`, so that its state would be in no checkpoint; add it, or remove the "
            "other one."
        )


def _written(cls: type, name: str) -> Any:
    return next((vars(one)[name] for one in cls.__mro__ if name in vars(one)), None)
