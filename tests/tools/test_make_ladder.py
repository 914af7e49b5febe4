# Tests: tools/make_tiny_model/ladder
"""`python -m tools.make_tiny_model.ladder`: what the warm starts show, and the command."""

import json
from collections import Counter

import pytest
from tools.make_tiny_model.ladder.__main__ import main
from tools.make_tiny_model.ladder.warm_start import asked_shown, moves_shown, proposals_shown

from countdown_selfplay.countdown import Problem, heldout_key
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import LADDER_SPEC


def test_the_prover_sees_two_and_three_numbers_each_move_behind_the_result_of_the_last():
    sizes = set()
    for prompt, move in moves_shown(3000, seed=0):
        numbers, target = ([int(x) for x in part.split()] for part in prompt.split(":"))
        a, op, b, equals, value = move.split()
        made = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b), "/": int(a) / int(b)}[op]
        assert int(a) >= int(b) and equals == "=" and 1 <= int(value) <= 99 and made == int(value)
        rest = Counter(numbers)
        rest.subtract([int(a), int(b)])
        assert min(rest.values()) >= 0
        assert len(numbers) > 2 or int(value) == target[0]
        assert not heldout_key(Problem(tuple(numbers), target[0]).key)
        sizes.add(len(numbers))
    assert sizes == {2, 3}


def test_the_conjecturers_see_distinct_problems_helps_and_sizes_of_the_train_side():
    found = proposals_shown(1800, seed=0)
    assert {prompt for prompt, _ in found} == {"propose :"}
    problems = []
    for _, text in found:
        numbers, target = text.split(" = ")
        problems.append(Problem(tuple(map(int, numbers.split())), int(target)))
    assert all(LADDER_SPEC.admits(problem) and not heldout_key(problem.key) for problem in problems)
    assert len({problem.key for problem in problems}) == 1800
    sizes = Counter(len(problem.numbers) for problem in problems)
    assert set(sizes) == set(range(3, 21))
    assert all(60 < count < 140 for count in sizes.values())  # 100 each, standard deviation 10
    for _, text in asked_shown(800, seed=0):
        numbers, target = text.split(" = ")
        assert not heldout_key(Problem(tuple(map(int, numbers.split())), int(target)).key)


def test_a_run_writes_models_that_can_be_measured(tmp_path, capsys):
    output = tmp_path / "made"
    few = ["--problems", "4", "--samples", "2", "--proposals", "8"]
    assert main(["--output", str(output), "--steps", "1", "--evaluate", "--json", *few]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("not the shipped weights") == 3
    figures = json.loads(printed.out[printed.out.index("{") :])  # another library may have logged in front
    assert [rung["operands"] for rung in figures["prover"]] == [2, 3, 4, 5, 6, 7, 8]
    assert figures["conjecturer"]["n"] == 8 and len(figures["asked"]) == 7
    assert {path.name for path in output.iterdir()} == {"prover", "conjecturer", "asked"}
    with pytest.raises(ConfigError, match="is not an empty folder"):
        main(["--output", str(output)])
