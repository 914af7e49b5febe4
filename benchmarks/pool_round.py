"""A round of a 2 x 2 pool against its four parts run through stock TRL RLOO trainers, and how a 4 x 4 one grows.

    python benchmarks/pool_round.py --rounds 20 --output pool_round.json

All trainers take turns in one process, one optimizer step each (pacing.py), in an order that rotates. A part is a
stock `trl.RLOOTrainer` on a copy of the model with one player's batch: as many prompts, samples, micro-batches and
tokens. A pool's provers all attempt the same problems, so that a round of N conjecturers and N provers is N times
the two parts. Reported, in CPU seconds of the process: the median over iterations of (2 x 2) / (2 prover parts + 2
conjecturer parts), which should be at most 1.1, and of (4 x 4) / (2 x 2), 2 for growth in the number of players, each
with a 95% bootstrap interval.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from pacing import Paced
from results import machine, spread, write_json
from step_overhead import BATCH, CONJECTURER, GROUP, PROVER, SIZES, common, proposal_reward_of, stock_trainer
from transformers import logging as transformers_logging

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown import CountdownDomain, generate_problems
from countdown_selfplay.rewards.prover.verifier import make_countdown_reward
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC


def pool_trainer(folder: str, steps: int, players: int) -> JointConjecturerProverTrainer:
    """`players` conjecturers, each with a tier, and as many provers. Anchors fill what proposals leave open, so that
    each round has as much to do; tiers stay at three numbers, which the model knows."""
    config = JointSelfPlayConfig(
        **common(folder, steps), **SIZES, proposer="tiers",
        proposer_kwargs={"start": [3] * players, "floor": 3, "ceiling": 3, "min_valid": 0, "or_more": False},
        roles={
            "prover": {"players": players},
            "conjecturer": {"players": players, "num_generations": BATCH},
        },
        domain_kwargs=dict(
            prover_prompt="compact", conjecturer_prompt="compact", operands=[3], number_high=TINY_SPEC.number_high,
            target_low=TINY_SPEC.target_low, target_high=TINY_SPEC.target_high,
        ),
        guard=False,
    )  # fmt: skip
    return JointConjecturerProverTrainer(model=str(TINY_MODEL_PATH), args=config)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="timed optimizer steps of each trainer")
    parser.add_argument("--warmup", type=int, default=3, help="steps before timing starts")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    transformers_logging.set_verbosity_error()
    steps, domain = options.rounds + options.warmup, CountdownDomain.tiny()
    problems = [domain.prove_row(p) for p in generate_problems(2048, TINY_SPEC, seed=0)]
    requests = [domain.propose_row(3)] * BATCH
    verdicts, proposals = make_countdown_reward(domain.rules), proposal_reward_of(domain)
    with tempfile.TemporaryDirectory() as folder:
        runners = {
            "2 x 2": Paced(pool_trainer(f"{folder}/two", steps, 2)),
            "4 x 4": Paced(pool_trainer(f"{folder}/four", steps, 4)),
            "prover": Paced(stock_trainer(f"{folder}/p", steps, PROVER, GROUP, problems, verdicts)),
            "conjecturer": Paced(stock_trainer(f"{folder}/c", steps, CONJECTURER, BATCH, requests, proposals)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in runners}
        for i in range(steps):
            names = [*runners]
            for name in names[i % 4 :] + names[: i % 4]:
                _, cpu = runners[name].step()
                if i >= options.warmup:
                    seconds[name].append(cpu)
        for runner in runners.values():
            runner.join()
    two, four, prover, conjecturer = seconds.values()
    parts = [2 * p + 2 * c for p, c in zip(prover, conjecturer, strict=True)]
    ratios = {
        "2 x 2 / its four parts": spread([a / b for a, b in zip(two, parts, strict=True)]),
        "4 x 4 / 2 x 2": spread([a / b for a, b in zip(four, two, strict=True)]),
    }
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, found in ratios.items():
        print(f"{name}: {found['median']:.3f} [{found['interval'][0]:.3f}, {found['interval'][1]:.3f}]")
    for name, value in medians.items():
        print(f"  {name:<12} {value * 1000:8.1f} CPU ms")
    write_json(
        options.output, {**machine(), "rounds": options.rounds, "ratios": ratios, "median_cpu_seconds": medians}
    )


if __name__ == "__main__":
    main()
