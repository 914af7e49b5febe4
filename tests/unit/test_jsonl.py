# Tests: data/jsonl.py, data/run_files.py
"""One reader of JSONL: what it passes over, and what it refuses by file and line."""

import pytest

from countdown_selfplay.data.jsonl import json_file, json_rows
from countdown_selfplay.data.run_files import read_lines


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
