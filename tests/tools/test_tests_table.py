# Tests: tools/tests_table.py
"""The first line of each test file, and the test files of a source file that they tell."""

from tools import tests_table


def test_each_test_file_begins_with_files_that_exist_and_each_module_is_among_them():
    named = {str(path.relative_to(tests_table.ROOT)): tests_table.named(path) for path in tests_table.files()}
    assert [path for path, names in named.items() if not names] == []
    known = {name for names in named.values() for name in names}
    assert [name for name in known if not tests_table.exists(name)] == []
    assert [name for name in tests_table.modules() if name not in known] == []


def test_a_first_line_is_read_and_its_names_are_turned_round(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tests_table, "ROOT", tmp_path)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for name, first in {"test_a": "# Tests: games/a.py, games/b.py", "test_b": "# Tests: games/b.py"}.items():
        (tmp_path / "tests" / "unit" / f"{name}.py").write_text(first + '\n"""A page."""\n')
    (tmp_path / "tests" / "unit" / "test_c.py").write_text('"""Tests: games/c.py"""\n')
    both = ["tests/unit/test_a.py", "tests/unit/test_b.py"]
    assert tests_table.tests_of() == {"games/a.py": both[:1], "games/b.py": both}
    assert tests_table.main(["src/countdown_selfplay/games/b.py", "games/a.py"]) == 0
    assert capsys.readouterr().out.splitlines() == both
    assert tests_table.main(["games/c.py"]) == 1
