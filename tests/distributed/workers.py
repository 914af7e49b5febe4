"""What one of two processes does, by the name of a function; each returns what is compared."""

from pathlib import Path

import torch.distributed
from accelerate import Accelerator

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown.helping import HELP_PROMPTS
from countdown_selfplay.distributed.launch import leave_process_group
from countdown_selfplay.distributed.processes import processes_of
from countdown_selfplay.errors import DataError
from countdown_selfplay.tiny import LADDER_MODEL_PATHS, TINY_MODEL_PATH
from countdown_selfplay.training.round_loop import OptimizerSteps
from tests.distributed.engine_worker import moved, weights, whole
from tests.probe_games import probe
from tests.trainer.conftest import digest, held, make_trainer, on_sample, optimizer_state, ran, remembered, results_of
from tests.trainer.test_resume import lines
from tests.trainer.test_round import LORA, problems
from tests.trainer.test_targets import targets


def exchange(output):
    """Two processes exchange what they have."""
    processes = processes_of(Accelerator(cpu=True))
    rank, called = processes.rank, []

    def fail():
        called.append(rank)
        raise DataError(f"from process {rank}")

    processes.wait()
    found = {
        "gather": processes.gather([rank] * (rank + 1)), "total": processes.total([0.1, 10.0**rank]),
        "together": processes.together(lambda: rank), "main": processes.main,
    }  # fmt: skip
    try:
        processes.together(fail)
    except DataError as error:
        found |= {"error": str(error), "ran": called}
    leave_process_group()
    found["left"] = not torch.distributed.is_initialized()
    return found


def adapters(output, start, sharings):
    """Runs that start from an adapter's folder, and what the main process was told of their exports."""
    told = {}
    for sharing in sharings:
        folder = Path(output) / sharing
        trainer = ran(make_trainer(folder, model=start, policy_sharing=sharing, max_steps=1))
        told[sharing] = [[path.name, said, right] for path, said, right in trainer.exports.write_last(folder)]
        del trainer
    return told


def epochs(output, problems_an_epoch, resumes, config):
    """What a run holds after the straight run and after each resume, in later epochs."""
    output, anchors = Path(output), problems(problems_an_epoch)

    def play(folder, resume=None):
        trainer, played = make_trainer(folder, trainer={"train_dataset": anchors}, **config), {}
        results_of(trainer, lambda round, anchors: played.update({round.index: [problem.key for problem in anchors]}))
        trainer.train(resume_from_checkpoint=resume)
        return {
            "processes": trainer.accelerator.num_processes, "weights": digest(weights(trainer)),
            "optimizer": digest(optimizer_state(trainer)), "memory": held(trainer), "anchors": played,
            "lines": lines(trainer, "metrics", 0) if trainer.is_world_process_zero() else None,
        }  # fmt: skip

    found = {"straight": play(output / "run")}
    return found | {str(s): play(output / f"run{s}", str(output / "run" / f"checkpoint-{s}")) for s in resumes}


def moves(output, resume_at, config):
    """A run in moves, straight and resumed: what it ends with."""
    walked = []  # of each pass of the prover: does it hold anything?
    loss_of = OptimizerSteps.loss

    def watched(steps, model, one, **more):
        if one.role == "prover":
            walked.append(any(row.trained or row.imitated for row in one.parts[0][1]))
        return loss_of(steps, model, one, **more)

    def ended(folder, resume=None):
        models = {role: str(path) for role, path in LADDER_MODEL_PATHS.items()}
        args = JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir=folder, **config)
        trainer = JointConjecturerProverTrainer(models, args=args)
        walked.clear()
        trainer.train(resume_from_checkpoint=resume)
        replay = trainer.learners["prover"].replay
        rows = [row for row in trainer.state.log_history if "round/generations" in row]
        logged = ("prover/steps", "prover/new_answers", "round/generations")
        return {
            "weights": digest(weights(trainer)), "engine": trainer.engine.name,
            "kept": [[[row.prompt.tolist(), row.completion.tolist()] for row in answer] for answer in replay.kept],
            "owed": replay.owed, "rounds": [[row[name] for name in logged] for row in rows],
            "processes": trainer.processes.world, "walked": list(walked),
        }  # fmt: skip

    OptimizerSteps.loss = watched
    straight = ended(f"{output}/straight")
    return {"straight": straight, "resumed": ended(f"{output}/resumed", f"{output}/straight/checkpoint-{resume_at}")}


def sgs(output, resume_at, config):
    """The recipe tiny/sgs, made small: straight, and resumed from its middle."""
    # The embedded model was never shown `propose like ...`; what it knows stands in for it.
    HELP_PROMPTS["compact"] = lambda target, spec: "propose 3 :"
    output, asked, chosen = Path(output), [], []

    def build(folder):
        given = {**config, "conjecturer_model": str(TINY_MODEL_PATH), "output_dir": str(folder)}
        args = JointSelfPlayConfig.from_recipe("tiny/sgs", **given)
        return JointConjecturerProverTrainer(str(TINY_MODEL_PATH), args=args, train_dataset=targets())

    def found(trainer):
        proposer = trainer.game.proposer
        return {
            "weights": digest(weights(trainer)), "optimizer": digest(optimizer_state(trainer)),
            "remembered": remembered(trainer), "targets": proposer.state_dict(), "logged": proposer.logged(),
        }  # fmt: skip

    def see(role, rollout):
        asked.append((trainer.counts.rounds, role, [row["prompt"] for row in rollout.rows], rollout.texts))
        chosen.append([trainer.counts.rounds, list(trainer.game.proposer.chosen)])

    trainer = build(output / "straight")
    on_sample(trainer, see)
    trainer.train()
    again = ran(build(output / "resumed"), str(output / "straight" / f"checkpoint-{resume_at}"))
    shared = {"processes": trainer.accelerator.num_processes, "chosen": chosen}
    return {"shared": {**shared, "straight": found(trainer), "resumed": found(again)}, "asked": asked}


def games(output, games, resume_at, config):
    """The probe games, each straight and resumed."""
    output, found = Path(output), {}
    for name, (game, sharing, changes) in games.items():
        found[name] = play(output / name, game, sharing, {**config, **changes}, resume_at)
    return found


def play(output, game, sharing, config, resume_at):
    def build(folder):
        extra = {"peft_config": LORA} if sharing == "lora" else {}
        return make_trainer(folder, **probe(game, policy_sharing=sharing, trainer=extra, **config))

    trainer, turns = build(output / "straight"), []
    start, frozen = weights(trainer), frozen_weights(trainer)
    on_sample(trainer, lambda role, found: turns.append((trainer.counts.rounds, role, len(found.rows), found.texts)))
    trainer.train()
    end = weights(trainer)
    again = ran(build(output / "resumed"), str(output / "straight" / f"checkpoint-{resume_at}"))
    shared = {
        "processes": trainer.accelerator.num_processes, "engine": trainer.engine.name,
        "steps": trainer.state.global_step, "moved": moved(start, end), "weights": digest(end),
        "memory": held(trainer), "resumed": {"weights": digest(weights(again)), "memory": held(again)},
        "frozen": [digest(frozen), digest(frozen_weights(trainer)), len(frozen)],
    }  # fmt: skip
    if game == "tiers":
        shared["tiers"] = tiers(trainer)
    return {"shared": shared, "turns": turns}


def frozen_weights(trainer):
    """What the module holds beside the weights that are trained, whole."""
    policies = trainer.policies
    trained = {id(p) for name in policies.weight_names for _, p in policies.named_parameters(name)}
    return {name: whole(p) for name, p in policies.module.named_parameters() if id(p) not in trained}


def tiers(trainer):
    """Operand counts in the end, and each round's pass rate by tier as this process had it."""
    asks = trainer.game.proposer.files()["tier_config.json"]["asks"]
    logged = [line for line in trainer.state.log_history if "loss" in line]
    rates = [[line.get(f"prover_pass_rate_tier_{k}") for k in range(2)] for line in logged]
    return [[ask["operands"] for ask in asks], rates]
