# Tests: training/rollbacks.py, training/callbacks/guard.py
"""`guard_scope: conjecturer` (seed 001, section 3.2): the conjecturer alone goes back, and the run goes on."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from countdown_selfplay.errors import ConfigError

from .conftest import goes_on, make_config, ran, rounds
from .test_guard import GUARDED, damage

ALONE = {**GUARDED, "guard_scope": "conjecturer", "max_steps": 7}


def broken(build, folder, at=4, **changes):
    """A run whose conjecturer is noise in the round after `at`, which the guard sees at its end."""
    trainer = build(folder, **{**ALONE, **changes})
    damage(trainer, lambda frame: frame.rounds == at)
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
    assert trainer.state.global_step == 7 and trainer.frame.attempt == 0
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
    damage(trainer, lambda frame: 1 <= frame.rounds <= 4)
    trainer.train()
    assert trainer.state.global_step == 5 and trainer.conjecturer_guard.rollbacks == 4
    assert [line["conjecturer/rolled_back"] for line in rounds(Path(trainer.args.output_dir))] == [0, 1, 1, 1, 1]
    assert "rollback 4 of it); if it falls again, lower its learning rate or raise its beta" in caplog.text


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"policy_sharing": "tied"}, "the prover plays the same"),
        ({"roles": {"conjecturer": {"weights": "prover"}}}, "the prover plays the same"),
        ({"roles": {"conjecturer": {"weights": "start"}}}, "these are frozen"),
        ({"save_strategy": "no"}, "leaves no checkpoint to restore"),
    ],
)
def test_what_cannot_go_back_alone_is_refused(tmp_path, changes, words):
    with pytest.raises(ConfigError, match=rf"`guard_scope` \(conjecturer\).*{words}"):
        make_config(tmp_path, **{**ALONE, **changes})
