"""The configuration of the joint trainer."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self, cast

from trl import GRPOConfig

from ..games import check_game, game_class
from . import rules
from .ranges import check_numbers
from .recipes import check_names, recipe_fields
from .roles import FLAT, FLAT_FIELDS, parsed_roles, typed_setting
from .settings import SelfPlaySettings


@dataclass(repr=False)
class JointSelfPlayConfig(SelfPlaySettings):
    """Differs from GRPOConfig in that batch, sampling and optimisation settings exist once per role.

    A step of the Trainer is a round, of `steps_per_round` optimizer steps, each with the micro-batches of all trained
    players: `gradient_accumulation_steps` is 1. What a role's field (`prover_beta`) or `roles` does not give is the
    field for all roles (`beta`). Arguments of the domain are in `domain_kwargs`, or belong to the `domain` that the
    trainer is given. Every cross-field rule is checked here, before a model is loaded.
    """

    def __new__(cls, *_: Any, **settings: Any) -> Self:
        """ConfigError with the nearest name for a setting that is no field."""
        check_names(settings, cls, [f.name for f in fields(cls) if f.init])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_numbers(self)
        self._join_roles()
        self._set_kinds()
        rules.before_trl(self)
        for kind in self.configured_kinds:  # TRL's group size is about to become the loader's
            own = cast("dict[str, Any]", self.roles).setdefault(kind, {})
            own["num_generations"] = self.given(kind, "num_generations") or self.num_generations
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
        """Put the settings of roles that were given as fields into `roles`, and remember how they were written."""
        given = parsed_roles(self.roles)
        self.asked = tuple(given)
        given = {kind: {s: value for s, value in own.items() if value is not None} for kind, own in given.items()}
        self.written = {(kind, s): f"roles.{kind}.{s}" for kind, own in given.items() for s in own}
        for name, (kind, setting) in FLAT_FIELDS.items():
            if (value := getattr(self, name)) is not None:
                given.setdefault(kind, {})[setting] = value
                self.written[kind, setting] = name
        self.roles = {
            kind: {s: typed_setting(self.written[kind, s], s, value) for s, value in own.items()}
            for kind, own in given.items()
        }

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
