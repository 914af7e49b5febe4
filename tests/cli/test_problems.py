# Tests: cli/solve.py, cli/verify.py
"""`countdown-selfplay solve` and `verify`: verdicts, exit codes 0, 1 and 2."""

import io
import json
import subprocess
import sys

import pytest

from countdown_selfplay.countdown import (
    DEFAULT_RULES,
    Rules,
)


def test_a_problem_is_solved_and_its_solutions_counted(run):
    assert run("solve 3 3 8 8 --target 24") == (0, "8 / (3 - 8 / 3)\n", "")
    assert run("solve 1 2 3 4 --target 100") == (1, "No expression over 1, 2, 3, 4 equals 100.\n", "")
    # 5 and 5 make 10 in one way; 3, 3, 8 make 8 as 8 + 3 - 3 and as 8 * 3 / 3
    assert run("solve 5 5 --target 10 --count") == (0, "1\n", "")
    assert run("solve 3 3 8 --target 8 --count") == (0, "2\n", "")
    assert run("solve 1 2 3 4 --target 100 --count") == (1, "0\n", "")
    code, out, _ = run("solve 3 3 8 8 --target 24 --json --count")
    expected = {"numbers": [3, 3, 8, 8], "target": 24, "solution": "8 / (3 - 8 / 3)", "count": 1}
    assert (code, json.loads(out)) == (0, expected)
    code, out, _ = run("solve 1 2 --target 100 --json")
    assert (code, json.loads(out)) == (1, {"numbers": [1, 2], "target": 100, "solution": None})
    assert run("solve 3 3 8 8 --target 24 --integers_only")[0] == 1
    assert run("solve 3 8 99 --target 24 --use_some") == (0, "3 * 8\n", "")
    assert run("solve 3 7 --target -4") == (0, "3 - 7\n", "")


PROBLEM = ["--numbers", "3", "3", "8", "8", "--target", "24"]
TWO = "<answer>8/(3-8/3)</answer><answer>1</answer>"


@pytest.mark.parametrize(("completion", "code", "said"), [
    ("so <answer> 8/(3-8/3) </answer>", 0, "score 1.0  correct  value 24"),
    ("<answer>8/3-8/3</answer>", 1, "score 0.1  wrong_value  value 0"),
    ("<answer>3/8-3/(8*8)</answer>", 1, "score 0.1  wrong_numbers  value 21/64"),  # 24/64 - 3/64
    ("24", 1, "score 0.0  no_answer  no value"),
])  # fmt: skip
def test_a_completion_is_judged_in_words(run, completion, code, said):
    assert run("verify", *PROBLEM, "--completion", completion) == (code, said + "\n", "")


@pytest.mark.parametrize(("completion", "rules", "code"), [
    (TWO, "", 1), (TWO, "--answer_rule first", 0), ("8÷(3-8/3)=24", "--answer_format bare", 1),
    ("8÷(3-8/3)=24", "--answer_format bare --lenient_unicode --allow_equals", 0),
    ("8÷(3-8/3)=24", "--answer_format bare --lenient_unicode --allow_equals --integers_only", 1),
])  # fmt: skip
def test_a_completion_is_judged_by_its_rules(run, completion, rules, code):
    assert run(f"verify {rules}", *PROBLEM, "--completion", completion)[0] == code


def test_a_completion_is_read_from_stdin_and_its_verdict_is_json_with_the_rules(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("<answer>8/(3-8/3)\n</answer>"))
    assert run("verify", *PROBLEM, "--completion", "-")[0] == 0
    code, out, _ = run("verify --json", *PROBLEM, "--completion", "<answer>8/(3-8/3)</answer>")
    expected = {"score": 1.0, "reason": "correct", "value": "24", "expression": "8/(3-8/3)", "answers": 1}
    assert (code, json.loads(out)) == (0, {**expected, "rules": DEFAULT_RULES.to_dict()})
    row = json.loads(run("verify --json --answer_rule first", *PROBLEM, "--completion", TWO)[1])
    assert Rules.from_dict(row["rules"]) == Rules(answer_rule="first")


ROWS = [
    {"completion": "<answer>8/(3-8/3)</answer>", "numbers": [3, 3, 8, 8], "target": 24},
    {"completion": [{"role": "assistant", "content": "<answer>3+4</answer>"}], "nums": [3, 4], "target": 7},
    {"completion": "7", "ground_truth": {"numbers": [3, 4], "target": 7}},
    {"completion": None, "nums": [3, 4], "target": 7},
]


def test_a_jsonl_file_is_judged_row_by_row(run, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n", encoding="utf-8")
    code, out, err = run("verify", path)
    assert (code, err) == (0, "")
    *lines, summary, reasons = out.splitlines()
    assert [line.split()[2] for line in lines[:4]] == ["correct", "correct", "no_answer", "not_text"]
    assert summary == "4 completions, 2 correct, mean score 0.5000; answer rule last"
    assert reasons == "correct 2, no_answer 1, not_text 1"
    _, out, _ = run("verify --json", path)
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
