"""Playable tasks of reasoning-gym, and the levels of their settings: from a measured table (gym_tasks.json, made by
`python -m tools.gym_tasks`; docs/gym_tasks.md shows it), restricted by the user."""

import hashlib
import importlib.metadata
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from ..errors import ConfigError, UnknownNameError
from ..options import is_whole
from ..registry import suggestion

TABLE = Path(__file__).with_name("gym_tasks.json")
_PROPOSAL = re.compile(r"(\w+):(?: ([a-z_]+=[0-9]{1,4}(?:, [a-z_]+=[0-9]{1,4})*))?", re.ASCII)


@dataclass(frozen=True)
class Task:
    """Task and its levels: the lowest and the highest of each setting of its curriculum."""

    name: str
    ranges: tuple[tuple[str, int, int], ...]

    @property
    def settings(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.ranges)

    def admits(self, levels: Sequence[int]) -> bool:
        bounds = zip(levels, self.ranges, strict=True)
        return all(low <= level <= high for level, (_, low, high) in bounds)

    @property
    def lowest(self) -> int:
        return sum(low for _, low, _ in self.ranges)

    @property
    def highest(self) -> int:
        return sum(high for _, _, high in self.ranges)

    def written(self, levels: Sequence[int]) -> str:
        """Format a proposal: "chain_sum: num_terms=3, num_digits=1"."""
        levels_text = ", ".join(f"{name}={level}" for name, level in zip(self.settings, levels, strict=True))
        return f"{self.name}: {levels_text}".rstrip()


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """Return the measured table: "reasoning_gym", its version, and "tasks"."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def tasks_of(names: str | Sequence[str], levels: Mapping[str, Any] | None) -> tuple[Task, ...]:
    """Return the tasks of a mixture. Raises ConfigError for one that is not playable, and for unknown levels."""
    requested = [names] if isinstance(names, str) else list(names)
    check_installed()
    of_task = _levels_by_task(requested, levels or {})
    return tuple(_task(name, of_task.get(name, {})) for name in requested)


def check_installed() -> None:
    """Raise ConfigError without the table's version of reasoning-gym: another one makes other problems."""
    measured = table()["reasoning_gym"]
    cure = "`pip install 'countdown-selfplay[gym]'`"
    try:
        installed = importlib.metadata.version("reasoning-gym")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"The domain 'reasoning_gym' needs reasoning-gym, which is not installed; {cure}.") from None
    if installed != measured:
        raise ConfigError(
            f"The domain 'reasoning_gym' plays the problems of reasoning-gym {measured}, and {installed} is "
            f"installed, which may make others; {cure}."
        )


def digest_of(files: Sequence[str]) -> str:
    """Return the digest of files of the installed reasoning-gym."""
    package = importlib.metadata.distribution("reasoning-gym")
    read = (Path(str(package.locate_file(f"reasoning_gym/{file}"))).read_bytes() for file in files)
    return hashlib.blake2b(b"\0".join(read), digest_size=12).hexdigest()


def check_read(name: str, scorer: Mapping[str, Any] | None) -> None:
    """Raise ConfigError unless a task's scorer is ours, or unchanged since its review: some of reasoning-gym execute
    texts of models. scorer: {"ours": true}, or its "files" and their "digest"."""
    if scorer is not None and (scorer.get("ours") or scorer["digest"] == digest_of(scorer["files"])):
        return
    what = "has not been read" if scorer is None else f"({', '.join(scorer['files'])}) is not the one that was read"
    raise ConfigError(
        f"The task '{name}' of reasoning-gym is not played: its scorer {what}, and a scorer may run what a model "
        "writes; reinstall reasoning-gym (`pip install --force-reinstall --no-deps 'reasoning-gym=="
        f"{table()['reasoning_gym']}'`), or choose another task."
    )


def _task(name: str, levels: Mapping[str, Any]) -> Task:
    known = table()["tasks"]
    if name not in known:
        raise UnknownNameError(
            f"reasoning-gym has no task '{name}'.{suggestion(name, list(known))} docs/gym_tasks.md lists all "
            f"{len(known)}."
        )
    row = known[name]
    if row["refused"]:
        raise ConfigError(
            f"The task '{name}' of reasoning-gym is not played: {row['refused']} (docs/gym_tasks.md); choose another."
        )
    check_read(name, row.get("scorer"))
    limits = {setting: high for setting, (high, _) in row["knobs"].items()}
    for setting in levels:
        if setting not in limits:
            has = f"its settings are {', '.join(limits)}" if limits else "it has no settings"
            raise ConfigError(
                f"`levels` has {setting}, which is not a setting of the task '{name}': {has}."
                f"{suggestion(str(setting), list(limits))}"
            )
    return Task(name, tuple((s, *_range(name, s, levels.get(s, [0, high]), high)) for s, high in limits.items()))


def _range(task: str, setting: str, given: Any, high: int) -> tuple[int, int]:
    pair = given if isinstance(given, list | tuple) else [given, given]
    if len(pair) != 2 or not all(is_whole(one, 0) for one in pair) or not pair[0] <= pair[1] <= high:
        raise ConfigError(
            f"`levels` gives {setting} of the task '{task}' {json.dumps(given, default=str)}, and its levels are 0 to "
            f"{high}; give one, or the lowest and the highest, such as [0, {min(high, 2)}]."
        )
    return pair[0], pair[1]


def _levels_by_task(names: Sequence[str], levels: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Normalise `levels`: {setting: range} of a single task, {task: {setting: range}} of a mixture
    or a single task."""
    nested = [isinstance(value, Mapping) for value in levels.values()]
    if not any(nested) and len(set(names)) == 1:
        return {names[0]: levels}
    for task, given in levels.items():
        if task not in names or not isinstance(given, Mapping):
            raise ConfigError(
                f"`levels` ({json.dumps(dict(levels), default=str):.80}) of the tasks {', '.join(names)} must be a "
                f'mapping for each, such as {{"{names[0]}": {{"setting": [0, 2]}}}}.'
            )
    return dict(levels)


def read_proposal(text: str) -> tuple[str, dict[str, int]] | None:
    """Return the task and the levels in a proposal, None for any other text."""
    match = _PROPOSAL.fullmatch(text.strip())
    if match is None:
        return None
    pairs = [one.split("=") for one in match[2].split(", ")] if match[2] else []
    levels = {name: int(level) for name, level in pairs if level == str(int(level))}
    return (match[1], levels) if len(levels) == len(pairs) else None


@lru_cache(maxsize=64)
def levels_of_sum(task: Task, total: int) -> tuple[tuple[int, ...], ...]:
    every = product(*(range(low, high + 1) for _, low, high in task.ranges))
    return tuple(levels for levels in every if sum(levels) == total)
