"""One reader of JSONL: what it passes over, and what it refuses by file and line."""

import json

import pytest

from countdown_selfplay.data.jsonl import json_file, json_lines
from countdown_selfplay.data.run_files import discard_lines, read_lines
from countdown_selfplay.errors import DataError


def test_blank_lines_are_passed_over_and_line_numbers_are_those_of_the_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"a": "\u2028"}\n', encoding="utf-8")  # U+2028 ends a line for str.splitlines
    assert list(json_lines(path)) == [(1, {"a": 1}), (4, {"a": "\u2028"})]


@pytest.mark.parametrize("line", ["not json", "[1]", "[" * 100_000, '{"a": 1'])
def test_what_is_no_object_is_named_by_file_and_line_with_the_cure(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"a": 1}) + "\n" + line + "\n")
    with pytest.raises(DataError, match=r"a\.jsonl', line 2: this is not a JSON object; start again\.$"):
        list(json_lines(path, "start again"))


def test_a_file_that_is_absent_or_no_text_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        list(json_lines(tmp_path / "absent.jsonl"))
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(DataError, match="cannot be read: it is not UTF-8 text"):
        list(json_lines(tmp_path / "bytes.jsonl"))


def test_a_file_of_one_object_may_have_lines(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n"a": 1\n}\n')
    assert json_file(path) == {"a": 1}
    for text in ("[1]", "", '{"a": 1', "\ufeff{"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=r"a\.json' does not hold a JSON object; start again\.$"):
            json_file(path, "start again")
    with pytest.raises(DataError, match="cannot be read: No such file"):
        json_file(tmp_path / "absent.json")


def test_of_a_log_only_the_last_line_may_be_torn(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_lines(path) == [{"step": 1}, {"step": 2}]
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    for reads in (read_lines, lambda path: discard_lines(path, 2)):
        with pytest.raises(DataError, match=r"log\.jsonl', line 2: this is not a JSON object; the file is damaged"):
            reads(path)
    path.write_text('{"step": 1}\n{}\n')
    for reads in (lambda path: read_lines(path, "step"), lambda path: discard_lines(path, 2)):
        with pytest.raises(DataError, match=r"log\.jsonl', line 2: there is no `step`; the file is damaged"):
            reads(path)
    assert read_lines(path) == [{"step": 1}, {}]
