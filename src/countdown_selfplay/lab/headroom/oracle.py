"""Oracle, the upper reference of gate 4: a proposer that knows which problems teach most.

Two types are played with the same number of answers as every other arm, and the better one on the tuning problems is
the oracle. By gain: in stages, each rung within reach is trained on alone for a few rounds from the current prover,
and the two that gained most are played until the next stage. By half: the rungs whose solve rate is nearest one half.
Their measurements do not count as answers, because oracles are references and not proposers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...random_state import seed_from
from .gates import Counts, mean_pass, mixed_chance
from .runs import ALONE, Measured, Runs

Gains = dict[int, dict[int, float]]
"""{round: {rung: gain}}, the argument of `proposer: oracle_rungs`."""

CANDIDATES = 5
"""Largest number of rungs that a stage tries: those with the most problems at the frontier."""
ABOVE = 2
"""Number of rungs above the highest candidate in which a gain counts; higher ones show none."""


def play_oracles(
    runs: Runs, measured: Sequence[Measured], stage: int, probe: int, n: int
) -> tuple[dict[str, list[Counts]], Gains]:
    """Play both types; return by name the solve counts of `measured`, and the table of the type by gain."""
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
        target = Measured({rung: runs.tuning[rung] for rung in near}, n, seed)
        gains[at] = {tried[0]: 0.0} if len(tried) == 1 else {}  # without a choice nothing is measured
        for rung in tried if len(tried) > 1 else ():
            alone = ALONE | {"proposer": "uniform_rungs", "proposer_kwargs": {"rungs": [rung]}}
            (after,), _ = runs.play(f"probe_{at}_{rung}", alone, [target], start=checkpoint, rounds=at + probe)
            gains[at][rung] = gain(before, after, n)
            runs.drop(f"probe_{at}_{rung}")
        table = {str(when): {str(rung): one for rung, one in gains_of.items()} for when, gains_of in gains.items()}
        chosen = ALONE | {"proposer": "oracle_rungs", "proposer_kwargs": {"gains": table}}
        at = min(at + stage, runs.rounds)
        ends = at == runs.rounds
        of = measured if ends else [Measured(runs.tuning, n, seed)]
        solved, checkpoint = runs.play(name, chosen, of, start=checkpoint, rounds=at, keep=True)
        if ends:
            return solved, gains
        (before,) = solved


def candidates(counts: Counts, n: int, group: int) -> list[int]:
    """Return the rungs, ascending, with most problems at the frontier, at most CANDIDATES; the lowest without any."""
    chance = mixed_chance(n, group)
    shares = {rung: float(chance[list(counts_R)].mean()) for rung, counts_R in counts.items()}
    best = sorted((rung for rung in shares if shares[rung] > 0), key=lambda rung: (-shares[rung], rung))
    return sorted(best[:CANDIDATES]) or [min(counts)]


def gain(before: Counts, after: Mapping[int, Any], n: int) -> float:
    """Return the change of pass@1, summed over the rungs of `after`."""
    had, has = mean_pass(before, n, 1), mean_pass(after, n, 1)
    return float(np.sum([has[rung] - had[rung] for rung in after]))
