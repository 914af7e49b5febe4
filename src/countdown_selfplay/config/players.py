"""From `roles` and the flat fields to the players of a run and what each of them trains and samples with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from ..errors import ConfigError
from ..games import game_class
from ..objectives import make_objective
from ..registry import nearest
from .number_checks import check_number
from .roles import EACH, FIELDS, FLAT, TYPES, RoleConfig, is_given

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig

START = "start"
"""`weights` of a role that plays what was passed in and is never trained."""

_PLAIN = (
    *("num_generations", "learning_rate", "warmup_steps", "max_grad_norm", "beta", "entropy_coef", "entropy_target"),
    *("temperature", "top_p", "top_k", "max_completion_length", "vllm_server_base_url"),
    *("kl_estimator", "kl_reduction", "sequences_per_step"),
)
"""Settings that fall back on the plain field of that name."""


@dataclass(frozen=True)
class RoleSettings:
    """What a player trains and samples with, every fallback resolved. Units as in the config fields of the same
    names. Players of one kind differ in name and weights, and in what `each` says."""

    role: str
    """The player's name: the kind, or kind/0, kind/1 and so on where it has several players."""
    objective: str
    micro_batches: int
    num_generations: int
    learning_rate: float
    warmup_steps: float
    max_grad_norm: float
    beta: float
    entropy_coef: float
    temperature: float
    top_p: float
    top_k: int
    max_completion_length: int
    objective_kwargs: dict[str, Any] = field(default_factory=dict)
    samples_per_round: int | None = None
    """None: what the micro-batches hold."""
    sequences_per_step: int = 0
    """Trained sequences of an optimizer step, over all processes; 0: equal parts of all samples."""
    sft_coef: float = 0.0
    demonstrations_per_step: int = 0
    entropy_target: float | None = None
    """None: the coefficient is constant."""
    entropy_coef_delta: float = 0.005
    entropy_coef_min: float = 0.0
    entropy_coef_max: float = 1.0
    kl_in: str = "loss"
    kl_estimator: str = "k3"
    kl_reduction: str = "sum"
    soft_overlong: float = 0.0
    """Last share of its length over which the credit is replaced (`overlong`); 0: nowhere."""
    # Of a sampler that is not the trained model itself; as TRL's vllm_importance_sampling_* fields.
    sampler_correction: bool = True
    sampler_correction_mode: str = "sequence_mask"
    sampler_correction_min: float | None = None
    sampler_correction_max: float | None = 3.0
    kind: str = ""
    """What it is in the game."""
    weights: str | None = None
    """Name of the weights that it plays. None: those that were passed in, frozen."""
    trained: bool = True
    model: str | None = None
    """What its weights start from. None: the run's model."""
    stop: tuple[str, ...] | None = None
    """Texts that end a sample. None: the domain's."""
    vllm_server_base_url: str | None = None
    replayed_rounds: int = 1
    """Rounds of samples that one of its steps has room for (`all_kept`)."""

    @property
    def trained_micro_batches(self) -> int:
        """Micro-batches of the player in an optimizer step."""
        return self.micro_batches * self.replayed_rounds

    @property
    def player(self) -> str:
        return self.role

    def stops(self, domain: Any) -> list[str] | None:
        """The texts that end a sample in `domain`."""
        return domain.stop_strings(self.kind or self.role) if self.stop is None else list(self.stop)


def kinds_of(game: str) -> tuple[str, ...]:
    """The kinds of roles that the game of that name has, in the order in which their players are listed."""
    return tuple(game_class(game).roles)


def parsed_roles(given: Any) -> dict[str, dict[str, Any]]:
    """The field `roles` as {kind: {setting: value}}; ConfigError unless it is that, with settings that exist."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        found = given
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"`roles` ({given!r}) must be a mapping from roles to their settings, such as "
            '{"prover": {"players": 4}}.'
        )
    roles = {}
    for kind, settings in found.items():
        if not isinstance(settings, Mapping | None):
            raise ConfigError(f"`roles.{kind}` ({settings!r}) must map settings to values, such as {{players: 4}}.")
        roles[str(kind)] = dict(settings or {})
        for name in roles[str(kind)]:
            if name not in FIELDS:
                raise ConfigError(
                    f"`roles.{kind}.{name}` is not a setting of a role.{nearest(str(name), list(FIELDS))}"
                )
    return roles


def field_of(config: JointSelfPlayConfig, kind: str, setting: str) -> str:
    """The setting's name as the user wrote it, or would: `prover_beta`, or `roles.guide.beta`."""
    flat = f"{kind}_{setting}"
    in_roles = setting in config._asked.get(kind, {})
    return flat if kind in FLAT and (flat in config._flat or not in_roles) else f"roles.{kind}.{setting}"


def was_given(config: JointSelfPlayConfig, kind: str, setting: str) -> bool:
    """Did the user write it, in either way?"""
    return f"{kind}_{setting}" in config._flat or config._asked.get(kind, {}).get(setting) is not None


def role_config(config: JointSelfPlayConfig, kind: str) -> RoleConfig:
    """The settings of a kind as they stand: the flat fields over `roles`, numbers as numbers."""
    roles: Any = config.roles or {}
    values = dict(roles.get(kind, {}))
    if kind in FLAT:
        values |= {s: getattr(config, f"{kind}_{s}") for s in FIELDS if is_given(config, f"{kind}_{s}")}
    if kind == "prover" and values.get("micro_batches") is None:
        values["micro_batches"] = int(config.prover_micro_batches)
    found = {s: _typed(config, kind, s, value) for s, value in values.items() if value is not None}
    return RoleConfig(**found)


def _typed(config: JointSelfPlayConfig, kind: str, setting: str, value: Any) -> Any:
    """YAML reads 1e-6 as a text, and JSON 8.0 as no whole number."""
    kinds = get_args(TYPES[setting]) or (TYPES[setting],)
    words = "a text"
    if setting == "stop":
        texts = _texts(value)
        if texts is not None:
            return texts
        words = 'a text, or a list of texts such as ["</answer>"]'
    elif setting == "each":
        return value  # read by each_of
    elif dict in kinds:
        try:
            return dict(json.loads(value) if isinstance(value, str) else value)
        except (TypeError, ValueError, RecursionError):
            words = 'a JSON object, such as {"k": 4}'
    elif str in kinds and isinstance(value, str):
        return value
    elif str not in kinds:
        words = "a whole number" if int in kinds else "a number"
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = None
        if number is not None and not isinstance(value, bool) and (float in kinds or number.is_integer()):
            return value if isinstance(value, int | float) and type(value) in kinds else kinds[0](number)
    raise ConfigError(f"`{field_of(config, kind, setting)}` ({value!r}) must be {words}.")


def _texts(value: Any) -> list[str] | None:
    """A text, a list of them or its JSON as a list; None for anything else."""
    try:
        listed = json.loads(value) if isinstance(value, str) and value.startswith("[") else value
    except (ValueError, RecursionError):
        return None
    listed = [listed] if isinstance(listed, str) else listed
    fits = isinstance(listed, list | tuple) and all(isinstance(text, str) and text for text in listed)
    return list(listed) if fits else None


def players_of(kind: str, role: RoleConfig) -> tuple[str, ...]:
    """The names of a kind's players. A conjecturer without micro-batches is absent."""
    if kind == "conjecturer" and role.micro_batches == 0:
        return ()
    return (kind,) if role.players == 1 else tuple(f"{kind}/{i}" for i in range(role.players))


def resolve_roles(config: JointSelfPlayConfig, kinds: Iterable[str]) -> dict[str, RoleSettings]:
    """The players of `kinds` in that order, those that are configured. ConfigError for weights that lead nowhere."""
    roles = {kind: role_config(config, kind) for kind in kinds if kind in FLAT or kind in config._asked}
    return {
        player: settings_of(config, kind, replace(role, **own), player, _weights(config, roles, kind, i))
        for kind, role in roles.items()
        for i, (player, own) in enumerate(zip(players_of(kind, role), each_of(config, kind, role), strict=False))
    }


def each_of(config: JointSelfPlayConfig, kind: str, role: RoleConfig) -> list[dict[str, Any]]:
    """What each player of a kind has of its own; ConfigError unless `each` is a mapping of such settings for each."""
    if role.each is None:
        return [{} for _ in range(max(role.players, 1))]
    name = field_of(config, kind, "each")
    try:
        listed = json.loads(role.each) if isinstance(role.each, str) else role.each
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list | tuple) or not all(isinstance(own, Mapping | None) for own in listed):
        raise ConfigError(f"`{name}` ({role.each!r}) must be a list of mappings such as [{{temperature: 0.8}}, {{}}].")
    if len(listed) != role.players:
        raise ConfigError(
            f"`{name}` has {len(listed)} mappings and `{field_of(config, kind, 'players')}` is {role.players}; give "
            "each player one, {} for a player without separate settings."
        )
    for setting in (setting for own in listed for setting in own or ()):
        if setting not in EACH:
            raise ConfigError(
                f"`{name}` sets {setting}, in which players of one kind cannot differ; they can in {', '.join(EACH)}."
                f"{nearest(str(setting), list(EACH))}"
            )
    found = [{s: _typed(config, kind, s, v) for s, v in (own or {}).items()} for own in listed]
    for i, own in enumerate(found):
        for setting, value in own.items():
            check_number(f"{name}[{i}].{setting}", setting, value)
    return found


def _weights(config: JointSelfPlayConfig, roles: Mapping[str, RoleConfig], kind: str, index: int) -> str | None:
    """The name of the weights of player `index` of a kind, None for frozen ones."""
    seen = [kind]
    while (target := roles[seen[-1]].weights) not in (None, START):
        name = f"`{field_of(config, seen[-1], 'weights')}` ({target})"
        there = players_of(str(target), roles[str(target)]) if target in roles else ()
        if not there:
            known = [k for k in roles if k not in seen and players_of(k, roles[k])] + [START]
            raise ConfigError(f"{name} must name a role that plays, or start.{nearest(str(target), known)}")
        if target in seen:
            raise ConfigError(
                f"{name} closes a circle, {' -> '.join([*seen, str(target)])}: no weights are at its end; leave "
                "`weights` of one of them unset."
            )
        if index >= len(there):
            raise ConfigError(
                f"{name} shares weights player by player, and {kind} has {roles[kind].players} players where {target} "
                f"has {len(there)}; give {kind} at most as many."
            )
        seen.append(str(target))
    if target == START:
        return None
    return "policy" if config.policy_sharing == "tied" else players_of(seen[-1], roles[seen[-1]])[index]


def settings_of(
    config: JointSelfPlayConfig, kind: str, role: RoleConfig, player: str, weights: str | None
) -> RoleSettings:
    """Every fallback resolved. A frozen player has no KL term, since nothing moves it away from its start."""
    values = {name: getattr(role, name) for name in _PLAIN}
    values |= {name: getattr(config, name) for name, own in values.items() if own is None}
    trained = weights is not None and role.micro_batches > 0
    if not config.use_adaptive_entropy:
        values["entropy_target"] = None
    if weights is None:
        values["beta"] = 0.0
    return RoleSettings(
        role=player,
        kind=kind,
        objective=role.objective,
        objective_kwargs=role.arguments,
        micro_batches=role.micro_batches,
        samples_per_round=role.samples_per_round,
        sft_coef=role.sft_coef,
        demonstrations_per_step=role.demonstrations_per_step,
        entropy_coef_delta=config.entropy_coef_delta,
        entropy_coef_min=config.entropy_coef_min,
        entropy_coef_max=config.entropy_coef_max,
        kl_in=config.kl_in,
        soft_overlong=config.soft_overlong if config.overlong == "replace" and kind in FLAT else 0.0,
        sampler_correction=config.vllm_importance_sampling_correction,
        sampler_correction_mode=config.vllm_importance_sampling_mode,
        sampler_correction_min=config.vllm_importance_sampling_clip_min,
        sampler_correction_max=config.vllm_importance_sampling_clip_max,
        weights=weights,
        trained=trained,
        model=role.model,
        stop=None if role.stop is None else tuple(role.stop),
        replayed_rounds=_replayed_rounds(role) if trained else 1,
        **values,
    )


def _replayed_rounds(role: RoleConfig) -> int:
    if not role.arguments.get("all_kept"):
        return 1
    replay: Any = getattr(make_objective(role.objective, role.arguments), "replay", None)
    return 1 if replay is None else replay.rounds


def given_flat(config: object) -> frozenset[str]:
    """The flat fields that hold a value of the user's."""
    names = (f"{kind}_{setting}" for kind in FLAT for setting in FIELDS)
    return frozenset(name for name in names if is_given(config, name))
