# Tests: data/files.py, data/jsonl.py, data/run_files.py
"""Files of problems and lines of JSON: rows where there are any, else one sentence by file and line."""

import gzip
import json
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict

from countdown_selfplay.data.files import load_problem_rows
from countdown_selfplay.data.jsonl import json_file, json_rows
from countdown_selfplay.data.run_files import read_lines

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


def test_a_file_of_one_object_may_have_lines(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n"a": 1\n}\n')
    assert json_file(path) == {"a": 1}


def test_of_a_log_only_the_last_line_may_be_torn(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_lines(path) == [{"step": 1}, {"step": 2}]
    path.write_text('{"step": 1}\n{"step": null}\n')
    assert read_lines(path) == [{"step": 1}, {"step": None}]


ROWS = {
    '{"a": 1}\n\n{"a": 2}\r\n': [{"a": 1}, {"a": 2}],
    '\ufeff{"a": 1}\n': [{"a": 1}],  # as editors on Windows write it
    '[{"a": 1},\n {"a": null}]': [{"a": 1}, {"a": None}],
    '\ufeff [{"a": 1}]': [{"a": 1}],
    '{\n "a": [1,\n 2]\n}\n': [{"a": [1, 2]}],
    "[]": [],
    "": [],
}


@pytest.mark.parametrize("text", ROWS, ids=range(len(ROWS)))
def test_a_file_of_data_holds_lines_a_list_or_one_object(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    assert json_rows(path) == ROWS[text]
