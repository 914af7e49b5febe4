# Tests: countdown/rows.py, data/anchors.py
"""Files with the schemas of the two public data sets, read as training and evaluation read them."""

import json

import pytest
from datasets import Dataset

from countdown_selfplay.countdown import CountdownDomain, Problem, problem_from_row
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
