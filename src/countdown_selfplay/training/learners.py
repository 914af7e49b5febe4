"""Trained players: objective, loss, kept samples, and demonstrations beside a step's own answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..config import JointSelfPlayConfig, Role
from ..config.role_rules import refuse_ignored_charges
from ..contract.domain import in_moves
from ..distributed.processes import Processes
from ..errors import ConfigError
from ..evaluation.sampling import many_ids
from ..objectives import check_objective, make_objective
from ..objectives.base import Objective
from ..random_state import seed_from
from .losses import RoleLoss
from .replay import AnswerBuffer, CarriedAnswers, EpisodeReplay, Kept, SampleReplay, batch_of
from .states import check_state, refuse_class
from .window import RoleBatch, joined


@dataclass
class Learner:
    """A player that is trained."""

    objective: Objective
    loss: RoleLoss
    replay: SampleReplay | AnswerBuffer | None = None
    """Kept samples, for an objective that trains on them."""
    demonstrations: Demonstrations | None = None


def learners_of(
    args: JointSelfPlayConfig, domain: Any, roles: Mapping[str, Role], given: Mapping[str, Objective | str] | None
) -> dict[str, Learner]:
    """By role, in the order of `args`. `given`: a user's objectives, which replace those of `args`."""
    objectives = role_objectives(args, {role: roles[role] for role in args.trained_roles}, given)
    solvers = args.players_of(args.solver.kind) if in_moves(domain) else ()
    found = {}
    for role, objective in objectives.items():
        most_moves = int(domain.most_moves) if role in solvers else 1
        replay = replay_of(objective, roles[role], role in solvers)
        found[role] = Learner(objective, RoleLoss(objective, roles[role], most_moves), replay)
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


def states_of(learners: Mapping[str, Learner]) -> dict[str, object]:
    """By the names of a checkpoint, the parts of learners that may have a state."""
    found: dict[str, object] = {f"objective/{role}": learner.objective for role, learner in learners.items()}
    found |= {f"entropy/{role}": learner.loss.entropy for role, learner in learners.items()}
    return found | {f"replay/{role}": learner.replay for role, learner in learners.items()}


def replay_of(objective: Objective, settings: Role, episodes: bool) -> SampleReplay | AnswerBuffer | None:
    """A store for an objective that trains on kept samples. `episodes`: whether the answers of its role are such."""
    rule = objective.replay
    if rule is None:
        return None
    if rule.reuse is not None or rule.carry:
        return (CarriedAnswers if rule.carry else AnswerBuffer)(rule, settings)
    return EpisodeReplay(rule, settings) if episodes else SampleReplay(rule, settings)


@dataclass(frozen=True)
class Demonstrations:
    """Demonstrated answers of a role, each one row or several moves, drawn for each step alike on all processes. In
    the supervised term (`sft_coef`) they are an anchor that keeps coverage."""

    count: int
    """In an optimizer step, over all processes."""
    make: Callable[[int, int], Sequence[Sequence[Kept]]]
    """(how many, seed) -> answers."""

    def beside(self, window: RoleBatch, key: Sequence[object], processes: Processes) -> RoleBatch:
        """The window with this process's share of the step's demonstrations."""
        return supervised(window, self.make(self.count, seed_from(*key, "demonstrations")), processes)


def supervised(window: RoleBatch, answers: Sequence[Sequence[Kept]], processes: Processes) -> RoleBatch:
    """The window with this process's share of `answers` in the supervised term; the objective does not select them."""
    drawn = answers[processes.rank :: processes.world]
    if not drawn:
        return window
    more = batch_of(window, drawn, window.has_signal)
    mask = more.tensors["completion_mask"]
    # Nobody asks for those of a row that is not selected, but all rows have them.
    for name in ("old_per_token_logps", "sampling_per_token_logps"):
        if name in window.tensors:
            more.tensors[name] = torch.full(mask.shape, torch.nan, device=mask.device)
    more.tensors["sft_mask"] = mask.clone()
    more.selected_B = torch.zeros(more.rows, dtype=torch.bool)
    more.advantages_B = torch.zeros(more.rows)
    base = window if window.sequence_B is not None else replace(window, sequence_B=torch.arange(window.rows))
    return joined([base, more])


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

    def encoded(n: int, seed: int) -> list[list[Kept]]:
        answers = make(n, seed, tuple(rungs) if rungs else None)
        asked, texts = zip(*((row["prompt"], text) for answer in answers for row, text in answer), strict=True)
        rows = (Kept(0, 0.0, *ids, {}) for ids in many_ids(tokenizer, asked, texts))
        return [[next(rows) for _ in answer] for answer in answers]

    encoded(1, 0)  # what cannot be made is said before the run starts
    return Demonstrations(settings.demonstrations_per_step, encoded)
