"""One of two processes under an engine: the probe games, each straight and resumed.

Started once per engine by test_games.py, never collected by pytest. Each process writes what it saw to
<output>/rank<r>.json.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.distributed.engine_worker import moved, weights, whole
from tests.distributed.two_processes import leave
from tests.distributed.worker import digest
from tests.probe_games import memory, probe
from tests.trainer.conftest import make_trainer, on_sample, ran
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
    on_sample(trainer, lambda role, found: turns.append((trainer.frame.rounds, role, len(found.rows), found.texts)))
    trainer.train()
    end, checkpoint = weights(trainer), f"checkpoint-{resume_at * trainer.args.steps_per_round}"
    again = ran(build(output / "resumed", game, sharing, config), str(output / "straight" / checkpoint))
    shared = {
        "processes": trainer.accelerator.num_processes,
        "engine": trainer.engine.name,
        "steps": trainer.state.global_step,
        "moved": moved(start, end),
        "weights": digest(end),
        "memory": memory(trainer),
        "resumed": {"weights": digest(weights(again)), "memory": memory(again)},
        "frozen": [digest(frozen), digest(frozen_weights(trainer)), len(frozen)],
    }
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
    (output / f"rank{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
    leave()
