# Tests: training/rollouts.py, training/plan.py, proposers/targets.py
"""Answers in moves, and tiny/sgs, on two processes: they decide alike, and a resume is exact."""

import pytest

from countdown_selfplay.countdown import Problem

from ..trainer.test_moves import SMALL
from .two_processes import ranks_of

pytestmark = pytest.mark.matrix

CONFIG = {
    **SMALL,
    "conjecturer_num_generations": 4,
    # A process has 6 answers of a step, of 1 or 2 moves: 6 to 12 rows in two micro-batches of 10, the second of which
    # may hold some on one process and none on the other.
    "per_device_train_batch_size": 10,
    # No clip: DeepSpeed's is joint, the others' per role.
    "max_grad_norm": 0.0,
    "conjecturer_max_grad_norm": 0.0,
    "max_steps": 4,
    "save_strategy": "steps",
    "save_steps": 2,
    "use_cpu": True,
}


def played(engine, output, resume_at, **changes):
    """What each process of a launch found; but for what each walked through, it must be the same."""
    return ranks_of(engine, "workers:moves", output, resume_at=resume_at, config={**CONFIG, **changes})


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return played("ddp", tmp_path_factory.mktemp("moves"), 2)


def end_alike(ranks, engine):
    first, second = ({**rank["straight"], "walked": None} for rank in ranks)
    assert first == second and first["processes"] == 2 and first["engine"] == engine
    for rank in ranks:
        straight, resumed = rank["straight"], rank["resumed"]
        assert all(straight[name] == resumed[name] for name in ("weights", "kept", "owed"))
    return first


def test_both_processes_end_alike_and_a_resumed_run_ends_as_the_straight_one(ranks):
    first = end_alike(ranks, "ddp")
    steps, new, generations = zip(*first["rounds"], strict=True)
    assert list(generations) == [40, 80, 120, 160]  # of both processes together
    assert sum(new) >= len(first["kept"]) > 0
    assert sum(steps) + first["owed"] == sum(new)  # 8 times each, in steps of 8


@pytest.mark.parametrize("engine", ["fsdp2", "zero2", "zero3"])
def test_under_other_engines_both_processes_run_equally_many_passes(ranks, tmp_path, engine):
    """Processes exchange weights or gradients in a pass: where one has rows left, the other runs a pass of weight 0.
    They find what DDP's processes find in their first two rounds."""
    found = played(engine, tmp_path, 1, max_steps=2, save_steps=1)
    first = end_alike(found, engine)
    assert first["rounds"] == ranks[0]["straight"]["rounds"][:2]
    one, other = (rank["straight"]["walked"] for rank in found)
    assert len(one) == len(other) and any(one)


# 6 of 12 targets a round with up to 6 problems x 4 answers, on two processes, in up to two steps of 8 trained answers;
# 4 rounds, 2 of them saved.
SGS = dict(
    proposer_kwargs={"batch": 6}, max_steps=4, save_steps=2, steps_per_round=2, num_generations=4,
    conjecturer_num_generations=1, problems_per_round=16, per_device_train_batch_size=8, operands=[2, 3],
    sequences_per_step=8, learning_rate=1e-3, use_cpu=True, save_strategy="steps", save_total_limit=None,
    report_to="none", disable_tqdm=True,
)  # fmt: skip


def key_of(prompt):
    """`3 5 7 = 22 :` as a key."""
    numbers, target = prompt.removesuffix(" :").split(" = ")
    return Problem(tuple(map(int, numbers.split())), int(target)).key


@pytest.fixture(scope="module")
def sgs_ranks(tmp_path_factory):
    return ranks_of("ddp", "workers:sgs", tmp_path_factory.mktemp("sgs"), resume_at=2, config=SGS)


def test_both_processes_decide_alike_and_a_resume_is_bit_exact(sgs_ranks):
    own = sgs_ranks[0]["shared"]
    assert own == sgs_ranks[1]["shared"] and own["processes"] == 2
    assert own["straight"] == own["resumed"]
    state = own["straight"]["targets"]
    assert len(state["known"]) == 12 and 0 < len(state["solved"]) < 12
    assert own["straight"]["remembered"]["frame"]["rounds"] == 4
    # 12 targets in parts of 6: rounds 1 and 2 hold each once, and so do 3 and 4
    by_round = dict(own["chosen"])
    assert sorted(by_round[0] + by_round[1]) == sorted(by_round[2] + by_round[3]) == sorted(state["known"])


def test_the_processes_share_the_problems_out_and_count_what_both_sampled(sgs_ranks):
    asked = [{(at, role): prompts for at, role, prompts, _ in rank["asked"]} for rank in sgs_ranks]
    texts = [[texts for *_, texts in rank["asked"]] for rank in sgs_ranks]
    solved = sgs_ranks[0]["shared"]["straight"]["targets"]["solved"]
    by_round, generated = dict(sgs_ranks[0]["shared"]["chosen"]), 0
    for at in range(4):
        parts = [one[(at, "prover")] for one in asked]
        assert abs(len(parts[0]) - len(parts[1])) <= 1
        together = [key_of(prompt) for part in parts for prompt in part]
        assert set(by_round[at]) <= set(together) and len(together) <= 12
        unsolved = [key for key in by_round[at] if not solved.get(key, 99) <= at]
        proposed = sum(len(one.get((at, "conjecturer"), [])) for one in asked)
        assert proposed == len(unsolved)  # one for each target that was unsolved before the round
        generated += 4 * len(together) + proposed
    assert texts[0] != texts[1]  # samples of their own
    frame = sgs_ranks[0]["shared"]["straight"]["remembered"]["frame"]
    assert sum(frame["samples"].values()) == generated
