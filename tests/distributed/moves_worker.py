"""A run in moves on this process of two: what it ends with, straight and resumed."""

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.tiny import LADDER_MODEL_PATHS
from countdown_selfplay.training.round_loop import OptimizerSteps
from tests.distributed.engine_worker import weights
from tests.trainer.conftest import digest

LOGGED = ("prover/steps", "prover/new_answers", "round/generations")
walked = []  # of each pass of the prover: does it hold anything?
loss_of = OptimizerSteps.loss


def watched(steps, model, one, **more):
    if one.role == "prover":
        walked.append(any(row.trained or row.imitated for row in one.parts[0][1]))
    return loss_of(steps, model, one, **more)


def ended(output, config, resume=None):
    models = {role: str(path) for role, path in LADDER_MODEL_PATHS.items()}
    config = JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir=output, **config)
    trainer = JointConjecturerProverTrainer(models, args=config)
    walked.clear()
    trainer.train(resume_from_checkpoint=resume)
    kept = trainer.learners["prover"].replay.kept
    rows = [row for row in trainer.state.log_history if "round/generations" in row]
    return {
        "weights": digest(weights(trainer)), "engine": trainer.engine.name,
        "kept": [[[row.prompt.tolist(), row.completion.tolist()] for row in answer] for answer in kept],
        "owed": trainer.learners["prover"].replay.owed, "rounds": [[row[name] for name in LOGGED] for row in rows],
        "processes": trainer.processes.world, "walked": list(walked),
    }  # fmt: skip


def main(output, resume_at, config):
    OptimizerSteps.loss = watched
    straight = ended(f"{output}/straight", config)
    resumed = ended(f"{output}/resumed", config, f"{output}/straight/checkpoint-{resume_at}")
    return {"straight": straight, "resumed": resumed}
