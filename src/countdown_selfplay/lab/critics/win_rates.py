"""Win rates between provers and critics of different iterations (Wang et al. 2025, section 5.4 and figure 4), and the
players of a run by iteration: folders with a model for each role."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...data.jsonl import json_file
from ...data.run_files import checkpoint_folders, numbered_folders, read_phases
from ...errors import DataError
from ...games.metrics import OF_RIGHT, OF_WRONG
from ...statistics.bootstrap import ratio_interval

RATES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "corrected": (("corrected",), OF_WRONG),
    "resisted": (("resisted",), OF_RIGHT),
    "stands": (("resisted", "kept"), OF_RIGHT),
    "misled": (("misled",), OF_RIGHT),
}
"""Name -> (outcomes in the numerator, type of revisions). corrected: prover and helpful critic win together (figure 4,
left). resisted: the prover rejects a misleading critique in the game's words (figure 4, right). stands: its right
answer survives, by rejection or repetition. misled: the misleading critic wins."""

ROLES = ("prover", "helpful", "misleading")


def win_rates(
    provers: Sequence[str],
    critics: Sequence[str],
    round_of: Callable[[str, str], Any],
    game: Any,
    problems: Sequence[Any],
    seed: int = 0,
) -> dict[str, Any]:
    """Play the game on `problems` with every prover and every pair of critics; return JSON values. round_of: the names
    of a prover and of critics -> a Round in which they play; with equal seeds a prover gives the same first answers to
    all critics. Each cell holds RATES with 95% intervals (bootstrap over problems), None without a first answer of the
    type, and the counts of outcomes."""
    cells = []
    for prover in provers:
        for critic in critics:
            outcomes = played_outcomes(game, round_of(prover, critic), problems)
            cells.append({"prover": prover, "critics": critic, **cell_figures(outcomes, seed)})
    return {"provers": list(provers), "critics": list(critics), "problems": len(problems), "cells": cells}


def played_outcomes(game: Any, round: Any, problems: Sequence[Any]) -> list[tuple[str, str]]:
    """Return (key of the problem, outcome) of every revision of one round."""
    outcomes, domain = [], round.domain
    for turn in game.play(round, problems).turns:
        labels = turn.labels or []
        if {*OF_WRONG, *OF_RIGHT} & set(labels):
            keys = [domain.key(domain.problem(row, i)) for i, row in enumerate(turn.rollout.rows)]
            outcomes += [(keys[i // turn.rollout.n], label) for i, label in enumerate(labels)]
    return outcomes


def cell_figures(outcomes: Sequence[tuple[str, str]], seed: int = 0) -> dict[str, Any]:
    """Return RATES and counts of the outcomes of revisions, each with its problem's key."""
    keys = [key for key, _ in outcomes]
    figures: dict[str, Any] = {}
    for name, (won, of) in RATES.items():
        parts = [float(outcome in won) for _, outcome in outcomes]
        interval = ratio_interval(parts, [float(outcome in of) for _, outcome in outcomes], keys, seed=seed)
        figures[name] = None if interval is None else interval.to_dict()
    return {**figures, "outcomes": dict(sorted(Counter(outcome for _, outcome in outcomes).items()))}


def matrix_of(result: Mapping[str, Any], rate: str) -> list[list[float | None]]:
    """Return a rate of `win_rates` as rows of provers and columns of critics."""
    cells = {(cell["prover"], cell["critics"]): cell[rate] for cell in result["cells"]}
    return [
        [None if cells[p, c] is None else float(cells[p, c]["value"]) for c in result["critics"]]
        for p in result["provers"]
    ]


@dataclass(frozen=True)
class Iteration:
    """Models of one iteration. name: "start", "1", ... or the caller's; models: role -> folder or id."""

    name: str
    models: Mapping[str, str]


def iterations_of(folder: Path) -> list[Iteration]:
    """Return the players of a run: of an iterated run the initial models and those of each finished iteration (an
    untrained role keeps its model); of an online run its checkpoints in order, and the final models. Raises DataError
    for a folder with neither."""
    described = folder / "iterated.json"
    if described.is_file():
        models = dict(json_file(described, "the run folder is damaged", models=dict)["models"])
        imitation = folder / "iteration-0" / "imitation"  # the initial weights of all roles of a base model
        if imitation.is_dir():
            models = dict.fromkeys(models, str(imitation))
        iterations = [Iteration("start", dict(models))]
        log = read_phases(folder / "iterations.jsonl")
        ended = {(line["iteration"], line["role"]) for line in log if line["phase"] == "train"}
        for number, place in numbered_folders(folder, "iteration"):
            if number and all((number, role) in ended for role in models):
                models |= _models(place)
                iterations.append(Iteration(str(number), dict(models)))
        return iterations
    iterations = [Iteration(place.name, _models(place)) for place in checkpoint_folders(folder)]
    if _models(folder):
        iterations.append(Iteration("end", _models(folder)))
    iterations = [one for one in iterations if one.models]
    if not iterations:
        raise DataError(
            f"'{folder}' holds no players: neither iterated.json and iteration-<t>/<role>, nor checkpoint-<n>/<role> "
            f"or <role> folders, with a role of {', '.join(ROLES)}."
        )
    return iterations


def named_iterations(words: Sequence[str]) -> list[Iteration]:
    """Read words: a run folder, or `name=FOLDER` with a folder of role folders. DataError without two players."""
    iterations: list[Iteration] = []
    for word in words:
        name, _, path = word.rpartition("=")
        iterations += [Iteration(name, _models(Path(path)))] if name else iterations_of(Path(path))
    for one in iterations:
        if "prover" not in one.models or len(one.models) < 2:
            raise DataError(
                f"'{one.name}' has {', '.join(one.models) or 'no role folder'}; win rates need a prover and a critic "
                f"({', '.join(ROLES)})."
            )
    names = [one.name for one in iterations]
    if len(set(names)) < len(names):
        raise DataError(f"Two iterations are called '{max(names, key=names.count)}'; write name=FOLDER for each.")
    return iterations


def _models(folder: Path) -> dict[str, str]:
    return {role: str(folder / role) for role in ROLES if any((folder / role).glob("*config.json"))}


@dataclass
class Meetings:
    """Implementation of `round_of` of win_rates for models on disk. load: path -> (model, tokenizer); the models of
    the last meeting are kept, so that a row of the matrix loads its prover once."""

    iterations: Sequence[Iteration]
    domain: Any
    load: Callable[[str], tuple[Any, Any]]
    sampling: Mapping[str, Any]
    generations: Mapping[str, int] = field(default_factory=lambda: {"prover": 4, "helpful": 8, "misleading": 4})
    """First answers per problem, and critiques per answer (appendix B)."""
    seed: int = 0
    _loaded: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def __call__(self, prover: str, critics: str) -> Any:
        from ...warm_starts.iterated.collecting import CollectingRound, Player  # torch

        models = {one.name: one.models for one in self.iterations}
        paths = {**models[critics], "prover": models[prover]["prover"]}
        self._loaded = {path: self._loaded[path] for path in paths.values() if path in self._loaded}
        for path in paths.values():
            if path not in self._loaded:
                self._loaded[path] = self.load(path)
        roster = {
            kind: Player(*self._loaded[path], self.generations[kind], self.sampling) for kind, path in paths.items()
        }
        return CollectingRound(self.domain, roster, 0, ("win_rates", self.seed))
