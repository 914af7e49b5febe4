# Tests: config/rules.py, config/ranges.py, config/role_rules.py, config/part_rules.py, registry.py
"""Whatever cannot be meant is refused in one sentence that names the field and the value: a table of them, by what is
built. The wording is no matter; a row fails where the thing is built, or another rule answers."""

import pytest

from tests.refusals import parts, readers, rounds, settings

TABLES = {"settings": settings.ROWS, "parts": parts.ROWS, "readers": readers.ROWS, "rounds": rounds.ROWS}
ROWS = [
    pytest.param(row, id=f"{table}-{row.make.__name__}-{row.says}") for table, rows in TABLES.items() for row in rows
]


@pytest.mark.parametrize("row", ROWS)
def test_a_refusal_is_one_sentence_that_names_field_and_value(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(row.error) as refused:
        row.make(*row.given, **row.settings)
    said = str(refused.value)
    assert type(refused.value) is row.error and "\n" not in said
    for word in row.says.split():
        field, _, value = word.replace("~", " ").partition("=")
        assert (not field or f"`{field}`" in said) and value in said, said
