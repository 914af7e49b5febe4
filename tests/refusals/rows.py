"""Tables of what is refused: what is built, and what the one sentence that refuses it must name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

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


def rows(make: Callable[..., Any], **settings: Any) -> list[Row]:
    """A row for each setting alone, which the sentence names with its value."""
    return [row(f"{name}={value}", make, **{name: value}) for name, value in settings.items()]


def rows_of_part(make: Callable[..., Any], part: str, **arguments: Any) -> list[Row]:
    """A row for each argument of a part alone, which the sentence names with its value."""
    return [row(f"{name}={value}", make, part, {name: value}) for name, value in arguments.items()]


def params(table: str, listed: list[Row]) -> list[Any]:
    return [pytest.param(one, id=f"{table}-{one.make.__name__}-{one.says}") for one in listed]


def check(row: Row) -> None:
    with pytest.raises(row.error) as refused:
        row.make(*row.given, **row.settings)
    said = str(refused.value)
    assert type(refused.value) is row.error and "\n" not in said
    for word in row.says.split():
        field, _, value = word.replace("~", " ").partition("=")
        assert (not field or f"`{field}`" in said) and value in said, said
