"""One of two processes under an engine: the probe games, each straight and resumed."""

from pathlib import Path

from tests.distributed.engine_worker import moved, weights, whole
from tests.probe_games import probe
from tests.trainer.conftest import digest, held, make_trainer, on_sample, ran
from tests.trainer.test_round import LORA


def frozen_weights(trainer):
    """What the module holds beside the weights that are trained, whole."""
    policies = trainer.policies
    trained = {id(p) for name in policies.weight_names for _, p in policies.named_parameters(name)}
    return {name: whole(p) for name, p in policies.module.named_parameters() if id(p) not in trained}


def build(output, game, sharing, config):
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    return make_trainer(output, **probe(game, policy_sharing=sharing, trainer=extra, **config))


def play(output, game, sharing, config, resume_at):
    trainer, turns = build(output / "straight", game, sharing, config), []
    start, frozen = weights(trainer), frozen_weights(trainer)
    on_sample(trainer, lambda role, found: turns.append((trainer.counts.rounds, role, len(found.rows), found.texts)))
    trainer.train()
    end, checkpoint = weights(trainer), f"checkpoint-{resume_at}"
    again = ran(build(output / "resumed", game, sharing, config), str(output / "straight" / checkpoint))
    shared = {
        "processes": trainer.accelerator.num_processes, "engine": trainer.engine.name,
        "steps": trainer.state.global_step, "moved": moved(start, end), "weights": digest(end),
        "memory": held(trainer), "resumed": {"weights": digest(weights(again)), "memory": held(again)},
        "frozen": [digest(frozen), digest(frozen_weights(trainer)), len(frozen)],
    }  # fmt: skip
    if game == "tiers":
        shared["tiers"] = tiers(trainer)
    return {"shared": shared, "turns": turns}


def tiers(trainer):
    """Operand counts in the end, and each round's pass rate by tier as this process had it."""
    asks = trainer.game.proposer.files()["tier_config.json"]["asks"]
    logged = [line for line in trainer.state.log_history if "loss" in line]
    rates = [[line.get(f"prover_pass_rate_tier_{k}") for k in range(2)] for line in logged]
    return [[ask["operands"] for ask in asks], rates]


def main(output, games, resume_at, config):
    output, found = Path(output), {}
    for name, (game, sharing, changes) in games.items():
        found[name] = play(output / name, game, sharing, {**config, **changes}, resume_at)
    return found
