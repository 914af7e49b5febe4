# Tests: countdown/generator.py, countdown/problem.py
"""Generated problems: solvable, in range, distinct, reproducible, and on their side of the held-out border."""

from collections import Counter

import pytest

from countdown_selfplay.countdown import (
    Problem,
    ProblemSpec,
    Rules,
    generate_problems,
    generator,
    heldout_key,
    heldout_problems,
    is_solvable_batch,
)
from countdown_selfplay.errors import ConfigError, DataError

from .oracle import naive_solvable

SMALL = ProblemSpec(operands=(2, 3), number_low=1, number_high=12, target_low=1, target_high=99)


def keys(problems):
    return {p.key for p in problems}


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
