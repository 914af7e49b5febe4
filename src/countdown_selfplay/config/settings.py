"""All fields of a joint run and what follows from them: the players with their settings, and how much each samples.
The rules of the other files here take a `SelfPlaySettings`; JointSelfPlayConfig adds that they hold."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from trl import GRPOConfig

from ..contract.metric import Range as Bounds
from ..errors import ConfigError
from ..games import GAMES, BaseGame, Game, game_class
from ..games.settings import Settings
from ..options import built, json_object, option
from ..registry import nearest
from .countdown_fields import CountdownArguments
from .fields import CurriculumFields, GenerationFields, GuardFields, RoleFields, RunFields, trips_of
from .recipes import GAME
from .roles import FIELDS, FLAT, FLAT_FIELDS, PLAIN, START, ConjecturerFields, ProverFields, Role, names_of, usual
from .settled import Settled


class Written:
    """How the user wrote the settings of roles, and which roles there are; no fields of the configuration."""

    if TYPE_CHECKING:  # annotations of attributes, which --help and YAML do not know
        written: dict[tuple[str, str], str]
        """(kind, setting) -> the name under which the user wrote a role's setting."""
        asked: tuple[str, ...]
        """The kinds in `roles` as the user wrote it."""
        kinds: tuple[str, ...]
        """The kinds of roles that the game has."""
        optional: tuple[str, ...]
        """Those that may be left out."""

    def field_of(self, kind: str, setting: str) -> str:
        """A role's setting as the user wrote it, or would: `prover_beta`, or `roles.guide.beta`."""
        flat = f"{kind}_{setting}"
        return self.written.get((kind, setting), flat if flat in FLAT_FIELDS else f"roles.{kind}.{setting}")

    def was_given(self, kind: str, setting: str) -> bool:
        """Whether the user wrote it, in either way."""
        return (kind, setting) in self.written


@dataclass(repr=False)  # TrainingArguments' own repr hides tokens; the generated one would print hub_token
class SelfPlaySettings(
    Written,
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
    """`roles` holds, once the configuration is built, the settings of each kind, also those that were given as
    fields."""

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

    def given(self, kind: str, setting: str) -> Any:
        """The setting of a kind without fallbacks on plain fields: as given, or the default of the kind."""
        roles = cast("dict[str, dict[str, Any]]", self.roles or {})
        return roles.get(kind, {}).get(setting, usual(setting))

    @property
    def configured_kinds(self) -> tuple[str, ...]:
        """The game's kinds of roles that have settings here; the flat ones always have."""
        return tuple(kind for kind in self.kinds if kind in FLAT or kind in (self.roles or {}))

    @property
    def all_roles(self) -> dict[str, Role]:
        """Every player of a round by name, trained or not, kind by kind in the order of the game's roles. ConfigError
        for weights that lead nowhere."""
        return {
            player: self._role(kind, player, self._weights(kind, i), i)
            for kind in self.configured_kinds
            for i, player in enumerate(self._names(kind))
        }

    @property
    def trained_roles(self) -> tuple[str, ...]:
        """The players that are trained."""
        return tuple(name for name, settings in self.all_roles.items() if settings.trained)

    def players_of(self, kind: str) -> tuple[str, ...]:
        """The names of a kind's players; () if it is absent."""
        return self._names(kind) if kind in self.configured_kinds else ()

    @property
    def players_by_kind(self) -> dict[str, list[str]]:
        """Kind -> its players, of all kinds that the game has."""
        return {kind: list(self.players_of(kind)) for kind in self.kinds}

    @property
    def one_of_each_kind(self) -> list[Role]:
        """The first player of each kind that is there; the others have its settings."""
        return list({s.kind: s for s in reversed(self.all_roles.values())}.values())[::-1]

    def role(self, role: str) -> Role:
        """The settings of a player; of a kind, those of its first player, and of an absent one those that it would
        have, with no players."""
        players = self.all_roles
        kinds = {settings.kind: settings for settings in reversed(players.values())}
        found = players.get(role) or kinds.get(role)
        if found is None and role not in self.kinds:
            raise ConfigError(f"There is no role '{role}'; the roles are {', '.join((*players, *self.kinds))}.")
        return found or dataclasses.replace(self._role(role, role, None, 0), players=0)

    def _names(self, kind: str) -> tuple[str, ...]:
        return names_of(kind, self.given(kind, "players"))

    def _weights(self, kind: str, index: int) -> str | None:
        """The name of the weights of player `index` of a kind, None for frozen ones."""
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
        """Every fallback resolved. A frozen player has no KL term, since nothing moves it away from its start."""
        values = {name: self.given(kind, name) for name in FIELDS}
        values |= dict(enumerate(values["each"] or ())).get(index, {})
        values |= {name: getattr(self, name) for name in PLAIN if values[name] is None}
        if not self.use_adaptive_entropy:
            values["entropy_target"] = None
        if weights is None:
            values["beta"] = 0.0
        values |= {"weights": weights, "each": None, "stop": None if values["stop"] is None else tuple(values["stop"])}
        return Role(
            **values,
            role=player,
            kind=kind,
            entropy_coef_delta=self.entropy_coef_delta,
            entropy_coef_min=self.entropy_coef_min,
            entropy_coef_max=self.entropy_coef_max,
            kl_in=self.kl_in,
            soft_overlong=self.soft_overlong if self.overlong == "replace" and kind in FLAT else 0.0,
            overlong_on=self.overlong_on,
            sampler_correction=self.vllm_importance_sampling_correction,
            sampler_correction_mode=self.correction_mode,
            sampler_correction_min=self.vllm_importance_sampling_clip_min,
            sampler_correction_max=self.vllm_importance_sampling_clip_max,
            trained=weights is not None,
        )

    @property
    def solver(self) -> Role:
        """The role whose groups are the problems of a round: the (first) prover, or the game's first kind."""
        return self.role("prover" if "prover" in self.kinds else self.kinds[0])

    def slots(self, kind: str) -> int:
        """Problems of a round, over all processes: those that each conjecturer writes, and for every other kind those
        that are attempted."""
        return self.proposals_per_round if kind == "conjecturer" else self.problems_per_round

    @property
    def correction_mode(self) -> str:
        """`vllm_importance_sampling_mode`. Its default becomes token_truncate where a round is one step under bf16:
        the weight of a sequence is then an engine's rounding alone, which its length multiplies."""
        mode: str = self.vllm_importance_sampling_mode
        noise = self.bf16 and self.generation_backend != "generate" and self.steps_per_round == 1
        return "token_truncate" if noise and mode == type(self).vllm_importance_sampling_mode else mode

    @property
    def planned_by_game(self) -> bool:
        """Whether the game says how much its players sample (`planned`)."""
        return self.game is not None and game_class(self.game).planned is not BaseGame.planned

    def samples(self, processes: int = 1) -> dict[str, int]:
        """The most samples of a round on one of `processes`, by player, as the game plans them. Processes share the
        prompts, of which each has all its samples on one."""
        group = {s.role: s.num_generations for s in self.all_roles.values()}
        if self.from_settings:  # whose guide writes one review of a problem
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
        """Slots of a round that are kept for anchor problems."""
        if not self.players_of("conjecturer"):
            return self.problems_per_round
        return round(self.game_settings.anchor_fraction * self.problems_per_round)

    @property
    def rounds_per_export(self) -> int:
        """`export_every` as it acts; 0: never. A save_steps that is a share of the run is none of rounds yet."""
        if self.export_every is not None:
            return self.export_every
        saves = self.proposer == "tiers" and self.save_strategy == "steps" and self.save_steps >= 1
        return int(self.save_steps) if saves else 0

    @property
    def added_overlong(self) -> float:
        """The share of the prover's length whose charge is added to its reward; 0 if it replaces the credit."""
        return self.soft_overlong if self.overlong == "add" else 0.0

    @property
    def countdown(self) -> CountdownArguments:
        """`domain_kwargs` of Countdown."""
        given = json_object("domain_kwargs", self.domain_kwargs, '{"operands": [3, 4]}')
        return built(CountdownArguments, given, "domain_kwargs")

    @property
    def describes_domain(self) -> bool:
        """Whether its domain can be judged here: Countdown without `domain_kwargs` may be parsed beside the config."""
        return self.domain != "countdown" or self.domain_kwargs is not None

    @property
    def from_settings(self) -> bool:
        """Is `game` one whose arguments are `Settings`?"""
        return self.game is not None and game_class(self.game).from_config is not None

    @property
    def game_settings(self) -> Settings:
        """The arguments of propose_and_solve."""
        return Settings(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Settings)})

    @property
    def trips(self) -> dict[str, Bounds]:
        """`guard_trips`."""
        return trips_of(json_object("guard_trips", self.guard_trips, '{"prover/entropy": [0.1, null]}'))

    @property
    def reward_arguments(self) -> dict[str, Any]:
        """`conjecturer_reward_kwargs` as a dict."""
        return json_object("conjecturer_reward_kwargs", self.conjecturer_reward_kwargs, '{"low": 0.05, "high": 0.85}')

    @property
    def proposer_arguments(self) -> dict[str, Any]:
        """`proposer_kwargs` as a dict."""
        return json_object("proposer_kwargs", self.proposer_kwargs, '{"low": 0.2}')

    @property
    def guide_arguments(self) -> dict[str, Any]:
        """`guide_kwargs` as a dict."""
        return json_object("guide_kwargs", self.guide_kwargs, '{"scale": 8}')

    @property
    def game_arguments(self) -> dict[str, Any]:
        """`game_kwargs` as a dict."""
        return json_object("game_kwargs", self.game_kwargs, '{"eta": 0.25}')

    def to_dict(self) -> dict[str, Any]:
        """As TrainingArguments, with all of Countdown's `domain_kwargs`, a role's settings under the field that they
        have, and without those of roles and games that the run does not have."""
        absent = {name for name, (kind, _) in FLAT_FIELDS.items() if kind not in self.kinds}
        absent |= frozenset() if self.from_settings else GAME
        found = {name: value for name, value in super().to_dict().items() if name not in absent}
        roles = {kind: dict(own) for kind, own in cast("dict[str, Any]", self.roles or {}).items()}
        for kind in set(FLAT) & set(self.kinds):
            own = {s: v for s, v in roles.pop(kind, {}).items() if v != usual(s)}
            own.setdefault("objective", usual("objective"))
            found |= {name: own.pop(s, None) for name, (role, s) in FLAT_FIELDS.items() if role == kind}
            roles |= {kind: own} if own else {}
        found["roles"] = roles or None
        if self.domain == "countdown":
            found["domain_kwargs"] = vars(self.countdown)
        return found
