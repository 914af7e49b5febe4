# Tests: training/plan.py
"""Optimizer steps of a round and their micro-batches: how many, of which rows, and what each process runs."""

from collections import Counter

import pytest

from countdown_selfplay.training.plan import (
    BLANK,
    Counts,
    Pass,
    Planner,
    Room,
    equal_steps,
    filled_steps,
    group_tokens,
    side_by_side,
)

from .test_samples import episode_samples, sample


def answers(advantages, group=1):
    """Rows of one token, the first is number 1."""
    return [sample(i + 1, 1, credit, group=i // group) for i, credit in enumerate(advantages)]


def numbers(samples):
    return [int(s.prompt[0]) for s in samples]


def shape(cut):
    return [numbers(part) for part in cut]


def test_counts_are_of_what_is_trained_on_and_an_episode_is_one_answer():
    """Tokens 1 + 1, 3 x 3 and 4 x 2 in two groups; episode 1 is not selected."""
    assert Counts.of(episode_samples(selected=[True, False, True, True])) == Counts(3, 19, 2, 0)
    mixed = [sample(1, 2), sample(2, 3, trained=False, imitated=True), sample(3, 4, group=1, imitated=True)]
    assert Counts.of(mixed, 2) == Counts(2 / 2, 6 / 2, 2 / 2, 7 / 2) and Counts.of([]) == Counts(0, 0, 0, 0)
    assert group_tokens(mixed) == {0: 2, 1: 4}


# -- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups, steps, sizes, whole", [
    (4, 2, [8, 8], True),
    (6, 4, [6] * 4, False),  # 24 answers, 6 a step, which hold no whole groups of 4
    (5, 2, [10, 10], False),
    (3, 5, [2, 2, 3, 2, 3], False),
    (7, 6, [4, 5, 5, 4, 5, 5], False),
    (1, 8, [0, 1] * 4, False),
    (4, 1, [16], True),
])  # fmt: skip
def test_equal_steps_hold_each_answer_once_and_whole_groups_where_they_fit(groups, steps, sizes, whole):
    made = answers([1.0, -1.0, 0.5, 0.0] * groups, group=4)
    cut = equal_steps(made, steps, seed=1)
    assert sorted(n for part in shape(cut) for n in part) == [*range(1, 4 * groups + 1)]
    assert sorted(map(len, cut)) == sorted(sizes) and all(part == sorted(part) for part in shape(cut))
    if whole:
        assert all(set(Counter(s.group for s in part).values()) == {4} for part in cut)
    by_seed = [shape(equal_steps(made, steps, seed)) for seed in range(1, 7)]
    assert by_seed[0] == shape(cut) and (steps == 1 or any(one != by_seed[0] for one in by_seed))


@pytest.mark.parametrize("credited, steps, sizes", [
    (70, 5, [32, 32, 6]),  # SGS, appendix C.1: 32 a step
    (0, 3, []),
    (32, 3, [32]),
    (33, 3, [32, 1]),
    (97, 3, [33, 33, 31]),  # more than 3 x 32: ceil(97 / 3) = 33 a step
    (130, 1, [130]),
])  # fmt: skip
def test_filled_steps_have_so_many_answers_with_credit_and_no_others(credited, steps, sizes):
    made = answers([0.0] * 10 + [1.0] * credited)
    cut = filled_steps(made, 32, steps, seed=7)
    found = [n for part in shape(cut) for n in part]
    assert [len(part) for part in cut] == sizes and sorted(found) == [*range(11, 11 + credited)]
    assert len(sizes) < 3 or found != sorted(found)  # not in the order in which they were written


def test_filled_steps_keep_groups_of_one_size_that_divides_them_and_episodes():
    """12 groups of 4 in steps of 8 are two groups a step; of 6, which 4 does not divide, single answers."""
    made = answers([0.5] * 48, group=4)
    assert [set(Counter(s.group for s in part).values()) for part in filled_steps(made, 8, 8, 3)] == [{4}] * 6
    assert [len(part) for part in filled_steps(made, 6, 8, 3)] == [6] * 8
    cut = filled_steps(episode_samples(), 2, 3, seed=5)  # episode 1 has no credit
    assert [len({s.answer for s in part}) for part in cut] == [2, 1] and sum(map(len, cut)) == 2 + 3 + 2
    taught = [sample(1, advantage=0.0), sample(2, advantage=0.0, imitated=True)]
    assert shape(filled_steps(taught, 4, 2, 0)) == [[2]]


# -- micro-batches ----------------------------------------------------------------------------------------------------


def long(tokens, **more):
    return [sample(i + 1, n, group=i // 2, **more) for i, n in enumerate(tokens)]


def test_micro_batches_hold_so_many_tokens_with_their_padding():
    """Prompts of 1: the first pass is 5 + 1 wide, of 12 tokens it holds 2 rows; then 3 + 1 wide: 3."""
    assert shape(Room(8, tokens=12).cut(long([2, 5, 3, 1, 4, 2]))) == [[2, 5], [3, 1, 6], [4]]
    assert shape(Room(2, tokens=12).cut(long([1, 1, 1]))) == [[1, 2], [3]]  # rows bound as well
    # the longest prompt and the longest completion: 4 + 4 although no row is longer than 5
    crossed = [sample(1, 4, prompt=1), sample(2, 1, prompt=4)]
    assert shape(Room(8, tokens=15).cut(crossed)) == [[1], [2]] and shape(Room(8, tokens=16).cut(crossed)) == [[1, 2]]
    assert shape(Room(8, tokens=3).cut(long([7]))) == [[1]]


def test_rows_of_a_group_stay_together_at_the_place_of_its_longest():
    """Groups {1, 2}, {3, 4}, {5, 6}: the second has the longest row. Those with credit are apart from the others."""
    assert shape(Room(2, by_prompt=True).cut(long([2, 4, 1, 9, 3, 3]))) == [[3, 4], [1, 2], [5, 6]]
    mixed = [
        sample(i + 1, n, credit, i // 3)
        for i, (n, credit) in enumerate([(2, 1), (1, 0), (4, 1), (3, 0), (3, 1), (9, 0)])
    ]
    assert shape(Room(9, by_prompt=True).cut(mixed)) == [[4, 6, 1, 3, 5, 2]]
    assert shape(Room(2).cut(long([2, 4, 1, 9, 3, 3]))) == [[4, 2], [5, 6], [1, 3]]


def test_episodes_are_whole_and_one_that_is_longer_than_a_share_is_alone():
    """Rows of the episodes: 2, 1, 3, 2; the longest row of each, with its prompt: 7, 8, 9, 10."""
    cut = [[s.answer for s in part] for part in Room(4).cut(episode_samples())]
    assert cut == [[3, 3], [2, 2, 2, 1], [0, 0]]
    # 8 rows on 4 processes would be 2 a micro-batch: one holds 3
    assert [len(part) for part in Room(4, world=4).cut(episode_samples())] == [2, 3, 1, 2]


@pytest.mark.parametrize("world, sizes", [(1, [8, 2]), (2, [5, 5]), (3, [4, 4, 2]), (12, [1] * 10)])
def test_processes_get_equally_many_micro_batches(world, sizes):
    assert [len(part) for part in Room(8, world=world).cut(long([1] * 10))] == sizes


def passes(**counts):
    """So many passes of each role, of one row; the names' upper case: without a gradient."""
    made = {}
    for name, count in counts.items():
        role, graph = name.lower(), name.islower()
        made.setdefault(role, []).extend(Pass(((role, [sample(i + 1)]),), graph) for i in range(count))
    return made


def dealt(room, **counts):
    """Per process its passes: role and number, 0 is blank; upper case without a gradient."""
    return [
        " ".join(
            f"{p.role if p.graph else p.role.upper()}{0 if p.parts[0][1] == [BLANK] else p.parts[0][1][0].answer}"
            for p in own
        )
        for own in room.deal(passes(**counts))
    ]


def test_under_ddp_each_process_runs_its_own_passes_and_one_backward_at_least():
    assert dealt(Room(4), a=2, B=1, b=1) == ["a1 a2 B1 b1"]
    assert dealt(Room(4, world=2), a=3, b=1) == ["a1 a3 b1", "a2"]
    assert dealt(Room(4, world=3), a=1, b=1) == ["a1 b1", "a0", "a0"]  # gradients are exchanged in a backward pass
    assert dealt(Room(4, world=2), A=3, b=1) == ["A1 A3 b1", "A2 b0"]
    assert dealt(Room(4, world=2), A=1) == ["A1", ""] and dealt(Room(4), a=0) == [""]  # no gradient anywhere


def test_in_step_all_processes_run_equally_many_passes_of_each_role_in_one_order():
    assert dealt(Room(4, in_step=True), a=2, b=0) == ["a1 a2 b0"]
    assert dealt(Room(4, world=2, in_step=True), a=3, b=0) == ["a1 a3 b0", "a2 a0 b0"]
    assert dealt(Room(4, world=3, in_step=True), a=1, b=4) == ["a1 b1 b4", "a0 b2 b0", "a0 b3 b0"]


def test_players_share_passes_as_many_as_one_has_at_most():
    mine = [one for own in passes(a=1, b=3, C=1, c=2).values() for one in own]
    found = [([(role, rows[0].answer) for role, rows in p.parts], p.graph) for p in side_by_side(mine)]
    assert found == [
        ([("a", 1), ("b", 1), ("c", 1)], True), ([("b", 2), ("c", 2)], True), ([("b", 3)], True), ([("c", 1)], False),
    ]  # fmt: skip


# -- a step -----------------------------------------------------------------------------------------------------------


ROOM, IN_STEP = Room(8), Room(8, in_step=True)


def planner(room=ROOM, proportional=True, drop=True, episodes=(), sharing=None, mixes=False):
    roles = {role: frozenset(role) for role in "ab"}
    return Planner(room, 0, sharing or roles, lambda role: proportional, frozenset(episodes), drop, mixes)


def planned(step):
    return [(p.role, numbers(p.parts[0][1]), p.graph) for p in step.passes]


A = [sample(1, 3, 1.0), sample(2, 2, 0.0), sample(3, 1, -1.0), sample(4, 4, 0.0, trained=False), sample(5, 0, 1.0)]
QUIET = [sample(6, 2, 0.0), sample(7, 1, 0.0)]


def test_rows_without_credit_are_measured_alone_and_those_that_nobody_reads_not_at_all():
    """4 answers are selected, one of them without a token; 3 are read."""
    step = planner().step({"a": A})
    assert planned(step) == [("a", [1, 3], True), ("a", [2], False)] and not step.signalless
    assert step.counts["a"] == Counts(4, 6, 1, 0) and step.measured["a"] == Counts(3, 6, 1, 0)
    assert step.group_tokens["a"] == {0: 6}
    assert planned(planner(proportional=False).step({"a": A})) == [("a", [1, 2, 3], True)]
    # where all processes run the same passes, none is beside the engine's wrapper
    assert planned(planner(IN_STEP).step({"a": A})) == [("a", [1, 2, 3], True)]


def test_a_role_without_signal_is_held_or_moves_by_its_regulariser():
    both = {"a": A[:1], "b": QUIET}
    step = planner(proportional=False).step(both)
    assert planned(step) == [("a", [1], True), ("b", [6, 7], False)] and step.signalless == step.still == {"b"}
    moved = [("a", [1], True), ("b", [6, 7], True)]
    free = planner(proportional=False, drop=False).step(both)
    assert planned(free) == moved and free.signalless == {"b"} and not free.still
    # weights that b shares with a, which has a signal, are not held
    shared = {role: frozenset("ab") for role in "ab"}
    assert planned(planner(proportional=False, sharing=shared).step(both)) == moved
    step = planner(IN_STEP, proportional=False).step(both)
    assert planned(step) == moved and step.still == {"b"}  # its passes run, and its gradient is not used
    # not dropped, a gradient of 0 lets momentum act, in whichever way a pass is run; without a row there is none
    for room in (ROOM, IN_STEP):
        assert not planner(room, drop=False).step(both).still
        assert planner(room, drop=False).step({"b": []}).still == {"b"}
    free = planner(drop=False).step(both)
    assert planned(free) == [("a", [1], True), ("b", [6], True), ("b", [7], False)]


def test_episodes_without_credit_are_not_even_measured():
    """Of four the second has none: 1 + 1, 9 and 8 tokens are read; the mean stays over all four."""
    step = planner(episodes="a").step({"a": episode_samples()})
    assert [({s.answer for s in p.parts[0][1]}, p.graph) for p in step.passes] == [({0, 2, 3}, True)]
    assert step.counts["a"] == Counts(4, 21, 2, 0) and step.measured["a"] == Counts(3, 19, 2, 0)
    kept = planner(proportional=False, episodes="a").step({"a": episode_samples()})
    assert sum(len(p.parts[0][1]) for p in kept.passes) == 8


def test_demonstrations_are_trained_on_and_are_no_signal():
    shown = [sample(9, 2, 0.0, -1, trained=False, imitated=True)]
    step = planner().step({"a": A[:1], "b": QUIET}, {"a": shown, "b": shown})
    assert planned(step) == [("a", [1, 9], True), ("b", [6, 9, 7], False)] and step.signalless == {"b"}
    assert step.counts["a"] == Counts(1, 3, 1, 2) and step.counts["b"] == Counts(2, 3, 1, 2)


def test_a_role_that_is_through_has_no_pass_and_mixed_players_share_theirs():
    step = planner().step({"a": A[:1], "b": []}, through=frozenset("b"))
    assert planned(step) == [("a", [1], True)] and step.through == step.signalless == {"b"}
    assert step.counts["b"] == Counts(0, 0, 0, 0)
    (one,) = planner(mixes=True).step({"a": A[:1], "b": [sample(8)]}).passes
    assert [role for role, _ in one.parts] == ["a", "b"]


def test_processes_make_one_plan():
    """Each answer is in one pass of one process; counts are shares of the whole."""
    made = {"a": long([3, 1, 2, 5, 4, 2, 1]), "b": long([1, 2])}
    roles = {role: frozenset(role) for role in made}
    steps = [Planner(Room(2, world=3), rank, roles, lambda _: True, frozenset(), True).step(made) for rank in range(3)]
    for role, own in made.items():
        found = [n for step in steps for p in step.passes if p.role == role for n in numbers(p.parts[0][1]) if n]
        assert sorted(found) == numbers(own) and len({step.counts[role] for step in steps}) == 1
    assert steps[0].counts["a"] == Counts(7 / 3, 18 / 3, 4 / 3, 0)
