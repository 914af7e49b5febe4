# Tests: tools/tests_table.py
"""The first line of each test file, and the table in CONTRIBUTING.md that is made of them."""

from tools import tests_table


def test_each_test_file_begins_with_the_files_that_it_tests_and_they_exist():
    wrong = {
        str(path.relative_to(tests_table.ROOT)): [
            name for name in tests_table.named(path) if not tests_table.exists(name)
        ]
        for path in tests_table.files()
        if not tests_table.named(path) or not all(map(tests_table.exists, tests_table.named(path)))
    }
    assert wrong == {}


def test_each_module_has_a_test_file_that_names_it():
    known = {name for path in tests_table.files() for name in tests_table.named(path)}
    assert [name for name in tests_table.modules() if name not in known] == []


def test_the_table_in_contributing_is_that_of_the_first_lines():
    text = tests_table.PAGE.read_text(encoding="utf-8")
    assert tests_table.page(text) == text, "run: python -m tools.tests_table"


def test_a_first_line_is_read_and_its_names_are_turned_round(tmp_path, monkeypatch):
    monkeypatch.setattr(tests_table, "ROOT", tmp_path)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for name, first in {"test_a": "# Tests: games/a.py, games/b.py", "test_b": "# Tests: games/b.py"}.items():
        (tmp_path / "tests" / "unit" / f"{name}.py").write_text(first + '\n"""A page."""\n')
    (tmp_path / "tests" / "unit" / "test_c.py").write_text('"""Tests: games/c.py"""\n')
    expected = "| file | tests |\n|---|---|\n| games/a.py | unit/test_a |\n| games/b.py | unit/test_a, unit/test_b |"
    assert tests_table.table() == expected
    text = "before\n<!-- tests -->\nold\n<!-- /tests -->\nafter\n"
    assert tests_table.page(text) == f"before\n<!-- tests -->\n{expected}\n<!-- /tests -->\nafter\n"
