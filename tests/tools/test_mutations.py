# Tests: tools/mutations.py
"""Mutations of small sources, and which tests are run for them."""

from collections import Counter

import pytest

from tools import mutations

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
        PLACE: "LIMIT = 3\n\n\ndef double(n):\n    if n > LIMIT:\n        n = LIMIT\n    return n * 2\n",
        f"{mutations.PACKAGE}/other.py": "def one():\n    return 1\n",
        "tests/test_small.py": "# Tests: other.py, a/small.py\nfrom countdown_selfplay.a.small import double\n\n\n"
        "def test_value():\n    assert double(3) == 6\n\n\ndef test_call():\n    double(4)\n\n\n"
        "def test_wrong():\n    assert double(3) == 7\n",
        "tests/test_shared.py": "import pytest\nfrom countdown_selfplay.a.small import double\n\n\n"
        "@pytest.fixture(scope='module')\ndef six():\n    return double(3)\n\n\n"
        "def test_first(six):\n    pass\n\n\ndef test_second(six):\n    pass\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
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


@pytest.mark.parametrize("tests, outcome", [
    (["test_call", "test_value"], ("caught", "tests/test_small.py::test_value")),
    (["test_call"], ("survived", "1 of tests pass")),
    (["test_wrong"], ("survived", "tests/test_small.py::test_wrong, as without it")),
    ([], ("survived", "no test runs it")),
])  # fmt: skip
def test_a_mutation_is_caught_by_a_test_that_fails_and_the_file_is_as_before(tree, tests, outcome):
    one = next(one for one in mutations.mutations(tree, PLACE) if one["after"] == "n + 2")
    before = (tree / PLACE).read_bytes()
    assert mutations.try_out(tree, one, [f"tests/test_small.py::{test}" for test in tests], 60) == outcome
    assert (tree / PLACE).read_bytes() == before and one["text"] != before


def test_the_tests_of_a_mutation_are_those_named_for_its_file_and_those_that_run_its_line_the_quick_ones_first(tree):
    assert mutations.own_tests(tree, PLACE) == ["tests/test_small.py"]
    assert mutations.own_tests(tree, f"{mutations.PACKAGE}/small.py") == []
    before = (tree / PLACE).read_bytes()
    rows = [{"file": PLACE, "line": line, "end": line} for line in (1, 6, 7)]
    small, shared = (f"tests/test_{name}.py::test_" for name in ("small", "shared"))
    every = {f"{shared}first", f"{shared}second", f"{small}call", f"{small}value", f"{small}wrong"}
    found = mutations.reach(tree, rows, ["tests"], 60)
    assert [set(tests) for tests in found] == [every, {f"{small}call"}, every]
    assert (tree / PLACE).read_bytes() == before
    assert mutations.affordable({"a", "b", "c", "d"}, Counter(a=9.0, b=1.0, c=2.0), most=4) == ["d", "b", "c"]
