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
        """Raise ConfigError with the nearest name for a setting that is no field."""
        check_names(settings, cls, [f.name for f in fields(cls) if f.init])
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
        """Move role settings given as fields into `roles`, and record how they were written."""
        given = parsed_roles(self.roles)
        self.named_kinds = tuple(given)
        given = {
            kind: {s: value for s, value in settings.items() if value is not None} for kind, settings in given.items()
        }
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
        """Build the config of a recipe, such as tiny/default, with `changes` over it. A plain field such as
        learning_rate also replaces the recipe's prover_learning_rate. Model and data of the recipe are not settings of
        the trainer; pass them to it."""
        return cls(**recipe_fields(name, changes, cls))

    def _set_kinds(self) -> None:
        """Set the kinds of roles: those of `game`, or without a name the configured ones until the game is known."""
        if self.game is not None:
            game = game_class(self.game)
            check_game(f"`game` ({self.game})", game)
            self.kinds, self.optional = tuple(game.roles), tuple(game.optional_roles)
        else:
            used = {kind for kind, _ in self.written} | set(self.named_kinds or FLAT)
            self.kinds = (*(k for k in FLAT if k in used), *(k for k in self.named_kinds if k not in FLAT))
            self.optional = ()

    def with_kinds(self, kinds: Iterable[str], optional: Iterable[str] = ()) -> Self:
        """Return these settings for a game with roles of these kinds (self if nothing changes). ConfigError if the
        roles do not fit the game."""
        new = copy.copy(self)
        new.kinds, new.optional = tuple(kinds), tuple(optional)
        if (new.kinds, new.optional) == (self.kinds, self.optional):
            return self
        rules.check_roles(new)
        return new
