"""Interface of parts that keep state between rounds, which checkpoints save."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getattr_static
from typing import Any, Protocol, runtime_checkable

from ..errors import ConfigError


@runtime_checkable
class Stateful(Protocol):
    """Protocol of parts with state. State is computed from gathered records, so that it is equal on all processes; the
    main process writes it and all read it. Values are JSON values (None, bool, int, float, str, list, dict with text
    keys) and NumPy arrays.

    Example::

        >>> class Counter:
        ...     count = 0
        ...     def state_dict(self): return {"count": self.count}
        ...     def load_state_dict(self, state): self.count = state["count"]
        >>> isinstance(Counter(), Stateful)
        True
    """

    def state_dict(self) -> dict[str, Any]:
        """Return all values that a bit-exact resume needs."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the values of `state_dict`."""
        ...


class Stateless:
    """Base class of parts without state."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def check_part(what: str, part: Any, base: type, methods: Sequence[str]) -> None:
    """Raise ConfigError, in which `what` names the part, for a part (object or class) that is not derived from `base`,
    that lacks one of `methods`, or that has only one of `state_dict` and `load_state_dict`."""
    cls = part if isinstance(part, type) else type(part)
    if not issubclass(cls, base):
        raise ConfigError(f"{what} must be derived from {base.__name__} of {base.__module__}; {cls.__name__} is not.")
    states = {"state_dict", "load_state_dict"}
    overridden = {n for n in (*methods, *states) if getattr_static(cls, n, None) is not getattr_static(base, n, None)}
    for name in methods:
        if name not in overridden:
            raise ConfigError(f"{what} must have a method `{name}`; {base.__module__} describes it ({base.__name__}).")
    if len(overridden & states) == 1:
        (missing,) = states - overridden
        raise ConfigError(
            f"{what} has no `{missing}`: no checkpoint would have its state; add it, or remove the other one."
        )
