# Tests: tools/mutations.py
"""Mutations of small sources, and which tests are run for them."""

import pytest

from tools import mutations

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


@pytest.mark.nightly
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
