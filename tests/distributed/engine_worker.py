"""One of two processes under an engine: every way of sharing weights, straight, resumed, and uneven."""

import dataclasses
from pathlib import Path

import torch
from transformers import TrainerCallback

from tests.trainer.conftest import digest, make_trainer, on_sample, remembered
from tests.trainer.test_round import LORA, problems


def whole(parameter):
    """The parameter's whole value under any engine, in float32. All processes must call."""
    if hasattr(parameter, "full_tensor"):
        return parameter.full_tensor().detach().clone()
    if hasattr(parameter, "_hp_mapping") or hasattr(parameter, "_z3_optimizer"):
        from deepspeed.utils import safe_get_full_fp32_param

        value = safe_get_full_fp32_param(parameter)
        if value is not None:  # None: not trained
            return value.detach().float().clone()
    if hasattr(parameter, "ds_id"):
        import deepspeed

        with deepspeed.zero.GatheredParameters([parameter]):
            return parameter.detach().clone()
    return parameter.detach().clone()


def weights(trainer):
    names = trainer.policies.weight_names
    return {f"{n}:{k}": whole(p) for n in names for k, p in trainer.policies.named_parameters(n)}


def anchors():
    """Two processes draw 24 a round: two rounds an epoch. None of them is held out."""
    return problems(5 + 48).select(range(5, 5 + 48))


class Recorder(TrainerCallback):
    """The weights after every round, and what this process sampled for it."""

    def __init__(self):
        self.after, self.rollouts, self.whole = [], [], []

    def attach(self, trainer):
        self.trainer = trainer

        def record(role, found):
            tensors = {k: v.clone() for k, v in found.tensors.items()}
            self.rollouts.append((role, list(found.texts), found.rewards_B.clone(), tensors))

        on_sample(trainer, record)
        policies, sample = trainer.policies, trainer.policies.module.generate

        def watched(*args, **kwargs):
            names = policies.weight_names  # of ZeRO-3's parameters one that is not gathered has no elements
            self.whole.append([n for n in names if all(p.numel() for _, p in policies.named_parameters(n))])
            return sample(*args, **kwargs)

        policies.module.generate = watched

    def on_step_end(self, args, state, control, **kwargs):
        self.after.append(weights(self.trainer))


def build(output, sharing, config, **extra):
    recorder = Recorder()
    if sharing == "lora":  # under DDP both players share their passes; the other engines say that they run apart
        extra, config = {**extra, "peft_config": LORA}, {**config, "mixed_adapters": "on"}
    extra |= {"train_dataset": anchors(), "eval_dataset": problems(5), "callbacks": [recorder]}
    trainer = make_trainer(output, trainer=extra, policy_sharing=sharing, **config)
    recorder.attach(trainer)
    return trainer, recorder


def moved(start, end):
    names = dict.fromkeys(key.split(":")[0] for key in start)
    return {n: any(not torch.equal(start[k], end[k]) for k in end if k.startswith(f"{n}:")) for n in names}


def state_of(trainer):
    return {"remembered": remembered(trainer), "guard": trainer.guard.state_dict()}


def play(output, sharing, config, resume_at):
    config = {**config, "save_steps": resume_at}
    trainer, recorder = build(output / "straight", sharing, config)
    rank, start = trainer.accelerator.process_index, weights(trainer)
    trainer.train()
    end, wrapped = recorder.after[-1], type(trainer.model_wrapped)
    found = {
        "processes": trainer.accelerator.num_processes, "distributed_type": str(trainer.accelerator.distributed_type),
        "wrapped": [cls.__name__ for cls in wrapped.__mro__], "engine": trainer.engine.name,
        "sharded": sum(hasattr(p, "full_tensor") or hasattr(p, "ds_tensor") for p in trainer.model.parameters()),
        "weights": digest(end), "moved": moved(start, end), "whole": recorder.whole,
        "evaluated": {k: v for k, v in trainer.evaluate().items() if "pass@" in k}, **state_of(trainer),
    }  # fmt: skip
    trainer.exports.write(output / "exported")
    torch.save(recorder.rollouts, output / f"rollouts{rank}.pt")
    if rank == 0:
        torch.save({"start": start, "after": recorder.after}, output / "weights.pt")
    again, recorder = build(output / "resumed", sharing, config)
    again.train(resume_from_checkpoint=str(output / "straight" / f"checkpoint-{resume_at}"))
    found["resumed"] = {"weights": digest(recorder.after[-1]), **state_of(again)}
    return found


def uneven(output, config, scenario):
    """A process without valid proposals, a round of equal rewards, a collapse that the guard rolls back, and answers
    of different lengths."""
    extra = {"conjecturer_reward": lambda solve_rate_P, ctx: solve_rate_P * 0.0} if scenario == "flat" else {}
    if scenario == "collapse":
        # The second one trips in the garbled round.
        trips = {"round/solve_rate_mean": [None, 0.99], "conjecturer/parseable_rate": [0.05, None]}
        config = {**config, "guard_window": 1, "guard_max_rollbacks": 2, "guard_trips": trips}
    trainer, _ = build(output, "full", config, **extra)
    rank, start, counts = trainer.accelerator.process_index, weights(trainer), trainer.counts

    def garble(role, found):
        lonely = scenario == "lonely" and rank == 1
        collapsed = scenario == "collapse" and counts.attempt == 0 and counts.rounds == 2
        if role == "conjecturer" and (lonely or collapsed):
            found.texts = ["no problem"] * len(found.texts)

    on_sample(trainer, garble)
    if scenario == "lengths" and rank == 1:  # this process is done after two tokens, the other goes on
        trainer.roles["prover"] = dataclasses.replace(trainer.roles["prover"], max_completion_length=2)
    trainer.train()
    end = weights(trainer)
    found = {
        "weights": digest(end), "moved": moved(start, end), "step": trainer.state.global_step, **state_of(trainer),
    }  # fmt: skip
    if scenario == "flat":  # a checkpoint whose conjecturer has never taken a step
        again, _ = build(output / "resumed", "full", config, **extra)
        again.train(resume_from_checkpoint=str(output / "checkpoint-2"))
        found["resumed"] = digest(weights(again))
    return found


def main(output, sharings, scenarios, resume_at, config):
    output, found = Path(output), {}
    for sharing in sharings:
        found[sharing] = play(output / sharing, sharing, config, resume_at)
    for scenario in scenarios:
        found[scenario] = uneven(output / scenario, config, scenario)
    return found
