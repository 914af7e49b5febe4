"""One rank of a two-process run: trains as told by a JSON argument and writes what it holds at the end to
<output>/rank<r>.json.

Started by torchrun from test_two_processes.py, never collected by pytest.
"""

import hashlib
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.trainer.conftest import make_trainer, optimizer_state, weights
from tests.trainer.test_round import LORA


def digest(tensors):
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        total.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return total.hexdigest()


def main(output, resume, scenario, config):
    extra = {"peft_config": LORA} if config.get("policy_sharing") == "lora" else {}
    if scenario == "flat":

        def flat(solve_rate_P, ctx):
            return solve_rate_P * 0.0

        extra["conjecturer_reward"] = flat
    trainer = make_trainer(output, use_cpu=True, trainer=extra, **{k: v for k, v in config.items() if k != "use_cpu"})
    rank = trainer.accelerator.process_index
    if scenario == "lonely":  # this rank's proposals are all garbage, the other's are not
        rollout = trainer._rollout

        def garbled(role, rows):
            result = rollout(role, rows)
            if role == "conjecturer" and rank == 1:
                result.texts = ["no problem"] * len(result.texts)
            return result

        trainer._rollout = garbled
    start = weights(trainer)
    trainer.train(resume_from_checkpoint=resume)
    end = weights(trainer)
    found = {
        "processes": trainer.accelerator.num_processes,
        "distributed_type": str(trainer.accelerator.distributed_type),
        "wrapped": type(trainer.model_wrapped).__name__,
        "weights": digest(end),
        "optimizer": digest(optimizer_state(trainer)),
        "curriculum": trainer.curriculum.state_dict(),
        "guard": trainer.guard.state_dict(),
        "memory": {
            "objectives": {role: o.state_dict() for role, o in trainer.objectives.items()},
            "replays": {role: replay.state_dict() for role, replay in trainer.replays.items()},
            "entropy": {role: loss.entropy.state_dict() for role, loss in trainer.losses.items()},
            "solve_rate": trainer.solve_rate.state_dict(),
        },
        "moved": {
            n: any(not torch.equal(start[k], end[k]) for k in end if k.startswith(n))
            for n in trainer.policies.weight_names
        },
        "delta": {
            n: float(sum((end[k] - start[k]).double().abs().sum() for k in end if k.startswith(n)))
            for n in trainer.policies.weight_names
        },
    }
    (Path(output) / f"rank{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
