# Tests: tools/make_tiny_model/__main__.py, tools/make_tiny_model/ladder
"""The warm starts of the tiny model and of the ladder: what they show, how they train, and their commands."""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tools.make_tiny_model.__main__ import main
from tools.make_tiny_model.exercises import ExampleSource, exercises, solutions_by_target
from tools.make_tiny_model.figures import held_out_problems
from tools.make_tiny_model.ladder.__main__ import main as ladder
from tools.make_tiny_model.ladder.warm_start import asked_shown, moves_shown, proposals_shown

from countdown_selfplay.countdown import CountdownDomain, Problem, heldout_key, reachable_targets
from countdown_selfplay.countdown.expression import written_forms
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.tiny import LADDER_SPEC, TINY_SPEC

SMALL = replace(TINY_SPEC, number_high=4)
FEW = ["--problems", "4", "--samples", "2", "--proposals", "8"]


def problem_of(text):
    numbers, target = text.split(" = ")
    return Problem(tuple(map(int, numbers.split())), int(target))


def test_the_written_forms_are_all_inequivalent_ones_and_reach_what_the_solver_reaches():
    # 6 and 3: 9, 3, -3, 18, 2, 1/2 (OEIS A140606 counts 6); a sum and a product are written in two orders.
    forms = {(form.value, form.text) for form in written_forms((6, 3))}
    assert forms == {
        (Fraction(9), "6 + 3"), (Fraction(9), "3 + 6"), (Fraction(3), "6 - 3"), (Fraction(-3), "3 - 6"),
        (Fraction(18), "6 * 3"), (Fraction(18), "3 * 6"), (Fraction(2), "6 / 3"), (Fraction(1, 2), "3 / 6"),
    }  # fmt: skip
    texts = solutions_by_target((2, 3, 4), 1, 99)
    assert "( 2 + 3 ) * 4" in texts[20]
    assert "2 + 3 * 4" in texts[14] and "4 - ( 3 - 2 )" in texts[3]
    assert "4 - 3 - 2" not in texts[3]  # that is -1
    assert "4 / ( 2 / 3 )" in texts[6]
    assert not any(text.startswith("( 2 * 3 )") for text in texts[10])
    assert all("/ ( 3 - 3 )" not in form.text for form in written_forms((3, 3, 5)))
    for numbers in ((1, 1, 1), (2, 7, 11), (3, 8, 12), (5, 5)):
        assert set(solutions_by_target(numbers, 1, 99)) == set(reachable_targets(numbers, 1, 99))


def test_every_answer_is_right_and_no_held_out_key_is_in_the_training_data():
    domain, source = CountdownDomain.tiny(), ExampleSource(TINY_SPEC)
    for exercise in [*source.pairs, *source.triples]:
        for answer in exercise.answers:
            assert domain.verify([answer], [exercise.problem])[0].score == 1.0, (answer, exercise.problem)
    assert not any(heldout_key(exercise.problem.key) for exercise in [*source.pairs, *source.triples])
    rng = np.random.default_rng(0)
    for prompt, answer in (source.draw(rng) for _ in range(4000)):
        proposal = answer if prompt.startswith("propose") else prompt.removesuffix(" :")
        assert not heldout_key(problem_of(proposal).key)
    train_side = {exercise.problem.key for exercise in exercises(3, SMALL)}
    held_out = {problem.key for problem in held_out_problems(SMALL)}
    assert not train_side & held_out
    numbers = [(a, b, c) for a in range(1, 5) for b in range(a, 5) for c in range(b, 5)]
    every = {Problem(n, target).key for n in numbers for target in reachable_targets(n, 1, 99)}
    assert train_side | held_out == every


@pytest.mark.nightly
def test_a_run_writes_a_model_that_can_be_measured(tmp_path, capsys):
    output = tmp_path / "tiny"
    assert main(["--output", str(output), "--steps", "1", "--evaluate", "--json", *FEW]) == 0
    printed = capsys.readouterr()
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {path.name for path in output.iterdir()}
    assert "step 1/1" in printed.err and "not the shipped weights" in printed.err
    figures = json.loads(printed.out[printed.out.index("{") :])  # another library may have logged in front
    assert (figures["prover"]["problems"], figures["prover"]["n"]) == (4, 2)
    assert figures["conjecturer"]["n"] == 8


def test_nothing_is_overwritten_and_a_folder_without_a_model_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not an empty folder"):
        main(["--output", str(tmp_path), "--steps", "1"])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(DataError, match=r"holds no config\.json"):
        main(["--evaluate", "--model", str(tmp_path)])


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
    problems = [problem_of(text) for _, text in found]
    assert all(LADDER_SPEC.admits(problem) and not heldout_key(problem.key) for problem in problems)
    assert len({problem.key for problem in problems}) == 1800
    sizes = Counter(len(problem.numbers) for problem in problems)
    assert set(sizes) == set(range(3, 21))
    assert all(60 < count < 140 for count in sizes.values())  # 100 each, standard deviation 10
    assert not any(heldout_key(problem_of(text).key) for _, text in asked_shown(800, seed=0))


@pytest.mark.nightly
def test_a_run_writes_models_that_can_be_measured(tmp_path, capsys):
    output = tmp_path / "made"
    assert ladder(["--output", str(output), "--steps", "1", "--evaluate", "--json", *FEW]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("not the shipped weights") == 3
    figures = json.loads(printed.out[printed.out.index("{") :])  # another library may have logged in front
    assert [rung["operands"] for rung in figures["prover"]] == [2, 3, 4, 5, 6, 7, 8]
    assert figures["conjecturer"]["n"] == 8 and len(figures["asked"]) == 7
    assert {path.name for path in output.iterdir()} == {"prover", "conjecturer", "asked"}
    with pytest.raises(ConfigError, match="is not an empty folder"):
        ladder(["--output", str(output)])
