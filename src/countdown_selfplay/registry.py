"""Visible dictionaries of plug-ins: `REGISTRY[name]` with an error that suggests the nearest name."""

from __future__ import annotations

import difflib
from typing import TypeVar

from .errors import UnknownNameError

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
