"""The oracle by gain: in stages, every rung within reach is trained on alone for a few rounds, and the two that gained
most are played until the next stage. Its probes are not counted among its answers: it is what no proposer can be."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np

from ..random_state import seed_from
from ..statistics.pass_at_k import pass_at_k_array
from .gates import Counts, mean_pass
from .runs import Runs

Gains = dict[int, dict[int, float]]
"""{round: {rung: gain in mean pass@k over all rungs}}: the table that `proposer: oracle_rungs` takes."""


def search(runs: Runs, stage: int, probe: int, n: int, k: int) -> tuple[Any, Gains]:
    """The oracle's trainer after all rounds, and its table. Gains are measured on the tuning problems, with n answers
    each; a rung of which the prover solves nothing, or everything, can teach nothing and gains 0 unplayed."""
    gains: Gains = {}
    trainer, checkpoint, at = runs.trainer("oracle", {"proposer": "uniform_rungs"} | alone(runs)), None, 0
    while at < runs.rounds:
        before = runs.solved(trainer, runs.tuning, n, seed_from(runs.seed, "oracle", at))
        solve = mean_pass(before, n, 1)
        within = [rung for rung in runs.rungs if 0 < solve[rung] < 1] or [runs.rungs[0]]
        gains[at] = dict.fromkeys(runs.rungs, 0.0)
        for rung in within if len(within) > 1 else ():
            name = f"probe_{at}_{rung}"
            changes = alone(runs) | {"proposer": "uniform_rungs", "proposer_kwargs": {"rungs": [rung]}}
            probed, _ = runs.play(name, changes, checkpoint, at + probe)
            after = runs.solved(probed, runs.tuning, n, seed_from(runs.seed, "oracle", at))
            gains[at][rung] = _score(after, n, k) - _score(before, n, k)
            del probed
            shutil.rmtree(runs.folder / name, ignore_errors=True)
        if len(within) == 1:
            gains[at][within[0]] = 1.0  # no choice
        table = {str(when): {str(rung): gain for rung, gain in own.items()} for when, own in gains.items()}
        chosen = {"proposer": "oracle_rungs", "proposer_kwargs": {"gains": table}}
        at = min(at + stage, runs.rounds)
        trainer, checkpoint = runs.play("oracle", alone(runs) | chosen, checkpoint, at)
    return trainer, gains


def alone(runs: Runs) -> dict[str, Any]:
    """The settings of a run without a conjecturer."""
    return {"conjecturer_micro_batches": 0, "anchor_fraction": 0.0}


def _score(counts: Counts, n: int, k: int) -> float:
    return float(np.mean([pass_at_k_array(own, n, k).mean() for own in counts.values()]))
