"""Visible dictionaries of plug-ins: `REGISTRY[name]` with an error that suggests the nearest name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeVar

from .errors import ConfigError, UnknownNameError

T = TypeVar("T")


def suggestion(name: str, known: list[str]) -> str:
    """ " Did you mean 'x'?" if a known name is close, else ""."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def nearest(name: str, known: list[str]) -> str:
    """A phrase that ends an "unknown name" sentence: the nearest known name if one is close, then all of them."""
    return f"{suggestion(name, known)} Known names: {', '.join(sorted(known))}."


class Registry(dict[str, T]):
    """A dict of plug-ins by name. `kind` is the word used in errors, e.g. "conjecturer reward"."""

    def __init__(self, kind: str, entries: dict[str, T] | None = None) -> None:
        super().__init__(entries or {})
        self.kind = kind

    def __missing__(self, name: str) -> T:
        raise UnknownNameError(f"Unknown {self.kind} '{name}'.{nearest(str(name), list(self))}")

    def load(self, name: str) -> Any:
        """The entry of that name; a text, "module:Class", is imported."""
        entry: Any = self[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            entry = getattr(import_module(module), attribute)
        return entry

    def check(self, name: str, arguments: Mapping[str, Any]) -> None:
        """ConfigError for arguments that the entry does not take, or lacks."""
        parameters = inspect.signature(self.load(name)).parameters.values()
        takes = {p.name: p.default for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        what = f"{self.kind[0].upper()}{self.kind[1:]} '{name}'"
        allowed = f"it takes {', '.join(takes) or 'no argument'}"
        any_name = any(p.kind == p.VAR_KEYWORD for p in parameters)
        unknown = [] if any_name else [key for key in arguments if key not in takes]
        if unknown:
            raise ConfigError(f"{what} does not take {', '.join(unknown)}; {allowed}.")
        absent = [key for key, default in takes.items() if default is inspect.Parameter.empty and key not in arguments]
        if absent:
            raise ConfigError(f"{what} needs {', '.join(absent)}; {allowed}.")

    def make(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The entry called with `arguments`; ConfigError for those, and for values, that it does not take."""
        arguments = arguments or {}
        self.check(name, arguments)
        try:
            return self.load(name)(**arguments)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.kind[0].upper()}{self.kind[1:]} '{name}': {error}") from None
