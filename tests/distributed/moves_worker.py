"""A run in moves on this process of two: what it ends with, straight and resumed, into rank<r>.json."""

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.generation.turns import fingerprint
from countdown_selfplay.tiny import LADDER_MODEL_PATHS
from tests.distributed.two_processes import leave

torch.set_num_threads(1)
LOGGED = ("prover/steps", "prover/new_answers", "round/generations")
job = json.loads(sys.argv[1])
models = {role: str(path) for role, path in LADDER_MODEL_PATHS.items()}


def ended(name, resume=None):
    config = JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir=f"{job['output']}/{name}", **job["config"])
    trainer = JointConjecturerProverTrainer(dict(models), args=config)
    trainer.train(resume_from_checkpoint=resume)
    rows = [row for row in trainer.state.log_history if "round/generations" in row]
    return {
        "weights": list(fingerprint(p for _, p in trainer.policies.module.named_parameters())),
        "kept": [repr(answer.key) for answer in trainer.replays["prover"].kept],
        "owed": trainer.replays["prover"].owed,
        "rounds": [
            [row[name] for name in ("prover/steps", "prover/new_answers", "round/generations")] for row in rows
        ],
        "processes": trainer.processes.world,
    }


straight = ended("straight")
resumed = ended("resumed", f"{job['output']}/straight/checkpoint-6")
rank = torch.distributed.get_rank()
Path(job["output"], f"rank{rank}.json").write_text(json.dumps({"straight": straight, "resumed": resumed}))
leave()
