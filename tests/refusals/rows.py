"""A row of the tables: what is built, and what the one sentence that refuses it must name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from countdown_selfplay.errors import ConfigError


class Row(NamedTuple):
    """says: words, each `field`, `field=value` or `=value`: a field stands in backticks, a value
    anywhere; ~ is a space."""

    says: str
    make: Callable[..., Any]
    given: tuple[Any, ...]
    settings: dict[str, Any]
    error: type[Exception]


def row(
    says: str, make: Callable[..., Any], *given: Any, error: type[Exception] = ConfigError, **settings: Any
) -> Row:
    return Row(says, make, given, settings, error)
