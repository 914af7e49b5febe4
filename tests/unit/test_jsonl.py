# Tests: data/jsonl.py, data/run_files.py
"""One reader of JSONL: what it passes over, and what it refuses by file and line."""

import json

import pytest

from countdown_selfplay.data.jsonl import json_file, json_rows
from countdown_selfplay.data.run_files import discard_lines, read_lines
from countdown_selfplay.errors import DataError


def test_a_file_of_one_object_may_have_lines(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n"a": 1\n}\n')
    assert json_file(path) == {"a": 1}
    for text, why in {
        "[1]": "it is a list",
        "": "it is empty",
        '{"a": 1': "Expecting",
        "\ufeff{": "Expecting",
    }.items():
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=rf"a\.json' does not hold a JSON object \({why}.*\); start again\.$"):
            json_file(path, "start again")
    with pytest.raises(DataError, match="cannot be read: No such file"):
        json_file(tmp_path / "absent.json")


def test_of_a_log_only_the_last_line_may_be_torn(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_lines(path) == [{"step": 1}, {"step": 2}]
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    for reads in (read_lines, lambda path: discard_lines(path, 2)):
        with pytest.raises(DataError, match=r"line 2: this is not a JSON object.* \(.*\); the file is damaged"):
            reads(path)
    faults = {"{}": "there is no `step`", '{"step": "two"}': "`step` is 'two', not a whole number"}
    faults |= {'{"step": true}': "`step` is True, not a whole number", '{"step": null}': "`step` is None"}
    for line, fault in faults.items():
        path.write_text('{"step": 1}\n' + line + "\n")
        for reads in (lambda path: read_lines(path, step=int), lambda path: discard_lines(path, 2)):
            with pytest.raises(
                DataError, match=rf"log\.jsonl', line 2: .* with `step` \({fault}.*; the file is damaged"
            ):
                reads(path)
        assert read_lines(path) == [{"step": 1}, json.loads(line)]


# a value of another shape, and files of data


ROWS = {
    '{"a": 1}\n{"a": 2}\n': [{"a": 1}, {"a": 2}],
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
