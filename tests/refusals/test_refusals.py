# Tests: config/rules.py, config/settled.py, config/role_rules.py, config/part_rules.py, registry.py
"""Whatever cannot be meant is refused in one sentence that names the field and the value: a table."""

import pytest

from tests.refusals import parts, readers, rounds, settings, states
from tests.refusals.rows import check, params

TABLES = (settings, parts, readers, rounds, states)


@pytest.mark.parametrize("row", [one for t in TABLES for one in params(t.__name__.rpartition(".")[2], t.ROWS)])
def test_a_refusal_is_one_sentence_that_names_field_and_value(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(row)
