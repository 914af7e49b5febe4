"""The configuration of the joint trainer."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from ..games import check_game, game_class
from . import rules
from .flat import how_written, place
from .recipes import recipe_fields
from .roles import FLAT, parsed_roles, typed_setting
from .settings import SelfPlaySettings

T = TypeVar("T", bound=type)


def takes_flat_names(config: T) -> T:
    """Class decorator over @dataclass: the constructor takes flat names too (flat.py)."""
    declared: Callable[..., None] = config.__init__  # type: ignore[misc]

    @functools.wraps(declared)
    def build(self: Any, *values: Any, **settings: Any) -> None:
        self.written, self.asked = how_written(settings), tuple(parsed_roles(settings.get("roles")))
        declared(self, *values, **place(settings))

    config.__init__ = build  # type: ignore[misc]
    return config


@takes_flat_names
@dataclass(repr=False)
class JointSelfPlayConfig(SelfPlaySettings):
    """Differs from GRPOConfig in that batch, sampling and optimisation settings exist once per role.

    An optimizer step has the micro-batches of all trained players; `gradient_accumulation_steps` is derived from them.
    Settings of a part are in the mapping of that part (`roles`, `domain_kwargs`, `game_kwargs`, `guard_trips`,
    `vllm_client`), and can be passed by their flat names, as in recipes and on the command line: `prover_beta=0.1`,
    `operands=[3]`. Every cross-field rule is checked here, before a model is loaded.
    """

    def __post_init__(self) -> None:
        self.roles = {
            kind: {s: typed_setting(self.field_of(kind, s), s, v) for s, v in settings.items() if v is not None}
            for kind, settings in parsed_roles(self.roles).items()
        }
        self._set_kinds()
        rules.before_trl(self)
        for kind in self.configured_kinds:  # TRL's group size is about to become the loader's
            own = self.roles.setdefault(kind, {})
            own["num_generations"] = self.given(kind, "num_generations") or self.num_generations
            if kind == "conjecturer" and not self.players_of(kind):
                own["micro_batches"] = 0
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
        rules.after_trl(self)

    @classmethod
    def from_recipe(cls, name: str, **changes: Any) -> Self:
        """The settings of a recipe, such as tiny/default, with `changes` over them: a plain field such as
        learning_rate also over the recipe's prover_learning_rate. The recipe's model and data are not settings of the
        trainer; pass those to it."""
        return cls(**recipe_fields(name, changes, cls))

    def _set_kinds(self) -> None:
        """The kinds of roles of `game`; without a name those that are configured, until the game itself is at hand."""
        if self.game is not None:
            game = game_class(self.game)
            check_game(f"`game` ({self.game})", game)
            self.kinds, self.optional = tuple(game.roles), tuple(game.optional_roles)
        else:
            used = {kind for kind, _ in self.written} | set(self.asked or FLAT)
            self.kinds = (*(k for k in FLAT if k in used), *(k for k in self.asked if k not in FLAT))
            self.optional = ()

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

    def with_kinds(self, kinds: Iterable[str], optional: Iterable[str] = ()) -> Self:
        """These settings for a game with roles of these kinds, of which some may be left out; itself if it is one
        already. ConfigError if roles and game do not fit."""
        new = copy.copy(self)
        new.kinds, new.optional = tuple(kinds), tuple(optional)
        if (new.kinds, new.optional) == (self.kinds, self.optional):
            return self
        rules.check_roles(new)
        new._derive()
        new.steps_per_generation = new.gradient_accumulation_steps * new.steps_per_round
        new.generation_batch_size = new.per_device_train_batch_size * new.world_size * new.steps_per_generation
        return new
