"""Files and folders of docs/benchmarks/ as arms: training seeds with their rates by metric."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from countdown_selfplay.statistics.pass_at_k import pass_at_k_array

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA = DOCS / "benchmarks"
RUNGS = range(4, 11)
"""The ladder is scored on the rungs that its warm start has not seen."""

Row = dict[str, Any]


@dataclass
class Arms:
    """values(arm, metric): rates by (seed, problem), or by seed where the file has no problems. runs: arm -> its runs,
    each with something that tells it from every other run. printed: differences without the rates they came from."""

    runs: Mapping[str, Sequence[Any]]
    values: Callable[[str, str], np.ndarray] = lambda arm, metric: np.empty(0)
    printed: Sequence[Sequence[Any]] = ()


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def load_all(pattern: str) -> list[Any]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(DATA.glob(pattern))]


def counts(name: str) -> Arms:
    """Right answers per problem and seed, as `Evaluated.to_dict` of the studies' scripts writes them. Arms `NAME@STEP`
    are checkpoints of one run."""
    arms = load(name)["arms"]

    def values(arm: str, metric: str) -> np.ndarray:
        return np.stack([pass_at_k_array(run["correct"], run["n"], _k(metric)) for run in arms[arm]])

    runs = {arm: [(name, arm.partition("@")[0], i) for i in range(len(own))] for arm, own in arms.items()}
    return Arms(runs, values)


def jobs(folder: str) -> Arms:
    """The ladder's jobs: one JSON file for an arm, a seed and a number of rounds, scored on the rungs 4 to 10."""
    found: dict[str, list[tuple[Row, str]]] = {}
    for path in sorted((DATA / folder).glob("*.json"), key=_in_order):
        text = path.read_text(encoding="utf-8")
        job = json.loads(text)
        found.setdefault(job["arm"], []).append((job, sha256(text.encode()).hexdigest()))

    def values(arm: str, metric: str) -> np.ndarray:
        rungs = [[job["by_rung"][str(rung)] for rung in RUNGS] for job, _ in found[arm]]
        return np.stack([_joined(own, _k(metric)) for own in rungs])

    return Arms({arm: [digest for _, digest in own] for arm, own in found.items()}, values)


def targets(name: str) -> Arms:
    """SGS: the share of the targets that was solved at least once, per seed; at the end or after equal attempts."""
    arms = load(name)["arms"]
    runs = {arm: [(name, arm, i) for i in range(len(own["of_seeds"]))] for arm, own in arms.items()}
    keys = {"solved": "of_seeds", "solved, equal attempts": "at_equal_attempts"}
    return Arms(runs, lambda arm, metric: np.array(arms[arm][keys[metric]]))


def rates(name: str) -> Arms:
    """Rates by seed and problem, as the study of the critic game writes them; cdg_1 is cdg's first iteration."""
    arms = load(name)["arms"]
    runs = {arm: [(name, arm.removesuffix("_1"), i) for i in range(len(own["pass@1"]))] for arm, own in arms.items()}
    return Arms(runs, lambda arm, metric: np.array(arms[arm][metric]))


def printed(study: str, runs_of: str | None = None, but: Sequence[str] = ()) -> Arms:
    """Differences as their page prints them. Runs: as the same file says, or the arms of `runs_of`."""
    own = load("printed_differences.json")[study]
    runs = own.get("runs", {}) if runs_of is None else {arm: len(v["pass@1"]) for arm, v in load(runs_of).items()}
    kept = {arm: [(study, arm, i) for i in range(seeds)] for arm, seeds in runs.items() if arm not in but}
    return Arms(
        kept, printed=[[*row, own["seeds"]] if len(row) > 6 else [*row, None, own["seeds"]] for row in own["rows"]]
    )


def too_easy() -> Arms:
    return Arms({arm: [(arm, seed) for seed in seeds] for arm, seeds in load("too_easy.json")["runs"].items()})


def _k(metric: str) -> int:
    return int(metric.partition("@")[2])


def _joined(rungs: Sequence[Row], k: int) -> np.ndarray:
    return np.concatenate([pass_at_k_array(rung["correct"], rung["n"], k) for rung in rungs])


def _in_order(path: Path) -> list[Any]:
    """Seeds as numbers: 2 before 10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.stem)]
