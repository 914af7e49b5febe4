# Tests: tools/mutations.py, tools/tests_map.py
"""Mutations of small sources, and which tests are run for them."""

import json
import shutil
from types import SimpleNamespace

import pytest
from tools.trees import ROOT

from tools import mutations, tests_map

SOURCE = """\
def f(n: int = 3):
    \"\"\"A text.\"\"\"
    total.sum += n
    if n < 2 and "é" in n:
        raise ValueError(f"{n + 1}")
    notes[n] = not (n - 1)
    return g(n)
"""
PLACE = f"{mutations.PACKAGE}/a/small.py"


@pytest.fixture
def tree(tmp_path):
    """A package of one file, a test that looks at its values and one that only calls it."""
    files = {
        f"{mutations.PACKAGE}/__init__.py": "",
        f"{mutations.PACKAGE}/a/__init__.py": "",
        PLACE: "def double(n):\n    return n * 2\n",
        f"{mutations.PACKAGE}/other.py": "def one():\n    return 1\n",
        "tests/test_small.py": "from countdown_selfplay.a.small import double\n\n\n"
        "def test_value():\n    assert double(3) == 6\n\n\ndef test_call():\n    double(3)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "tests_map.py", tmp_path / "tools")
    return tmp_path


def test_operators_constants_conditions_and_lines_are_changed_and_no_text_or_annotation(tree):
    (tree / PLACE).write_text(SOURCE)
    found = mutations.mutations(tree, PLACE)
    assert [(one["line"], one["kind"], one["before"], one["after"]) for one in found] == [
        (1, "constant", "3", "6"), (3, "operator", "total.sum += n", "total.sum -= n"),
        (3, "line", "total.sum += n", "pass"), (4, "condition", "n < 2 and 'é' in n", "not (n < 2 and 'é' in n)"),
        (4, "operator", "n < 2 and 'é' in n", "n < 2 or 'é' in n"), (4, "operator", "n < 2", "n <= 2"),
        (4, "constant", "2", "4"), (4, "operator", "'é' in n", "'é' not in n"),
        (5, "line", "raise ValueError(f'{n + 1}')", "pass"), (6, "line", "notes[n] = not n - 1", "pass"),
        (6, "operator", "n - 1", "n + 1"), (6, "constant", "1", "2"),
    ]  # fmt: skip
    assert found[7]["text"].decode() == SOURCE.replace('"é" in n', "('é' not in n)")
    assert found[8]["text"].decode() == SOURCE.replace('raise ValueError(f"{n + 1}")', "pass")
    assert found[10]["text"].decode() == SOURCE.replace("n - 1", "(n + 1)")


def test_the_seed_draws_from_every_folder(tree):
    drawn = mutations.draw(tree, 3, seed=1)  # double has two mutations and one() has one
    assert sorted(one["key"].partition(f"{mutations.PACKAGE}/")[2] for one in drawn) == [
        "a/small.py|double|2 -> 4|1", "a/small.py|double|n * 2 -> n + 2|1", "other.py|one|1 -> 2|1",
    ]  # fmt: skip
    assert drawn == mutations.draw(tree, 3, seed=1)


@pytest.mark.parametrize("tests, outcome", [
    (["test_call", "test_value"], ("caught", "tests/test_small.py::test_value")),
    (["test_call"], ("survived", "1 tests pass")),
    ([], ("survived", "no test runs it")),
])  # fmt: skip
def test_a_mutation_is_caught_by_a_test_that_fails_and_the_file_is_as_before(tree, tests, outcome):
    one = next(one for one in mutations.mutations(tree, PLACE) if one["kind"] == "operator")
    before = (tree / PLACE).read_bytes()
    assert mutations.try_out(tree, one, [f"tests/test_small.py::{test}" for test in tests], 60) == outcome
    assert (tree / PLACE).read_bytes() == before and one["text"] != before


def test_the_tests_of_a_line_are_those_named_for_its_file_and_then_the_quick_ones(tree):
    (tree / PLACE).write_text("LIMIT = 3\n\n\ndef f():\n    return LIMIT\n\n\ndef g():\n    return 2\n")
    for name, first in (("a", ""), ("b", "# Tests: a/small.py"), ("c", "")):
        (tree / f"tests/test_{name}.py").write_text(f"{first}\n")
    contexts = {
        1: ["tests/test_c.py::of_import|run"],
        5: ["tests/test_a.py::slow|run", "tests/test_b.py::of_a_child (call)", "tests/test_c.py::fixture|setup"],
        9: ["tests/test_a.py::quick|run", "tests/test_a.py::fails|run", ""],
    }
    seconds = {"a.py::slow": 9, "a.py::quick": 1, "b.py::of_a_child": 20, "c.py::fixture": 2, "c.py::beside": 1}
    known = object.__new__(tests_map.Map)
    known.data = SimpleNamespace(contexts_by_lineno=lambda name: contexts)
    known.files = {"a/small.py": "somewhere"}
    known.seconds = {f"tests/test_{test}": cost for test, cost in seconds.items()}

    def order(line, most=99):
        return [test[11:] for test in known.order(tree, {"file": PLACE, "line": line, "end": line}, most)]

    assert order(9) == ["a.py::quick"]
    assert order(5) == ["b.py::of_a_child", "c.py::beside", "c.py::fixture", "a.py::slow"]
    assert order(5, most=12) == ["c.py::beside", "c.py::fixture", "a.py::slow"]
    assert order(1) == ["b.py::of_a_child", "c.py::beside", "c.py::fixture", "a.py::quick", "a.py::slow"]


def test_what_a_test_costs_is_written_and_added_by_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TIMED_TESTS", str(tmp_path / "tests.jsonl"))
    clock = iter([1.0, 3.5, 3.5, 4.0])
    monkeypatch.setattr(tests_map, "cpu", lambda: next(clock))
    for name, outcomes in (("a.py::one", ["passed", "passed"]), ("a.py::two", ["passed", "skipped"])):
        tests_map.pytest_runtest_logstart(name)
        for outcome in outcomes:
            tests_map.pytest_runtest_logreport(SimpleNamespace(outcome=outcome))
        tests_map.pytest_runtest_logfinish(name)
    rows = [json.loads(line) for line in (tmp_path / "tests.jsonl").read_text().splitlines()]
    assert [(row["id"], row["seconds"], row["passed"]) for row in rows] == [
        ("a.py::one", 2.5, True),
        ("a.py::two", 0.5, False),
    ]
    assert tests_map.main(["--top", "3", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "     3.0 a.py\n"
