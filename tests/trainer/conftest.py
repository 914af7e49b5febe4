"""A small joint run on the embedded tiny model: real rollouts, real rewards, real optimizer steps."""

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from transformers import TrainerCallback
from transformers import logging as transformers_logging

from countdown_selfplay import JointConjecturerProverTrainer
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.plan import Counts, Step, group_tokens
from tests.joint_config import joint_config

transformers_logging.set_verbosity_error()
torch.set_num_threads(1)

PROCESSES = int(os.environ.get("WORLD_SIZE", 1))
SMALL = dict(  # of each process 8 problems and 16 proposals
    max_steps=4, problems_per_round=8 * PROCESSES, proposals_per_round=16 * PROCESSES, per_device_train_batch_size=16,
    num_generations=4, conjecturer_num_generations=16, learning_rate=1e-3, lr_scheduler_type="constant",
    prover_prompt="compact", conjecturer_prompt="compact", operands=[3], number_high=12, target_low=1, target_high=99,
    max_completion_length=16, gradient_checkpointing=False, save_strategy="no", report_to="none", disable_tqdm=True,
    use_cpu=True, guard=False, seed=3,
)  # fmt: skip

EVERY = dict(save_strategy="steps", save_steps=1)
TIMES = ("time/", "step_time", "train_runtime", "per_second", "total_flos")


def make_config(output, **changes):
    return joint_config(output_dir=str(output), **{**SMALL, **changes})


def make_trainer(output, *, model=None, trainer=None, **changes):
    return JointConjecturerProverTrainer(
        model=str(TINY_MODEL_PATH) if model is None else model, args=make_config(output, **changes), **(trainer or {})
    )


def ran(trainer, resume=None):
    """The trainer, whose run has ended."""
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def goes_on(straight, again, at):
    """The run of `again`, from the checkpoint at step `at` of `straight`: it ends as that one, bit for bit."""
    ran(again, str(Path(straight.args.output_dir) / f"checkpoint-{at}"))
    assert equal(weights(straight), weights(again)) and equal(optimizer_state(straight), optimizer_state(again))
    assert held(straight) == held(again) and straight.guard == again.guard
    lines = [line for line in rounds(straight.args.output_dir) if line["step"] > at]
    assert [line for line in rounds(again.args.output_dir) if line["step"] > at] == lines != []
    return again


def weights(trainer, name=None):
    """Trainable parameters, cloned; of the weights called `name`, or of all."""
    names = trainer.policies.weight_names if name is None else [name]
    return {f"{n}:{key}": p.detach().clone() for n in names for key, p in trainer.policies.named_parameters(n)}


def gradients(trainer, passes):
    """The sum of the losses of an optimizer step of these passes, and each player's gradient, by its weights' name."""
    own = {}
    for one in passes:
        for role, rows in one.parts:
            own.setdefault(role, []).extend(rows)
    counts = {role: Counts.of(rows) for role, rows in own.items()}
    trainer.model.zero_grad(set_to_none=True)
    step = Step(passes, counts, counts, {role: group_tokens(rows) for role, rows in own.items()})
    loss, found = float(trainer.optimizer_steps.accumulate(trainer.model, step)), {}
    for name in trainer.policies.weight_names:
        grads = [p.grad.flatten() for _, p in trainer.policies.named_parameters(name) if p.grad is not None]
        if grads:
            found[name] = torch.cat(grads)
    return loss, found


class After(TrainerCallback):
    """Calls `see` after each round."""

    def __init__(self, see):
        self.see = see

    def on_step_end(self, args, state, control, **kwargs):
        self.see()


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def optimizer_state(trainer):
    state = trainer.optimizer.state_dict()["state"]
    return {f"{i}:{name}": torch.as_tensor(value).clone() for i, s in state.items() for name, value in s.items()}


def digest(tensors):
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        total.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return total.hexdigest()


def held(trainer):
    """What a run keeps beside its weights, as plain values."""
    learners = trainer.learners.items()
    parts = {"frame": trainer.counts, "game": trainer.game, "guard": trainer.guard, "solve_rate": trainer.solve_rate}
    state = {name: part.state_dict() for name, part in parts.items()} | {
        "objectives": {role: one.objective.state_dict() for role, one in learners},
        "replays": {role: one.replay.state_dict() for role, one in learners if one.replay},
        "entropy": {role: one.loss.entropy.state_dict() for role, one in learners},
        "conjecturer_guard": trainer.conjecturer_guard and trainer.conjecturer_guard.state_dict(),
    }
    return json.loads(json.dumps(state, default=lambda value: value.tolist()))


def remembered(trainer):
    """What a run counts, and what its game remembers."""
    return {"frame": trainer.counts.state_dict(), "archive": trainer.game.archive.state_dict()}


def results_of(trainer, before=None):
    """A list that gets what the game returns, round by round; `before(round, anchors)` is called before each."""
    results, play = [], trainer.game.play

    def plays(round, anchors):
        if before is not None:
            before(round, anchors)
        results.append(play(round, anchors))
        return results[-1]

    trainer.game.play = plays
    return results


def at_round(trainer, index, act, attempt=0):
    """The trainer, which calls `act` before the round `index` of the attempt."""
    results_of(trainer, lambda round, _: (round.index, trainer.counts.attempt) == (index, attempt) and act())
    return trainer


class Power(BaseException):
    """The process dies here."""


def die(error=Power):
    raise error


def sigterm():
    os.kill(os.getpid(), signal.SIGTERM)


def on_sample(trainer, see):
    """Call `see(role, rollout)` after each turn of a player; it may change what was sampled."""
    play = trainer.game.play

    def seen(round, anchors):
        sample = round.sample

        def sampled(role, *arguments, **more):
            rollout = sample(role, *arguments, **more)
            see(role, rollout)
            return rollout

        round.sample = sampled
        return play(round, anchors)

    trainer.game.play = seen


def rounds(output):
    """metrics.jsonl without times: what must be the same in two equal runs."""
    lines = [json.loads(line) for line in (Path(output) / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line]
    return [{k: v for k, v in line.items() if not any(t in k for t in TIMES)} for line in lines]


@pytest.fixture
def build(tmp_path):
    def make(folder="run", **kwargs):
        return make_trainer(tmp_path / folder, **kwargs)

    return make


@pytest.fixture(scope="session")
def two_rounds(tmp_path_factory):
    """Two rounds that nothing befell, each saved."""
    return ran(make_trainer(tmp_path_factory.mktemp("two_rounds") / "run", max_steps=2, **EVERY))


@pytest.fixture
def copied(two_rounds, tmp_path):
    """Their folder, to do something to: where `build` puts the run "run"."""
    return Path(shutil.copytree(two_rounds.args.output_dir, tmp_path / "run"))
