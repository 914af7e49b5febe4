# Tests: cli/dataset.py
"""`countdown-selfplay dataset`: the files it writes, decontamination, and bad input."""

import json

import pytest

from countdown_selfplay.cli import dataset
from countdown_selfplay.cli.main import main
from countdown_selfplay.countdown import (
    Problem,
    ProblemSpec,
    Rules,
    all_solutions,
    count_solutions,
    generate_problems,
    heldout_key,
    heldout_problems,
    problem_from_row,
    verify,
)


def write(tmp_path, capsys, *arguments, name="out.jsonl"):
    out = tmp_path / name
    code = main(["dataset", str(out), *arguments])
    streams = capsys.readouterr()
    rows = []
    if out.exists() and name.endswith(".jsonl"):
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return code, rows, streams.out, streams.err


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_default_file_holds_what_the_generator_gives_in_ranges_split_and_counts(tmp_path, capsys):
    code, rows, out, err = write(tmp_path, capsys, "--count", "30", "--seed", "5")
    assert (code, err) == (0, "")
    assert [problem_from_row(row, i) for i, row in enumerate(rows)] == generate_problems(30, seed=5)
    assert "30 problems" in out and "split train, seed 5" in out
    assert names(tmp_path) == ["out.jsonl", "out.jsonl.meta"]  # nothing unfinished is left
    _, rows, _, _ = write(tmp_path, capsys, "--count", "20", "--schema", "solved")
    for row in rows:
        assert verify(row["completion"], Problem(tuple(row["numbers"]), row["target"])).correct
    arguments = ("--operands", "2", "5", "--number_high", "20", "--target_low", "30", "--target_high", "60")
    code, rows, _, _ = write(tmp_path, capsys, "--count", "20", "--split", "heldout", *arguments)
    assert code == 0 and len(rows) == 20
    for row in rows:
        assert len(row["nums"]) in (2, 5) and max(row["nums"]) <= 20 and 30 <= row["target"] <= 60
        assert heldout_key(problem_from_row(row, 0).key)


def test_the_rules_and_all_that_it_takes_to_make_the_file_again_stand_beside_it(tmp_path, capsys):
    arguments = ("--count", "7", "--seed", "3", "--operands", "3", "--integers_only", "--target_high", "40")
    write(tmp_path, capsys, *arguments, "--exclude", "heldout-v1")
    meta = json.loads((tmp_path / "out.jsonl.meta").read_text(encoding="utf-8"))
    rules = Rules.from_dict(meta["rules"])
    assert rules == Rules(integers_only=True)
    assert (meta["problems"], meta["with_operands"], meta["excluded_files"]) == (7, {"3": 7}, ["heldout-v1"])
    spec = ProblemSpec(**meta["spec"])
    again = generate_problems(7, spec, meta["seed"], heldout_problems(), meta["split"], rules)
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [problem_from_row(json.loads(line), 0) for line in lines] == again


def test_parquet_and_jsonl_hold_the_same_rows_group_by_group(tmp_path, capsys, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    for schema in ("nums", "ground_truth", "prover", "solved", "proposed"):
        arguments = ("--count", "6", "--schema", schema)
        _, rows, _, _ = write(tmp_path, capsys, *arguments)
        assert write(tmp_path, capsys, *arguments, name="out.parquet")[0] == 0
        assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == rows
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(dataset, "ROW_GROUP", 4)
    _, rows, _, _ = write(tmp_path, capsys, "--count", "10", "--schema", "ground_truth")
    assert write(tmp_path, capsys, "--count", "10", "--schema", "ground_truth", name="out.parquet")[0] == 0
    assert parquet.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3  # 4 + 4 + 2
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == rows


def test_difficulty_and_operators_are_conditions(tmp_path, capsys):
    _, rows, _, _ = write(tmp_path, capsys, "--count", "10", "--min_solutions", "2", "--max_solutions", "3")
    assert {count_solutions(problem_from_row(row, 0)) for row in rows} == {2, 3}
    _, rows, _, _ = write(tmp_path, capsys, "--count", "10", "--needs", "/", "-")
    for row in rows:
        assert all("/" in text and "-" in text for text in all_solutions(problem_from_row(row, 0)))


def test_excluded_problems_and_the_frozen_set_are_left_out_and_counted(tmp_path, capsys):
    first = tmp_path / "first.jsonl"
    assert main(["dataset", str(first), "--count", "15"]) == 0
    code, rows, out, _ = write(tmp_path, capsys, "--count", "15", "--exclude", str(first))
    known = {problem_from_row(json.loads(line), 0).key for line in first.read_text().splitlines()}
    assert code == 0 and len(rows) == 15
    assert not known & {problem_from_row(row, 0).key for row in rows}
    assert "left out: 15 that overlap with the 15 excluded problems" in out
    held_out = {p.key for p in heldout_problems()}
    arguments = ("--count", "600", "--operands", "3", "--split", "heldout", "--seed", "20000")
    _, rows, _, _ = write(tmp_path, capsys, *arguments)
    assert held_out & {problem_from_row(row, 0).key for row in rows}  # the same draws: they would overlap
    _, rows, out, _ = write(tmp_path, capsys, *arguments, "--exclude", "heldout-v1")
    assert not held_out & {problem_from_row(row, 0).key for row in rows}
    assert "excluded problems" in out
