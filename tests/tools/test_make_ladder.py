# Tests: tools/make_tiny_model/ladder
"""`python -m tools.make_tiny_model.ladder`: what the warm starts show, and the command."""

import json
import math
from collections import Counter
from itertools import pairwise

import pytest
import torch
from tools.make_tiny_model.ladder.__main__ import main
from tools.make_tiny_model.ladder.model import CONJECTURER, PROVER, build, number_waves
from tools.make_tiny_model.ladder.warm_start import asked_shown, moves_shown, proposals_shown, train
from tools.make_tiny_model.tokenizer import WORDS

from countdown_selfplay.countdown import Problem, heldout_key
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import LADDER_SPEC


def test_the_prover_sees_two_and_three_numbers_each_move_behind_the_result_of_the_last():
    sizes = Counter()
    for prompt, move in moves_shown(3000, seed=0):
        numbers, target = ([int(x) for x in part.split()] for part in prompt.split(":"))
        a, op, b, equals, value = move.split()
        assert int(a) >= int(b)
        assert equals == "="
        assert {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b), "/": int(a) / int(b)}[op] == int(
            value
        )
        rest = Counter(numbers)
        rest.subtract([int(a), int(b)])
        assert min(rest.values()) >= 0
        if len(numbers) == 2:
            assert int(value) == target[0]
        assert not heldout_key(Problem(tuple(numbers), target[0]).key)
        assert 1 <= int(value) <= 99
        sizes[len(numbers)] += 1
    assert set(sizes) == {2, 3}
    # Three problems in ten have two numbers: .3 + .7 second moves against .7 first ones, so 10 to 7. Of the problems
    # of three numbers 23% and of those of two 12% touch the held-out side and are drawn anew: a little more of two.
    assert sizes[2] / sizes[3] == pytest.approx(10 / 7, rel=0.15)
    shown = moves_shown(200, seed=1)
    follows = [(first, second) for first, second in pairwise(shown) if first[0].count(" ") == 4]
    assert follows
    for (prompt, move), (after, _) in follows:
        numbers, target = prompt.split(" : ")
        left = numbers.split()
        a, _, b, _, value = move.split()
        left.remove(a)
        left.remove(b)
        assert after == f"{value} {left[0]} : {target}"


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
    found = asked_shown(800, seed=0)
    kinds, later = Counter(), 0
    for prompt, text in found:
        numbers, target = text.split(" = ")
        numbers = numbers.split()
        assert not heldout_key(Problem(tuple(map(int, numbers)), int(target)).key)
        if prompt.startswith("propose like "):
            asked, value = prompt.removeprefix("propose like ").removesuffix(" :").split(" = ")
            assert 4 <= len(asked.split()) <= 9
            kinds["help"] += 1
            later += value == target and 3 <= len(numbers) < len(asked.split())
        elif prompt == "propose :":
            kinds["any"] += 1
        else:
            assert prompt == f"propose {len(numbers)} :"
            kinds["size"] += 1
    assert kinds == {"help": 400, "size": 200, "any": 200}
    assert 160 < later < 255  # a half of 400 and some of the others by chance; a standard deviation is 10


def test_training_is_reproducible_and_the_rows_of_the_numbers_start_as_waves():
    first, second, other = (train("conjecturer", seed, steps=2) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.model.embed_tokens.weight, other.model.embed_tokens.weight)
    waves = number_waves()
    assert waves.shape == (100, 40)
    assert waves[0, 0].item() == pytest.approx(0.05)  # cos 0
    assert waves[1, 0].item() == pytest.approx(-0.05)  # period 2: cos pi
    assert waves[25, 24:26].tolist() == pytest.approx([0, 0.05], abs=1e-6)  # period 100: a quarter of a turn
    assert waves[7, 30].item() == pytest.approx(0.05 * math.cos(2 * math.pi * math.log(7.5) / 0.7), abs=1e-5)
    for shape in (PROVER, CONJECTURER):
        rows = build(shape, 0, "prover").get_input_embeddings().weight
        first = WORDS.index("0")
        assert torch.equal(rows[first : first + 100, :40], waves)


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
