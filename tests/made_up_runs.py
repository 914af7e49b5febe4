"""Run folders with invented but plausible numbers, one per way a run can go."""

import json
import math
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from countdown_selfplay.cli.main import main
from countdown_selfplay.evaluation.load import Run

CONFIG = {
    "output_dir": "runs/x", "max_steps": 120, "seed": 0, "policy_sharing": "full", "prover_objective": "rloo",
    "conjecturer_objective": "rloo", "conjecturer_reward": "tent", "conjecturer_reward_kwargs": None,
    "anchor_fraction": 0.5, "fill": "anchor", "learning_rate": 1e-5, "prover_learning_rate": 1e-4, "beta": 0.001,
    "operands": [3], "number_high": 12, "target_high": 99, "prover_prompt": "compact", "answer_rule": "last",
    "hub_token": "hf_secret",
}  # fmt: skip


def printed(capsys: Any, *words: object) -> tuple[int, str, str]:
    """A command's exit code and what it wrote to stdout and stderr."""
    code = main([str(word) for word in words])
    return code, *capsys.readouterr()


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@contextmanager
def edited(path: Path) -> Iterator[Any]:
    """What a file of JSON or of JSON lines holds, which is written again as the block leaves it."""
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        yield rows
        write_lines(path, rows)
    else:
        held = json.loads(path.read_text())
        yield held
        path.write_text(json.dumps(held))


def run_of(rounds: list[dict[str, Any]], **fields: Any) -> Run:
    """A run without a folder."""
    given = dict(path=Path("no folder"), name="r", started="", config={}, environment={}, histograms={}, others=[])
    return Run(rounds=rounds, **{**given, **fields})


def write_run(
    folder: Path,
    name: str = "demo",
    rounds: int = 120,
    seed: int = 0,
    starved: float = 0.0,
    drift: float = 0.0,
    evaluated: bool = True,
    **config: object,
) -> Path:
    """`starved`: share of rounds without a conjectured problem. `drift`: added to the solve rate over the run."""
    rng = random.Random(seed)
    path = folder / name
    path.mkdir(parents=True)
    description = {
        "name": name,
        "started": "2026-01-02T03:04:05+00:00",
        "config": {**CONFIG, **config},
        "environment": {"countdown-selfplay": "0.1.0", "python": "3.11.9", "device": "cpu", "processes": 1,
                        "torch": "2.13.0"},
        "domain": {"domain": "countdown"},
    }  # fmt: skip
    (path / "run.json").write_text(json.dumps(description))
    lines = [_round(rng, i, rounds, starved, drift) for i in range(1, rounds + 1)]
    lines += [
        {"step": s, "eval_pass@1": 0.3 + 0.2 * s / rounds, "eval_pass@8": 0.8, "eval_problems": 512.0}
        for s in range(40, rounds + 1, 40)
    ]
    lines.append({"step": rounds, "train_runtime": 123.4, "train_loss": 0.01})
    write_lines(path / "metrics.jsonl", lines)
    write_lines(path / "samples.jsonl", (s for i in range(1, rounds + 1) for s in _samples(i)))
    if evaluated:
        (path / "evaluation.json").write_text(json.dumps(_evaluation(drift)))
    return path


def _round(rng: random.Random, step: int, rounds: int, starved: float, drift: float) -> dict[str, object]:
    t = step / rounds

    def noisy(value: float, spread: float = 0.04) -> float:
        return min(max(value + rng.gauss(0, spread), 0.0), 1.0)

    row: dict[str, object] = {"step": step, "loss": rng.gauss(0, 0.05), "epoch": t}
    dry = rng.random() < starved
    rates = {"parseable": 0.95, "in_range": 0.9, "solvable": 0.35 + 0.4 * t, "unique": 0.95 - 0.1 * t,
             "contamination": 0.02}  # fmt: skip
    row |= {f"conjecturer/{k}_rate": noisy(v, 0.02) for k, v in rates.items()}
    row |= {"conjecturer/admitted_rate": 0.0 if dry else noisy(0.3 + 0.3 * t)}
    row |= {"conjecturer/played_rate": 0.0 if dry else 0.25, "round/starved": float(dry)}
    row |= {"round/conjectured_slots": 0.0 if dry else 8.0, "round/anchor_slots": 16.0 if dry else 8.0}
    row |= {"conjecturer/reward": 0.0 if dry else noisy(0.4 + 0.2 * t)}
    row |= {"conjecturer/reward_std": 0.2, "conjecturer/signal": float(not dry)}
    if not dry:
        rate = noisy(0.3 + 0.15 * t + drift * t, 0.06)
        row["round/solve_rate_mean"] = rate
        row["round/too_easy_share"] = noisy(max(rate - 0.4, 0), 0.03)
        row["round/too_hard_share"] = noisy(max(0.5 - rate, 0), 0.03)
        row["round/solve_rate_std"] = 0.25
        counts = [0] * 11
        for _ in range(8):
            counts[round(noisy(rate, 0.25) * 10)] += 1
        row["round/solve_rate_histogram"] = counts
    row["round/anchor_solve_rate_mean"] = noisy(0.35 + 0.2 * t)
    row |= {"prover/reward": noisy(0.4 + 0.2 * t), "prover/reward_std": 0.45}
    row |= {"prover/correct_rate": noisy(0.33 + 0.2 * t), "prover/zero_signal_groups": noisy(0.3)}
    row |= {"prover/several_answers_rate": 0.0, "prover/truncated_rate": 0.002}
    row |= {"prover/entropy": 0.37 * math.exp(-t) + rng.gauss(0, 0.005)}
    row |= {"conjecturer/entropy": 1.2 - 0.3 * t + rng.gauss(0, 0.01)}
    row |= {"prover/kl": 0.02 * t, "conjecturer/kl": 0.05 * t}
    row |= {"lr/prover": 1e-4 * min(1, step / 10), "lr/conjecturer": 1e-5}
    row |= {"grad_norm/prover": 0.5 + abs(rng.gauss(0, 0.2)), "grad_norm/conjecturer": 1 + abs(rng.gauss(0, 0.3))}
    row |= {"prover/completion_length": 7.1, "conjecturer/completion_length": 6.0}
    row |= {"step_time": 0.4 + abs(rng.gauss(0, 0.02))}
    row |= {"time/rollout_prover": 0.12, "time/rollout_conjecturer": 0.06, "prover/kl_broken": float("nan")}
    return row


def _samples(step: int) -> list[dict[str, object]]:
    hostile = "<script>alert(1)</script> & <b>3 * 5</b> + 7"
    rows = [
        ("conjecturer", "propose 3 :", "3 5 7 = 22", 0.75, "3,5,7=22", "ok"),
        ("conjecturer", "propose 3 :", "3 5 =", None, None, "malformed"),
        ("prover", [{"role": "user", "content": "3 5 7 = 22"}], hostile, 0.0, "3,5,7=22", "malformed"),
        ("prover", "3 5 7 = 22 :", "3 * 5 + 7", 1.0, "3,5,7=22", "correct"),
    ]
    names = ("role", "prompt", "completion", "reward", "problem", "reason")
    return [{"step": step, **dict(zip(names, row, strict=True))} for row in rows]


def _evaluation(drift: float) -> dict[str, object]:
    def estimate(value: float) -> dict[str, float]:
        value = min(value, 0.98)
        return {"value": value, "low": value - 0.02, "high": value + 0.02}

    def side(shift: float) -> dict[str, object]:
        passes = {str(k): estimate(v + shift) for k, v in ((1, 0.33), (4, 0.63), (8, 0.75), (16, 0.85))}
        rates = {name: estimate(0.5 + shift) for name in ("parseable", "in_range", "solvable", "unique", "solve_rate")}
        prover = {"pass_at": passes, "n": 16, "problems": 512, "correct": [], "truncated_rate": 0.0}
        return {"prover": prover, "conjecturer": {"n": 1024, **rates}}

    found = {"pass@1": [0.1, 0.08, 0.12], "pass@4": [0.05, -0.01, 0.11], "pass@8": [-0.03, -0.05, -0.01]}
    found["pass@16"] = [0, -0.02, 0.02]
    return {"before": side(0.0), "after": side(0.1 + drift / 10), "difference": found}
