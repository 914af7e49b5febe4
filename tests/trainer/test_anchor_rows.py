# Tests: data/anchors.py, curriculum/admission.py, games/propose_and_solve.py, games/settings.py
"""What becomes of the data set's rows: extra columns, ranges, and held-out problems."""

import logging

from datasets import Dataset

from countdown_selfplay.countdown import Problem, generate_problems
from countdown_selfplay.data.anchors import problem_keys
from countdown_selfplay.tiny import TINY_SPEC

from .conftest import equal, on_sample, ran, rounds, weights

ANCHORS = generate_problems(12, TINY_SPEC, seed=5)


def rows_of(problems, **columns):
    rows = [{"nums": list(p.numbers), "target": p.target} for p in problems]
    return Dataset.from_list([row | {k: value(i) for k, value in columns.items()} for i, row in enumerate(rows)])


def test_reward_functions_get_the_extra_columns_of_anchors_and_none_for_other_problems(build):
    seen = {}

    def reward(completions, numbers, target, level, tags, **kwargs):
        for n, t, extra, names in zip(numbers, target, level, tags, strict=True):
            seen[Problem(tuple(n), t)] = (extra, names)
        return [0.0] * len(completions)

    data = rows_of(ANCHORS, level=lambda i: 10 * i, tags=lambda i: ["a", str(i)])
    ran(build(max_steps=1, trainer={"reward_funcs": reward, "train_dataset": data}))
    assert len(seen) == 8  # 32 answers, 4 to each problem: some are conjectured, the others anchors
    own = {problem: (10 * i, ["a", str(i)]) for i, problem in enumerate(ANCHORS)}
    assert {seen[p] for p in seen if p not in own} == {(None, None)}
    assert len(seen.keys() & own.keys()) >= 4  # half of the slots are the anchors'
    assert all(seen[p] == own[p] for p in seen.keys() & own.keys())


def test_columns_that_hold_the_problem_itself_are_not_handed_on(build):
    names = set()

    def reward(completions, **kwargs):
        names.update(kwargs)
        return [0.0] * len(completions)

    data = rows_of(ANCHORS, ground_truth=lambda i: {"target": 1}, prompt=lambda i: "?", completion=lambda i: "!")
    build(max_steps=1, trainer={"reward_funcs": reward, "train_dataset": data}).train()
    assert names & {"nums", "ground_truth", "completion"} == set() and {"numbers", "target"} <= names


def test_generated_anchors_leave_the_evaluations_problems_out(build):
    """Problems of the training side: the side alone does not keep them apart from generated ones."""
    trainer = build(trainer={"eval_dataset": rows_of(generate_problems(600, TINY_SPEC, seed=9))})
    keys = problem_keys(trainer.train_dataset, trainer.domain)
    assert len(trainer.held_out) == 600 and len(keys) == 2048 and not keys & trainer.held_out


def test_a_row_out_of_range_is_said_once_with_the_field_that_it_is_beyond(build, caplog):
    wide = [*ANCHORS, Problem((3, 5, 40), 2), Problem((3, 5, 7, 9), 6)]  # numbers up to 12, three of them
    with caplog.at_level(logging.WARNING):
        build(trainer={"train_dataset": rows_of(wide)})
    (said,) = [record.message for record in caplog.records if "out of range" in record.message]
    assert said.startswith(
        "Row 12 of train_dataset (3,5,40=2) is out of range: its number 40 is beyond `number_high` (12)."
    )
    caplog.clear()
    with caplog.at_level(logging.WARNING):  # an evaluation may be harder than what is trained on
        build("eval", trainer={"train_dataset": rows_of(ANCHORS), "eval_dataset": rows_of(wide[12:])})
    assert "out of range" not in caplog.text


PURE = dict(max_steps=3, anchor_fraction=0.0, fill="none", learning_rate=1e-4)


def played(trainer):
    """Problems per round that the prover was asked."""
    found = []
    on_sample(trainer, lambda role, rollout: found.append(len(rollout.rows)) if role == "prover" else None)
    return found


def test_no_fill_plays_no_problem_of_the_data_set(build):
    trainer = build(**PURE)
    asked = played(trainer)
    trainer.train()
    lines = rounds(trainer.args.output_dir)
    assert asked == [line["round/conjectured_slots"] for line in lines] and 0 < max(asked) <= 8
    assert all(line["round/anchor_slots"] == 0 and "round/anchor_solve_rate_mean" not in line for line in lines)
    assert [line["prover/trained_samples"] for line in lines] == [4 * n for n in asked]


def test_a_round_without_any_problem_moves_no_weight_and_logs_no_rate(build):
    """The conjecturer writes nothing that can be played: the prover has no row at all."""
    trainer = build(**{**PURE, "max_steps": 2}, beta=0.05, log_completions=True)
    object.__setattr__(trainer.domain, "solvable_batch", lambda problems: [False for _ in problems])
    before = weights(trainer)
    trainer.train()
    lines = rounds(trainer.args.output_dir)
    assert [line["round/starved"] for line in lines] == [1, 1]
    assert not any("prover/correct_rate" in line or "prover/reward" in line for line in lines)
    assert [line["prover/trained_samples"] for line in lines] == [0, 0] and equal(before, weights(trainer))


def test_keep_all_plays_every_admitted_proposal(build):
    """16 proposals, a half fixed, multiple of 4: at most 32 problems."""
    trainer = ran(build(max_steps=3, problems_per_round=32, fill="keep_all", truncate_multiple=4, learning_rate=1e-4))
    for line in rounds(trainer.args.output_dir):
        admitted = round(16 * line["conjecturer/admitted_rate"])
        assert line["round/conjectured_slots"] == admitted
        assert line["round/anchor_slots"] == -(-(admitted + max(admitted, 4)) // 4) * 4 - admitted
