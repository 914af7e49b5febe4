"""A joint round against the same two batches run through stock TRL RLOO trainers, alternating in one process.

    python benchmarks/step_overhead.py --rounds 40 --output step_overhead.json

The stock side is two `trl.RLOOTrainer`s on copies of the same model: one with the prover's batch (the same number of
prompts, samples, micro-batches and tokens), one with the conjecturer's. Each iteration times one optimizer step of
each trainer (pacing.py: from one step's begin to the next one's), in an order that rotates, so that whatever else the
machine does hits all of them alike. Reported: the
median over iterations of joint / (stock prover + stock conjecturer), with a 95% bootstrap interval, and the joint
round's time per phase.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from datasets import Dataset
from pacing import Paced
from results import spread, write_json
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers import logging as transformers_logging
from trl import RLOOConfig, RLOOTrainer

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown import CountdownDomain, generate_problems
from countdown_selfplay.rewards.prover.verifier import make_countdown_reward
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC

BATCH, PROVER, CONJECTURER, GROUP = 64, 2, 1, 8
SIZES = {"problems_per_round": BATCH * PROVER // GROUP, "proposals_per_round": BATCH * CONJECTURER}


def common(output: str, steps: int) -> dict[str, Any]:
    return dict(
        output_dir=output, max_steps=steps, per_device_train_batch_size=BATCH, num_generations=GROUP,
        learning_rate=1e-4,
        max_completion_length=16, temperature=1.0, gradient_checkpointing=False, save_strategy="no", report_to="none",
        disable_tqdm=True, logging_steps=1, lr_scheduler_type="constant", seed=0, beta=0.0,
    )  # fmt: skip


def joint_trainer(folder: str, steps: int) -> JointConjecturerProverTrainer:
    config = JointSelfPlayConfig(
        **common(folder, steps), **SIZES,
        conjecturer_num_generations=BATCH,
        domain_kwargs=dict(
            prover_prompt="compact", conjecturer_prompt="compact", operands=[3], number_high=TINY_SPEC.number_high,
            target_low=TINY_SPEC.target_low, target_high=TINY_SPEC.target_high,
        ),
        guard=False,
    )  # fmt: skip
    return JointConjecturerProverTrainer(model=str(TINY_MODEL_PATH), args=config)


def stock_trainer(
    folder: str, steps: int, micro_batches: int, group: int, rows: list[dict], reward: Any
) -> RLOOTrainer:
    settings = common(folder, steps) | {
        "gradient_accumulation_steps": micro_batches,
        "num_generations": group,
        "bf16": False,
    }
    model = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH))
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")
    return RLOOTrainer(
        model=model, reward_funcs=reward, args=RLOOConfig(**settings), train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )  # fmt: skip


def proposal_reward_of(domain: CountdownDomain) -> Any:
    """What the joint round does with a proposal besides having it solved: parse, range, solvability."""

    def proposal_reward(completions: list[str], **_: Any) -> list[float]:
        parsed = [p.problem for p in domain.parse(completions)]
        return [float(p is not None and domain.in_range(p) and domain.solvable_batch([p])[0]) for p in parsed]

    return proposal_reward


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, help="timed optimizer steps of each trainer")
    parser.add_argument("--warmup", type=int, default=5, help="steps before timing starts")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    transformers_logging.set_verbosity_error()
    steps = options.rounds + options.warmup
    domain = CountdownDomain.tiny()
    problems = [domain.prove_row(p) for p in generate_problems(2048, TINY_SPEC, seed=0)]
    requests = [domain.propose_row(3)] * 64
    proposal_reward = proposal_reward_of(domain)
    with tempfile.TemporaryDirectory() as folder:
        joint = Paced(joint_trainer(f"{folder}/joint", steps))
        prover = Paced(
            stock_trainer(f"{folder}/p", steps, PROVER, GROUP, problems, make_countdown_reward(domain.rules))
        )
        conjecturer = Paced(stock_trainer(f"{folder}/c", steps, CONJECTURER, BATCH, requests, proposal_reward))
        runners = {"joint": joint, "stock prover": prover, "stock conjecturer": conjecturer}
        seconds: dict[str, list[float]] = {name: [] for name in runners}
        for i in range(steps):
            names = list(runners)
            for name in names[i % 3 :] + names[: i % 3]:
                elapsed, _ = runners[name].step()
                if i >= options.warmup:
                    seconds[name].append(elapsed)
        for runner in runners.values():
            runner.join()
        logs = joint.trainer.state.log_history[options.warmup : steps]
    ratios = [j / (p + c) for j, p, c in zip(*seconds.values(), strict=True)]
    ratio = spread(ratios)
    low, high = ratio["interval"]
    phases = {
        name: statistics.median(log[name] for log in logs if name in log)
        for name in ("time/rollout_conjecturer", "time/rollout_prover", "time/round", "step_time")
        if any(name in log for log in logs)
    }
    phases["verifier, solver, credit"] = (
        phases["time/round"] - phases["time/rollout_conjecturer"] - phases["time/rollout_prover"]
    )
    phases["loss, backward, step"] = phases["step_time"] - phases["time/round"]
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads",
        "rounds": options.rounds,
        "ratio": ratio["median"],
        "ratio_interval": [low, high],
        "median_seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "phases_median_seconds": phases,
    }
    print(f"joint / (stock prover + stock conjecturer): {result['ratio']:.3f} [{low:.3f}, {high:.3f}]")
    for name, value in (result["median_seconds"] | phases).items():
        print(f"  {name:<26} {value * 1000:8.1f} ms")
    write_json(options.output, result)


if __name__ == "__main__":
    main()
