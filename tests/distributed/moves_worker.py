"""A run in moves on this process of two: what it ends with, straight and resumed, into rank<r>.json."""

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.tiny import LADDER_MODEL_PATHS
from countdown_selfplay.training.micro_batch import WindowLoss
from tests.distributed.engine_worker import weights  # it also turns FSDP2 on
from tests.distributed.two_processes import leave
from tests.distributed.worker import digest

torch.set_num_threads(1)
LOGGED = ("prover/steps", "prover/new_answers", "round/generations")
job = json.loads(sys.argv[1])
models = {role: str(path) for role, path in LADDER_MODEL_PATHS.items()}
walked = []  # of each micro-batch of the prover that had a forward pass: does it hold anything?
loss_of = WindowLoss.__call__


def watched(window, model, inputs, *more):
    if inputs["role"] == "prover":
        taught = inputs.get("sft_mask", inputs["completion_mask"])
        walked.append(bool(inputs["completion_mask"].any() or taught.any()))
    return loss_of(window, model, inputs, *more)


WindowLoss.__call__ = watched


def ended(name, resume=None):
    config = JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir=f"{job['output']}/{name}", **job["config"])
    trainer = JointConjecturerProverTrainer(dict(models), args=config)
    walked.clear()
    trainer.train(resume_from_checkpoint=resume)
    rows = [row for row in trainer.state.log_history if "round/generations" in row]
    return {
        "weights": digest(weights(trainer)),
        "engine": trainer.engine.name,
        "kept": [repr(answer.key) for answer in trainer.learners["prover"].replay.kept],
        "owed": trainer.learners["prover"].replay.owed,
        "rounds": [[row[name] for name in LOGGED] for row in rows],
        "processes": trainer.processes.world,
        "walked": list(walked),
    }


straight = ended("straight")
resumed = ended("resumed", f"{job['output']}/straight/checkpoint-{job['resume_at']}")
rank = torch.distributed.get_rank()
Path(job["output"], f"rank{rank}.json").write_text(json.dumps({"straight": straight, "resumed": resumed}))
leave()
