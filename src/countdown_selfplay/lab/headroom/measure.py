"""The requested gates in turn, which share the start's answers and the run on one rung; and the oracles."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...data.run_files import write_atomically
from ...errors import ConfigError
from ...random_state import seed_from
from ..report import pictures
from .gates import (
    Counts,
    Gate,
    frontier,
    frontier_rung,
    head_room,
    mean_pass,
    mixed_chance,
    support,
    transfer,
    verdict,
)
from .runs import ALONE, Measured, Runs
from .settings import HeadroomArguments

ANSWERS = 16
"""Smallest number of answers per held-out problem in gate 4; gate_k if that is more."""
ONE_RUNG = {**ALONE, "proposer": "uniform_rungs"}
CONTROLS: dict[str, dict[str, Any]] = {"uniform": ONE_RUNG, "frozen": {"conjecturer_learning_rate": 0.0}}
"""Controls of the oracle: random problems, and the initial conjecturer (if there is one)."""


def measure_gates(
    how: HeadroomArguments, runs: Runs, say: Callable[[str], None] = print
) -> tuple[list[Gate], dict[str, Any]]:
    """Measure the gates; return them and the contents of headroom.json, which is written after each gate. All
    processes call it. Raises ConfigError before any run if settings and domain do not fit each other."""
    check(how, runs)
    gates: list[Gate] = []
    report: dict[str, Any] = {"verdict": "", "seed": runs.seed, "rounds": runs.rounds, "problems": how.gate_problems}
    report["cpu_seconds"] = spent = {}
    since = time.process_time()

    def judged(gate: Gate) -> None:
        nonlocal since
        gates.append(gate)
        spent[str(gate.number)], since = round(time.process_time() - since, 1), time.process_time()
        report.update(verdict=verdict(gates), gates=[one.to_dict() for one in gates])
        runs.processes.together(lambda: write_findings(runs.folder, report))
        if runs.processes.main:
            say(f"Gate {gate.number}, {gate.name}: {gate.word}. {gate.found}.")

    n = how.gate_samples
    tuning = Measured(runs.tuning, n, seed_from(runs.seed, "headroom"))
    if set(how.gates) - {4}:
        (start,), _ = runs.play("start", ONE_RUNG, [tuning], rounds=0)
    if 1 in how.gates:
        judged(support(start, n, how.gate_support))
    if {2, 3} & set(how.gates):
        rung = frontier_rung(start, n, runs.group, above=min(3, len(runs.rungs) - 1))
        after, text = start, "no run, which had nothing to learn from,"
        if rung is not None:
            ((after,), _) = runs.play("one_rung", {**ONE_RUNG, "proposer_kwargs": {"rungs": [rung]}}, [tuning])
            text = f"{runs.rounds} rounds on rung {rung}"
        if 2 in how.gates:
            judged(frontier(start, after, n, runs.group, how.gate_thin, how.gate_moves, text))
        if 3 in how.gates:
            judged(transfer(start, after, rung, n, how.gate_k, how.gate_rises))
    if 4 in how.gates:
        gate, report["gains"] = _head_room(how, runs)
        judged(gate)
    if runs.processes.main:
        say(report["verdict"])
    return gates, report


def check(how: HeadroomArguments, runs: Runs) -> None:
    """Raise ConfigError for fewer answers than a group has, and for gate 3 without three rungs above another."""
    if how.gate_samples < runs.group:
        raise ConfigError(
            f"`gate_samples` ({how.gate_samples}) must be at least the answers of a group, prover_num_generations "
            f"({runs.group}); raise it."
        )
    if 3 in how.gates and len(runs.rungs) < 4:
        raise ConfigError(
            f"Gate 3 needs three rungs above another, and this domain has {len(runs.rungs)} "
            f"({', '.join(map(str, runs.rungs))}); widen it (Countdown: --operands), or leave it out (--gates 1 2 4)."
        )


def _head_room(how: HeadroomArguments, runs: Runs) -> tuple[Gate, Any]:
    k, n = how.gate_k, max(how.gate_k, ANSWERS)
    seed = seed_from(runs.seed, "headroom")
    measured = [Measured(runs.held_out, n, seed), Measured(runs.tuning, n, seed)]
    arms: dict[str, Any] = {"uniform": runs.play("uniform", CONTROLS["uniform"], measured[:1])[0][0]}
    if runs.trained_conjecturer:
        arms["frozen"] = runs.play("frozen", CONTROLS["frozen"], measured[:1])[0][0]
        arms["trained"] = runs.play("trained", {}, measured[:1])[0][0]
    oracles, gains = play_oracles(runs, measured, how.gate_stage, how.gate_probe, -(-how.gate_samples // 2))
    tuned = {name: sum(list(mean_pass(tuning, n, 1).values())[1:]) for name, (_, tuning) in oracles.items()}
    arms |= {name: held_out for name, (held_out, _) in oracles.items()}
    best = max(tuned, key=lambda name: tuned[name])
    controls = [arm for arm in CONTROLS if arm in arms]
    return head_room(arms, controls, best, n, k, how.gate_margin), gains


def write_findings(folder: Path, report: dict[str, Any]) -> None:
    """Write headroom.json, its picture headroom.svg, and gains.json if an oracle was searched for."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "headroom.svg", gates_svg(report))
    write_atomically(folder / "headroom.json", json.dumps(report, indent=1) + "\n")
    if "gains" in report:
        write_atomically(folder / "gains.json", json.dumps(report["gains"], indent=1) + "\n")


def gates_svg(report: dict[str, Any]) -> str:
    names = {1: "support", 2: "frontier", 3: "transfer", 4: "head-room"}
    panels = [
        pictures.Bars(f"{gate['number']} {names[gate['number']]}: {gate['word']}", *_bars(gate))
        for gate in report["gates"]
        if gate["figures"]
    ]
    return pictures.svg(pictures.bar_grid(panels))


def _bars(gate: dict[str, Any]) -> tuple[Any, ...]:
    number, figures = gate["number"], gate["figures"]
    if number == 1:
        ((what, solved),) = figures.items()
        return [*solved], [(what, [*solved.values()])], "rung"
    if number == 2:
        before, after = figures["before"], figures["after"]
        return [*before], [("at the frontier before", [*before.values()]), ("after", [*after.values()])], "rung"
    if number == 3:
        ((what, gains),) = [(name, gains_R) for name, gains_R in figures.items() if name != "trained_on"]
        changes = [(f"change of {what}", [gain[0] for gain in gains.values()])]
        return [*gains], changes, "rung", [gain[1:] for gain in gains.values()]
    scores = figures["mean_pass_at"]
    heights = [(f"mean pass@{k}", [gains_R[k] for gains_R in scores.values()]) for k in next(iter(scores.values()))]
    return [arm.removeprefix("oracle_") for arm in scores], heights, "arm"


Gains = dict[int, dict[int, float]]
"""{round: {rung: gain}}, the argument of `proposer: oracle_rungs`."""

CANDIDATES = 5
"""Largest number of rungs that a stage tries: those with the most problems at the frontier."""
ABOVE = 2
"""Number of rungs above the highest candidate in which a gain counts; higher ones show none."""


def play_oracles(
    runs: Runs, measured: Sequence[Measured], stage: int, probe: int, n: int
) -> tuple[dict[str, list[Counts]], Gains]:
    """Both kinds by name, each with what it solves of `measured`, and the table of the kind by gain.

    An oracle is what a proposer could reach that knew which problems teach most, at as many answers as every other
    arm; the better one on the tuning problems is that of gate 4. By gain: in stages, each rung within reach is
    trained on alone for a few rounds from where the prover is, and the two that gained most are played until the
    next stage. By half: the rungs whose solve rate is nearest one half. What they measure by is not counted among
    their answers."""
    by_gain, gains = search(runs, measured, stage, probe, n)
    half = ALONE | {"proposer": "oracle_rungs", "proposer_kwargs": {"kind": "half"}}
    return {"oracle_gain": by_gain, "oracle_half": runs.play("oracle_half", half, measured)[0]}, gains


def search(runs: Runs, measured: Sequence[Measured], stage: int, probe: int, n: int) -> tuple[list[Counts], Gains]:
    """Return the solve counts of `measured` after the oracle by gain, and its table. A gain is the change of pass@1,
    with n answers to each tuning problem, summed over the rungs above the lowest, up to ABOVE the candidates, after
    `probe` rounds, which are the same number of answers for each rung. (At a solve rate of a twentieth, pass@16 of so
    few answers is three times as noisy relative to its size.) The table contains only the candidates: zeros of untried
    rungs would rank above negative gains."""
    name, seed = "oracle_gain", seed_from(runs.seed, "oracle")
    gains: Gains = {}
    checkpoint, at = None, 0
    (before,), _ = runs.play(name, ALONE | {"proposer": "uniform_rungs"}, [Measured(runs.tuning, n, seed)], rounds=0)
    while True:
        tried = candidates(before, n, runs.group)
        near = runs.rungs[1 : runs.rungs.index(tried[-1]) + 1 + ABOVE]  # the lowest is no part of gate 4's score
        asked = Measured({rung: runs.tuning[rung] for rung in near}, n, seed)
        gains[at] = {tried[0]: 0.0} if len(tried) == 1 else {}  # without a choice nothing is measured
        for rung in tried if len(tried) > 1 else ():
            alone = ALONE | {"proposer": "uniform_rungs", "proposer_kwargs": {"rungs": [rung]}}
            (after,), _ = runs.play(f"probe_{at}_{rung}", alone, [asked], start=checkpoint, rounds=at + probe)
            gains[at][rung] = gain(before, after, n)
            runs.drop(f"probe_{at}_{rung}")
        table = {str(when): {str(rung): one for rung, one in own.items()} for when, own in gains.items()}
        chosen = ALONE | {"proposer": "oracle_rungs", "proposer_kwargs": {"gains": table}}
        at = min(at + stage, runs.rounds)
        ends = at == runs.rounds
        of = measured if ends else [Measured(runs.tuning, n, seed)]
        found, checkpoint = runs.play(name, chosen, of, start=checkpoint, rounds=at, keep=True)
        if ends:
            return found, gains
        (before,) = found


def candidates(counts: Counts, n: int, group: int) -> list[int]:
    """Return the rungs, ascending, with most problems at the frontier, at most CANDIDATES; the lowest without any."""
    chance = mixed_chance(n, group)
    shares = {rung: float(chance[list(own)].mean()) for rung, own in counts.items()}
    best = sorted((rung for rung in shares if shares[rung] > 0), key=lambda rung: (-shares[rung], rung))
    return sorted(best[:CANDIDATES]) or [min(counts)]


def gain(before: Counts, after: Mapping[int, Any], n: int) -> float:
    """Return the change of pass@1, summed over the rungs of `after`."""
    had, has = mean_pass(before, n, 1), mean_pass(after, n, 1)
    return float(np.sum([has[rung] - had[rung] for rung in after]))
