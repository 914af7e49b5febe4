"""Contestants: what each changes in a track's settings, by name, and a user's own beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from ..config import JointSelfPlayConfig
from ..config.recipes import over, recipe_settings
from ..errors import ConfigError, DataError
from ..registry import Registry
from .tracks import Track

FILE = Path(__file__).parent / "contestants.yaml"
Kind = Literal["control", "contestant", "reference"]
CONTROLS = ("plain", "grpo", "uniform", "random", "frozen", "placebo")
DEFAULT = ("plain", "random", "frozen", "placebo", "bandit", "oracle", "trained")
"""Seven of them, which the arena plays where none is named."""


@dataclass(frozen=True)
class Contestant:
    """One row of the arena."""

    name: str
    title: str
    source: str
    """The paper, or where its settings come from."""
    kind: Kind
    says: str
    """One sentence."""
    on: Mapping[str, Mapping[str, Any] | str]
    """Track -> what it changes in the track's settings, or a sentence that says why it does not play there."""
    against: Sequence[str] = CONTROLS
    """Those that it is compared with, beside the best control."""

    def plays(self, track: Track) -> bool:
        """Whether it has settings for the track."""
        return not isinstance(self.on.get(track.settings_of, ""), str)

    def settings(self, track: Track) -> dict[str, Any]:
        """All settings of a run on the track; those of the track that are `fixed` may not be changed. ConfigError for
        a contestant that changes one, or that does not play there."""
        own = self.on.get(track.settings_of, f"{self.name} has no settings for it")
        if isinstance(own, str):
            raise ConfigError(f"{self.name} does not play on the track {track.name}: {own}.")
        changed = {name for name in track.fixed if name in own and own[name] != track.fixed[name]}
        if changed:
            name = sorted(changed)[0]
            raise ConfigError(
                f"{self.name} sets `{name}` ({own[name]}), and on the track {track.name} it is {track.fixed[name]} "
                "for all; leave it out, or write a track with it."
            )
        below = recipe_settings(track.recipe, JointSelfPlayConfig)
        for above in (dict(track.settings), dict(own), dict(track.fixed)):
            below = over(below, above, JointSelfPlayConfig)
        return below


@cache
def contestants() -> Registry[Contestant]:
    """Those that are shipped, in the order of their file."""
    found: Registry[Contestant] = Registry("contestant", listed_by="countdown-selfplay arena --list")
    for name, row in yaml.safe_load(FILE.read_text(encoding="utf-8")).items():
        facts = {one: row.pop(one) for one in ("title", "source", "kind", "says", "against") if one in row}
        found[name] = Contestant(name, **facts, on=row)
    return found


def entrant(word: str) -> Contestant:
    """A contestant by its name; NAME=FILE.yaml or NAME=RECIPE is one of a user's own, with the settings of the file or
    the recipe over those of the track it plays on."""
    name, equals, source = word.partition("=")
    if not equals:
        return contestants()[name]
    if name in contestants():
        raise ConfigError(f"{name} is a contestant of the arena; give yours another name than in '{word}'.")
    if not name.isidentifier():
        raise ConfigError(f"The name in '{word}' must be a word of letters, digits and _ .")
    if source.endswith((".yaml", ".yml")):
        try:
            settings = yaml.safe_load(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"{source}, the settings of {name}, cannot be read: {error.strerror}.") from None
        except yaml.YAMLError as error:
            raise DataError(f"{source}, the settings of {name}, is not YAML: {str(error).splitlines()[0]}.") from None
        if not isinstance(settings, dict):
            raise DataError(f"{source}, the settings of {name}, holds no settings; write them as in a recipe.")
    else:
        settings = recipe_settings(source, JointSelfPlayConfig)
        settings.pop("output_dir", None)
    return Contestant(name, name, source, "contestant", f"A contestant of your own, {source}.", _Everywhere(settings))


class _Everywhere(dict[str, Any]):
    """The same settings on every track."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = settings

    def get(self, key: str, default: Any = None) -> Any:
        return self.settings


def table(names: Sequence[str], tracks: Sequence[Track]) -> list[list[str]]:
    """Contestant x track: what is played, and what does not apply, with its reason."""
    rows = [["contestant", "kind", *(track.name for track in tracks)]]
    for name in names:
        one = contestants()[name]
        cells = [one.on.get(track.settings_of, "no settings") for track in tracks]
        rows.append([name, one.kind, *("yes" if isinstance(cell, dict) else f"no: {cell}" for cell in cells)])
    return rows
