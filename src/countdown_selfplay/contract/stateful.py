"""What a checkpoint asks of a part that remembers something."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


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
