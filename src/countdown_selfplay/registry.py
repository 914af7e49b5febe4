"""Visible dictionaries of plug-ins: `REGISTRY[name]` with an error that suggests the nearest name."""

from __future__ import annotations

import difflib
import inspect
from importlib import import_module
from typing import Any, TypeVar

from .errors import ConfigError, UnknownNameError

T = TypeVar("T")


ELSEWHERE = {
    "model": "model_name_or_path",
    "lr": "learning_rate",
    "batch_size": "per_device_train_batch_size",
    "train_batch_size": "per_device_train_batch_size",
    "bs": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
    "steps": "max_steps",
    "dataset": "dataset_name",
    "output": "output_dir",
    "group_size": "num_generations",
    "max_tokens": "max_completion_length",
    "max_new_tokens": "max_completion_length",
    "kl_coef": "beta",
    "rollouts": "num_generations",
    "wd": "weight_decay",
    "warmup": "warmup_steps",
    "grad_clip": "max_grad_norm",
}
"""What other libraries call a setting, which no likeness of letters leads to."""


def suggestion(name: str, known: list[str]) -> str:
    """ " Did you mean 'x'?" if a known name is close, or is the word here for one of other libraries; else ""."""
    dashes, plain = name[: len(name) - len(name.lstrip("-"))], name.lstrip("-")
    other = [plain[: -len(word)] + own for word, own in ELSEWHERE.items() if f"_{plain}".endswith(f"_{word}")]
    close = [f"{dashes}{own}" for own in other if f"{dashes}{own}" in known]
    if not close and plain not in ELSEWHERE:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def nearest(name: str, known: list[str]) -> str:
    """A phrase that ends an "unknown name" sentence: the nearest known name if one is close, then all of them."""
    return f"{suggestion(name, known)} Known names: {', '.join(sorted(known))}."


class Registry(dict[str, T]):
    """A dict of plug-ins by name. `kind` is the word used in errors, e.g. "conjecturer reward". An entry may be a
    text "module:attribute", which `load` imports. `listed_by`: the command that an error names instead of the known
    names, where these are too many for a line."""

    def __init__(self, kind: str, entries: dict[str, T] | None = None, listed_by: str | None = None) -> None:
        super().__init__(entries or {})
        self.kind, self.listed_by = kind, listed_by

    def __missing__(self, name: str) -> T:
        known = list(self)
        listed = f"{suggestion(str(name), known)} `{self.listed_by}` lists them."
        raise UnknownNameError(
            f"Unknown {self.kind} '{name}'.{listed if self.listed_by else nearest(str(name), known)}"
        )

    def load(self, name: str) -> Any:
        """The entry called `name`; a name of the form my_package.my_module:MyClass is imported as it is.

        UnknownNameError suggests the nearest; ConfigError if the module cannot be imported."""
        entry = name if name not in self and ":" in name else self[name]
        if not isinstance(entry, str):
            return entry
        module, _, attribute = entry.partition(":")
        try:
            found = import_module(module)
        except Exception as error:  # a module of a user's own may raise anything
            if name in self:
                raise
            raise ConfigError(
                f"The {self.kind} '{name}' cannot be imported ({type(error).__name__}: {error}); the module "
                f"'{module}' must lie in the current folder or be installed."
            ) from error
        if not hasattr(found, attribute):
            close = suggestion(attribute, [known for known in dir(found) if not known.startswith("_")])
            raise UnknownNameError(f"The {self.kind} '{name}' does not exist: '{module}' has no '{attribute}'.{close}")
        return getattr(found, attribute)

    def parameters(self, name: str, entry: Any) -> dict[str, inspect.Parameter]:
        """What the entry called `name` takes by name; ConfigError if it cannot be called."""
        try:
            found = inspect.signature(entry).parameters
        except (TypeError, ValueError):
            raise ConfigError(
                f"The {self.kind} '{name}' is {entry!r:.60}, which cannot be built; name a class or function of a "
                "module, as in my_module:MyClass."
            ) from None
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return {n: p for n, p in found.items() if p.kind not in several}

    def make(self, name: str, arguments: dict[str, Any] | None = None, **defaults: Any) -> Any:
        """The entry called `name`, built with `arguments`; of `defaults` it gets those that it takes.

        ConfigError names an argument that it does not take, or a value that it refuses."""
        entry, arguments, title = self.load(name), arguments or {}, self.kind.capitalize()
        takes = list(self.parameters(name, entry))
        unknown = [str(key) for key in arguments if key not in takes]
        if unknown:
            allowed = ", ".join(takes) or "no argument"
            raise ConfigError(f"{title} '{name}' does not take {', '.join(unknown)}; it takes {allowed}.")
        try:
            return entry(**{key: value for key, value in defaults.items() if key in takes} | arguments)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{title} '{name}': {error}") from None
