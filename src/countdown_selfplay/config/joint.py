"""The configuration of the joint trainer."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from ..games import check_game, game_class
from . import rules
from .flat import how_written, place
from .recipes import check_names, recipe_fields
from .roles import FLAT, parsed_roles, typed_setting
from .settings import SelfPlaySettings

T = TypeVar("T", bound=type)


def takes_flat_names(config: T) -> T:
    """Class decorator over @dataclass: the constructor takes flat names too (flat.py)."""
    declared: Callable[..., None] = config.__init__  # type: ignore[misc]

    @functools.wraps(declared)
    def build(self: Any, *values: Any, **settings: Any) -> None:
        check_names(settings, type(self))
        self.written, self.asked = how_written(settings), tuple(parsed_roles(settings.get("roles")))
        declared(self, *values, **place(settings))

    config.__init__ = build  # type: ignore[misc]
    return config


@takes_flat_names
@dataclass(repr=False)
class JointSelfPlayConfig(SelfPlaySettings):
    """Differs from GRPOConfig in that batch, sampling and optimisation settings exist once per role.

    A step of the Trainer is a round, of `steps_per_round` optimizer steps, each with the micro-batches of all trained
    players: `gradient_accumulation_steps` is 1. Settings of a part are in the mapping of that part (`roles`,
    `domain_kwargs`, `game_kwargs`, `guard_trips`, `vllm_client`), and can be passed by their flat names, as in recipes
    and on the command line: `prover_beta=0.1`, `operands=[3]`. Every cross-field rule is checked here, before a model
    is loaded.
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
        group = self.num_generations
        # TRL's batch, for its checks alone: rounds are drawn by rounds_loader.
        self.num_generations, self.steps_per_generation, self.generation_batch_size = 2, 2 * self.steps_per_round, None
        self.settle()
        super().__post_init__()
        # With it TRL takes log-probs at sampling for rounds of several steps, by which clips and weights act.
        self.num_generations, self.steps_per_generation = group, self.steps_per_round
        self.generation_batch_size = self.per_device_train_batch_size * self.world_size * self.steps_per_round
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

    def with_kinds(self, kinds: Iterable[str], optional: Iterable[str] = ()) -> Self:
        """These settings for a game with roles of these kinds, of which some may be left out; itself if it is one
        already. ConfigError if roles and game do not fit."""
        new = copy.copy(self)
        new.kinds, new.optional = tuple(kinds), tuple(optional)
        if (new.kinds, new.optional) == (self.kinds, self.optional):
            return self
        rules.check_roles(new)
        return new
