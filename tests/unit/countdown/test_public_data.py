# Tests: data/anchors.py, countdown/problem.py
"""Problems, their identity, and files with the schemas of the two public data sets, read as a run reads them."""

import json
import pickle

import numpy as np
import pytest
from datasets import Dataset

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, problem_from_row
from countdown_selfplay.data.anchors import anchor_dataset
from countdown_selfplay.data.files import load_problem_rows

# The columns are those of FACTS, section 1; the problems are made up.
PROBLEMS = [Problem((44, 19, 35), 98), Problem((3, 3, 8, 8), 24), Problem((63, 95, 96), 64)]
PUBLIC = {
    "Jiayi-Pan/Countdown-Tasks-3to4": [{"target": p.target, "nums": list(p.numbers)} for p in PROBLEMS],
    "asingh15/countdown_tasks_3to4": [
        {"prompt": f"Using the numbers {list(p.numbers)}, create an equation that equals {p.target}.",
         "target": p.target, "nums": list(p.numbers),
         "ground_truth": {"numbers": list(p.numbers), "target": p.target}}
        for p in PROBLEMS
    ],
    "the truth alone": [{"ground_truth": {"numbers": list(p.numbers), "target": p.target}} for p in PROBLEMS],
}  # fmt: skip


def written(folder, rows, ending):
    path = folder / f"problems{ending}"
    if ending == ".parquet":
        Dataset.from_list(rows).to_parquet(path)
    else:
        path.write_text(json.dumps(rows) if ending == ".json" else "".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize("name", PUBLIC)
def test_a_file_of_a_public_schema_gives_its_problems(tmp_path, name, ending):
    rows = load_problem_rows(written(tmp_path, PUBLIC[name], ending))
    assert [problem_from_row(row, i) for i, row in enumerate(rows)] == PROBLEMS
    anchors = anchor_dataset(rows, CountdownDomain(), seed=0)
    assert [(row["numbers"], row["target"]) for row in anchors] == [(list(p.numbers), p.target) for p in PROBLEMS]
    # rendered from the integers, not copied from the file's own prompt
    assert "[44 19 35]" in str(anchors[0]["prompt"])


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


@pytest.mark.parametrize("row", [
    {"numbers": (44, 19, 35), "target": 98, "prompt": "anything"},
    {"numbers": np.array([44, 19, 35]), "target": np.int64(98)},
    {"ground_truth": {"numbers": [44, 19, 35], "target": 98}, "prompt": "anything"},
    {"ground_truth": {"nums": [44, 19, 35], "target": 98}, "target": None},
    {"numbers": None, "nums": [44, 19, 35], "target": 98},
    {"numbers": [44.0, 19, 35], "target": 98.0},
    {"numbers": np.array([44.0, 19.0, 35.0]), "target": np.float64(98)},
    {"nums": "[44, 19, 35]", "target": 98},  # a CSV file holds lists as text
    {"nums": " [44  19 35]", "target": 98},  # as NumPy prints them
])  # fmt: skip
def test_every_public_schema_is_read(row):
    assert problem_from_row(row, 0) == PROBLEMS[0]
