# Tests: countdown/planted.py
"""Problems made by a random legal derivation."""

import json
from collections import Counter

import pytest

from countdown_selfplay.cli.dataset import main as dataset
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules, heldout_key
from countdown_selfplay.countdown.planted import demonstrated, planted_problems, states_of
from countdown_selfplay.errors import ConfigError

from .oracle import reachable

SMALL = ProblemSpec((3, 4), 1, 12, 1, 99)
TINY = CountdownDomain(SMALL, Rules(answer_format="bare"), "compact_moves", "compact_any", answers="moves")


def test_planted_problems_are_solved_by_their_derivation_and_by_an_independent_search():
    problems = planted_problems(60, SMALL, seed=5)
    assert {len(p.numbers) for p in problems} == {3, 4}
    assert all(p.target in reachable(p.numbers, 99) for p in problems)
    low = planted_problems(40, ProblemSpec((3,), 1, 12, 1, 20), seed=5, value_high=20)
    assert all(p.target in reachable(p.numbers, 20) for p in low)
    for problem, moves in demonstrated(100, ProblemSpec((2, 7, 20), 1, 12, 1, 99), seed=1):
        state = TINY.begin(problem)
        assert len(moves) == len(problem.numbers) - 1
        for before, move in zip(states_of((problem, moves)), moves, strict=True):
            assert state == before
            a, _, b, _, _ = move.split()
            assert int(a) >= int(b)
            (state,) = TINY.moved([move], [problem], [state])
        assert state.correct
    episode = (Problem((3, 4, 5, 6), 12), ["6 * 4 = 24", "5 - 3 = 2", "24 / 2 = 12"])
    assert states_of(episode) == [[3, 4, 5, 6], [24, 3, 5], [2, 24]]


def test_the_list_is_a_function_of_the_seed_with_ranges_sizes_and_sides():
    first = planted_problems(50, SMALL, seed=3)
    assert planted_problems(20, SMALL, seed=3) == first[:20]
    assert planted_problems(50, SMALL, seed=4) != first
    # pinned: another list on another machine would make held-out sets that cannot be compared
    assert planted_problems(2, SMALL, seed=0, split="heldout") == PINNED
    spec = ProblemSpec((3, 5, 5), 2, 9, 10, 40)
    problems = planted_problems(600, spec, seed=0)
    assert all(spec.admits(p) for p in problems)
    assert len({p.key for p in problems}) == 600
    sizes = Counter(len(p.numbers) for p in problems)
    assert 340 < sizes[5] < 460  # 400 expected, standard deviation 11.5
    exclude = [p.key for p in problems[:100]]
    assert not {p.key for p in planted_problems(200, spec, seed=0, exclude=exclude)} & set(exclude)
    train, held = planted_problems(300, SMALL, 0), planted_problems(300, SMALL, 0, split="heldout")
    assert not any(heldout_key(p.key) for p in train) and all(heldout_key(p.key) for p in held)
    assert not any(TINY.is_held_out(p) for p in TINY.random(200, 9, frozenset()))


PINNED = [Problem(numbers=(8, 5, 12, 10), target=46), Problem(numbers=(11, 9, 9), target=10)]


def test_held_out_problems_are_as_many_of_each_size_until_one_is_used_up():
    held = TINY.held_out(21)
    assert [len(p.numbers) for p in held] == [3, 4] * 10 + [3]
    assert held == TINY.held_out(40)[:21]
    assert TINY.held_out_of_rung(10, 4) == [p for p in held if len(p.numbers) == 4]
    exclude = frozenset(p.key for p in TINY.random_of_rung(5, 4, 0))
    for domain in (TINY, CountdownDomain.tiny()):
        assert list(domain.rungs) == sorted(set(domain.spec.operands))
        problems = domain.random_of_rung(20, 4, 0, exclude)
        assert {domain.rung(p) for p in problems} == {4} and not {p.key for p in problems} & exclude
        assert not any(domain.is_held_out(p) for p in problems)
        assert all(domain.is_held_out(p) for p in domain.held_out_of_rung(20, 4))
    spec = ProblemSpec((2, 3), 1, 2, 1, 99)
    found = planted_problems(20, spec, 0)
    # two numbers of 1 and 2: 1+1, 1*1 | 1+2, 2-1, 2*1 | 2+2 = 2*2, 2/2: 7 problems on both sides
    assert 0 < sum(len(p.numbers) == 2 for p in found) <= 7
    chat = CountdownDomain(SMALL, prover_prompt="moves", answers="moves")
    ((row, text),) = chat.demonstrations(1, 0, (2,))[0]
    assert text.startswith("<answer> ") and text.endswith(" </answer>")
    assert chat.verify([text], [chat.problem(row)])[0].correct
    short = CountdownDomain(SMALL, prover_prompt="compact_moves", answers="moves")
    ((row, text),) = short.demonstrations(1, 0, (2,))[0]
    assert text == f" {text.strip()}" and short.verify([text], [short.problem(row)])[0].correct  # `: 24` + ` 6 * 4`
    prompt = CountdownDomain(ProblemSpec((8,), 1, 12, 1, 99), prover_prompt="moves", answers="moves").propose_row(8)
    shots = prompt["prompt"].split("\n")[1:-1]
    assert len(shots) == 6 and all(shot.count(",") == 8 for shot in shots)


def test_a_file_of_moves_and_a_file_of_problems_for_them(tmp_path):
    given = ["--operands", "2", "8", "--number_high", "12", "--prover_prompt", "compact_moves", "--count", "10"]
    shown, held = tmp_path / "shown.jsonl", tmp_path / "held.jsonl"
    assert dataset([str(shown), "--schema", "moves", *given]) == 0
    rows = [json.loads(line) for line in shown.read_text().splitlines()]
    assert len(rows) > 10 and all(len(row["completion"].split()) == 5 for row in rows)
    assert json.loads((tmp_path / "shown.jsonl.meta").read_text())["problems"] == 10
    assert dataset([str(held), "--schema", "prover", "--split", "heldout", *given]) == 0
    rows = [json.loads(line) for line in held.read_text().splitlines()]
    assert len(rows) == 10 and all(TINY.is_held_out(TINY.problem(row)) for row in rows)
    for more in (["--schema", "solved"], ["--schema", "moves", "--split", "heldout"], ["--needs", "*"]):
        with pytest.raises(ConfigError, match="moves"):
            dataset([str(tmp_path / "no.jsonl"), *given, *more])
