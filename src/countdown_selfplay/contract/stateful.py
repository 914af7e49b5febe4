"""What a checkpoint asks of a part that remembers something."""

from __future__ import annotations

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


def check_stateful(what: str, part: object) -> None:
    """ConfigError for a part with one of the two methods: it would be left out of checkpoints without a word."""
    missing = [name for name in ("state_dict", "load_state_dict") if not callable(getattr(part, name, None))]
    if len(missing) == 1:
        raise ConfigError(
            f"{what} has no method `{missing[0]}`, so that its state would be in no checkpoint; add it, or remove the "
            "other one."
        )
