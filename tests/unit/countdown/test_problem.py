# Tests: countdown/problem.py
"""Problems, their identity, their ranges, and reading them from data sets."""

import pickle

import numpy as np
import pytest

from countdown_selfplay.countdown import Problem, ProblemSpec, problem_from_row


def test_the_key_is_the_sorted_numbers_and_the_target_and_the_spec_admits_what_lies_in_all_its_ranges():
    assert Problem((44, 19, 35), 98).key == "19,35,44=98"
    assert Problem((35, 44, 19), 98).key == Problem((44, 19, 35), 98).key
    assert Problem((35, 44, 19), 98) != Problem((44, 19, 35), 98)  # they print differently
    assert Problem((1, 23), 4).key != Problem((12, 3), 4).key
    p = Problem(np.array([44, 19], dtype=np.int32), np.int64(63))
    assert p == Problem((44, 19), 63) == Problem([44, 19], 63)
    assert {type(n) for n in (*p.numbers, p.target)} == {int}
    assert pickle.loads(pickle.dumps(p)) == p
    assert hash(p) == hash(Problem((44, 19), 63))
    spec = ProblemSpec()
    assert spec.admits(Problem((1, 99, 50), 10)) and spec.admits(Problem((1, 2, 3, 4), 100))
    for outside in [((1, 2), 50), ((1, 2, 3, 4, 5), 50), ((1, 2, 100), 50), ((1, 2, 3), 9), ((1, 2, 3), 101)]:
        assert not spec.admits(Problem(*outside)), outside
    assert not ProblemSpec(number_low=5).admits(Problem((4, 5, 6), 50))


P = Problem((44, 19, 35), 98)


@pytest.mark.parametrize("row", [
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
])  # fmt: skip
def test_every_public_schema_is_read(row):
    assert problem_from_row(row, 0) == P
