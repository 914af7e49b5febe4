# Tests: cli/dataset.py, cli/solve.py, cli/verify.py
"""`countdown-selfplay dataset`, `solve` and `verify`: files, verdicts, exit codes 0, 1 and 2."""

import io
import json
import subprocess
import sys

import pytest

from countdown_selfplay.cli import dataset
from countdown_selfplay.cli.main import main
from countdown_selfplay.countdown import (
    DEFAULT_RULES,
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


def run(capsys, *arguments):
    code = main(list(arguments))
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_a_problem_is_solved_and_its_solutions_counted(capsys):
    assert run(capsys, "solve", "3", "3", "8", "8", "--target", "24") == (0, "8 / (3 - 8 / 3)\n", "")
    code, out, err = run(capsys, "solve", "1", "2", "3", "4", "--target", "100")
    assert (code, out, err) == (1, "No expression over 1, 2, 3, 4 equals 100.\n", "")
    # 5 and 5 make 10 in one way; 3, 3, 8 make 8 as 8 + 3 - 3 and as 8 * 3 / 3
    assert run(capsys, "solve", "5", "5", "--target", "10", "--count") == (0, "1\n", "")
    assert run(capsys, "solve", "3", "3", "8", "--target", "8", "--count") == (0, "2\n", "")
    assert run(capsys, "solve", "1", "2", "3", "4", "--target", "100", "--count") == (1, "0\n", "")
    code, out, _ = run(capsys, "solve", "3", "3", "8", "8", "--target", "24", "--json", "--count")
    expected = {"numbers": [3, 3, 8, 8], "target": 24, "solution": "8 / (3 - 8 / 3)", "count": 1}
    assert (code, json.loads(out)) == (0, expected)
    code, out, _ = run(capsys, "solve", "1", "2", "--target", "100", "--json")
    assert (code, json.loads(out)) == (1, {"numbers": [1, 2], "target": 100, "solution": None})
    assert run(capsys, "solve", "3", "3", "8", "8", "--target", "24", "--integers_only")[0] == 1
    assert run(capsys, "solve", "3", "8", "99", "--target", "24", "--use_some") == (0, "3 * 8\n", "")
    assert run(capsys, "solve", "3", "7", "--target", "-4") == (0, "3 - 7\n", "")


PROBLEM = ["--numbers", "3", "3", "8", "8", "--target", "24"]


def test_a_completion_is_judged_by_its_rules_in_words_and_json(capsys, monkeypatch):
    code, out, err = run(capsys, "verify", *PROBLEM, "--completion", "so <answer> 8/(3-8/3) </answer>")
    assert (code, out, err) == (0, "score 1.0  correct  value 24\n", "")
    code, out, _ = run(capsys, "verify", *PROBLEM, "--completion", "<answer>8/3-8/3</answer>")
    assert (code, out) == (1, "score 0.1  wrong_value  value 0\n")
    code, out, _ = run(capsys, "verify", *PROBLEM, "--completion", "<answer>3/8-3/(8*8)</answer>")
    assert (code, out) == (1, "score 0.1  wrong_numbers  value 21/64\n")  # 24/64 - 3/64
    code, out, _ = run(capsys, "verify", *PROBLEM, "--completion", "24")
    assert (code, out) == (1, "score 0.0  no_answer  no value\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("<answer>8/(3-8/3)\n</answer>"))
    assert run(capsys, "verify", *PROBLEM, "--completion", "-")[0] == 0
    code, out, _ = run(capsys, "verify", *PROBLEM, "--completion", "<answer>8/(3-8/3)</answer>", "--json")
    expected = {"score": 1.0, "reason": "correct", "value": "24", "expression": "8/(3-8/3)", "answers": 1}
    assert (code, json.loads(out)) == (0, {**expected, "rules": DEFAULT_RULES.to_dict()})
    answer = ("--completion", "<answer>3+3</answer><answer>8/(3-8/3)</answer>", "--answer_rule", "first", "--json")
    row = json.loads(run(capsys, "verify", *PROBLEM, *answer)[1])
    assert Rules.from_dict(row["rules"]) == Rules(answer_rule="first")
    two = "<answer>8/(3-8/3)</answer><answer>1</answer>"
    assert run(capsys, "verify", *PROBLEM, "--completion", two)[0] == 1
    assert run(capsys, "verify", *PROBLEM, "--completion", two, "--answer_rule", "first")[0] == 0
    bare = ["--completion", "8÷(3-8/3)=24", "--answer_format", "bare"]
    assert run(capsys, "verify", *PROBLEM, *bare)[0] == 1
    assert run(capsys, "verify", *PROBLEM, *bare, "--lenient_unicode", "--allow_equals")[0] == 0
    assert run(capsys, "verify", *PROBLEM, *bare, "--lenient_unicode", "--allow_equals", "--integers_only")[0] == 1


ROWS = [
    {"completion": "<answer>8/(3-8/3)</answer>", "numbers": [3, 3, 8, 8], "target": 24},
    {"completion": [{"role": "assistant", "content": "<answer>3+4</answer>"}], "nums": [3, 4], "target": 7},
    {"completion": "7", "ground_truth": {"numbers": [3, 4], "target": 7}},
    {"completion": None, "nums": [3, 4], "target": 7},
]


def test_a_jsonl_file_is_judged_row_by_row(capsys, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n", encoding="utf-8")
    code, out, err = run(capsys, "verify", str(path))
    assert (code, err) == (0, "")
    *lines, summary, reasons = out.splitlines()
    assert [line.split()[2] for line in lines[:4]] == ["correct", "correct", "no_answer", "not_text"]
    assert summary == "4 completions, 2 correct, mean score 0.5000; answer rule last"
    assert reasons == "correct 2, no_answer 1, not_text 1"
    code, out, _ = run(capsys, "verify", str(path), "--json")
    assert [json.loads(line)["score"] for line in out.splitlines()] == [1.0, 1.0, 0.0, 0.0]


HEAVY = ("torch", "transformers", "trl", "accelerate", "datasets", "peft", "scipy", "pyarrow", "matplotlib")


@pytest.mark.parametrize("arguments", [["solve", "3", "3", "8", "8", "--target", "24"],
                                       ["verify", *PROBLEM, "--completion", "<answer>8/(3-8/3)</answer>"]],
                         ids=lambda arguments: arguments[0])  # fmt: skip
def test_an_answer_imports_no_library_that_takes_seconds(arguments):
    """What an answer costs is what it imports: of the package's more than 300 modules 39 and 41."""
    code = (
        f"import sys; from countdown_selfplay.cli.main import main; assert main({arguments}) == 0\n"
        "print(sum(name.startswith('countdown_selfplay') for name in sys.modules), "
        f"[name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, _, heavy = done.stdout.splitlines()[-1].partition(" ")
    assert heavy == "[]" and int(count) <= 60
