# Tests: lab/cli/ask.py, evaluation/episodes.py
"""`countdown-selfplay ask`: one problem for a prover, proposals of a conjecturer, and folders that hold no model."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.made_up_runs import printed

from countdown_selfplay.countdown import CountdownDomain, Problem, verify
from countdown_selfplay.countdown.problem import Rules
from countdown_selfplay.data.run_files import ROLES_FILE
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.lab.cli.ask import asks_of, one_line
from countdown_selfplay.tiny import TINY_MODEL_PATH

BARE = Rules(answer_format="bare")


def cells(text: str) -> list[list[str]]:
    """The rows of the table, without its head."""
    lines = text.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("---"))
    rows = lines[rule + 1 : lines.index("", rule)]
    return [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows]


def test_a_prover_answers_and_each_answer_has_its_verdict(capsys):
    asked = ["ask", "--model", "tiny", 1, 2, 3, "--target", 6, "-n", 6]
    code, out, _ = printed(capsys, *asked)
    assert code == 0
    rows, problem = cells(out), Problem((1, 2, 3), 6)
    assert [row[0] for row in rows] == list("123456")
    verdicts = [verify(row[1], problem, BARE) for row in rows]
    assert [row[2].split(" (")[0] for row in rows] == [str(verdict.reason) for verdict in verdicts]
    right = sum(verdict.correct for verdict in verdicts)
    assert f"{right} of 6 right. Exact solver: " in out and "setting of the tiny model; temperature 1, seed 0" in out
    assert verify(out.partition("Exact solver: ")[2].partition(".\n")[0], problem, BARE).correct
    assert printed(capsys, *asked)[1] == out  # the seed's


def test_a_conjecturers_proposals_come_with_the_gate_and_the_solver(capsys):
    rows = cells(printed(capsys, "ask", "--model", "tiny", "--role", "conjecturer", "-n", 8)[1])
    assert len(rows) == 8
    for _, text, gate, solver in rows:
        if gate == "ok":
            numbers, target = text.split(" = ")
            assert verify(solver, Problem(tuple(map(int, numbers.split())), int(target)), BARE).correct
        if gate == "unsolvable":
            assert solver == "no solution"
    assert {row[2] for row in rows} >= {"ok", "unsolvable"}  # a third of its proposals can be solved
    for name in ("tiny-ladder-conjecturer", "tiny-ladder-asked"):  # conjecturers by their names
        assert f"conjecturer of {name}" in printed(capsys, "ask", "--model", name, "-n", 1)[1]


def test_what_the_run_asked_for_is_what_the_conjecturer_is_asked_for():
    """SGS asks for the sake of a target, or without one; STP for variants of a solved one."""
    domain, problem = CountdownDomain.tiny(), Problem((3, 5, 7), 22)
    assert asks_of(domain, None, None) == domain.asks
    for given, prompt in ((None, "propose like :"), (problem, "propose like 3 5 7 = 22 :")):
        assert [domain.propose_row(**ask)["prompt"] for ask in asks_of(domain, given, "targets")] == [prompt]
    (ask,) = asks_of(domain, problem, "stp")
    assert verify(ask["solution"], problem, BARE).correct
    for given, proposer, words in (
        (problem, None, "leave them out, or pass --role prover"),
        (None, "stp", "varies solved problems; give one"),
        (Problem((1, 1, 1), 99), "stp", "has no solution"),
    ):
        with pytest.raises(ConfigError, match=words):
            asks_of(domain, given, proposer)


def test_a_folder_says_which_role_it_plays(tmp_path, capsys):
    folder = tmp_path / "conjecturer"
    shutil.copytree(TINY_MODEL_PATH, folder)
    (folder / ROLES_FILE).write_text(json.dumps({"roles": ["conjecturer"]}))
    settings = {name: getattr(CountdownDomain.tiny().spec, name) for name in ("number_low", "number_high")}
    config = {**settings, "target_low": 1, "target_high": 99, "operands": [3], "domain": "countdown"}
    config |= {"prover_prompt": "compact", "conjecturer_prompt": "compact", "proposer": "targets"}
    config |= {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "max_completion_length": 12}
    (tmp_path / "run.json").write_text(json.dumps({"name": "mine", "config": config, "rules": BARE.to_dict()}))
    out = printed(capsys, "ask", "--model", folder, "-n", 2)[1]
    assert f"conjecturer of {folder}; setting of run 'mine'; temperature 0, seed 0" in out
    assert len(cells(out)) == 2 and Path(folder).is_dir()


def test_an_answer_without_a_move_has_its_row_and_long_and_empty_texts_fit_a_cell(capsys, monkeypatch):
    from countdown_selfplay.evaluation import episodes

    silent = SimpleNamespace(text="", verdict=SimpleNamespace(correct=False, reason="format", value=None))
    monkeypatch.setattr(episodes, "sample_episodes", lambda *_, **__: [[silent]])
    asked = ["ask", "--model", "tiny-ladder", 1, 2, 3, "--target", 6, "-n", 1, "--answers", "moves"]
    assert cells(printed(capsys, *asked)[1]) == [["1", "(empty)", "format"]]
    assert one_line("") == "(empty)" and one_line(" a\n\nb ") == "a; b"
    assert len(one_line("7 " * 200)) == 100 and one_line("7 " * 200).endswith(" ...")
