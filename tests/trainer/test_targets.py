# Tests: proposers/targets.py, guides/judge.py, training/callbacks/round_end.py, proposers/symbolic
"""Self-guided self-play on the embedded model: real rounds with targets, guides, and overlong samples."""

import pytest
from datasets import Dataset

from countdown_selfplay.countdown import ProblemSpec, generate_problems
from countdown_selfplay.countdown.helping import HELP_PROMPTS, VARIANT_PROMPTS
from countdown_selfplay.errors import CheckpointError

from .conftest import equal, goes_on, ran, results_of, rounds, weights

# 12 targets of which 6 are played, each with up to one problem: 12 problems x 4 answers in two steps.
SGS = dict(
    proposer="targets", proposer_kwargs={"batch": 6}, conjecturer_reward="sgs", prover_objective="reinforce_half",
    conjecturer_objective="reinforce_half", conjecturer_num_generations=1, steps_per_round=2, operands=[2, 3],
    problems_per_round=16, guide="rubric",
)  # fmt: skip


def targets(count=12, seed=5):
    problems = generate_problems(count, ProblemSpec((3,), 1, 12, 1, 99), seed=seed)
    return Dataset.from_list([{"nums": list(p.numbers), "target": p.target} for p in problems])


@pytest.fixture(autouse=True)
def known_prompt(monkeypatch):
    """The embedded model was never shown `propose like ...`; what it knows stands in for it."""
    monkeypatch.setitem(HELP_PROMPTS, "compact", lambda target, spec: "propose 3 :")


def build_sgs(build, folder="run", data=None, **changes):
    return build(folder, **{**SGS, **changes}, trainer={"train_dataset": targets() if data is None else data})


def test_a_run_stops_and_goes_on_bit_for_bit(build):
    saving = dict(save_strategy="steps", save_steps=2)
    straight = build_sgs(build, **saving)
    start = weights(straight)
    straight.train()
    goes_on(straight, build_sgs(build, "resumed", **saving), 2)
    changed = Dataset.from_list([{"nums": [1, 2, 3], "target": 6}, *targets().to_list()[:-2]])  # 1 came, 2 went
    with pytest.raises(CheckpointError, match=r"\(12 problems .* 11 problems .*; 1 new \(1,2,3=6\), 2 gone \("):
        build_sgs(build, data=changed, **saving).train(resume_from_checkpoint=True)
    # what happened: all 12 targets were attempted, problems were played for the unsolved ones, both roles moved
    logged, proposer = rounds(straight.args.output_dir), straight.game.proposer
    assert len(proposer.known) == 12 and 0 < len(proposer.solved) < 12
    assert logged[-1]["targets/solve_rate"] == len(proposer.solved) / 12 == logged[-1]["round/cumulative_solve_rate"]
    assert any(line["round/conjectured_slots"] > 0 for line in logged)
    assert all(line["round/anchor_slots"] == 6 for line in logged)
    # two steps a round: log-probs are taken at sampling. A model of some 30 tokens has at most log 30 = 3.4 nats
    assert all(0 < line["prover/sampled_entropy"] < 3.5 for line in logged)
    moved = weights(straight)
    for name in ("prover", "conjecturer"):
        assert any(not value.equal(start[key]) for key, value in moved.items() if key.startswith(f"{name}:"))


def test_stp_starts_when_a_target_is_solved_and_goes_on_bit_for_bit(build, monkeypatch):
    # the embedded model was never shown an answer in the prompt; what it knows stands in for it
    monkeypatch.setitem(VARIANT_PROMPTS, "compact", lambda problem, solution, spec: "propose 3 :")
    stp = dict(
        proposer="stp", proposer_kwargs={"batch": 6}, guide=None, conjecturer_reward="binary_band",
        conjecturer_reward_kwargs={"low": 0.01, "high": 0.25}, prover_objective="expert_iteration",
        conjecturer_objective="rest", conjecturer_objective_kwargs={"tau": 1.0, "rounds": 3},
    )  # fmt: skip
    saving = dict(save_strategy="steps", save_steps=2, **stp)
    straight = ran(build_sgs(build, **saving))
    goes_on(straight, build_sgs(build, "resumed", **saving), 2)
    assert straight.game.proposer.answers.keys() == straight.game.proposer.solved.keys() != set()
    logged = rounds(straight.args.output_dir)
    # the first round has nothing to show; from then on one problem is asked for each unsolved target of the six
    assert logged[0].get("round/conjectured_slots", 0) == 0 and straight.counts.samples["conjecturer"] > 0
    assert not any(name.startswith("targets/presolve") for line in logged for name in line)


def test_a_problem_that_stands_twice_is_one_target_and_the_count_is_said(build, caplog):
    rows = targets(6).to_list()
    same = {"nums": rows[0]["nums"][::-1], "target": rows[0]["target"]}  # in another order, which is the same problem
    trainer = build_sgs(build, data=Dataset.from_list([*rows, rows[1], same]), max_steps=2)
    assert "2 of 8 rows of train_dataset repeat an earlier target" in caplog.text
    assert "6 targets remain" in caplog.text
    trainer.train()
    assert len(trainer.game.proposer.known) == 6


def test_a_judge_is_sampled_and_never_trained(build):
    roles = {"guide": {"weights": "start", "max_completion_length": 8}}
    trainer = build_sgs(build, guide="judge", roles=roles, max_steps=2)
    assert trainer.trained == ("prover", "conjecturer")
    trainer.train()
    logged = rounds(trainer.args.output_dir)
    solved = [line for line in logged if line["guide/reviews"] > 0]
    assert solved and all(0 <= line["guide/format_rate"] <= 1 for line in solved)
    assert trainer.counts.samples["guide"] == sum(line["guide/reviews"] for line in logged)


def test_overlong_samples_of_both_roles_are_trained_away_from(build):
    # Every completion of 5 tokens or more of 10 is charged: the credit of both roles is below 0 then.
    changes = dict(max_completion_length=10, soft_overlong=0.5, overlong="replace", max_steps=1)
    trainer = build_sgs(build, **changes)
    results = results_of(trainer)
    trainer.train()
    for turn in results[0].turns:
        lengths = turn.rollout.tensors["completion_mask"].sum(1)
        chosen = turn.selected_B if turn.selected_B is not None else lengths > 0
        charged = (lengths > 5) & chosen
        assert bool(charged.any())
        assert turn.advantages_B[charged].tolist() == pytest.approx((-(lengths[charged] - 5) / 5).tolist())
        assert bool((turn.advantages_B[~charged] >= 0).all())


def test_the_moments_begin_anew_in_each_round_if_that_is_asked(build):
    def taken(folder, **changes):
        trainer = ran(build_sgs(build, folder, max_steps=2, prover_objective="rloo", **changes))
        return {float(state["step"]) for state in trainer.optimizer.state.values()}

    assert max(taken("anew", reset_optimizer="round")) <= 2 < max(taken("kept"))  # two rounds of up to two steps


COMMON = dict(candidates=32, refresh=2, keep=8)
LEARNED = dict(difficulty="predictor", difficulty_kwargs={"least": 10, "trees": 10}, relabel_every=1, relabel=12)
HARD = dict(played_labels=True, selection="hard_band", selection_kwargs={"low": 0.0, "high": 0.9})
RUN = dict(
    roles={"conjecturer": {"players": 0}}, conjecturer_num_generations=None, max_steps=5,
    save_strategy="steps", save_steps=3, anchor_fraction=0.75, guard=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "more"),
    [("ucb", {"difficulty": "rollout", "difficulty_kwargs": {"samples": 4}}), ("factorized", LEARNED | HARD)],
)
def test_a_resumed_symbolic_run_equals_the_straight_run_bit_for_bit(build, name, more):
    given = {**RUN, "proposer": name, "proposer_kwargs": {**COMMON, **more}}
    straight = build("straight", **given)
    before = weights(straight)
    straight.train()
    assert not equal(before, weights(straight))
    goes_on(straight, build("resumed", **given), 3)
    lines = rounds(straight.args.output_dir)
    assert [line["step"] for line in lines if "proposer/raw" in line] == [1, 3, 5]
    assert all(line["round/conjectured_slots"] == 2 for line in lines)  # a quarter of 32 / 4 slots
