"""A run folder with invented numbers that holds all that a report can draw, for docs/gallery.md."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

from countdown_selfplay.countdown import ProblemSpec, generate_problems
from countdown_selfplay.proposers.metrics import STORIES
from countdown_selfplay.statistics.solved import FIRST_SOLVED

ROUNDS, TARGETS, STORIES_TOLD = 20, 60, 10
ROLES = ("prover", "conjecturer")

# Metric -> value at the first round, at the last one, and the spread of the noise in between.
COURSE: dict[str, tuple[float, float, float]] = {
    "round/solve_rate_mean": (0.2, 0.45, 0.05),
    "round/anchor_solve_rate_mean": (0.3, 0.4, 0.04),
    "conjecturer/parseable_rate": (0.9, 0.97, 0.02),
    "conjecturer/solvable_rate": (0.35, 0.6, 0.03),
    "conjecturer/unique_rate": (0.97, 0.85, 0.02),
    "conjecturer/admitted_rate": (0.3, 0.5, 0.03),
    "round/too_easy_share": (0.03, 0.12, 0.03),
    "round/too_hard_share": (0.5, 0.2, 0.05),
    "round/conjectured_slots": (6, 12, 0),
    "round/anchor_slots": (10, 4, 0),
    "conjecturer/reward": (0.3, 0.6, 0.05),
    "conjecturer/reward_std": (0.35, 0.3, 0.02),
    "conjecturer/contamination_rate": (0.02, 0.03, 0.01),
    "prover/reward": (0.3, 0.5, 0.03),
    "prover/reward_std": (0.44, 0.46, 0.01),
    "prover/correct_rate": (0.25, 0.45, 0.03),
    "prover/zero_signal_groups": (0.45, 0.25, 0.04),
    "prover/several_answers_rate": (0.04, 0.01, 0.01),
    "step_time": (0.5, 0.5, 0.03),
    "time/rollout_prover": (0.14, 0.14, 0.01),
    "time/rollout_conjecturer": (0.08, 0.08, 0.01),
    **{f"{role}/{name}": course for role in ROLES for name, course in {
        "entropy": (1.2, 0.8, 0.02) if role == "conjecturer" else (0.45, 0.35, 0.01),
        "kl": (0.0, 0.05 if role == "conjecturer" else 0.02, 0.002),
        "loss": (0.0, 0.0, 0.02),
        "importance_clamped": (0.01, 0.02, 0.005),
        "truncated_rate": (0.04, 0.01, 0.005),
        "completion_length": (7, 8, 0.2) if role == "prover" else (6, 6, 0.1),
    }.items()},
    **{f"grad_norm/{role}": (0.8, 0.5, 0.1) for role in ROLES},
    # a pool
    "valid_conjecture_rate": (0.3, 0.55, 0.04),
    "mean_prover_pass_rate": (0.2, 0.45, 0.03),
    "prover_pass_rate_tier_0": (0.35, 0.6, 0.05),
    "prover_pass_rate_tier_1": (0.1, 0.3, 0.04),
    # hard targets
    "targets/pass_at_n": (0.2, 0.5, 0.04),
    "round/reward_r_solve": (0.25, 0.35, 0.04),
    "round/reward_r_guide": (0.5, 0.7, 0.03),
    "round/reward_r_synth": (0.15, 0.25, 0.03),
    "targets/trainable": (8, 16, 2),
    "targets/problem_size": (3.4, 3.8, 0.05),
    "targets/set_size": (4, 4, 0),
    "targets/problem_complex": (0.1, 0.2, 0.03),
    "targets/set_complex": (0.3, 0.3, 0),
    "prover/sampled_entropy": (0.5, 0.4, 0.02),
    "guide/format_rate": (0.85, 0.97, 0.02),
    # a symbolic proposer
    "proposer/raw": (256, 256, 0),
    "proposer/valid_rate": (0.68, 0.64, 0.02),
    "proposer/eligible_rate": (0.3, 0.25, 0.03),
    "proposer/diversity": (0.13, 0.03, 0.01),
    "proposer/selected_p": (0.35, 0.42, 0.03),
    "proposer/least_p": (0.1, 0.18, 0.02),
    "proposer/brier_before": (0.16, 0.15, 0.005),
    "proposer/brier_after": (0.15, 0.145, 0.005),
    "proposer/estimate_error": (0.09, 0.05, 0.01),
    **{f"proposer/arm_{arm}": (0.33, end, 0.02) for arm, end in (("easy", 0.5), ("medium", 0.3), ("hard", 0.2))},
    **{f"proposer/rate_at_{tenth}": (tenth / 12 + 0.1,) * 2 + (0.0,) for tenth in range(10)},
    # a critic game
    "prover/corrected_rate": (0.1, 0.3, 0.03),
    "prover/resisted_rate": (0.3, 0.6, 0.03),
    "prover/kept_rate": (0.3, 0.25, 0.03),
    "prover/misled_rate": (0.35, 0.12, 0.03),
    "prover/success_rate": (0.4, 0.65, 0.03),
    "helpful/win_rate": (0.1, 0.3, 0.03),
    "misleading/win_rate": (0.35, 0.12, 0.03),
    "helpful/read_rate": (0.8, 0.97, 0.02),
    "misleading/read_rate": (0.75, 0.95, 0.02),
}  # fmt: skip
STARVED = (5, 6)
"""Rounds without a proposal that could be played: what they would measure is absent."""
_ABSENT = ("round/solve_rate_mean", "round/too_easy_share", "round/too_hard_share", "conjecturer/reward")


def write_run(folder: Path, baseline: bool = False) -> Path:
    """Everything in one folder; `baseline`: a second run, of REINFORCE^1/2 on the targets alone."""
    rng = random.Random(int(baseline))
    folder.mkdir(parents=True)
    config = {"conjecturer_reward": "tent", "steps_per_round": 1, "max_steps": ROUNDS, "seed": 0}
    if baseline:
        config |= {"conjecturer_players": 0, "prover_objective": "reinforce_half"}
    _write(folder / "run.json", {"name": folder.name, "config": config})
    rows = [_round(rng, step, baseline) for step in range(1, ROUNDS + 1)]
    for step in range(5, ROUNDS + 1, 5):
        rows.append({"step": step, **{f"eval_pass@{k}": _rise(step, 0.25 * k**0.4, 0.05) for k in (1, 4, 8, 16)}})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _write(folder / "evaluation.json", {"before": _side(rng, 0.25), "after": _side(rng, 0.4), "difference": {}})
    problems = generate_problems(TARGETS, ProblemSpec(operands=(4,), number_high=12, target_high=99), seed=0)
    solved = [int(ROUNDS * (i / TARGETS) ** 0.5) for i in range(round(TARGETS * (0.5 if baseline else 0.65)))]
    first = dict(zip((problem.key for problem in problems), [*solved, *[None] * (TARGETS - len(solved))], strict=True))
    _write(folder / FIRST_SOLVED, {"first_solved": first})
    marks = [[key, at, "".join(rng.choice("0011") for _ in range(at))] for key, at in first.items() if at][
        :STORIES_TOLD
    ]
    _write(folder / STORIES, {"aside": [], "solved": marks})
    rate = [{"value": value, "low": value, "high": value} for value in (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6, 0.7)]
    names = ["0", "1", "2"]
    cells = [
        {
            "prover": p,
            "critics": c,
            **dict.fromkeys(("corrected", "resisted", "stands", "misled"), rate[3 * i + 2 - j]),
        }
        for i, p in enumerate(names)
        for j, c in enumerate(names)
    ]
    _write(folder / "win_rates.json", {"provers": names, "critics": names, "cells": cells})
    return folder


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def _rise(step: int, start: float, gain: float) -> float:
    return start + gain * step / ROUNDS


def _round(rng: random.Random, step: int, baseline: bool) -> dict[str, object]:
    t = (step - 1) / (ROUNDS - 1)
    row: dict[str, object] = {"step": step}
    row |= {
        name: max(a + (b - a) * t + rng.gauss(0, spread), 0.0 if b else -1.0)
        for name, (a, b, spread) in COURSE.items()
    }
    row |= {f"lr/{role}": 1e-4 * min(step / 5, 1) * (1 - t / 2) for role in ROLES}
    row |= {"tier_0_operand_count": 3 + (step > 12), "tier_1_operand_count": 4 + (step > 8)}
    row |= {"round/generations": 1000.0 * step, "targets/attempted": min(step / 4, 1.0)}
    row["targets/solve_rate"] = (0.6 if baseline else 0.75) / (1 + math.exp(-(step - 8) / 4))
    row |= {f"targets/presolve_{k}": 0.2 + 0.04 * k for k in range(10)}
    row["round/starved"] = float(step in STARVED)
    mean = row["round/solve_rate_mean"]
    row["round/solve_rate_histogram"] = [round(20 * math.exp(-20 * (k / 5 - mean) ** 2)) for k in range(6)]
    if step in STARVED:
        row |= {"round/conjectured_slots": 0, "round/anchor_slots": 16, "round/solve_rate_histogram": [0] * 6}
        row = {name: value for name, value in row.items() if name not in _ABSENT}
    return row


def _side(rng: random.Random, rate: float) -> dict[str, object]:
    """200 held-out problems, 16 answers each, at solve rates that spread around `rate`."""
    correct = [
        sum(rng.random() < chance for _ in range(16))
        for chance in (rng.betavariate(2 * rate, 2 - 2 * rate) for _ in range(200))
    ]
    return {"prover": {"pass_at": {}, "n": 16, "problems": 200, "correct": correct}, "conjecturer": {}}
