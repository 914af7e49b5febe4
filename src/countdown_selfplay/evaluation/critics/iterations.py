"""The players of a run by iteration: folders with a model for each role."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...data.jsonl import json_file
from ...data.run_files import checkpoint_folders, numbered_folders, read_phases
from ...errors import DataError
from ..sampled_round import CollectingRound, Player

ROLES = ("prover", "helpful", "misleading")


@dataclass(frozen=True)
class Iteration:
    """name: "start", "1", ... or what the caller says; models: kind -> folder or id."""

    name: str
    models: Mapping[str, str]


def iterations_of(folder: Path) -> list[Iteration]:
    """The players of a run: of an iterated run the initial models and those that each iteration left (a role that was
    not trained keeps its model), but for one that is not finished; of an online run its checkpoints in order, and what
    it ended with. DataError if the folder holds neither."""
    described = folder / "iterated.json"
    if described.is_file():
        models = dict(json_file(described, "the run folder is damaged", models=dict)["models"])
        imitation = folder / "iteration-0" / "imitation"  # what all roles of a base model begin with
        if imitation.is_dir():
            models = dict.fromkeys(models, str(imitation))
        found = [Iteration("start", dict(models))]
        log = read_phases(folder / "iterations.jsonl")
        ended = {(line["iteration"], line["role"]) for line in log if line["phase"] == "train"}
        for number, place in numbered_folders(folder, "iteration"):
            if number and all((number, role) in ended for role in models):
                models |= _models(place)
                found.append(Iteration(str(number), dict(models)))
        return found
    found = [Iteration(place.name, _models(place)) for place in checkpoint_folders(folder)]
    if _models(folder):
        found.append(Iteration("end", _models(folder)))
    found = [one for one in found if one.models]
    if not found:
        raise DataError(
            f"'{folder}' holds no players: neither iterated.json and iteration-<t>/<role>, nor checkpoint-<n>/<role> "
            f"or <role> folders, with a role of {', '.join(ROLES)}."
        )
    return found


def kept_weights(iterations: Sequence[Iteration]) -> list[tuple[str, str]]:
    """(name of the iteration, role) for every role that an iteration did not train, so that it plays on as before."""
    return [
        (now.name, role)
        for before, now in pairwise(iterations)
        for role, model in now.models.items()
        if before.models.get(role) == model
    ]


def named_iterations(words: Sequence[str]) -> list[Iteration]:
    """A word is a run folder, or `name=FOLDER` with a folder of role folders. DataError for one without a prover or a
    critic, and for two of one name."""
    found: list[Iteration] = []
    for word in words:
        name, _, path = word.rpartition("=")
        found += [Iteration(name, _models(Path(path)))] if name else iterations_of(Path(path))
    for one in found:
        if "prover" not in one.models or len(one.models) < 2:
            raise DataError(
                f"'{one.name}' has {', '.join(one.models) or 'no role folder'}; win rates need a prover and a critic "
                f"({', '.join(ROLES)})."
            )
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise DataError(f"Two iterations are called '{max(names, key=names.count)}'; write name=FOLDER for each.")
    return found


def _models(folder: Path) -> dict[str, str]:
    return {role: str(folder / role) for role in ROLES if any((folder / role).glob("*config.json"))}


@dataclass
class Meetings:
    """`round_of` of win_rates for models on disk: who of one iteration meets the critics of another. load: path ->
    (model, tokenizer); the models of the last meeting are kept, so that a row of the matrix loads its prover once."""

    iterations: Sequence[Iteration]
    domain: Any
    load: Callable[[str], tuple[Any, Any]]
    sampling: Mapping[str, Any]
    generations: Mapping[str, int] = field(default_factory=lambda: {"prover": 4, "helpful": 8, "misleading": 4})
    """First answers to a problem, and critiques of an answer (appendix B)."""
    seed: int = 0
    _loaded: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def __call__(self, prover: str, critics: str) -> CollectingRound:
        models = {one.name: one.models for one in self.iterations}
        paths = {**models[critics], "prover": models[prover]["prover"]}
        kept = {path: self._loaded[path] for path in paths.values() if path in self._loaded}
        self._loaded = kept
        for path in paths.values():
            if path not in kept:
                kept[path] = self.load(path)
        roster = {kind: Player(*kept[path], self.generations[kind], self.sampling) for kind, path in paths.items()}
        return CollectingRound(self.domain, roster, 0, ("win_rates", self.seed))
