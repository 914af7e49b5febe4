"""Trained players: objective, loss, kept samples, and demonstrations beside a step's own answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import JointSelfPlayConfig, Role
from ..config.role_rules import refuse_ignored_charges
from ..contract.domain import in_moves
from ..errors import ConfigError
from ..evaluation.sampling import many_ids
from ..objectives import check_objective, make_objective
from ..objectives.base import Objective
from ..random_state import seed_from
from .losses import RoleLoss
from .replay import ReplayQueue
from .samples import Sample
from .states import check_state, refuse_class


@dataclass
class Learner:
    """A player that is trained."""

    objective: Objective
    loss: RoleLoss
    replay: ReplayQueue | None = None
    """Kept answers, for an objective that trains on them."""
    episodes: bool = False
    """Are its answers given in moves?"""
    demonstrations: Demonstrations | None = None


def learners_of(
    args: JointSelfPlayConfig, domain: Any, roles: Mapping[str, Role], given: Mapping[str, Objective | str] | None
) -> dict[str, Learner]:
    """By role, in the order of `args`. `given`: a user's objectives, which replace those of `args`."""
    objectives = role_objectives(args, {role: roles[role] for role in args.trained_roles}, given)
    episodes = check_episodes(args, domain)
    found = {}
    for role, objective in objectives.items():
        most_moves = int(domain.most_moves) if role in episodes else 1
        replay = None if objective.replay is None else ReplayQueue(objective.replay, roles[role])
        loss = RoleLoss(objective, roles[role], most_moves)
        found[role] = Learner(objective, loss, replay, episodes=role in episodes)
    return found


def role_objectives(
    args: JointSelfPlayConfig, roles: Mapping[str, Role], given: Mapping[str, Objective | str] | None
) -> dict[str, Objective]:
    """The objective of each role: the user's object if there is one, else the one that `args` names."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"`objectives` ({given!r}) must be a dict with an objective per role: {', '.join(roles)}.")
    given = dict(given or {})
    unknown = [role for role in given if role not in roles]
    if unknown:
        raise ConfigError(f"`objectives` names {', '.join(unknown)}; the trained roles are {', '.join(roles)}.")
    found: dict[str, Objective] = {}
    for role, settings in roles.items():
        objective = given.get(role, settings.objective)
        if isinstance(objective, str):
            arguments = {} if role in given else settings.objective_kwargs
            low, high = args.importance_clip_low, args.importance_clip_high
            objective = make_objective(objective, arguments, low=low, high=high)
        refuse_class(f"objectives[{role!r}]", objective)
        check_objective(f"The {role}'s objective ({objective!r})", objective)
        refuse_ignored_charges(args, settings.kind, f"objectives[{role!r}]", type(objective).__name__, objective)
        check_state(f"objective/{role}", objective)
        found[role] = objective
    return found


def check_episodes(args: JointSelfPlayConfig, domain: Any) -> list[str]:
    """The trained roles whose answers are episodes; ConfigError where one does not fit into a micro-batch."""
    if not in_moves(domain):
        return []
    if args.per_device_train_batch_size < domain.most_moves:
        raise ConfigError(
            f"`per_device_train_batch_size` ({args.per_device_train_batch_size}) must hold the moves of an episode, "
            f"which are all in one micro-batch: raise it to at least {domain.most_moves}."
        )
    return [role for role in args.trained_roles if args.role(role).kind == args.solver.kind]


def states_of(learners: Mapping[str, Learner]) -> dict[str, object]:
    """By the names of a checkpoint, the parts of learners that may have a state."""
    found: dict[str, object] = {f"objective/{role}": learner.objective for role, learner in learners.items()}
    found |= {f"entropy/{role}": learner.loss.entropy for role, learner in learners.items()}
    return found | {f"replay/{role}": learner.replay for role, learner in learners.items()}


@dataclass(frozen=True)
class Demonstrations:
    """Demonstrated answers of a role, each one row or several moves, drawn for each step alike on all processes. In
    the supervised term (`sft_coef`) they are an anchor that keeps coverage."""

    count: int
    """In an optimizer step, over all processes."""
    make: Callable[[int, int], Sequence[Sample]]
    """(how many answers, seed) -> their rows."""

    def drawn(self, key: Sequence[object]) -> Sequence[Sample]:
        """The rows of a step."""
        return self.make(self.count, seed_from(*key, "demonstrations"))


def demonstrations_of(
    role: str, settings: Role, domain: Any, tokenizer: Any, rungs: Sequence[int] | None
) -> Demonstrations | None:
    """Those of a role that `demonstrations_per_step` asks for, of problems of `rungs` (None: all). ConfigError where
    the domain makes none."""
    if not settings.demonstrations_per_step:
        return None
    make: Any = domain.demonstrations
    if make is None:
        raise ConfigError(
            f"`demonstrations_per_step` ({settings.demonstrations_per_step}) of the {role} needs a domain that "
            f"demonstrates (`demonstrations(n, seed, rungs)`), and {type(domain).__name__} does not; set it to 0."
        )

    def encoded(n: int, seed: int) -> list[Sample]:
        answers = make(n, seed, tuple(rungs) if rungs else None)
        asked, texts = zip(*((row["prompt"], text) for answer in answers for row, text in answer), strict=True)
        numbers = [-1 - i for i, answer in enumerate(answers) for _ in answer]  # those of a round are at least 0
        return [
            Sample(np.array(prompt), np.array(completion), 0.0, i, i, trained=False, imitated=True)
            for i, (prompt, completion) in zip(numbers, many_ids(tokenizer, asked, texts), strict=True)
        ]

    encoded(1, 0)  # what cannot be made is said before the run starts
    return Demonstrations(settings.demonstrations_per_step, encoded)
