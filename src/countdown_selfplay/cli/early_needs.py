"""What a run needs on its machine and can be looked up before torch loads: its trackers, and the weights and data that
it starts from."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import yaml

from ..config.recipes import recipes
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
_STARTS = ("model_name_or_path", "conjecturer_model_name_or_path", "conjecturer_model", "dataset_name")


def check_needs(command: str, kind: str, argv: list[str]) -> None:
    """ConfigError for an upload that is not supported, a tracker that is not installed, and, in the words of the
    command itself, a start that was not made yet. `kind`: the command whose recipes it reads. A dry run plans for
    another machine and needs none of them."""
    if _truth(flag_value(argv, "--dry_run"), has_flag(argv, "--dry_run")):
        return
    found = _settings(command, kind, argv)
    if found.get("push_to_hub"):
        raise ConfigError(
            "`push_to_hub` (True) is not supported: a checkpoint may hold several policies; after training upload "
            "them with `countdown-selfplay push <output_dir>`."
        )
    asked = found.get("report_to") or []
    for name in [asked] if isinstance(asked, str) else asked:
        own = PACKAGES.get(name, ())
        if own and not any(importlib.util.find_spec(package) for package in own):
            raise ConfigError(
                f"`report_to` ({name}) cannot be used here: {own[0]} is not installed; run `pip install {own[0]}`, or "
                "pass --report_to none."
            )
    check_starts(*(str(found[name]) for name in _STARTS if found.get(name)))


def _settings(command: str, kind: str, argv: list[str]) -> dict[str, Any]:
    """Those that are looked at: recipe < file < flags. A recipe that does not exist has been refused."""
    wanted = (*_STARTS, "push_to_hub", "report_to")
    path, _ = split_config(argv)
    known = recipes(kind)
    written = {} if path is None else read_settings(path, list(known))
    name = flag_value(argv, "--recipe") or written.get("recipe")
    if name is None and path is None and not has_flag(argv, "--model_name_or_path"):
        name = SYSTEMS[command].recipe if command in SYSTEMS else None
        name = _OF_CDG[kind] if command == "cdg" else name
    below: dict[str, Any] = {}
    while name is not None and name in known:
        one = yaml.safe_load(known[name].read_text(encoding="utf-8"))
        below = {**one, **below}
        name = one.get("recipe")
    flags: dict[str, Any] = {word: flag_value(argv, f"--{word}") for word in wanted if has_flag(argv, f"--{word}")}
    if "push_to_hub" in flags:
        flags["push_to_hub"] = _truth(flags["push_to_hub"], True)
    return {word: value for word, value in {**below, **written, **flags}.items() if word in wanted}


def _truth(word: str | None, default: bool) -> bool:
    """As Transformers reads a flag of two values; `default` for a flag without a value."""
    return default if word is None or word.lower() not in TRUTHS else word.lower() in TRUTHS[:5]
