"""One of two processes of a run that is resumed in later epochs: what it holds after the straight run and after each
resume."""

from pathlib import Path

from tests.trainer.conftest import digest, held, make_trainer, optimizer_state, results_of, weights
from tests.trainer.test_resume import lines
from tests.trainer.test_round import problems


def play(folder, anchors, config, resume=None):
    trainer = make_trainer(folder, trainer={"train_dataset": anchors}, **config)
    played = {}
    results_of(trainer, lambda round, anchors: played.update({round.index: [problem.key for problem in anchors]}))
    trainer.train(resume_from_checkpoint=resume)
    return {
        "processes": trainer.accelerator.num_processes, "weights": digest(weights(trainer)),
        "optimizer": digest(optimizer_state(trainer)), "memory": held(trainer), "anchors": played,
        "lines": lines(trainer, "metrics", 0) if trainer.is_world_process_zero() else None,
    }  # fmt: skip


def main(output, problems_an_epoch, resumes, config):
    output, anchors = Path(output), problems(problems_an_epoch)
    found = {"straight": play(output / "run", anchors, config)}
    for step in resumes:
        found[str(step)] = play(output / f"run{step}", anchors, config, str(output / "run" / f"checkpoint-{step}"))
    return found
