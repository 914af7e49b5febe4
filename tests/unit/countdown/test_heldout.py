# Tests: countdown/exact/solver.py, countdown/generator.py, countdown/problem.py
"""The frozen held-out set."""

import hashlib
from collections import Counter

import pytest

from countdown_selfplay.countdown import (
    ProblemSpec,
    generate_problems,
    generator,
    heldout_key,
    heldout_problems,
    is_solvable_batch,
)
from countdown_selfplay.errors import DataError


def test_it_is_large_solvable_distinct_in_range_and_held_out():
    problems = heldout_problems()
    assert Counter(len(p.numbers) for p in problems) == {3: 500, 4: 500, 5: 150, 6: 150}
    assert len({p.key for p in problems}) == len(problems) == 1300
    assert all(ProblemSpec(operands=(3, 4, 5, 6)).admits(p) and heldout_key(p.key) for p in problems)
    assert all(is_solvable_batch(problems))
    assert heldout_problems(4) == [p for p in problems if len(p.numbers) == 4]


def test_it_is_disjoint_from_what_the_generator_gives_by_default():
    held_out = {p.key for p in heldout_problems()}
    # the same seed and ranges, which would give the same draws without the split
    for k in (3, 4, 5):
        given = generate_problems(600, ProblemSpec(operands=(k,)), seed=generator.SEED)
        assert not held_out & {p.key for p in given}


def test_its_checksum_is_that_of_its_lines():
    lines = [f"{','.join(map(str, p.numbers))}={p.target}\n" for p in heldout_problems()]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == generator.CHECKSUM
    assert generator.checksum(heldout_problems()[::-1]) != generator.CHECKSUM


def test_a_changed_generator_is_noticed(monkeypatch):
    monkeypatch.setattr(generator, "SEED", generator.SEED + 1)
    generator._frozen.cache_clear()
    try:
        with pytest.raises(DataError, match="not built as it was frozen"):
            heldout_problems()
    finally:
        generator._frozen.cache_clear()
