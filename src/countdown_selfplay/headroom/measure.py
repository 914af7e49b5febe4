"""The gates that are asked for, one after the other, sharing what they can: the start's answers, the uniform run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data.run_files import write_atomically
from ..errors import ConfigError
from ..random_state import seed_from
from .gates import Gate, frontier, frontier_rung, head_room, support, transfer, verdict
from .oracle import alone, search
from .runs import Runs
from .settings import HeadroomArguments

ANSWERS = 16
"""Answers to a problem by which the oracle's rungs are measured, at least; gate 4 takes as many."""


def measure_gates(
    asked: HeadroomArguments, runs: Runs, say: Callable[[str], None] = print
) -> tuple[list[Gate], dict[str, Any]]:
    """The gates, and what headroom.json holds. Called by all processes."""
    gates: list[Gate] = []
    found: dict[str, Any] = {"seed": runs.seed, "rounds": runs.rounds, "problems": asked.gate_problems}

    def judged(gate: Gate) -> None:
        gates.append(gate)
        say(f"Gate {gate.number}, {gate.name}: {'open' if gate.open else 'shut'}. {gate.found}.")

    n, seed = asked.gate_samples, seed_from(runs.seed, "headroom")
    uniform = alone(runs) | {"proposer": "uniform_rungs", "proposer_kwargs": {}}
    first = runs.trainer("start", uniform)
    group = next(first.roles[one].num_generations for one in first.args.players_of("prover"))
    if n < group:
        raise ConfigError(
            f"`gate_samples` ({n}) must be at least the answers of a group, prover_num_generations ({group}); raise "
            "it."
        )
    start = runs.solved(first, runs.tuning, n, seed) if set(asked.gates) - {4} else {}
    del first
    if 1 in asked.gates:
        judged(support(start, n, asked.gate_support))
    random: Any = runs.play("uniform", uniform)[0] if {2, 4} & set(asked.gates) else None
    if 2 in asked.gates:
        after = runs.solved(random, runs.tuning, n, seed)
        said = f"{runs.rounds} rounds of them"
        judged(frontier(start, after, n, group, asked.gate_thin, asked.gate_moves, said))
    if 3 in asked.gates:
        judged(_transfer(asked, runs, start, group, uniform, seed))
    if 4 in asked.gates:
        k, answers = asked.gate_k, max(asked.gate_k, ANSWERS)
        arms = {"uniform": runs.solved(random, runs.held_out, answers, seed)}
        for arm, changes in (("frozen", {"conjecturer_learning_rate": 0.0}), ("trained", {})):
            if runs.trained_conjecturer:
                arms[arm] = runs.solved(runs.play(arm, changes)[0], runs.held_out, answers, seed)
        best, gains = search(runs, asked.gate_stage, asked.gate_probe, answers, k)
        arms["oracle"] = runs.solved(best, runs.held_out, answers, seed)
        controls = [arm for arm in ("uniform", "frozen") if arm in arms]
        judged(head_room(arms, controls, answers, k, asked.gate_margin))
        found["gains"] = gains
    sentence = verdict(gates)
    say(sentence)
    return gates, {"verdict": sentence, **found, "gates": [gate.to_dict() for gate in gates]}


def _transfer(
    asked: HeadroomArguments, runs: Runs, start: Any, group: int, uniform: dict[str, Any], seed: int
) -> Gate:
    name, n = "banded transfer", asked.gate_samples
    if len(runs.rungs) < 4:
        said = f"the domain has {len(runs.rungs)} rungs, and four are needed to see three steps up"
        return Gate(3, name, False, said)
    rung = frontier_rung(start, n, group)
    if rung is None:
        return Gate(3, name, False, "the start solves some answers and not all of no rung that has three above it")
    trained = runs.play("one_rung", uniform | {"proposer_kwargs": {"rungs": [rung]}})[0]
    at = runs.rungs.index(rung)
    seen = [runs.rungs[at + step] for step in (0, 1, 3)]
    after = runs.solved(trained, runs.tuning, n, seed, seen)
    before = {one: start[one] for one in runs.rungs}
    return transfer(before, {**before, **after}, rung, n, asked.gate_k, asked.gate_rises)


def write_findings(folder: Path, found: dict[str, Any]) -> Path:
    """headroom.json, and gains.json where an oracle was searched for."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "headroom.json", json.dumps(found, indent=1) + "\n")
    if "gains" in found:
        write_atomically(folder / "gains.json", json.dumps(found["gains"], indent=1) + "\n")
    return folder / "headroom.json"
