"""Settings of a role: the entries of `roles`, their fields in the config, and `Role`, in which every fallback is
resolved."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from ..options import Range, help_of, hints_of, option, typed
from ..registry import nearest

FLAT = ("prover", "conjecturer")
"""Roles whose common settings are also fields of the config (`prover_learning_rate`)."""
START = "start"
"""Value of `weights` for a role that plays the weights that were passed in and is never trained."""


def _plain(text: str, *within: Range, free: bool = False) -> Any:
    """Declare a setting that falls back on the config's field of the same name, which has the same range."""
    return option(None, text, *within, free=free, plain=True)


@dataclass(frozen=True)
class Role:
    """Resolved settings of a player. Fields with a help text, in which {role} stands for the role, can be given in
    `roles`. Players of one role differ in name and weights, and by `each`."""

    role: str = ""
    """Name of the player: the role, or role/0, role/1 and so on if the role has several players."""
    kind: str = ""
    """Role of the player in the game."""
    players: int = option(
        1,
        "How many of the {role} there are; several are called {role}/0, {role}/1 and so on. 0: none.",
        Range(0, why="0 leaves the role out"),
    )
    model: str | None = option(None, "What the {role} starts from, a hub id or a folder. None: the run's model.")
    weights: str | None = option(
        None,
        "Whose weights the {role} plays: another role's name shares that role's, player by player; start: those that "
        "were passed in, sampled and never trained. None: as policy_sharing says.",
    )
    """Name of the player's weights; None: those that were passed in, frozen."""
    sequences_per_step: int = _plain(
        "Trained sequences of the {role} in an optimizer step, over all processes. None: sequences_per_step.",
        Range(0, why="0 cuts a round into steps_per_round equal steps"),
    )
    num_generations: int = _plain(
        "Samples per prompt of the {role}. None: num_generations.", Range(1, why="samples of a prompt")
    )
    objective: str = option("rloo", "Advantage and loss of the {role}: a name in OBJECTIVES.")
    objective_kwargs: dict[str, Any] = option(
        help="Arguments of the {role}'s objective as JSON, such as '{\"k\": 4}'.", factory=dict
    )
    learning_rate: float = _plain(
        "Peak learning rate of the {role}. None: learning_rate.", Range(0, why="0 freezes the role")
    )
    warmup_steps: float = _plain(
        "Linear warm-up of the {role} in rounds, or a share of them below 1. None: warmup_steps.",
        Range(0, why="a share of the rounds below 1, else a number of rounds"),
    )
    max_grad_norm: float = _plain(
        "The {role}'s gradient norm is clipped at this value. None: max_grad_norm.", Range(0, why="0 means no clip")
    )
    beta: float = _plain(
        "Coefficient of the {role}'s KL to the weights that were passed in. None: beta.",
        Range(0, why="0 means no KL term"),
    )
    kl_estimator: str = _plain("Estimate of the {role}'s KL: k3 or k1. None: kl_estimator.")
    kl_reduction: str = _plain("How the {role}'s KL is reduced over tokens: sum or mean. None: kl_reduction.")
    entropy_coef: float = _plain(
        "Coefficient of the {role}'s entropy bonus (nats per token). None: entropy_coef.",
        Range(0, why="0 means no bonus"),
    )
    entropy_target: float | None = _plain(
        "Under use_adaptive_entropy: mean entropy (nats per token) at or below which the {role}'s bonus acts. None: "
        "entropy_target."
    )
    """Value None keeps the coefficient constant."""
    sft_coef: float = option(
        0.0,
        "Weight of a supervised term. It is on samples that the game marks for it (critic_discernment: right first "
        "answers) and on demonstrations (demonstrations_per_step). 0: none.",
        Range(0, why="0 means no supervised term"),
    )
    demonstrations_per_step: int = option(
        0,
        "Demonstrations in each optimizer step, beside the {role}'s answers and over all processes, in the supervised "
        "term (sft_coef): an anchor that keeps what it can do. The domain makes them. A step without a signal of the "
        "{role} takes none.",
        Range(0, why="0 means none"),
    )
    temperature: float = _plain(
        "Sampling temperature of the {role}. None: temperature.",
        Range(0, why="samples are drawn, not decoded greedily", above=True),
    )
    top_p: float = _plain(
        "Nucleus of the {role}'s sampling. None: top_p.", Range(0, 1, "1 switches it off", above=True)
    )
    top_k: int = _plain("Top-k of the {role}'s sampling. None: top_k.", Range(0, why="0 switches it off"))
    max_completion_length: int = _plain(
        "Most tokens in a sample of the {role}. None: max_completion_length.", Range(1, why="tokens")
    )
    stop: tuple[str, ...] | None = option(
        None, "Texts that end a sample of the {role}: one text, or a list as JSON ([]: none). None: the domain's."
    )
    each: list[dict[str, Any]] | None = option(
        None,
        "What tells several players of the {role} apart: a list with a mapping for each player, as JSON, such as "
        '\'[{"temperature": 0.8}, {"temperature": 1.2}]\'; model, temperature, top_p, top_k and learning_rate.',
    )
    vllm_server_base_url: str | None = _plain(
        "The {role}'s own vLLM server (http://host:port). None: vllm_server_base_url, or host and port.", free=True
    )
    # From fields of the configuration, for all roles alike.
    entropy_coef_delta: float = 0.005
    entropy_coef_min: float = 0.0
    entropy_coef_max: float = 1.0
    kl_in: str = "loss"
    soft_overlong: float = 0.0
    """Final fraction of the completion length in which a charge replaces the credit (`overlong: replace`); 0: none."""
    overlong_on: str = "all"
    # Of a sampler that is not the trained model itself; as TRL's vllm_importance_sampling_* fields.
    sampler_correction: bool = True
    sampler_correction_mode: str = "sequence_mask"
    sampler_correction_min: float | None = None
    sampler_correction_max: float | None = 3.0
    trained: bool = True

    @property
    def player(self) -> str:
        return self.role

    def stops(self, domain: Any) -> list[str] | None:
        """Return the texts that end a sample in `domain`."""
        return domain.stop_strings(self.kind or self.role) if self.stop is None else list(self.stop)


FIELDS = {f.name: f for f in dataclasses.fields(Role) if "help" in f.metadata}
"""Fields of Role that can be given in `roles`, by name."""
PLAIN = tuple(name for name, f in FIELDS.items() if help_of(f).plain)
"""Settings in `roles` that fall back on the field of the config with the same name."""
EACH = ("model", "temperature", "top_p", "top_k", "learning_rate")
"""Settings in which players of one role may differ (`each`)."""


def check_number(name: str, setting: str, value: object) -> None:
    """Raise ConfigError, which names `name`, for a number outside the range of a role's setting."""
    help_of(FIELDS[setting]).range.check(name, value)


def usual(setting: str) -> Any:
    """Return the default of a role's setting."""
    default = FIELDS[setting].default
    return {} if default is dataclasses.MISSING else default


def role_option(kind: str, setting: str) -> Any:
    """Declare the field of the config for a role's setting; its default None means that the user did not set it."""
    text = help_of(FIELDS[setting])
    usual = f" Default: {FIELDS[setting].default}." if setting == "objective" else ""
    return option(None, text.replace("{role}", kind) + usual, text.range, free=text.free)


@dataclass
class ProverFields:
    """Prover settings that are fields of the config; the rarer ones are in `roles`."""

    prover_num_generations: int | None = role_option("prover", "num_generations")
    prover_objective: str | None = role_option("prover", "objective")
    prover_objective_kwargs: dict | str | None = role_option("prover", "objective_kwargs")
    prover_learning_rate: float | None = role_option("prover", "learning_rate")
    prover_max_grad_norm: float | None = role_option("prover", "max_grad_norm")
    prover_beta: float | None = role_option("prover", "beta")
    prover_entropy_coef: float | None = role_option("prover", "entropy_coef")
    prover_sequences_per_step: int | None = role_option("prover", "sequences_per_step")
    prover_sft_coef: float | None = role_option("prover", "sft_coef")
    prover_demonstrations_per_step: int | None = role_option("prover", "demonstrations_per_step")
    prover_temperature: float | None = role_option("prover", "temperature")
    prover_max_completion_length: int | None = role_option("prover", "max_completion_length")
    prover_stop: list | str | None = role_option("prover", "stop")


@dataclass
class ConjecturerFields:
    """Conjecturer settings that are fields of the config; the rarer ones are in `roles`."""

    conjecturer_players: int | None = role_option("conjecturer", "players")
    conjecturer_model: str | None = role_option("conjecturer", "model")
    conjecturer_num_generations: int | None = role_option("conjecturer", "num_generations")
    conjecturer_objective: str | None = role_option("conjecturer", "objective")
    conjecturer_objective_kwargs: dict | str | None = role_option("conjecturer", "objective_kwargs")
    conjecturer_learning_rate: float | None = role_option("conjecturer", "learning_rate")
    conjecturer_max_grad_norm: float | None = role_option("conjecturer", "max_grad_norm")
    conjecturer_beta: float | None = role_option("conjecturer", "beta")
    conjecturer_entropy_coef: float | None = role_option("conjecturer", "entropy_coef")
    conjecturer_sequences_per_step: int | None = role_option("conjecturer", "sequences_per_step")
    conjecturer_temperature: float | None = role_option("conjecturer", "temperature")
    conjecturer_max_completion_length: int | None = role_option("conjecturer", "max_completion_length")
    conjecturer_stop: list | str | None = role_option("conjecturer", "stop")


FLAT_FIELDS = {
    f.name: (kind, f.name.removeprefix(f"{kind}_"))
    for kind, part in (("prover", ProverFields), ("conjecturer", ConjecturerFields))
    for f in dataclasses.fields(part)
}
"""Map of each role field of the config, such as `prover_beta`, to its role and its setting."""


def parsed_roles(given: Any) -> dict[str, dict[str, Any]]:
    """Parse `roles` into {role: {setting: value}}. Raises ConfigError for another form or an unknown setting."""
    try:
        parsed = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        parsed = given
    if parsed is None:
        return {}
    if not isinstance(parsed, Mapping):
        raise ConfigError(
            f"`roles` ({given!r}) must be a mapping from roles to their settings, such as "
            '{"prover": {"players": 4}}.'
        )
    roles = {}
    for kind, settings in parsed.items():
        if not isinstance(settings, Mapping | None):
            raise ConfigError(f"`roles.{kind}` ({settings!r}) must map settings to values, such as {{players: 4}}.")
        roles[str(kind)] = dict(settings or {})
        for name in settings or {}:
            if name not in FIELDS:
                raise ConfigError(
                    f"`roles.{kind}.{name}` is not a setting of a role.{nearest(str(name), list(FIELDS))}"
                )
    return roles


def typed_setting(name: str, setting: str, value: Any) -> Any:
    """Convert the value of a role's setting to its type. `name`: the name that the user wrote. Raises ConfigError if
    the value cannot be converted."""
    if setting == "stop":
        listed = [value] if isinstance(value, str) and not value.startswith("[") else value
        try:
            texts = typed(name, list[str], listed)
        except ConfigError:
            texts = [""]
        if not all(texts):
            raise ConfigError(f'`{name}` ({value!r}) must be a text, or a list of texts such as ["</answer>"].')
        return texts
    return _mappings(name, value) if setting == "each" else typed(name, hints_of(Role)[setting], value)


def _mappings(name: str, given: Any) -> list[dict[str, Any]]:
    """Parse `each`: a mapping of settings for each player. Raises ConfigError for another form or setting."""
    try:
        listed = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list | tuple) or not all(isinstance(settings, Mapping | None) for settings in listed):
        raise ConfigError(f"`{name}` ({given!r}) must be a list of mappings such as [{{temperature: 0.8}}, {{}}].")
    for setting in (setting for settings in listed for setting in settings or ()):
        if setting not in EACH:
            raise ConfigError(
                f"`{name}` sets {setting}, in which players of one kind cannot differ; they can in {', '.join(EACH)}."
                f"{nearest(str(setting), list(EACH))}"
            )
    result = [{s: typed_setting(name, s, v) for s, v in (settings or {}).items()} for settings in listed]
    for i, settings in enumerate(result):
        for setting, value in settings.items():
            check_number(f"{name}[{i}].{setting}", setting, value)
    return result
