# Tests: countdown/generator.py, countdown/planted.py, countdown/moves.py, countdown/problem.py, proposers/rungs.py
"""Generated problems: solvable, in range, distinct, reproducible, and on their side of the held-out border; made by a
random derivation, drawn as texts, or with a target that is put right."""

from collections import Counter
from dataclasses import replace

import pytest

from countdown_selfplay.countdown import (
    CountdownDomain,
    Problem,
    ProblemSpec,
    Rules,
    generate_problems,
    generator,
    heldout_key,
    heldout_problems,
    is_solvable,
    is_solvable_batch,
)
from countdown_selfplay.countdown.planted import demonstrated, planted_problems, states_of
from countdown_selfplay.errors import ConfigError, DataError

from .oracle import naive_solvable, reachable

SMALL = ProblemSpec(operands=(2, 3), number_low=1, number_high=12, target_low=1, target_high=99)
LONGER = ProblemSpec((3, 4), 1, 12, 1, 99)
BARE = Rules(answer_format="bare")
TINY = CountdownDomain(LONGER, BARE, "compact_moves", "compact_any", answers="moves")
MOVES = replace(TINY, spec=ProblemSpec((3, 4, 5), 1, 12, 1, 99))


def test_one_key_in_8_is_held_out_and_lists_do_not_change():
    # 100,000 keys: standard error sqrt(1/8 * 7/8 / 100000) = 0.00105
    share = sum(heldout_key(f"1,{i},7={j}") for i in range(1000) for j in range(100)) / 100_000
    assert abs(share - 1 / 8) < 0.005
    # digests by coreutils, printf %s KEY | b2sum -l 64; a multiple of 8 is held out:
    # 1,2,4=7 a985b4799f4d56fc, 2,6=8 40f903e4bf488f31, 19,35,44=98 e1f9f47c489c50ed, 3,5,7=22 8d3e06ff030e2ac9
    # 5,6,11=22 dd9adbc075a42838, 5,6,12=23 cab9d3ade55ff340
    for key in ("1,2,4=7", "2,6=8", "19,35,44=98", "3,5,7=22"):
        assert not heldout_key(key)
    assert heldout_key("5,6,11=22") and heldout_key("5,6,12=23")
    assert generate_problems(600, SMALL, seed=5)[:7] == generate_problems(7, SMALL, seed=5)
    three = ProblemSpec(operands=(3,))
    first = generate_problems(30, three, seed=1)
    rest = generate_problems(20, three, seed=1, exclude=[*first[:5], *(p.key for p in first[5:10])])
    assert rest == first[10:]
    # Data sets and shots of prompts are made from seeds: a change here changes them all.
    assert [p.key for p in generate_problems(3)] == ["14,17,39=70", "26,50,52=13", "2,10,17,62=54"]
    assert generate_problems(1)[0] == Problem((14, 39, 17), 70)


def test_operand_counts_are_drawn_evenly_until_one_is_used_up(monkeypatch):
    # standard error of the share of threes among 1,200: sqrt(0.25 / 1200) = 0.014
    for operands, share in (((3, 4), 1 / 2), ((3, 3, 4), 2 / 3)):
        problems = generate_problems(1200, ProblemSpec(operands=operands), seed=2)
        assert abs(sum(len(p.numbers) == 3 for p in problems) / 1200 - share) < 0.06
    monkeypatch.setattr(generator, "PATIENCE", 20_000)
    # 1..2 and targets 1..4: 1+1, 2-1, 2/1, 1*1, ... at most 3 multisets x 4 targets with two numbers
    spec = ProblemSpec(operands=(2, 3), number_high=3, target_low=1, target_high=9)
    problems = generate_problems(40, spec)
    twos = [p for p in problems if len(p.numbers) == 2]
    assert 3 < len(twos) < 15 and len(problems) == 40


def test_rules_and_a_further_condition_are_kept_and_too_few_are_one_clear_error(monkeypatch):
    whole = Rules(integers_only=True)
    problems = generate_problems(200, SMALL, seed=1, rules=whole, accept=lambda p: p.target % 2 == 0)
    assert len(problems) == 200
    assert all(p.target % 2 == 0 for p in problems)
    assert all(naive_solvable(p.numbers, p.target, integers_only=True) for p in problems)
    monkeypatch.setattr(generator, "PATIENCE", 20_000)
    # 1 and 1: targets 0, 1, 2; in range 1 and 2
    few = ProblemSpec(operands=(2,), number_high=1, target_low=1, target_high=5)
    found = generate_problems(1, few, split="heldout" if heldout_key("1,1=1") else "train")
    assert found[0].numbers == (1, 1)
    with pytest.raises(ConfigError, match="of 3 problems were found in the 'train' split"):
        generate_problems(3, few)


def test_the_held_out_set_is_large_solvable_and_distinct_and_a_changed_one_is_noticed(monkeypatch):
    problems = heldout_problems()
    assert Counter(len(p.numbers) for p in problems) == {3: 500, 4: 500, 5: 150, 6: 150}
    assert len({p.key for p in problems}) == len(problems) == 1300
    assert all(ProblemSpec(operands=(3, 4, 5, 6)).admits(p) and heldout_key(p.key) for p in problems)
    assert all(is_solvable_batch(problems))
    assert heldout_problems(4) == [p for p in problems if len(p.numbers) == 4]
    monkeypatch.setattr(generator, "STRATA", {3: 9})
    generator._frozen.cache_clear()
    try:
        with pytest.raises(DataError, match="not built as it was frozen"):
            heldout_problems()
    finally:
        generator._frozen.cache_clear()


def test_planted_problems_are_solved_by_their_derivation_and_by_an_independent_search():
    problems = planted_problems(60, LONGER, seed=5)
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
    first = planted_problems(50, LONGER, seed=3)
    assert planted_problems(20, LONGER, seed=3) == first[:20]
    assert planted_problems(50, LONGER, seed=4) != first
    # pinned: another list on another machine would make held-out sets that cannot be compared
    pinned = [Problem((8, 5, 12, 10), 46), Problem((11, 9, 9), 10)]
    assert planted_problems(2, LONGER, seed=0, split="heldout") == pinned
    spec = ProblemSpec((3, 5, 5), 2, 9, 10, 40)
    problems = planted_problems(600, spec, seed=0)
    assert all(spec.admits(p) for p in problems)
    assert len({p.key for p in problems}) == 600
    sizes = Counter(len(p.numbers) for p in problems)
    assert 340 < sizes[5] < 460  # 400 expected, standard deviation 11.5
    exclude = [p.key for p in problems[:100]]
    assert not {p.key for p in planted_problems(200, spec, seed=0, exclude=exclude)} & set(exclude)
    train, held = planted_problems(300, LONGER, 0), planted_problems(300, LONGER, 0, split="heldout")
    assert not any(heldout_key(p.key) for p in train) and all(heldout_key(p.key) for p in held)


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
    chat = CountdownDomain(LONGER, prover_prompt="moves", answers="moves")
    ((row, text),) = chat.demonstrations(1, 0, (2,))[0]
    assert text.startswith("<answer> ") and text.endswith(" </answer>")
    assert chat.verify([text], [chat.problem(row)])[0].correct
    short = CountdownDomain(LONGER, prover_prompt="compact_moves", answers="moves")
    ((row, text),) = short.demonstrations(1, 0, (2,))[0]
    assert text == f" {text.strip()}" and short.verify([text], [short.problem(row)])[0].correct  # `: 24` + ` 6 * 4`
    prompt = CountdownDomain(ProblemSpec((8,), 1, 12, 1, 99), prover_prompt="moves", answers="moves").propose_row(8)
    shots = prompt["prompt"].split("\n")[1:-1]
    assert len(shots) == 6 and all(shot.count(",") == 8 for shot in shots)


def test_texts_are_uniform_in_size_numbers_and_target_whether_there_is_a_solution_or_not():
    found = MOVES.random_text(3000, seed=1)
    sizes, targets = Counter(len(p.numbers) for p in found), Counter(p.target for p in found)
    # a third of 3,000 each, with a standard deviation of sqrt(3000 x 1/3 x 2/3) = 25.8
    assert all(abs(sizes[k] - 1000) < 4 * 26 for k in (3, 4, 5))
    # means 50 of 1 to 99 and 6.5 of 1 to 12, with standard errors of 28.6 / sqrt(3000) = .52, 3.45 / sqrt(12000) = .03
    assert abs(sum(p.target for p in found) / 3000 - 50) < 4 * 0.53 and set(targets) == set(range(1, 100))
    numbers = [n for p in found for n in p.numbers]
    assert abs(sum(numbers) / len(numbers) - 6.5) < 4 * 0.032 and set(numbers) == set(range(1, 13))
    threes = [p for p in found if len(p.numbers) == 3][:200]
    share = sum(p.target in reachable(list(p.numbers), 99) for p in threes) / 200
    assert 0.05 < share < 0.4  # most targets of three numbers are out of reach


def test_texts_are_new_training_problems_within_what_moves_may_reach():
    found = MOVES.random_text(200, seed=3)
    keys = [p.key for p in found]
    assert len(set(keys)) == 200 and not any(map(heldout_key, keys)) and found == MOVES.random_text(200, seed=3)
    assert found[:50] == MOVES.random_text(50, seed=3) and found != MOVES.random_text(200, seed=4)
    assert not set(keys[:100]) & {p.key for p in MOVES.random_text(200, seed=3, exclude=keys[:100])}
    narrow = replace(MOVES, spec=ProblemSpec((3,), 1, 12, 1, 99), value_high=20)
    assert max(p.target for p in narrow.random_text(300, seed=0)) == 20
    narrow = replace(MOVES, spec=ProblemSpec((3,), 1, 12, 80, 99))
    assert narrow.repaired(Problem((1, 1, 1), 90), seed=0) is None  # at most 3


@pytest.mark.parametrize("domain", [MOVES, CountdownDomain.tiny()], ids=["moves", "whole"])
def test_a_repaired_problem_has_its_numbers_and_a_target_that_they_reach(domain):
    for seed in range(100):
        asked = Problem((7, 11, 12), 1 + seed % 99)
        made = domain.repaired(asked, seed)
        assert made.numbers == asked.numbers and domain.in_range(made) and not domain.is_held_out(made)
        assert made.target in reachable([7, 11, 12], 99) and is_solvable(made)
    assert len({domain.repaired(Problem((7, 11, 12), 5), seed).target for seed in range(50)}) > 5
