"""How a row of a table is tried, wherever the table stands."""

from typing import Any

import pytest

from tests.refusals.rows import Row


def params(table: str, rows: list[Row]) -> list[Any]:
    return [pytest.param(row, id=f"{table}-{row.make.__name__}-{row.says}") for row in rows]


def check(row: Row) -> None:
    with pytest.raises(row.error) as refused:
        row.make(*row.given, **row.settings)
    said = str(refused.value)
    assert type(refused.value) is row.error and "\n" not in said
    for word in row.says.split():
        field, _, value = word.replace("~", " ").partition("=")
        assert (not field or f"`{field}`" in said) and value in said, said
