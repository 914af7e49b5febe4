# Tests: data/files.py, data/jsonl.py
"""Files of problems that are something else: rows where there are any, one sentence where there are none."""

import gzip
import json
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict

from countdown_selfplay.data.files import load_problem_rows

ROW = {"nums": [3, 4], "target": 7}
LINE = json.dumps(ROW)


def test_files_of_a_folder_that_are_no_data_are_not_looked_at(tmp_path):
    """As Hugging Face's cache and a list of notes beside the rows, which may be compressed."""
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(f"{LINE}\n{LINE}\n".encode()))
    (tmp_path / ".cache").mkdir()
    for name in ("notes.json", ".cache/state.json"):
        (tmp_path / name).write_text('["a"]')
    assert [row["target"] for row in load_problem_rows(str(tmp_path))] == [7, 7]


def test_rows_may_differ_in_columns_and_types(tmp_path):
    """What a column lacks is None, and values of several types stay as they are written: the domain names the row."""
    rows = [{"target": 7}, {"target": "x", "more": 1}, {"target": None}]
    path = tmp_path / "mixed.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert list(load_problem_rows(str(path))) == [
        {"target": 7, "more": None}, {"target": "x", "more": 1}, {"target": None, "more": None},
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["x.JSONL", "a[1].jsonl", "a*b.jsonl", "a[1]*/p.parquet", "c[2]*.csv", "saved"])
def test_a_local_file_is_read_whatever_its_name(name, tmp_path, monkeypatch):
    """Endings in capitals, signs of patterns, and a folder of `save_to_disk`."""
    monkeypatch.chdir(tmp_path)
    data = Dataset.from_list([{"nums": "3 5", "target": 8}, {"nums": "3 4", "target": 7}])
    Path(name).parent.mkdir(exist_ok=True)
    write = {"": data.save_to_disk, ".parquet": data.to_parquet, ".csv": data.to_csv}
    write.get(Path(name).suffix.lower(), data.to_json)(name)
    assert load_problem_rows(name)["target"] == [8, 7]


def test_a_split_of_a_saved_folder_is_read_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = Dataset.from_list([{"nums": [3, 5], "target": 8}])
    DatasetDict(test=data).save_to_disk("splits")
    assert load_problem_rows("splits", "test")["target"] == [8]
