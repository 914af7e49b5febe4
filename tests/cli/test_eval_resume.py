# Tests: evaluation/answers.py
"""`eval --output x.jsonl`: a real process killed in mid-evaluation and gone on with, against one that was not."""

import json
import os
import signal

import pytest
import torch

from countdown_selfplay.cli import main
from countdown_selfplay.evaluation.answers import AnswerFile

SIZE = ["--n_problems", "40", "--samples", "4", "--batch_size", "8"]  # 20 batches of two problems


def evaluate(capsys, *arguments):
    code = main.main(["eval", "--model", "tiny", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def lines(path):
    return path.read_text().splitlines()


def killed_after(batches, *arguments):
    """`eval` in a fork of this process, which SIGKILLs itself when so many batches are on the disk; how it ended."""
    append, written = AnswerFile.append, []

    def dying(file, rows):
        append(file, rows)
        written.append(len(file.rows))
        if len(written) == batches:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # a fork has no others
            AnswerFile.append = dying
            main.main(["eval", "--model", "tiny", *map(str, arguments)])
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def test_an_evaluation_that_was_killed_ends_with_the_rows_of_a_straight_run(tmp_path, capsys):
    """Killed after the third batch of 8 answers."""
    straight, killed = tmp_path / "straight.jsonl", tmp_path / "killed.jsonl"
    assert evaluate(capsys, *SIZE, "--output", straight)[0] == 0
    assert os.WTERMSIG(killed_after(3, *SIZE, "--output", killed)) == signal.SIGKILL
    assert len(lines(killed)) == 1 + 3 * 8
    with killed.open("a") as file:  # and as if a line had been half written when it died
        file.write('{"index": 7, "problem": "1,2')
    code, out, err = evaluate(capsys, *SIZE, "--output", killed)
    assert code == 0 and "holds 24 of 160 answers" in err
    assert killed.read_bytes() == straight.read_bytes()
    results = [json.loads(path.with_suffix(".json").read_text()) for path in (straight, killed)]
    assert [result.pop("seconds") > 0 for result in results] == [True, True]
    assert results[0] == results[1]
    # A finished file is summed up again without the model.
    assert evaluate(capsys, *SIZE, "--output", killed)[1].splitlines()[:9] == out.splitlines()[:9]


def test_every_row_says_what_was_answered_and_the_first_line_in_which_setting(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    file = tmp_path / "p.jsonl"
    rows = [{"nums": [3, 5, 7], "target": 22, "stratum": "easy"}, {"nums": [2, 4], "target": 8, "stratum": "hard"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, _ = evaluate(capsys, "--problems", file, "--samples", 4, "--output", path)
    assert code == 0
    header, *answers = map(json.loads, lines(path))
    assert header["domain"]["rules"]["answer_rule"] == "last" and header["domain"]["prover_prompt"] == "compact"
    wanted = {"n": 4, "n_problems": 2, "seed": 0, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": 16}
    assert {name: header[name] for name in wanted} == wanted
    assert {"torch", "transformers", "countdown-selfplay"} <= set(header["versions"])
    assert [(a["index"], a["sample"]) for a in answers] == [
        (i, j) for i in (1, 0) for j in range(4)
    ]  # short ones first
    assert {a["stratum"] for a in answers if a["problem"] == "2,4=8"} == {"hard"}
    assert all(a["tokens"] >= 1 and isinstance(a["truncated"], bool) and a["reason"] for a in answers)
    for words in ("majority@4", "right format", "truncated", "pass@4, easy", "pass@4, hard", "pass@1, 2 operands"):
        assert words in out


def test_rows_of_a_problem_do_not_depend_on_the_other_batches(tmp_path, capsys):
    # With one problem per batch, each alone gives the rows that it has among the others.
    rows = [{"nums": [3, 5, 7], "target": 22}, {"nums": [2, 4], "target": 8}]
    found = []
    for name, chosen in (("both", rows), ("one", rows[1:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen))
        output = tmp_path / f"{name}-out.jsonl"
        problems = ["--problems", tmp_path / f"{name}.jsonl"]
        assert evaluate(capsys, *problems, "--samples", 8, "--batch_size", 8, "--output", output)[0] == 0
        own = [json.loads(line) for line in lines(output)[1:]]
        found.append([row["completion"] for row in own if row["problem"] == "2,4=8"])
    assert len(found[0]) == 8 and found[0] == found[1]


def test_the_frozen_set_is_asked_by_name_and_a_file_that_is_no_evaluation_is_kept(tmp_path, capsys):
    code, out, _ = evaluate(capsys, "--problems", "heldout-v1", "--operands", 3, "--n_problems", 3, "--samples", 2)
    assert code == 0 and "3 problems x 2 answers" in out
    file = tmp_path / "problems.jsonl"
    file.write_text('{"nums": [2, 4], "target": 8}\n')
    code, _, err = evaluate(capsys, "--problems", file, "--samples", 2, "--output", file)
    assert code == 2 and "its first line is not a setting" in err
    assert file.read_text() == '{"nums": [2, 4], "target": 8}\n'
    code, _, err = evaluate(capsys, "--role", "conjecturer", "--output", tmp_path / "a.jsonl")
    assert code == 2 and "which only a prover gives; use a .json file" in err


@pytest.mark.parametrize(("arguments", "message"), [
    (["--seed", "1"], "was begun with seed 0 and this evaluation has 1"),
    (["--temperature", "0.5"], "was begun with temperature 1.0 and this evaluation has 0.5"),
    (["--samples", "2"], "was begun with n 4 and this evaluation has 2"),
    (["--answer_rule", "any"], "rules.answer_rule 'last' and this evaluation has 'any'"),
    (["--n_problems", "3"], "was begun with n_problems 2 and this evaluation has 3"),
])  # fmt: skip
def test_a_changed_setting_is_refused_in_one_line(tmp_path, capsys, arguments, message):
    size = ["--n_problems", 2, "--samples", 4, "--output", tmp_path / "a.jsonl"]
    assert evaluate(capsys, *size)[0] == 0
    code, out, err = evaluate(capsys, *size, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1) and message in err
