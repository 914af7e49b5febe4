"""A run in moves on this process of two: what it ends with, straight and resumed."""

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.tiny import LADDER_MODEL_PATHS
from countdown_selfplay.training.micro_batch import WindowLoss
from tests.distributed.engine_worker import weights
from tests.trainer.conftest import digest

LOGGED = ("prover/steps", "prover/new_answers", "round/generations")
walked = []  # of each micro-batch of the prover that had a forward pass: does it hold anything?
loss_of = WindowLoss.__call__


def watched(window, model, inputs, *more):
    if inputs["role"] == "prover":
        taught = inputs.get("sft_mask", inputs["completion_mask"])
        walked.append(bool(inputs["completion_mask"].any() or taught.any()))
    return loss_of(window, model, inputs, *more)


def ended(output, config, resume=None):
    models = {role: str(path) for role, path in LADDER_MODEL_PATHS.items()}
    config = JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir=output, **config)
    trainer = JointConjecturerProverTrainer(models, args=config)
    walked.clear()
    trainer.train(resume_from_checkpoint=resume)
    rows = [row for row in trainer.state.log_history if "round/generations" in row]
    return {
        "weights": digest(weights(trainer)), "engine": trainer.engine.name,
        "kept": [repr(answer.key) for answer in trainer.learners["prover"].replay.kept],
        "owed": trainer.learners["prover"].replay.owed, "rounds": [[row[name] for name in LOGGED] for row in rows],
        "processes": trainer.processes.world, "walked": list(walked),
    }  # fmt: skip


def main(output, resume_at, config):
    WindowLoss.__call__ = watched
    straight = ended(f"{output}/straight", config)
    resumed = ended(f"{output}/resumed", config, f"{output}/straight/checkpoint-{resume_at}")
    return {"straight": straight, "resumed": resumed}
