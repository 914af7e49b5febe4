"""Configuration of the joint trainer: its fields, and the values derived from them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self, cast

from trl import GRPOConfig

from ..errors import ConfigError
from ..games import GAMES, BaseGame, Game, check_game
from ..games.settings import Settings
from ..options import check_options, hints_of, json_object, option, typed
from ..registry import nearest
from . import rules
from .fields import CountdownArguments, CurriculumFields, GenerationFields, GuardFields, RoleFields, RunFields
from .recipes import COUNTDOWN, GAME, check_names, recipe_fields
from .roles import (
    FIELDS,
    FLAT,
    FLAT_FIELDS,
    PLAIN,
    START,
    ConjecturerFields,
    ProverFields,
    Role,
    parsed_roles,
    typed_setting,
    usual,
)
from .settled import Settled, check_numbers


@dataclass(repr=False)  # TrainingArguments' own repr hides tokens; the generated one would print hub_token
class JointSelfPlayConfig(
    Settled,
    RunFields,
    ProverFields,
    ConjecturerFields,
    RoleFields,
    CurriculumFields,
    GuardFields,
    GenerationFields,
    GRPOConfig,
):
    """Configuration of the joint trainer: GRPOConfig with batch, sampling and optimization settings for each role.

    A step of the Trainer is a round of `steps_per_round` optimizer steps, each over the micro-batches of all trained
    players, so `gradient_accumulation_steps` is 1. A setting that neither a role's field (`prover_beta`) nor `roles`
    gives falls back on the plain field (`beta`). Arguments of the domain are in `domain_kwargs`, unless the trainer is
    given a `domain`. Raises ConfigError for an invalid setting, before a model loads. Afterwards `roles` holds the
    settings of every role, including those given as fields.
    """

    output_dir: str = option("joint-selfplay", "The run folder.")
    gradient_accumulation_steps: int = option(
        1, "Must stay 1: a step of the Trainer is a round, and the micro-batches of a round follow from its sizes."
    )
    logging_steps: float = option(1, "Log every this many rounds.")
    per_device_eval_batch_size: int = option(128, "Answers that are generated at once in evaluation, per process.")
    num_generations_eval: int = option(16, "Answers per problem in evaluation, the n of pass@k.")
    ddp_find_unused_parameters: bool | None = option(
        True, "Must stay true: a micro-batch holds one role, so the other role's parameters are unused."
    )

    def __new__(cls, *_: Any, **settings: Any) -> Self:
        """Raise ConfigError, which suggests the nearest name, for a setting that is not a field."""
        check_names(settings, cls, [f.name for f in dataclasses.fields(cls) if f.init])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_numbers(self)
        self._join_roles()
        self._set_kinds()
        rules.before_trl(self)
        for kind in self.configured_kinds:  # TRL's group size is about to become the loader's
            settings = cast("dict[str, Any]", self.roles).setdefault(kind, {})
            settings["num_generations"] = self.given(kind, "num_generations") or self.num_generations
        group = self.num_generations
        # TRL's batch, for its checks alone: rounds are drawn by rounds_loader.
        self.num_generations, self.steps_per_generation, self.generation_batch_size = 2, 2 * self.steps_per_round, None
        self.settle()
        GRPOConfig.__post_init__(self)
        # With it TRL takes log-probs at sampling for rounds of several steps, by which clips and weights act.
        self.num_generations, self.steps_per_generation = group, self.steps_per_round
        self.generation_batch_size = self.per_device_train_batch_size * self.world_size * self.steps_per_round
        rules.after_trl(self)

    def _join_roles(self) -> None:
        """Move role settings given as fields into `roles`, and record the name under which each was given."""
        given = parsed_roles(self.roles)
        self.named_kinds = tuple(given)
        """Roles that the user named in `roles`."""
        given = {
            kind: {s: value for s, value in settings.items() if value is not None} for kind, settings in given.items()
        }
        self.written: dict[tuple[str, str], str]
        """Map of (role, setting) to the name under which the user gave the setting."""
        self.written = {(kind, s): f"roles.{kind}.{s}" for kind, settings in given.items() for s in settings}
        for name, (kind, setting) in FLAT_FIELDS.items():
            if (value := getattr(self, name)) is not None:
                given.setdefault(kind, {})[setting] = value
                self.written[kind, setting] = name
        self.roles = {
            kind: {s: typed_setting(self.written[kind, s], s, value) for s, value in settings.items()}
            for kind, settings in given.items()
        }

    @classmethod
    def from_recipe(cls, name: str, **changes: Any) -> Self:
        """Build the config of a recipe, such as tiny/default; `changes` take precedence. A plain field such as
        learning_rate also replaces the recipe's prover_learning_rate. Model and data of the recipe are not fields of
        the config; pass them to the trainer."""
        return cls(**recipe_fields(name, changes, cls))

    def _set_kinds(self) -> None:
        """Set `kinds` and `optional` from the game's roles, or `kinds` from the configured roles if `game` is None."""
        if self.game is not None:
            game = GAMES.load(self.game)
            check_game(f"`game` ({self.game})", game)
            self.kinds: tuple[str, ...] = tuple(game.roles)
            """Roles of the game."""
            self.optional: tuple[str, ...] = tuple(game.optional_roles)
            """Roles that may be left out."""
        else:
            used = {kind for kind, _ in self.written} | set(self.named_kinds or FLAT)
            self.kinds = (*(k for k in FLAT if k in used), *(k for k in self.named_kinds if k not in FLAT))
            self.optional = ()

    def with_kinds(self, kinds: Iterable[str], optional: Iterable[str] = ()) -> Self:
        """Return the config for a game with the roles `kinds`, of which `optional` may be left out; self if nothing
        changes. Raises ConfigError if the configured roles do not fit."""
        new = copy.copy(self)
        new.kinds, new.optional = tuple(kinds), tuple(optional)
        if (new.kinds, new.optional) == (self.kinds, self.optional):
            return self
        rules.check_roles(new)
        return new

    def field_of(self, kind: str, setting: str) -> str:
        """Return the name under which the user gave a role's setting, or could give it: `prover_beta`, or
        `roles.guide.beta`."""
        flat = f"{kind}_{setting}"
        return self.written.get((kind, setting), flat if flat in FLAT_FIELDS else f"roles.{kind}.{setting}")

    def shown(self, kind: str, setting: str) -> str:
        """Return name and value of a role's setting for an error message: "`prover_beta` (0.1)"."""
        return f"`{self.field_of(kind, setting)}` ({self.given(kind, setting)})"

    def was_given(self, kind: str, setting: str) -> bool:
        """Return whether the user gave the setting, as a field or in `roles`."""
        return (kind, setting) in self.written

    def given(self, kind: str, setting: str) -> Any:
        """Return a role's setting without fallback on the plain field: the given value, or the setting's default."""
        roles = cast("dict[str, dict[str, Any]]", self.roles or {})
        return roles.get(kind, {}).get(setting, usual(setting))

    @property
    def configured_kinds(self) -> tuple[str, ...]:
        """Roles of the game that are configured; prover and conjecturer always count as configured."""
        return tuple(kind for kind in self.kinds if kind in FLAT or kind in (self.roles or {}))

    @property
    def all_roles(self) -> dict[str, Role]:
        """Settings of every player by name, trained or frozen, in the order of the game's roles. Raises ConfigError if
        `weights` names a role that does not play or has fewer players, or if roles name each other in a circle."""
        return {
            player: self._role(kind, player, self._weights(kind, i), i)
            for kind in self.configured_kinds
            for i, player in enumerate(self._names(kind))
        }

    @property
    def trained_roles(self) -> tuple[str, ...]:
        """Names of the trained players."""
        return tuple(name for name, settings in self.all_roles.items() if settings.trained)

    def players_of(self, kind: str) -> tuple[str, ...]:
        """Return the names of a role's players; () if it has none."""
        return self._names(kind) if kind in self.configured_kinds else ()

    @property
    def players_by_kind(self) -> dict[str, list[str]]:
        """Names of the players by role of the game."""
        return {kind: list(self.players_of(kind)) for kind in self.kinds}

    @property
    def one_of_each_kind(self) -> list[Role]:
        """Settings of the first player of each role; the others differ in name, in weights and by `each`."""
        return list({s.kind: s for s in reversed(self.all_roles.values())}.values())[::-1]

    def role(self, role: str) -> Role:
        """Return the settings of a player, or of a role's first player. For a role without players `players` is 0.
        Raises ConfigError for an unknown name."""
        players = self.all_roles
        kinds = {settings.kind: settings for settings in reversed(players.values())}
        player = players.get(role) or kinds.get(role)
        if player is None and role not in self.kinds:
            raise ConfigError(f"There is no role '{role}'; the roles are {', '.join((*players, *self.kinds))}.")
        return player or dataclasses.replace(self._role(role, role, None, 0), players=0)

    def _names(self, kind: str) -> tuple[str, ...]:
        """Return the names of a role's players: the role if there is one player, else role/0, role/1 and so on."""
        players = self.given(kind, "players")
        return (kind,) if players == 1 else tuple(f"{kind}/{i}" for i in range(players))

    def _weights(self, kind: str, index: int) -> str | None:
        """Return the name of the weights of player `index` of a role; None if they are frozen."""
        seen, playing = [kind], self.configured_kinds
        while (target := self.given(seen[-1], "weights")) not in (None, START):
            name = f"`{self.field_of(seen[-1], 'weights')}` ({target})"
            there = self._names(target) if target in playing else ()
            if not there:
                known = [k for k in playing if k not in seen and self._names(k)] + [START]
                raise ConfigError(f"{name} must name a role that plays, or start.{nearest(str(target), known)}")
            if target in seen:
                raise ConfigError(
                    f"{name} closes a circle, {' -> '.join([*seen, str(target)])}: no weights are at its end; leave "
                    "`weights` of one of them unset."
                )
            if index >= len(there):
                raise ConfigError(
                    f"{name} shares weights player by player, and {kind} has {self.given(kind, 'players')} players "
                    f"where {target} has {len(there)}; give {kind} at most as many."
                )
            seen.append(str(target))
        if target == START:
            return None
        return "policy" if self.policy_sharing == "tied" else self._names(seen[-1])[index]

    def _role(self, kind: str, player: str, weights: str | None, index: int) -> Role:
        """Return a player's settings with every fallback resolved. A frozen player has no KL term, since its weights
        never move."""
        values = {name: self.given(kind, name) for name in FIELDS}
        values |= dict(enumerate(values["each"] or ())).get(index, {})
        values |= {name: getattr(self, name) for name in PLAIN if values[name] is None}
        if not self.use_adaptive_entropy:
            values["entropy_target"] = None
        if weights is None:
            values["beta"] = 0.0
        values |= {"weights": weights, "each": None, "stop": None if values["stop"] is None else tuple(values["stop"])}
        alike = ("entropy_coef_delta", "entropy_coef_min", "entropy_coef_max", "kl_in", "overlong_on")
        return Role(
            **values,
            **{name: getattr(self, name) for name in alike},
            role=player,
            kind=kind,
            soft_overlong=self.soft_overlong if self.overlong == "replace" and kind in FLAT else 0.0,
            sampler_correction=self.vllm_importance_sampling_correction,
            sampler_correction_mode=self.correction_mode,
            sampler_correction_min=self.vllm_importance_sampling_clip_min,
            sampler_correction_max=self.vllm_importance_sampling_clip_max,
            trained=weights is not None,
        )

    @property
    def solver(self) -> Role:
        """Settings of the player that solves the problems: the first prover, or the first player of the first role."""
        return self.role("prover" if "prover" in self.kinds else self.kinds[0])

    def slots(self, kind: str) -> int:
        """Return the number of problems per round over all processes: those that each conjecturer writes, or for any
        other role those that each of its players attempts."""
        return self.proposals_per_round if kind == "conjecturer" else self.problems_per_round

    @property
    def correction_mode(self) -> str:
        """Mode of the sampler correction: `vllm_importance_sampling_mode`, or token_truncate in place of its default
        for rounds of one bf16 step under vLLM, where a sequence's weight is only rounding error."""
        mode: str = self.vllm_importance_sampling_mode
        noise = self.bf16 and self.generation_backend != "generate" and self.steps_per_round == 1
        return "token_truncate" if noise and mode == type(self).vllm_importance_sampling_mode else mode

    @property
    def planned_by_game(self) -> bool:
        """Whether the game itself plans the number of samples of its players (overrides `planned`)."""
        return self.game is not None and GAMES.load(self.game).planned is not BaseGame.planned

    def samples(self, processes: int = 1) -> dict[str, int]:
        """Return the greatest number of samples that one of `processes` processes draws in a round, by player. Prompts
        are divided among the processes; all samples of a prompt are drawn on one."""
        group = {s.role: s.num_generations for s in self.all_roles.values()}
        if self.from_settings:  # a guide of propose_and_solve writes one review of a problem
            group |= dict.fromkeys(self.players_of("guide"), 1)
        if self.planned_by_game:
            made: Game = GAMES.make(str(self.game), self.game_arguments)
            return made.planned(-(-self.problems_per_round // processes), group)
        prompts = {
            s.role: self.slots(s.kind) // (s.num_generations if s.kind == "conjecturer" else 1)
            for s in self.all_roles.values()
        }
        return {player: -(-count // processes) * group[player] for player, count in prompts.items()}

    @property
    def anchor_slots(self) -> int:
        """Number of slots of a round reserved for anchor problems."""
        if not self.players_of("conjecturer"):
            return self.problems_per_round
        return round(self.game_settings.anchor_fraction * self.problems_per_round)

    @property
    def rounds_per_export(self) -> int:
        """Rounds between two exports (`export_every` resolved); 0: never."""
        if self.export_every is not None:
            return self.export_every
        saves = self.proposer == "tiers" and self.save_strategy == "steps" and self.save_steps >= 1
        return int(self.save_steps) if saves else 0

    @property
    def added_overlong(self) -> float:
        """Final fraction of the prover's length in which a charge is added to the reward; 0 if `overlong: replace`."""
        return self.soft_overlong if self.overlong == "add" else 0.0

    @property
    def countdown(self) -> CountdownArguments:
        """Arguments of Countdown (`domain_kwargs`) as a dataclass."""
        given = json_object("domain_kwargs", self.domain_kwargs, '{"operands": [3, 4]}')
        for name in given:
            if name not in COUNTDOWN:
                known = nearest(name, sorted(COUNTDOWN))
                raise ConfigError(f"`domain_kwargs` has {name}, which is not one of its settings.{known}")
        hints = hints_of(CountdownArguments)
        made = CountdownArguments(**{name: typed(name, hints[name], value) for name, value in given.items()})
        check_options(made)
        return made

    @property
    def describes_domain(self) -> bool:
        """Whether the config alone describes the domain. Without `domain_kwargs`, Countdown's arguments may be in a
        separate CountdownArguments."""
        return self.domain != "countdown" or self.domain_kwargs is not None

    @property
    def from_settings(self) -> bool:
        """Whether the game's arguments are fields of the config (propose_and_solve)."""
        return self.game is not None and GAMES.load(self.game).from_config is not None

    @property
    def game_settings(self) -> Settings:
        """Arguments of propose_and_solve."""
        return Settings(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Settings)})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as `TrainingArguments.to_dict` does, with Countdown's `domain_kwargs` in full and role
        settings under their fields. Fields of roles and games that the run lacks are left out."""
        absent = {name for name, (kind, _) in FLAT_FIELDS.items() if kind not in self.kinds}
        absent |= frozenset() if self.from_settings else GAME
        fields = {name: value for name, value in super().to_dict().items() if name not in absent}
        roles = {kind: dict(settings) for kind, settings in cast("dict[str, Any]", self.roles or {}).items()}
        for kind in set(FLAT) & set(self.kinds):
            settings = {s: v for s, v in roles.pop(kind, {}).items() if v != usual(s)}
            settings.setdefault("objective", usual("objective"))
            fields |= {name: settings.pop(s, None) for name, (role, s) in FLAT_FIELDS.items() if role == kind}
            roles |= {kind: settings} if settings else {}
        fields["roles"] = roles or None
        if self.domain == "countdown":
            fields["domain_kwargs"] = vars(self.countdown)
        return fields
