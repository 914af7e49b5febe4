"""Contestants: what each changes in a track's settings, by name, and a user's own beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from ...config.fields import CountdownArguments, CurriculumFields, RoleFields
from ...config.recipes import over, read_yaml, recipe_settings, spread
from ...config.roles import FIELDS, FLAT, parsed_roles
from ...errors import ConfigError, DataError
from ...registry import Registry
from .tracks import Track

FILE = Path(__file__).parent / "contestants.yaml"
Kind = Literal["control", "contestant", "reference"]
CONTROLS = ("plain", "grpo", "uniform", "random", "frozen", "placebo")
DEFAULT = ("plain", "random", "frozen", "placebo", "bandit", "oracle", "trained")
"""Seven of them, which the arena plays where none is named."""

_DATA = {"dataset_name", "dataset_train_split"}
_MEASURED = {"domain", "domain_kwargs", "answers", "eval_preset", "demonstration_rungs", "format_probe"}
MAY_SET = {f.name for of in (RoleFields, CurriculumFields) for f in fields(of)} - _MEASURED
MAY_SET |= {*_DATA, "conjecturer_prompt", "admit_unsolvable", "reward_funcs", "reward_weights"}
MAY_SET |= {"per_device_train_batch_size"}
MAY_SET |= {"optim", "optim_args", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"}
MAY_SET |= {"lr_scheduler_type", "lr_scheduler_kwargs"}
"""Settings of a contestant besides those of its roles: proposer, rewards, and updates. All others, evaluation
included, are the track's."""
_LEARNS = {*FIELDS} - {"model", "weights", "temperature", "top_p", "top_k", "max_completion_length", "stop", "each"}
"""Of the prover, and of all roles at once."""


def may_set(name: str, track: Track) -> bool:
    """Whether a contestant may give a setting, by its flat name, another value than the track does."""
    role, _, setting = name.partition("_")
    if setting in FIELDS:
        return role != "prover" or setting in _LEARNS
    return (name in MAY_SET and not (name in _DATA and track.targets)) or name in _LEARNS


_OF_A_RUN = {"max_steps", "output_dir", "save_steps", "save_total_limit", "logging_steps", "guard", "seed"}
"""Settings of a recipe that are passed over where it is played as a contestant."""


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
    """Track -> its changes of the track's settings, or a sentence on why it does not play there; "" for all tracks."""
    against: Sequence[str] = CONTROLS
    """Those that it is compared with, beside the best control."""

    def plays(self, track: Track) -> bool:
        """Whether it has settings for the track."""
        return not isinstance(self.own(track), str)

    def own(self, track: Track) -> Mapping[str, Any] | str:
        """Return its changes on the track, listed under its name or its `contestants`, or why it does not play."""
        listed = self.on.get(track.name) or self.on.get(track.contestants or track.name)
        return self.on.get("", "no settings") if listed is None else listed

    def changes(self, track: Track) -> dict[str, Any]:
        """Return its changes on the track, {} if it does not play there."""
        return dict(own) if isinstance(own := self.own(track), Mapping) else {}

    def settings(self, track: Track) -> dict[str, Any]:
        """Return all settings of a run on the track. Raises ConfigError for a contestant that does not play there, and
        for one that changes a `fixed` setting or one that is not its own choice (`may_set`)."""
        from ...config import JointSelfPlayConfig  # loads TRL

        if isinstance(changes := self.own(track), str):
            raise ConfigError(f"{self.name} does not play on the track {track.name}: {changes}.")
        usual = over(recipe_settings(track.recipe), track.settings)
        defaults = {f.name: f.default for f in fields(JointSelfPlayConfig)}
        known = defaults | vars(CountdownArguments()) | usual | {"max_steps": track.rounds}
        for name, value in sorted(flattened(changes).items()):
            role, _, setting = name.partition("_")
            fixed = setting if name not in track.fixed and role in FLAT else name
            if fixed in track.fixed and value != track.fixed[fixed]:
                raise ConfigError(
                    f"{self.name} sets `{name}` ({value}), and on the track {track.name} it is {track.fixed[fixed]} "
                    "for all; leave it out, or write a track with it."
                )
            if fixed not in track.fixed and not may_set(name, track) and value != known.get(name):
                raise ConfigError(
                    f"{self.name} sets `{name}` ({value}), which is for the arena to set: a contestant says who "
                    "proposes what, how that is paid and how its roles learn. Leave it out, or write a track with it."
                )
        return over(over(usual, changes), track.fixed)


def flattened(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting by its flat name, also where a mapping (`domain_kwargs`, `roles`) holds it."""
    flat = spread(settings)
    roles = parsed_roles(flat.pop("roles", None))
    return flat | {f"{kind}_{name}": value for kind, of_role in roles.items() for name, value in of_role.items()}


@cache
def contestants() -> Registry[Contestant]:
    """Those that are shipped, in the order of their file."""
    registry: Registry[Contestant] = Registry("contestant", listed_by="countdown-selfplay arena --list")
    for name, row in yaml.safe_load(FILE.read_text(encoding="utf-8")).items():
        facts = {one: row.pop(one) for one in ("title", "source", "kind", "says", "against") if one in row}
        registry[name] = Contestant(name, **facts, on=row)
    return registry


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
        settings = read_yaml(source)
        if not (isinstance(settings, dict) and all(isinstance(one, str) for one in settings)):
            raise DataError(f"{source}, the settings of {name}, holds no settings; write them as in a recipe.")
    else:
        held = recipe_settings(source)
        settings = {one: value for one, value in held.items() if one not in _OF_A_RUN}
    return Contestant(name, name, source, "contestant", f"A contestant of your own, {source}.", {"": settings})


def table(names: Sequence[str], tracks: Sequence[Track]) -> list[list[str]]:
    """Return contestant x track: whether it plays, or the reason why not."""
    rows = [["contestant", "kind", *(track.name for track in tracks)]]
    for name in names:
        one = contestants()[name]
        cells = [one.own(track) for track in tracks]
        rows.append([name, one.kind, *("yes" if isinstance(cell, dict) else f"no: {cell}" for cell in cells)])
    return rows
