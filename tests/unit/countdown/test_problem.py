# Tests: countdown/problem.py
"""Problems, their identity, their ranges, and reading them from data sets."""

import pickle

import numpy as np
import pytest

from countdown_selfplay.countdown import Problem, ProblemSpec, problem_from_row
from countdown_selfplay.errors import ConfigError, CountdownSelfPlayError, DataError


def test_the_key_is_the_sorted_numbers_and_the_target():
    assert Problem((44, 19, 35), 98).key == "19,35,44=98"
    assert Problem((35, 44, 19), 98).key == Problem((44, 19, 35), 98).key
    assert Problem((35, 44, 19), 98) != Problem((44, 19, 35), 98)  # they print differently
    assert Problem((1, 23), 4).key != Problem((12, 3), 4).key


def test_integers_of_numpy_and_lists_are_taken_and_become_plain():
    p = Problem(np.array([44, 19], dtype=np.int32), np.int64(63))
    assert p == Problem((44, 19), 63) == Problem([44, 19], 63)
    assert {type(n) for n in (*p.numbers, p.target)} == {int}
    assert pickle.loads(pickle.dumps(p)) == p
    assert hash(p) == hash(Problem((44, 19), 63))


@pytest.mark.parametrize(
    ("numbers", "target", "message"),
    [
        ((), 1, "1 to 100 numbers, got 0"),
        ((1,) * 101, 1, "1 to 100 numbers, got 101"),
        ((0, 1), 1, "positive, got 0"),
        ((1, -3), 1, "positive, got -3"),
        ((1.0, 2), 1, "number 1 must be an integer, got 1.0"),
        ((1, "2"), 1, "number 2 must be an integer, got '2'"),
        ((True, 2), 1, "number 1 must be an integer, got True"),
        ((1, 10**9 + 1), 1, "number 2 must lie within"),
        ((1, 10**5000), 1, "number 2 must lie within"),
        ((1, 2), 3.0, "target must be an integer, got 3.0"),
        ((1, 2), None, "target must be an integer, got None"),
        ((1, 2), 10**10, "target must lie within"),
        ("12", 3, "list of integers"),
        (12, 3, "list of integers"),
        ({1: 2}, 3, "list of integers"),
        ([[1, 2]], 3, "number 1 must be an integer"),
        (np.array([[1, 2]]), 3, "number 1 must be an integer"),
    ],
)
def test_anything_else_is_one_clear_error(numbers, target, message):
    with pytest.raises(DataError, match=message) as caught:
        Problem(numbers, target)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, CountdownSelfPlayError)
    assert len(str(caught.value)) < 200


def test_the_spec_admits_what_lies_in_all_its_ranges():
    spec = ProblemSpec()
    assert spec.admits(Problem((1, 99, 50), 10)) and spec.admits(Problem((1, 2, 3, 4), 100))
    for outside in [((1, 2), 50), ((1, 2, 3, 4, 5), 50), ((1, 2, 100), 50), ((1, 2, 3), 9), ((1, 2, 3), 101)]:
        assert not spec.admits(Problem(*outside)), outside
    assert not ProblemSpec(number_low=5).admits(Problem((4, 5, 6), 50))


@pytest.mark.parametrize(
    "ranges",
    [{"operands": ()}, {"operands": (0,)}, {"number_low": 0}, {"number_low": 9, "number_high": 8},
     {"target_low": 9, "target_high": 8}],
)  # fmt: skip
def test_an_impossible_range_is_refused(ranges):
    with pytest.raises(ConfigError, match=next(iter(ranges))):
        ProblemSpec(**ranges)


P = Problem((44, 19, 35), 98)


@pytest.mark.parametrize(
    "row",
    [
        {"nums": [44, 19, 35], "target": 98},
        {"numbers": (44, 19, 35), "target": 98, "prompt": "anything"},
        {"numbers": np.array([44, 19, 35]), "target": np.int64(98)},
        {"ground_truth": {"numbers": [44, 19, 35], "target": 98}, "prompt": "anything"},
        {"ground_truth": {"nums": [44, 19, 35], "target": 98}, "target": None},
        {"nums": [44, 19, 35], "target": 98, "ground_truth": {"numbers": [44, 19, 35], "target": 98}},
        {"numbers": None, "nums": [44, 19, 35], "target": 98},
        {"numbers": [44.0, 19, 35], "target": 98.0},
        {"numbers": np.array([44.0, 19.0, 35.0]), "target": np.float64(98)},
        {"nums": "[44, 19, 35]", "target": 98},  # a CSV file holds lists as text
        {"nums": " [44  19 35]", "target": 98},  # as NumPy prints them
    ],
)
def test_every_public_schema_is_read(row):
    assert problem_from_row(row, 0) == P


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"target": 98}, "row 3, column 'numbers': absent.*it has target"),
        ({}, "row 3, column 'numbers': absent"),
        ({"nums": [44, 19]}, "row 3, column 'target': absent"),
        ({"nums": [], "target": 9}, "row 3, column 'nums': A problem has 1 to 100 numbers, got 0"),
        ({"nums": [1, None], "target": 9}, "row 3, column 'nums': number 2 must be an integer, got None"),
        ({"nums": "44 19", "target": 9}, "row 3, column 'nums': numbers must be a list of integers, got '44 19'"),
        ({"nums": "[44, -19]", "target": 9}, "numbers must be a list of integers"),
        ({"nums": "[44, 1.5]", "target": 9}, "numbers must be a list of integers"),
        ({"nums": "[" + "1," * 500 + "1]", "target": 9}, "numbers must be a list of integers"),
        ({"numbers": [1.5], "target": 9}, "row 3, column 'numbers': number 1 must be an integer, got 1.5"),
        ({"numbers": [1], "target": float("nan")}, "row 3, column 'target': target must be an integer, got nan"),
        ({"numbers": [1], "target": 1e300}, "row 3, column 'target': target must lie within"),
        ({"numbers": [1], "target": "9"}, "row 3, column 'target': target must be an integer, got '9'"),
        ({"ground_truth": {"numbers": [1]}}, "row 3, column 'ground_truth.target'"),
        ({"ground_truth": {"numbers": [0], "target": 1}}, "row 3, column 'ground_truth.numbers': .*positive"),
        ({"ground_truth": {"target": 1}}, "row 3, column 'ground_truth.numbers'"),
        ([1, 2], "row 3: a row maps"),
        (None, "row 3: a row maps"),
    ],
)
def test_a_bad_row_is_named_with_its_column(row, message):
    with pytest.raises(DataError, match=message):
        problem_from_row(row, 3)
