# Tests: tools/budgets.py
"""Lines are counted by part, and a part over its budget fails."""

import pytest

from tools import budgets


@pytest.fixture
def tree(tmp_path, monkeypatch):
    package = tmp_path / "src/countdown_selfplay"
    for name, lines in {"errors.py": 3, "games/round.py": 4, "lab/arena/board.py": 5}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n" * lines)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_x.py").write_text("x\n" * 6)
    (tmp_path / "tools").mkdir()
    monkeypatch.setattr(budgets, "ROOT", tmp_path)
    return tmp_path


def test_a_folder_without_a_budget_is_the_cores_and_a_part_over_its_budget_is_named(tree, capsys):
    (tree / "tools/budgets.toml").write_text("core = 7\nlab = 5\ntests = 6\n")
    assert budgets.lines() == {"core": 7, "lab": 5, "tests": 6}
    assert budgets.main() == 0 and "too many" not in capsys.readouterr().out
    (tree / "tools/budgets.toml").write_text("core = 7\nlab = 3\ntests = 6\n")
    assert budgets.main() == 1
    assert any(line.startswith("lab") and "2 too many" in line for line in capsys.readouterr().out.splitlines())
