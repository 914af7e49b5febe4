"""Check that the installed TRL and Transformers have every private name of _trl.py where this library expects it."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import trl
from transformers import Trainer
from trl import GRPOTrainer

from . import _trl
from .errors import ConfigError


def check_seam() -> None:
    """Raise ConfigError if the installed TRL or Transformers lacks a name, parameter or output key that this library
    uses, or if TRL is older than OLDEST. The message lists up to three missing names."""
    found = moved_names(GRPOTrainer, _source(GRPOTrainer), _source(Trainer))
    old = tuple(map(int, re.findall(r"\d+", trl.__version__)[:2])) < _trl.OLDEST
    if found or old:
        floor = ".".join(map(str, _trl.OLDEST))
        shown = found[:3] + ([f"and {len(found) - 3} more"] if len(found) > 3 else [])
        why = "; ".join(shown) if found else f"it is older than {floor}, the first one that is tested"
        raise ConfigError(
            f"TRL {trl.__version__} does not fit this version of countdown-selfplay: {why}; install another one, such "
            f'as `pip install "trl=={floor}.*"`.'
        )


def moved_names(trainer: type, source: str, base_source: str) -> list[str]:
    """Return a phrase for each missing or changed private name. `trainer`: GRPOTrainer. `source`, `base_source`: text
    of the files of GRPOTrainer and Trainer; "": names that need the text are not checked."""
    found = [phrase for path, wanted in _trl.IMPORTED.items() if (phrase := _moved_import(path, wanted))]
    for wanted_by, exact in ((_trl.OVERRIDDEN, True), (_trl.CALLED, False)):
        for name, wanted in wanted_by.items():
            taken = _parameters(getattr(trainer, name, None))
            if taken is None:
                found.append(f"`GRPOTrainer.{name}` is gone")
            elif (taken if exact else taken[: len(wanted)]) != wanted:
                found.append(f"`GRPOTrainer.{name}` takes ({', '.join(taken[1:])}) and not ({', '.join(wanted[1:])})")
    if source:
        attributes = [name for name in (*_trl.ATTRIBUTES, *_trl.SAMPLING_SWITCHES) if f"self.{name}" not in source]
        found += [f"`GRPOTrainer.{name}` is gone" for name in attributes]
        logs = [name for name in _trl.COMPLETION_LOGS if f'self._logs["{name}"]' not in source]
        found += [f"`GRPOTrainer._logs` has no '{name}'" for name in logs]
        keys = [key for key in _trl.ROLLOUT_KEYS if f'"{key}"' not in source]
        found += [f"`_generate_and_score_completions` returns no '{key}'" for key in keys]
    if base_source:
        lost = [name for name in _trl.LOSS_SINCE_LOG if f"self.{name} = " not in base_source]
        lost += [] if f"def {_trl.RESUMED_BY}(" in base_source else [_trl.RESUMED_BY]
        found += [f"`Trainer.{name}` of Transformers is gone" for name in lost]
    return found


def _moved_import(path: str, wanted: tuple[str, ...]) -> str:
    """Return a phrase if `path` cannot be imported or called, or lacks a parameter of `wanted`; else ""."""
    module, _, name = path.rpartition(".")
    try:
        taken = _parameters(getattr(importlib.import_module(module), name, None))
    except ImportError:
        taken = None
    if taken is None:
        return f"`{path}` is gone"
    lost = [parameter for parameter in wanted if parameter not in taken]
    return f"`{path}` takes no {', '.join(lost)}" if lost else ""


def _parameters(function: Any) -> tuple[str, ...] | None:
    return tuple(inspect.signature(inspect.unwrap(function)).parameters) if callable(function) else None


def _source(one: type) -> str:
    """Return the source of the file that declares a class; "" if only its bytecode is installed."""
    path = Path(inspect.getfile(one))
    return path.read_text(encoding="utf-8") if path.suffix == ".py" and path.exists() else ""
