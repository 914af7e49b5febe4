"""One of two processes that play the recipe tiny/sgs, made small: straight, and resumed from its middle."""

from pathlib import Path

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown.helping import HELP_PROMPTS
from countdown_selfplay.tiny import TINY_MODEL_PATH
from tests.trainer.conftest import digest, on_sample, optimizer_state, ran, remembered, weights
from tests.trainer.test_targets import targets

# The embedded model was never shown `propose like ...`; what it knows stands in for it.
HELP_PROMPTS["compact"] = lambda target, spec: "propose 3 :"


def build(output, config):
    args = JointSelfPlayConfig.from_recipe("tiny/sgs", output_dir=str(output), **config)
    return JointConjecturerProverTrainer(str(TINY_MODEL_PATH), args=args, train_dataset=targets())


def found(trainer):
    """What must be equal on both processes, and after a resume."""
    proposer = trainer.game.proposer
    return {
        "weights": digest(weights(trainer)), "optimizer": digest(optimizer_state(trainer)),
        "remembered": remembered(trainer), "targets": proposer.state_dict(), "logged": proposer.logged(),
    }  # fmt: skip


def main(output, resume_at, config):
    output = Path(output)
    config = {**config, "conjecturer_model": str(TINY_MODEL_PATH)}
    trainer, asked, chosen = build(output / "straight", config), [], []

    def see(role, rollout):
        asked.append((trainer.counts.rounds, role, [row["prompt"] for row in rollout.rows], rollout.texts))
        chosen.append([trainer.counts.rounds, list(trainer.game.proposer.chosen)])

    on_sample(trainer, see)
    trainer.train()
    again = ran(build(output / "resumed", config), str(output / "straight" / f"checkpoint-{resume_at}"))
    shared = {
        "processes": trainer.accelerator.num_processes,
        "chosen": chosen,
        "straight": found(trainer),
        "resumed": found(again),
    }
    return {"shared": shared, "asked": asked}
