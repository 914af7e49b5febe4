"""What a run needs on its machine and can be looked up before torch loads: its trackers, and the weights and data that
it starts from."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from ..config.recipes import chain, recipes
from ..config.recipes import written as written_in
from ..errors import ConfigError
from .countdown_options import flag_value, has_flag
from .settings_file import TRUTHS, read_settings, split_config
from .starts import check_starts
from .systems import SYSTEMS

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "clearml": ("clearml",),
    "codecarbon": ("codecarbon",),
    "comet_ml": ("comet_ml",),
    "dvclive": ("dvclive",),
    "mlflow": ("mlflow",),
    "swanlab": ("swanlab",),
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
}
"""Name in `report_to` -> the packages of which it needs one; others are looked for by Transformers."""

_OF_CDG = {"cdg": "tiny/iterated_cdg", "joint": "tiny/cdg"}
"""What `cdg` plays, iterated and online, where nothing is named."""
_FLAGS = ("dry_run", "push_to_hub")
_STARTS = ("model_name_or_path", "conjecturer_model_name_or_path", "conjecturer_model", "dataset_name")


def check_needs(command: str, kind: str, argv: list[str]) -> None:
    """ConfigError for an upload that is not supported, a tracker that is not installed, and, in the words of the
    command itself, a start that was not made yet. `kind`: the command whose recipes it reads. A dry run plans for
    another machine and needs none of them."""
    found = _settings(command, kind, argv)
    if found.get("dry_run"):
        return
    if found.get("push_to_hub"):
        raise ConfigError(
            "`push_to_hub` (True) is not supported: a checkpoint may hold several policies; after training upload "
            "them with `countdown-selfplay push <output_dir>`."
        )
    asked = found.get("report_to") or []
    names = asked if isinstance(asked, list) else [asked]
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"`report_to` ({asked}) must be the name of a tracker, or a list of names; or leave it out.")
    for name in names:
        own = PACKAGES.get(name, ())
        if own and not any(importlib.util.find_spec(package) for package in own):
            raise ConfigError(
                f"`report_to` ({name}) cannot be used here: {own[0]} is not installed; run `pip install {own[0]}`, or "
                "pass --report_to none."
            )
    check_starts(*(str(found[name]) for name in _STARTS if found.get(name)))


def _settings(command: str, kind: str, argv: list[str]) -> dict[str, Any]:
    """Those that are looked at: recipe < file < flags. A recipe that does not exist has been refused."""
    wanted = (*_STARTS, *_FLAGS, "report_to")
    path, _ = split_config(argv)
    known = recipes(kind)
    written = {} if path is None else read_settings(path, list(known))
    name = flag_value(argv, "--recipe") or written.get("recipe")
    if name is None and path is None and not has_flag(argv, "--model_name_or_path"):
        name = SYSTEMS[command].recipe if command in SYSTEMS else None
        name = _OF_CDG[kind] if command == "cdg" else name
    below: dict[str, Any] = {}
    for _, one in chain(name, known, written_in) if name is not None and name in known else ():
        below = {**one, **below}
    given = (word for word in wanted if has_flag(argv, f"--{word}"))
    flags: dict[str, Any] = {word: flag_value(argv, f"--{word}") or "true" for word in given}  # "--dry_run" alone
    found = {word: value for word, value in {**below, **written, **flags}.items() if word in wanted}
    return {word: _truth(value) if word in _FLAGS else value for word, value in found.items()}


def _truth(value: Any) -> bool:
    """As Transformers reads a field of two values, a text in a file too; another flag behind it is not its value."""
    word = str(value).lower()
    return word in TRUTHS[:5] or (value is not None and word not in TRUTHS)
