"""Registries of plug-ins: `REGISTRY[name]` with an error that suggests the nearest name."""

import difflib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MinLen

from .errors import ConfigError, UnknownNameError, shortened
from .packages import need

T = TypeVar("T")

Count = Annotated[int, Ge(1)]
Amount = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
"""Annotations of arguments of parts, which `Registry.make` checks and `described` describes."""

_ROWS = ("micro_batches", "samples_per_round")
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
    **{f"{role}{name}": "problems_per_round" for role in ("", "prover_") for name in _ROWS},
    **{f"conjecturer_{name}": "proposals_per_round" for name in _ROWS},
}
"""Map of setting names elsewhere and in earlier versions to those here, for names that are not similar in spelling."""


def suggestion(name: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?" if a known name is close or a synonym in ELSEWHERE; else ""."""
    dashes, plain = name[: len(name) - len(name.lstrip("-"))], name.lstrip("-")
    other = [plain[: -len(word)] + own for word, own in ELSEWHERE.items() if f"_{plain}".endswith(f"_{word}")]
    close = [f"{dashes}{own}" for own in other if f"{dashes}{own}" in known]
    if not close and plain not in ELSEWHERE:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def nearest(name: str, known: list[str]) -> str:
    """Return the end of an "unknown name" message: the nearest known name if one is close, then all of them."""
    return f"{suggestion(name, known)} Known names: {', '.join(sorted(known))}."


class Registry(dict[str, T]):
    """Dict of plug-ins by name. `kind`: word in errors, e.g. "conjecturer reward". An entry may be a text
    "module:attribute", which `load` imports. `listed_by`: command that errors name in place of a list of all
    names."""

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
        """Return the entry called `name`, or the imported object of a name such as my_module:MyClass. Raises
        UnknownNameError, which suggests the nearest name, and ConfigError if a module cannot be imported."""
        entry = name if name not in self and ":" in name else self[name]
        if not isinstance(entry, str):
            return entry
        module, _, attribute = entry.partition(":")
        if name in self:
            need(module, f"The {self.kind} '{name}'")
        try:
            loaded = import_module(module)
        except Exception as error:  # a user's module may raise anything
            if name in self:
                raise
            raise ConfigError(
                f"The {self.kind} '{name}' cannot be imported ({type(error).__name__}: {error}); the module "
                f"'{module}' must lie in the current folder or be installed."
            ) from error
        if not hasattr(loaded, attribute):
            close = suggestion(attribute, [known for known in dir(loaded) if not known.startswith("_")])
            raise UnknownNameError(f"The {self.kind} '{name}' does not exist: '{module}' has no '{attribute}'.{close}")
        return getattr(loaded, attribute)

    def parameters(self, name: str, entry: Any) -> dict[str, inspect.Parameter]:
        """Return the keyword parameters of the entry called `name`. Raises ConfigError if it is not callable."""
        try:
            accepted = inspect.signature(entry).parameters
        except (TypeError, ValueError):
            raise ConfigError(
                f"The {self.kind} '{name}' is {entry!r:.60}, which cannot be built; name a class or function of a "
                "module, as in my_module:MyClass."
            ) from None
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return {n: p for n, p in accepted.items() if p.kind not in several}

    def make(self, name: str, arguments: Mapping[str, Any] | None = None, **defaults: Any) -> Any:
        """Build the entry called `name` with `arguments`, and those of `defaults` that it takes. Raises
        ConfigError for an unknown or missing argument, for a value that does not fit its annotation, and for one
        that the entry refuses."""
        entry, arguments, title = self.load(name), arguments or {}, self.kind.capitalize()
        takes = self.parameters(name, entry)
        allowed = ", ".join(takes) or "no argument"
        unknown = [str(key) for key in arguments if key not in takes]
        if unknown:
            close = suggestion(unknown[0], list(takes))
            raise ConfigError(f"{title} '{name}' does not take {', '.join(unknown)}; it takes {allowed}.{close}")
        given = {key: value for key, value in defaults.items() if key in takes} | dict(arguments)
        absent = [key for key, one in takes.items() if one.default is one.empty and key not in given]
        if absent:
            raise ConfigError(f"{title} '{name}' needs {', '.join(absent)}; it takes {allowed}.")
        hints = annotations_of(entry)
        for key, value in given.items():
            if key in hints and not fits(value, hints[key]):
                default = takes[key].default
                cure = "" if default is inspect.Parameter.empty else f"; leave it out for {in_yaml(default)}"
                shown = shortened(repr(value), 100)
                raise ConfigError(f"`{key}` ({shown}) of {self.kind} '{name}' must be {described(hints[key])}{cure}.")
        try:
            return entry(**given)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{title} '{name}': {error}") from None


def annotations_of(entry: Any) -> dict[str, Any]:
    """Return the evaluated annotations by argument; {} if that fails, as for names of `if TYPE_CHECKING`."""
    hints: dict[str, Any] = {}
    for owner in (entry, entry.__init__) if isinstance(entry, type) else (entry,):  # type: ignore[misc]
        try:
            hints |= get_type_hints(owner, include_extras=True)
        except (NameError, AttributeError, TypeError):
            continue
    return hints


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has the annotated type and range, strictly: True and 3.0 are not integers. A list from
    YAML fits a tuple, a text an enumeration. Annotations unknown to pydantic admit anything."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False))
    except PydanticUserError:
        return True
    try:
        adapter.validate_python(value)
    except ValidationError:
        try:  # pydantic's rules for JSON are those for YAML too
            adapter.validate_json(json.dumps(value, default=lambda number: number.item()))
        except (ValidationError, AttributeError, TypeError, ValueError, RecursionError):
            return False
    return True


_WORDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_WORDS |= {NoneType: "null", Callable: "a function"}


def described(hint: Any) -> str:
    """Describe an annotation: "a whole number of at least 1", "true or false", "a number from 0 to 1 or null"."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        return f"{described(arguments[0])}{_limits(arguments[1:])}"
    if origin in (Union, UnionType):
        return " or ".join(map(described, arguments))
    if origin is Literal:
        return f"one of {', '.join(map(in_yaml, arguments))}"
    if origin in _WORDS:
        return _WORDS[origin]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return 'a mapping, or a JSON object such as {"name": "value"}'
    if isinstance(origin, type) and issubclass(origin, Sequence):
        each = [one for one in arguments[:1] if one is not Any]
        return f"a list, each entry {described(each[0])}" if each else "a list"
    return str(getattr(origin, "__name__", origin))


def _limits(bounds: Sequence[Any]) -> str:
    low = next((one.ge for one in bounds if isinstance(one, Ge)), None)
    high = next((one.le for one in bounds if isinstance(one, Le)), None)
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"  # type: ignore[str-format]
    words = {Ge: "of at least", Gt: "above", Le: "of at most", Lt: "below"}
    texts = [
        f"{words[type(one)]} {getattr(one, type(one).__name__.lower()):g}" for one in bounds if type(one) in words
    ]
    return (
        " " + " and ".join(texts) if texts else ", that is not empty" * any(isinstance(one, MinLen) for one in bounds)
    )


def in_yaml(value: Any) -> str:
    """Return a value as YAML text, or "the default" if JSON cannot express it."""
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except TypeError:
        return "the default"
