# Tests: training/rollbacks.py, curriculum/guard.py, training/callbacks/round_end.py
"""A collapse in the middle of a run: rolled back to the last healthy checkpoint, a capped number of times."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from countdown_selfplay.errors import CollapseError
from countdown_selfplay.objectives.base import LossOutput
from countdown_selfplay.objectives.rloo import RLOO

from .conftest import equal, goes_on, optimizer_state, ran, results_of, rounds, weights

# A learning rate at which nothing collapses by itself within a few rounds: the damage below is the only collapse.
GUARDED = dict(
    max_steps=6, save_strategy="steps", save_steps=2, learning_rate=1e-5, guard=True, guard_window=1,
    guard_max_rollbacks=2, guard_trips={"round/solve_rate_mean": [None, 0.99]},
)  # fmt: skip


def damage(trainer, when):
    """Turn the conjecturer into noise before the rounds for which `when(counts)` holds."""

    def before(round, anchors):
        if when(trainer.counts):
            with torch.no_grad():
                for _, parameter in trainer.policies.named_parameters("conjecturer"):
                    parameter.normal_(0, 1)

    results_of(trainer, before)


def test_a_collapse_is_rolled_back_and_the_run_ends_as_if_it_had_resumed_there(build):
    collapsed = build("collapsed", **GUARDED)
    damage(collapsed, lambda counts: counts.rounds == 4 and counts.attempt == 0)
    collapsed.train()
    output = Path(collapsed.args.output_dir)
    record = json.loads((output / "rollbacks.jsonl").read_text())
    assert record["step"] == 5 and record["to"] == "checkpoint-4" and "parseable_rate" in record["trip"]
    assert collapsed.state.global_step == 6 and collapsed.counts.attempt == 1
    assert [line["step"] for line in rounds(output)] == [1, 2, 3, 4, 5, 6]

    # The same as a run that stopped at round 4 and was resumed with the attempt counter at 1.
    straight = build("straight", **GUARDED)
    folder = Path(straight.args.output_dir)
    folder.mkdir(exist_ok=True)
    shutil.copytree(output / "checkpoint-4", folder / "checkpoint-4")
    (folder / "rollbacks.jsonl").write_text(json.dumps(record) + "\n")
    straight.train(resume_from_checkpoint=True)
    assert equal(weights(collapsed), weights(straight))
    assert equal(optimizer_state(collapsed), optimizer_state(straight))


def test_after_the_last_rollback_it_stops_and_names_the_healthy_checkpoint(build):
    trainer = build(**GUARDED)
    damage(trainer, lambda state: state.rounds == 2)
    with pytest.raises(
        CollapseError, match=r"round 3: conjecturer/parseable_rate.*2 rollbacks did not help.*checkpoint-2"
    ):
        trainer.train()
    assert len((Path(trainer.args.output_dir) / "rollbacks.jsonl").read_text().splitlines()) == 2


def test_a_healthy_checkpoint_survives_rotation(build):
    trainer = build(**{**GUARDED, "max_steps": 4, "save_steps": 1, "guard_window": 50}, save_total_limit=1)
    damage(trainer, lambda state: state.rounds >= 2)
    trainer.train()
    kept = sorted(p.name for p in Path(trainer.args.output_dir).glob("checkpoint-*"))
    assert kept == ["checkpoint-2", "checkpoint-4"]


def test_without_checkpoints_a_trip_says_what_to_set(build):
    trainer = build(**{**GUARDED, "save_strategy": "no"})
    damage(trainer, lambda state: state.rounds == 1)
    with pytest.raises(CollapseError, match="no healthy checkpoint to go back to; set save_strategy"):
        trainer.train()


def test_before_its_first_save_a_run_goes_back_to_its_start_and_not_to_an_older_runs_checkpoints(build):
    short = {**GUARDED, "max_steps": 2}
    ran(build(**short))
    second = build(**short)
    damage(second, lambda state: state.rounds == 0 and state.attempt == 0)
    second.train()
    output = Path(second.args.output_dir)
    assert json.loads((output / "rollbacks.jsonl").read_text())["to"] == "checkpoint-0"
    assert (output / "previous-1" / "checkpoint-2" / "complete.json").exists() and second.state.global_step == 2
    assert len(rounds(output)) == 2 and len(rounds(output / "previous-1")) == 2


def test_a_prover_that_is_not_finite_is_answered_with_advice_on_the_prover(build):
    """Its loss becomes NaN in the second round; without a rollback to spend, the run ends with the sentence."""

    class Broken(RLOO):
        calls = 0

        def loss(self, inputs):
            output = super().loss(inputs)
            self.calls += 1
            return output if self.calls <= 2 else LossOutput(output.loss * math.nan)  # two micro-batches a round

    settings = {**GUARDED, "guard_max_rollbacks": 0, "save_steps": 1}
    with pytest.raises(CollapseError, match=r"round 2: prover/loss is nan.* Lower the prover's learning rate"):
        build(trainer={"objectives": {"prover": Broken()}}, **settings).train()


ALONE = {**GUARDED, "guard_scope": "conjecturer", "max_steps": 7}


def broken(build, folder, at=4, **changes):
    """A run whose conjecturer is noise in the round after `at`, which the guard sees at its end."""
    trainer = build(folder, **{**ALONE, **changes})
    damage(trainer, lambda counts: counts.rounds == at)
    return trainer


def saved(folder, name):
    return load_file(Path(folder) / name / "model.safetensors")


def test_the_conjecturer_alone_goes_back_to_the_last_checkpoint_known_to_be_good(build):
    """Noise in round 5. Its proposals were sampled from checkpoint-4's weights, so that the one before is taken."""
    trainer = broken(build, "run", save_steps=1)
    seen = {}

    def at_step_end(*_, **__):
        if trainer.state.global_step == 5:
            seen["policy"] = {k: v.clone() for k, v in trainer.policies._model("conjecturer").state_dict().items()}
            seen["optimizer"] = trainer.optimizer.optimizer.state_dict()

    trainer.callback_handler.callbacks[-1].on_step_end = at_step_end  # after the guard's
    trainer.train()
    output = Path(trainer.args.output_dir)
    then = saved(output / "checkpoint-3", "conjecturer")
    assert all(torch.equal(seen["policy"][name], value) for name, value in then.items())
    old = torch.load(output / "checkpoint-3" / "optimizer.pt", weights_only=True)["state"]
    new = torch.load(output / "checkpoint-5" / "optimizer.pt", weights_only=True)
    for group in new["param_groups"]:
        same = [all(torch.equal(old[i][n], new["state"][i][n]) for n in old[i]) for i in group["params"]]
        assert all(same) if group["role"] == "conjecturer" else not any(same)
    # The prover went on, all checkpoints stay, and nothing else was taken back.
    assert trainer.state.global_step == 7 and trainer.counts.attempt == 0
    assert sorted(p.name for p in output.glob("checkpoint-*")) == [f"checkpoint-{i}" for i in range(8)]
    assert not (output / "rollbacks.jsonl").exists()
    assert [line["conjecturer/rolled_back"] for line in rounds(output)] == [0, 0, 0, 0, 1, 0, 0]
    assert json.loads((output / "checkpoint-5" / "complete.json").read_text())["conjecturer_healthy"] is True
    resumed = goes_on(trainer, build("again", **{**ALONE, "save_steps": 1}), 6)
    assert resumed.conjecturer_guard.rollbacks == 1


def test_a_resume_after_it_is_the_straight_run(build):
    """Of adapters; noise in round 3."""
    settings = dict(policy_sharing="lora", save_steps=1, max_steps=4)
    straight = ran(broken(build, "run", at=2, **settings))
    resumed = goes_on(straight, build("again", **{**ALONE, **settings}), 3)
    assert straight.conjecturer_guard.rollbacks == resumed.conjecturer_guard.rollbacks == 1


def test_it_goes_back_as_often_as_it_falls_and_the_run_goes_on(build, caplog):
    """Seed 001's guard never ends a run: noise in rounds 2 to 5, four rollbacks, more than guard_max_rollbacks (3 by
    default) lets the whole run have."""
    trainer = build("run", **{**ALONE, "guard_max_rollbacks": 3, "max_steps": 5})
    damage(trainer, lambda counts: 1 <= counts.rounds <= 4)
    trainer.train()
    assert trainer.state.global_step == 5 and trainer.conjecturer_guard.rollbacks == 4
    assert [line["conjecturer/rolled_back"] for line in rounds(Path(trainer.args.output_dir))] == [0, 1, 1, 1, 1]
    assert "rollback 4 of it); if it falls again, lower its learning rate or raise its beta" in caplog.text
