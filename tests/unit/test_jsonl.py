# Tests: data/jsonl.py, data/run_files.py
"""One reader of JSONL: what it passes over, and what it refuses by file and line."""

import json

import pytest

from countdown_selfplay.data.jsonl import json_file, json_lines, json_rows, json_shape
from countdown_selfplay.data.run_files import discard_lines, read_lines, read_phases
from countdown_selfplay.errors import DataError


def test_blank_lines_are_passed_over_and_line_numbers_are_those_of_the_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"a": "\u2028"}\n', encoding="utf-8")  # U+2028 ends a line for str.splitlines
    assert list(json_lines(path)) == [(1, {"a": 1}), (4, {"a": "\u2028"})]


NO_OBJECTS = {
    "not json": "Expecting value, column 1",
    "[1]": "it is a list",
    "null": "it is null",
    "true": "it is true or false",
    '"a"': "it is a text",
    "[" * 100_000: "it is nested too deeply",
    '{"a": 1': "Expecting ',' delimiter, column 8",
    '{"a": ' + "9" * 5000 + "}": "a number has too many digits",
}


@pytest.mark.parametrize("line", NO_OBJECTS, ids=range(len(NO_OBJECTS)))
def test_what_is_no_object_is_named_by_file_and_line_with_the_cure(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"a": 1}) + "\n" + line + "\n")
    with pytest.raises(
        DataError, match=rf"a\.jsonl', line 2: this is not a JSON object \({NO_OBJECTS[line]}.*\); start again\.$"
    ):
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


def test_the_lines_of_a_rollback_and_of_a_phase_have_their_fields(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"to": "two"}\n')
    with pytest.raises(DataError, match=r"line 1: `to` is 'two', not a checkpoint's name; the file is damaged"):
        discard_lines(path, 2, "to")
    path.write_text(
        '{"iteration": 1, "phase": "train", "role": "prover", "rows": 3}\n{"iteration": 1, "phase": "play"}\n'
    )
    with pytest.raises(DataError, match=r"log\.jsonl', line 2: there is no `samples`; the file is damaged"):
        read_phases(path)


# a value of another shape, and files of data


def test_a_value_that_is_missing_inside_of_an_object_is_a_sentence_too(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"config": {"size": "many"}}')
    reads = {
        "KeyError: 'batch'": lambda found: found["config"]["batch"],
        "ValueError: invalid literal": lambda found: int(found["config"]["size"]),
        "TypeError: ": lambda found: found["config"] + 1,
        "AttributeError: 'str'": lambda found: found["config"]["size"].items(),
    }
    for why, read in reads.items():
        with (
            pytest.raises(DataError, match=rf"a\.json' does not say the size \({why}.*\); name one\."),
            json_shape(path, "the size", "name one") as found,
        ):
            read(found)
    with pytest.raises(DataError, match=r"with `config` \(`config` is \{'size.*, not a list\); name one\.$"):
        json_file(path, "name one", config=list)


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"a": 1}, null]', r"row 1: this is not a JSON object \(it is null\)"),
        ("[1]", r"row 0: this is not a JSON object \(it is a whole number\)"),
        ("[1.5", r"does not hold a list of JSON objects \(Expecting"),
        ("[" * 100_000, r"does not hold a list of JSON objects \(it is nested too deeply\)"),
        ("null\n", r"\(it is null\)"),
        ('{"a": 1}\nnull\n', r"line 2: this is not a JSON object \(it is null\)"),
    ],
    ids=range(6),
)
def test_a_row_that_is_no_object_is_named(tmp_path, text, said):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(DataError, match=rf"a\.jsonl'.* {said}.*; start again\.$"):
        json_rows(tmp_path / "a.jsonl", "start again")
