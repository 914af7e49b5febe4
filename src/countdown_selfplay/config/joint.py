"""The configuration of the joint trainer and the resolved settings of a role."""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from trl import GRPOConfig

from ..errors import ConfigError
from ..games import check_game, game_class
from . import checks
from .curriculum_fields import CurriculumFields
from .generation_fields import GenerationFields
from .guard_fields import GuardFields
from .number_checks import json_object
from .players import (
    RoleSettings,
    given_flat,
    kinds_of,
    parsed_roles,
    players_of,
    resolve_roles,
    role_config,
    settings_of,
)
from .roles import FIELDS, FLAT, RoleFields
from .settled import Settled


@dataclass(repr=False)  # TrainingArguments' own repr hides tokens; the generated one would print hub_token
class JointSelfPlayConfig(Settled, RoleFields, CurriculumFields, GuardFields, GenerationFields, GRPOConfig):
    """Differs from GRPOConfig in that batch, sampling and optimisation settings exist once per role.

    An optimizer step has the micro-batches of all trained players; `gradient_accumulation_steps` is derived from them.
    Every cross-field rule is checked here, before a model is loaded.
    """

    output_dir: str = field(default="joint-selfplay", metadata={"help": "The run folder."})
    allow_changed: str | None = field(
        default=None,
        metadata={
            "help": "Settings that a resume may change, with commas between them (learning_rate,beta); train_dataset, "
            "eval_dataset and reward_funcs are names too. Cadence, trackers, paths and a larger max_steps always may."
        },
    )
    gradient_accumulation_steps: int = field(
        default=None,  # type: ignore[assignment]
        metadata={"help": "Derived: the micro_batches of all trained players. Leave it unset."},
    )
    logging_steps: float = field(default=1, metadata={"help": "Log every this many rounds."})
    per_device_eval_batch_size: int = field(
        default=128, metadata={"help": "Answers that are generated at once in evaluation, per process."}
    )
    num_generations_eval: int = field(
        default=16, metadata={"help": "Answers per problem in evaluation, the n of pass@k."}
    )
    ddp_find_unused_parameters: bool | None = field(
        default=True,
        metadata={"help": "Must stay true: a micro-batch holds one role, so the other role's parameters are unused."},
    )

    export_every: int | None = field(
        default=None,
        metadata={
            "help": "Write each player to <player>/round_<r>/model every this many rounds (Multimodal LLM Self-Play: "
            "1). None: every save_steps rounds with the proposer tiers, and never without it. 0: never."
        },
    )

    def __post_init__(self) -> None:
        self._flat = given_flat(self)
        self._asked = parsed_roles(self.roles)
        self.roles = self._asked or None
        self._set_kinds()
        checks.before_trl(self)
        self._keep_settings()
        self._derive()
        # TRL derives both; a config that was written out resolved and read again must resolve again.
        self.steps_per_generation = self.gradient_accumulation_steps * self.steps_per_round
        self.generation_batch_size = None
        repeat = self.num_generations
        if repeat == 1:  # TRL takes no group of 1
            self.num_generations = self.per_device_train_batch_size * self.gradient_accumulation_steps
        self.settle()
        super().__post_init__()
        self.num_generations = repeat
        checks.after_trl(self)

    @classmethod
    def from_recipe(cls, name: str, **changes: Any) -> Self:
        """The settings of a recipe, such as tiny/default, with `changes` over them: a plain field such as
        learning_rate also over the recipe's prover_learning_rate. The recipe's model and data are not settings of the
        trainer; pass those to it."""
        from .recipes import recipe_fields

        return cls(**recipe_fields(name, changes, cls))

    def _set_kinds(self) -> None:
        """The kinds of roles of `game`; without a name those that are configured, until the game itself is at hand."""
        self._optional: tuple[str, ...] = ()
        if self.game is not None:
            check_game(f"`game` ({self.game})", game_class(self.game))
            self._kinds = kinds_of(self.game)
            self._optional = tuple(game_class(self.game).optional_roles)
        else:
            used = {name.partition("_")[0] for name in self._flat} | set(self._asked or FLAT)
            self._kinds = (*(k for k in FLAT if k in used), *(k for k in self._asked if k not in FLAT))

    def _keep_settings(self) -> None:
        """Flat fields hold what acts, wherever it was written; and each role its own group size, for that of TRL is
        about to become the loader's."""
        roles = {kind: dict(settings) for kind, settings in self._asked.items()}
        for kind in self.configured_kinds:
            role = role_config(self, kind)
            group = role.num_generations or self.num_generations
            if kind not in FLAT:
                roles[kind]["num_generations"] = group
                continue
            for setting in (*roles.get(kind, {}), "micro_batches", "objective"):
                setattr(self, f"{kind}_{setting}", getattr(role, setting))
            setattr(self, f"{kind}_num_generations", group)
            if not players_of(kind, role):
                setattr(self, f"{kind}_micro_batches", 0)
        self.roles = roles or None

    def _derive(self) -> None:
        """The micro-batches of a step, and how often TRL's data loader repeats an anchor: it wants a number that
        divides the whole round, and the game takes the distinct anchors."""
        trained = [s for s in self.all_roles.values() if s.trained]
        self.gradient_accumulation_steps = sum(s.trained_micro_batches for s in trained)
        size = self.per_device_train_batch_size * self.gradient_accumulation_steps * self.steps_per_round
        first = self.solver
        if first.samples_per_round is not None:  # as few anchors as there are slots, for each is read and sent
            slots = max(first.samples_per_round // first.num_generations, 1)
            self.num_generations = next(n for n in range(max(size // slots, 1), 0, -1) if size % n == 0)
            return
        self.num_generations = math.gcd(first.num_generations, size)
        held = self.per_device_train_batch_size * first.micro_batches * self.steps_per_round
        slots = held // first.num_generations
        if size // self.num_generations < slots:  # a frozen prover's samples are not in the size
            self.num_generations = 1

    def with_kinds(self, kinds: Iterable[str], optional: Iterable[str] = ()) -> "JointSelfPlayConfig":
        """These settings for a game with roles of these kinds, of which some may be left out; itself if it is one
        already. ConfigError if roles and game do not fit."""
        new = copy.copy(self)
        new._kinds, new._optional = tuple(kinds), tuple(optional)
        if (new._kinds, new._optional) == (self._kinds, self._optional):
            return self
        checks.check_roles(new)
        new._derive()
        new.steps_per_generation = new.gradient_accumulation_steps * new.steps_per_round
        new.generation_batch_size = new.per_device_train_batch_size * new.world_size * new.steps_per_generation
        return new

    def to_dict(self) -> dict[str, Any]:
        """As TrainingArguments; without the settings of roles that the game does not have."""
        absent = {f"{kind}_{setting}" for kind in FLAT if kind not in self._kinds for setting in FIELDS}
        return {name: value for name, value in super().to_dict().items() if name not in absent}

    @property
    def configured_kinds(self) -> tuple[str, ...]:
        """The game's kinds of roles that have settings here; the flat ones always have."""
        return tuple(kind for kind in self._kinds if kind in FLAT or kind in self._asked)

    @property
    def all_roles(self) -> dict[str, RoleSettings]:
        """Every player of a round by name, trained or not, kind by kind in the order of the game's roles."""
        return resolve_roles(self, self._kinds)

    @property
    def trained_roles(self) -> tuple[str, ...]:
        """The players that are trained."""
        return tuple(name for name, settings in self.all_roles.items() if settings.trained)

    def players_of(self, kind: str) -> tuple[str, ...]:
        """The names of a kind's players; () if it is absent."""
        return tuple(name for name, settings in self.all_roles.items() if settings.kind == kind)

    @property
    def players_by_kind(self) -> dict[str, list[str]]:
        """Kind -> its players, of all kinds that the game has."""
        return {kind: list(self.players_of(kind)) for kind in self._kinds}

    def role(self, role: str) -> RoleSettings:
        """The settings of a player; of a kind, those of its first player, and of an absent one those that it would
        have, with no micro-batches."""
        players = self.all_roles
        kinds = {settings.kind: settings for settings in reversed(players.values())}
        found = players.get(role) or kinds.get(role)
        if found is None and role not in self._kinds:
            raise ConfigError(f"There is no role '{role}'; the roles are {', '.join((*players, *self._kinds))}.")
        return found or settings_of(self, role, replace(role_config(self, role), micro_batches=0), role, None)

    @property
    def solver(self) -> RoleSettings:
        """The role whose groups are the problems of a round: the (first) prover, or the game's first kind."""
        return self.role("prover" if "prover" in self._kinds else self._kinds[0])

    def capacity(self, player: str) -> int:
        """Samples of a round of the player, over all processes: those that its micro-batches hold, unless
        `samples_per_round` says how many."""
        settings = self.role(player)
        held = self.per_device_train_batch_size * settings.micro_batches * self.steps_per_round * self.world_size
        return held if settings.samples_per_round is None else settings.samples_per_round

    def kept_answers(self, player: str) -> int:
        """The most kept answers (episodes) that a round of the player trains on, over all processes: as many as it
        samples, or with `all_kept` as it samples in the rounds for which they are kept."""
        return self.capacity(player) * self.role(player).replayed_rounds

    def rows(self, player: str) -> int:
        """Rows that the player's micro-batches of an optimizer step hold, per process. An answer is a row, or one row
        for each of its moves."""
        return self.per_device_train_batch_size * self.role(player).trained_micro_batches

    @property
    def slots_per_round(self) -> int:
        """Problems that the prover attempts in a round, over all processes."""
        return self.capacity(self.solver.role) // self.solver.num_generations

    @property
    def anchor_slots(self) -> int:
        """Slots of a round that are kept for anchor problems."""
        if not self.players_of("conjecturer"):
            return self.slots_per_round
        return round(self.anchor_fraction * self.slots_per_round)

    @property
    def fill_multiple(self) -> int:
        """What `fill` cuts or pads to a multiple of."""
        return self.truncate_multiple or int(self.prover_micro_batches)

    @property
    def random_slots(self) -> int:
        """Slots of a round that get new problems from the exact solver."""
        return round(self.random_fraction * self.slots_per_round)

    @property
    def loader_repeat(self) -> int:
        """How often TRL's data loader repeats every anchor (its group size; see __post_init__)."""
        return int(self.num_generations or 1)

    @property
    def loader_problems(self) -> int:
        """Distinct anchors that the data loader draws for a round, over all processes; never fewer than the slots."""
        return int(self.generation_batch_size or 0) // self.loader_repeat

    @property
    def rounds_per_export(self) -> int:
        """`export_every` as it acts; 0: never. A save_steps that is a share of the run is none of rounds yet."""
        if self.export_every is not None:
            return self.export_every
        saves = self.proposer == "tiers" and self.save_strategy == "steps" and self.save_steps >= 1
        return int(self.save_steps) if saves else 0

    @property
    def reward_arguments(self) -> dict[str, Any]:
        """`conjecturer_reward_kwargs` as a dict."""
        return self._arguments("conjecturer_reward_kwargs", '{"low": 0.05, "high": 0.85}')

    @property
    def proposer_arguments(self) -> dict[str, Any]:
        """`proposer_kwargs` as a dict."""
        return self._arguments("proposer_kwargs", '{"low": 0.2}')

    @property
    def added_overlong(self) -> float:
        """The share of the prover's length whose charge is added to its reward; 0 if it replaces the credit."""
        return self.soft_overlong if self.overlong == "add" else 0.0

    @property
    def guide_arguments(self) -> dict[str, Any]:
        """`guide_kwargs` as a dict."""
        return self._arguments("guide_kwargs", '{"rounds": 10}')

    @property
    def game_arguments(self) -> dict[str, Any]:
        """`game_kwargs` as a dict."""
        return self._arguments("game_kwargs", '{"eta": 0.25}')

    def _arguments(self, name: str, example: str) -> dict[str, Any]:
        return json_object(name, getattr(self, name), example)
