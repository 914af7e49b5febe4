"""Tracks: what every contestant of the arena has in common, frozen by seed and checksum."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...config.recipes import read_yaml
from ...data.jsonl import json_lines
from ...errors import ConfigError, DataError
from ...registry import Registry

FOLDER = Path(__file__).parent / "frozen"
SETS = ("tuning", "held_out")
"""Sets of problems that no contestant trains on. Choices are made by the first, the arena measures on the second.
Withheld problems, those of the leaderboard, are drawn when a submission is played (`sets.withheld`)."""

TAKEN = ("runs", "tuning", "leaderboard")
"""Folders beside those of the tracks."""


@dataclass(frozen=True)
class Problems:
    """A set of problems, one JSON object a line."""

    file: str
    sha256: str
    each: int
    """Problems of each rung. Of targets: the candidates of each rung, of which those that the start does not solve are
    targets."""
    seed: int = 0
    """The set is made again from it (`python -m tools.arena_tracks`). The held-out side of a domain has none."""


@dataclass(frozen=True)
class Goal:
    """The leaderboard's: answers of the prover until problems of one rung have this pass@1."""

    rung: int
    rate: float
    problems: int
    """Withheld ones, drawn by the seed of the job (`sets.withheld`)."""
    samples: int
    """Answers to each at each measuring point."""
    every: int
    """Rounds between two measuring points."""
    rounds: int
    """The cap: a run that has not arrived by then is not reached."""
    seeds: int
    """Jobs of a submission."""


@dataclass(frozen=True)
class Track:
    """Settings and problems that all contestants share. Each job's file has a digest of them."""

    name: str
    title: str
    """A few words."""
    question: str
    """Its question, in one sentence."""
    recipe: str
    """The start and its settings."""
    settings: Mapping[str, Any]
    """Over the recipe, for all contestants; one may change them."""
    fixed: Mapping[str, Any]
    """Over all of that: rules, ranges, the prover's start, answers a round. A contestant that sets one is refused."""
    rounds: int
    answers: int
    """Of the provers, in all rounds together."""
    updates: int
    """Optimizer steps of the prover. A contestant whose updates follow its right answers may take fewer."""
    rungs: Sequence[int]
    """Those that the score is a mean over."""
    measured: Sequence[int]
    """All rungs of the held-out set."""
    ks: Sequence[int]
    samples: int
    """Answers to each held-out problem."""
    every: int
    """Rounds between two points of the learning curve."""
    curve_each: int
    """Problems of each rung that the curve is measured on: the first ones of the held-out set."""
    sets: Mapping[str, Problems]
    bands: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Of a track over a plane: the second axis (`Domain.axes`) and its values. Each set has as many problems of each
    cell, a rung and a value; the score is the mean over cells, and every point of the curve is ranked."""
    task: int = 0
    """Problems of each scored rung that anchors are drawn from, made by the seed of the job; 0: as the recipe says."""
    contestants: str = ""
    """The track whose contestants' settings count here too; "" for its own."""
    targets: Problems | None = None
    """The fixed set of problems that contestants train on, if the track has one."""
    goal: Goal | None = None
    """That of its leaderboard, if it has one. It is no part of `facts`: no other job is played by it."""
    folder: Path = field(default=FOLDER, compare=False)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Everything that two comparable jobs have in common, as plain data."""
        left_out = {"folder", "title", "question", "contestants", "goal"}
        left_out |= {name for name in ("bands", "task") if not vars(self)[name]}
        settings = {name: value for name, value in dataclasses.asdict(self).items() if name not in left_out}
        plain: dict[str, Any] = json.loads(json.dumps(settings))
        return plain

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a set ("tuning", "held_out", "withheld", "targets"), rung by rung, checked against its sum."""
        asked = self.targets if name == "targets" else self.sets[name]
        assert asked is not None
        path, what = self.folder / asked.file, f"the set '{name}' of track {self.name}"
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(f"{path}, {what}, cannot be read: {error.strerror}.") from None
        if (found := sha256(text.encode()).hexdigest()) != asked.sha256:
            raise DataError(
                f"{path}, {what}, has changed: its checksum is {found[:12]}, not {asked.sha256[:12]}; results on "
                "other problems cannot be compared. Put the file back as it was released, or give the track "
                "another name."
            )
        return [row for _, row in json_lines(path)]

    def problems(self, name: str, domain: Any) -> list[Any]:
        return [domain.problem(row, index) for index, row in enumerate(self.rows(name))]


def tracks(folder: Path = FOLDER) -> Registry[Path]:
    """Name -> file of the shipped tracks."""
    return Registry("track", {path.stem: path for path in sorted(folder.glob("*.yaml"))}, listed_by="arena --list")


def load_track(name: str) -> Track:
    """A shipped track by its name, or one of your own by the path of its YAML file, beside which its sets lie."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else tracks()[name]
    if path.stem in TAKEN:
        raise ConfigError(f"The track {path} has the name of a folder of the arena's own; give it another one.")
    settings = read_yaml(path)
    if not isinstance(settings, dict):
        raise DataError(f"The track {path} holds no settings; take {FOLDER / 'ladder.yaml'} for a pattern.")
    known = {one.name for one in dataclasses.fields(Track)} - {"name", "folder"}
    if unknown := sorted(set(settings) - known):
        raise ConfigError(f"The track {path} has `{unknown[0]}`; its settings are {', '.join(sorted(known))}.")
    try:
        settings["sets"] = {one: Problems(**settings["sets"][one]) for one in SETS}
        if settings.get("targets"):
            settings["targets"] = Problems(**settings["targets"])
        if settings.get("goal"):
            settings["goal"] = Goal(**settings["goal"])
        return Track(name=path.stem, folder=path.parent, **settings)
    except (KeyError, TypeError) as error:
        pattern = FOLDER / "ladder.yaml"
        raise ConfigError(f"The track {path} is not complete: {error}; take {pattern} for a pattern.") from None
