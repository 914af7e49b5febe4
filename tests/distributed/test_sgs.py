# Tests: proposers/targets.py
"""The recipe tiny/sgs on two processes: they choose the same targets, count the same ones as solved, share the work
out, and a resumed run ends as the straight one bit for bit."""

import pytest

from countdown_selfplay.countdown import Problem

from .two_processes import ranks_of

pytestmark = pytest.mark.matrix

# 6 of 12 targets a round with up to 6 problems x 4 answers, on two processes, in up to two steps of 8 trained answers;
# 4 rounds, 2 of them saved.
CONFIG = dict(
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
def ranks(tmp_path_factory):
    return ranks_of("ddp", "sgs_worker", tmp_path_factory.mktemp("sgs"), resume_at=2, config=CONFIG)


def test_both_processes_decide_alike_and_a_resume_is_bit_exact(ranks):
    own = ranks[0]["shared"]
    assert own == ranks[1]["shared"] and own["processes"] == 2
    assert own["straight"] == own["resumed"]
    state = own["straight"]["targets"]
    assert len(state["known"]) == 12 and 0 < len(state["solved"]) < 12
    assert own["straight"]["remembered"]["frame"]["rounds"] == 4
    # 12 targets in parts of 6: rounds 1 and 2 hold each once, and so do 3 and 4
    by_round = dict(own["chosen"])
    assert sorted(by_round[0] + by_round[1]) == sorted(by_round[2] + by_round[3]) == sorted(state["known"])


def test_the_processes_share_the_problems_out_and_count_what_both_sampled(ranks):
    asked = [{(at, role): prompts for at, role, prompts, _ in rank["asked"]} for rank in ranks]
    texts = [[texts for *_, texts in rank["asked"]] for rank in ranks]
    solved = ranks[0]["shared"]["straight"]["targets"]["solved"]
    by_round, generated = dict(ranks[0]["shared"]["chosen"]), 0
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
    frame = ranks[0]["shared"]["straight"]["remembered"]["frame"]
    assert sum(frame["samples"].values()) == generated
