"""Flat names of settings that belong to one part: flags, YAML keys and keyword arguments such as `operands` or
`prover_beta`. `place` puts them into the field of their part, `spread` writes them out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..games.settings import Settings
from ..options import hints_of, json_object
from .countdown_fields import ProposedCountdown
from .fields import Client, Thresholds
from .roles import FIELDS, FLAT, Role, flat_name, parsed_roles

PARTS: dict[str, tuple[type, str, str]] = {
    "domain_kwargs": (ProposedCountdown, "", "Problems and prompts"),
    "game_kwargs": (Settings, "", "Rounds: proposals, rewards, anchors"),
    "guard_trips": (Thresholds, "guard_", "Collapse guard"),
    "vllm_client": (Client, "vllm_", "Generation backend"),
}
"""Field -> what it holds, the beginning of the flat names, and the section of --help."""


@dataclass(frozen=True)
class FlatName:
    """A setting under its flat name."""

    name: str
    section: str
    """Of --help."""
    into: str
    """The field that holds it: one of PARTS, or roles."""
    key: str
    """Its name there; of `roles` that of the setting."""
    type: Any
    field: dataclasses.Field[Any]
    """Its default; its help without a kind of role."""
    kind: str = ""
    """Under `roles`: the kind of role."""

    @property
    def help(self) -> str:
        text = _WORDS.get(self.name, str(self.field.metadata["help"])).replace("{role}", self.kind)
        return f"{text} Default: {self.usual}." if self.kind and self.key == "objective" else text

    @property
    def usual(self) -> Any:
        """The value that acts where none is given."""
        made = self.field.default_factory
        return self.field.default if made is dataclasses.MISSING else made()

    @property
    def default(self) -> Any:
        """Of a flag. Of a role's setting None: it is not given."""
        return None if self.kind else self.usual


_WORDS = {
    "conjecturer_players": "How many conjecturers there are; several are called conjecturer/0, conjecturer/1 and so "
    "on. 0: none; the round is single-policy RL on the anchor problems.",
    "prover_num_generations": "Answers sampled per problem. None: num_generations.",
    "conjecturer_num_generations": "Proposals sampled per conjecturer prompt. None: num_generations.",
    "prover_max_completion_length": "Most tokens in an answer. None: max_completion_length.",
    "conjecturer_max_completion_length": "Most tokens in a proposal. None: max_completion_length.",
}


def _declared() -> dict[str, FlatName]:
    found = []
    for into, (part, prefix, section) in PARTS.items():
        own = [f for f in dataclasses.fields(part) if "help" in f.metadata]
        found += [FlatName(f"{prefix}{f.name}", section, into, f.name, hints_of(part)[f.name], f) for f in own]
    for kind in FLAT:
        for name, field in FIELDS.items():
            hint = _AS_TEXT.get(name, hints_of(Role)[name] | None)
            found.append(FlatName(f"{kind}_{name}", f"The {kind}", "roles", name, hint, field, kind))
    return {one.name: one for one in found}


_AS_TEXT: dict[str, Any] = {
    "objective_kwargs": dict | str | None,
    "stop": list | str | None,
    "each": list | str | None,
}
"""Settings that the command line writes as JSON."""
NAMES = _declared()
"""Every flat name."""


def place(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with those under a flat name in the field of their part; there they win over what is in it."""
    found = {name: value for name, value in settings.items() if name not in NAMES}
    for name, value in settings.items():
        flat = NAMES.get(name)
        if flat is None:
            continue
        if flat.kind:
            if value is not None:
                found["roles"] = roles = parsed_roles(found.get("roles"))
                roles[flat.kind] = {**roles.get(flat.kind, {}), flat.key: value}
        else:
            found[flat.into] = {**json_object(flat.into, found.get(flat.into)), flat.key: value}
    return found


def spread(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The contrary of `place`, for all but `roles`: a recipe and a command line may write a setting either way."""
    found = dict(settings)
    for into in PARTS:
        if found.get(into) is None or into not in found:
            continue
        held = json_object(into, found.pop(into))
        flat = {one.key: name for name, one in NAMES.items() if one.into == into}
        found |= {flat[key]: value for key, value in held.items() if key in flat and flat[key] not in settings}
        rest = {key: value for key, value in held.items() if key not in flat}
        found |= {into: rest} if rest else {}
    return found


def how_written(settings: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """(kind of role, setting) -> the name under which the user wrote it: `prover_beta`, or `roles.guide.beta`."""
    inside = parsed_roles(settings.get("roles"))
    found = {(kind, s): f"roles.{kind}.{s}" for kind, own in inside.items() for s, v in own.items() if v is not None}
    names = {flat_name(name): name for name, value in settings.items() if value is not None}
    return found | {key: name for key, name in names.items() if key is not None}
