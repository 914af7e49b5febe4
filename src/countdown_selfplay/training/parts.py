"""From a configuration to the parts of a run that need no model: the domain, the game's settings, what is refused."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from ..config import JointSelfPlayConfig, RoleSettings
from ..config.checks import check_run
from ..config.guard_fields import GuardFields, trips_of
from ..config.role_checks import refuse_ignored_charges
from ..config.row_checks import check_episode_rows
from ..contract.domain import in_moves
from ..contract.frame_metrics import FRAME_METRICS
from ..contract.game import Game
from ..contract.metric import UNBOUNDED, Metric, Range, declaration_of, for_players
from ..curriculum import CollapseGuard, ConjecturerGuard
from ..domains import example_rows, name_of
from ..errors import ConfigError, GameError
from ..evaluation.sampling import check_stop_strings, end_token_ids
from ..games import GAMES, check_game, game_class
from ..guides import check_guide
from ..objectives import make_objective
from ..objectives.base import Objective
from ..policies import PolicySet
from ..proposers import check_proposer
from ..registry import suggestion
from ..rewards import ConjecturerReward, make_conjecturer_reward
from ..rewards.base import takes_context
from ..rewards.prover.checked import default_reward_funcs
from .states import check_state


def game_of(args: JointSelfPlayConfig, conjecturer_reward: ConjecturerReward | str | None, game: Any = None) -> Game:
    """The game that was passed, or the one that `args` names. conjecturer_reward: the user's callable, or a name,
    instead of the one in `args`. Its state, with that of its proposer and guide, can be saved."""
    made = _made_game(args, conjecturer_reward, game)
    check_state("game", made)
    return made


def _made_game(args: JointSelfPlayConfig, conjecturer_reward: ConjecturerReward | str | None, game: Any) -> Game:
    entry = game_class(str(args.game)) if game is None else game
    if game is not None or entry.from_config is None:
        if conjecturer_reward is not None:
            raise ConfigError(
                f"`conjecturer_reward` ({conjecturer_reward!r}) is not read by a game of your own; give it to the "
                "game, such as ProposeAndSolve(reward=...), and leave it out."
            )
        made = GAMES.make(str(args.game), args.game_arguments) if game is None else game
        proposer, guide = made.proposer, made.guide
        if proposer is not None:
            refuse_class("proposer", proposer)
            check_proposer(f"`proposer` of the game ({type(proposer).__name__})", proposer, args.players_by_kind)
        made.check(args)
        if guide is not None:
            refuse_class("guide", guide)
            check_guide(f"`guide` of the game ({type(guide).__name__})", guide, args.players_by_kind)
        return made
    reward = None if conjecturer_reward is None else conjecturer_reward_of(args, conjecturer_reward)
    return entry.from_config(args, reward=reward)


def with_roles_of(args: JointSelfPlayConfig, game: Any) -> JointSelfPlayConfig:
    """`args` for the roles that a game passed as an object has."""
    if game is None and args.game is None:
        raise ConfigError("`game` (None) says that the trainer is given a game; pass it, or name one of GAMES.")
    if game is None:
        return args
    refuse_class("game", game)
    check_game(f"`game` ({type(game).__name__})", game)
    return args.with_kinds(game.roles, game.optional_roles)


def declared_metrics(game: Game, players: Mapping[str, Sequence[str]]) -> list[Metric]:
    """The frame's and the game's, with those of its proposer and guide, one per player; of two of one name the last.
    `players`: kind -> its players."""
    own: list[Metric] = []
    for what, part in (("game", game), ("proposer", game.proposer), ("guide", game.guide)):
        declared = () if part is None else part.metrics
        if not isinstance(declared, list | tuple) or not all(isinstance(metric, Metric) for metric in declared):
            raise ConfigError(f"`metrics` of the {what} ({declared!r}) must be a list of Metric(name, help, ...).")
        own += declared
    # What no player wrote is logged as of `proposer`.
    written = {kind: list(names) or ["proposer"] for kind, names in players.items()}
    found = [*for_players(FRAME_METRICS, players), *for_players(own, written)]
    return list({metric.name: metric for metric in found}.values())


_BOUNDS = (  # field, end of the name of the metrics that it is for, which end of their range
    ("guard_min_parseable_rate", "/parseable_rate", 0),
    ("guard_min_solve_rate", "round/solve_rate_mean", 0),
    ("guard_max_solve_rate", "round/solve_rate_mean", 1),
    ("guard_min_entropy", "/entropy", 0),
)


def guard_of(args: JointSelfPlayConfig, metrics: Iterable[Metric]) -> CollapseGuard:
    """The collapse guard over the declared metrics. A field of `args` that is not at its default stands above the
    declaration, and `guard_trips` above both."""
    declared, trips = list(metrics), dict[str, Range]()
    defaults = {f.name: f.default for f in fields(GuardFields)}
    for name, end, side in _BOUNDS:
        value = getattr(args, name)
        for metric in declared:
            if value != defaults[name] and metric.name.endswith(end):
                low, high = trips.get(metric.name, metric.trip) or UNBOUNDED
                bound = UNBOUNDED[side] if value == side else value  # 0 and 1: never
                trips[metric.name] = (low, bound) if side else (bound, high)
    if conjecturer_guard_of(args) is not None:
        trips |= {m.name: UNBOUNDED for m in declared if m.name.endswith("/parseable_rate")}
    rounds = args.guard_max_starved_rounds
    if rounds != defaults["guard_max_starved_rounds"]:
        declared = [replace(m, in_a_row=rounds) if m.name == "round/starved" else m for m in declared]
    names = {metric.name for metric in declared}
    for name, bounds in trips_of(args.guard_trips).items():
        found = declaration_of(name, declared)
        if found is None:
            raise ConfigError(
                f"`guard_trips` names '{name}', which no round of this run logs.{suggestion(name, sorted(names))} "
                "docs/metrics.md lists the metrics; times and evaluations are not among those that the guard sees."
            )
        declared += [] if name in names else [found]
        trips[name] = bounds
    return CollapseGuard(declared, args.guard_window, trips)


def conjecturer_guard_of(args: JointSelfPlayConfig) -> ConjecturerGuard | None:
    """The guard of the conjecturers alone, under guard_scope=conjecturer."""
    players = args.players_of("conjecturer")
    if not args.guard or args.guard_scope == "run" or not players:
        return None
    return ConjecturerGuard(players, args.guard_min_parseable_rate)


def refuse_engine_for_conjecturer(guard: ConjecturerGuard | None, engine: str) -> None:
    """Where weights or optimizer are cut over processes, a part of a checkpoint cannot be loaded."""
    if guard is not None and engine != "ddp":
        raise ConfigError(
            f"`guard_scope` (conjecturer) cannot take one policy back under {engine}, whose checkpoints hold all of "
            "them in one piece; set guard_scope=run, or launch with accelerate_configs/ddp.yaml."
        )


def refuse_unsupported(args: JointSelfPlayConfig, engine: str) -> None:
    """One sentence, before any model loads, for options that cannot be run; `engine`: ddp, deepspeed or fsdp."""
    check_run(args)
    if args.load_best_model_at_end and engine != "ddp":
        raise ConfigError(
            f"`load_best_model_at_end` (True) is not supported under {engine}; leave it unset, and go on from the "
            "checkpoint that trainer_state.json names as best_model_checkpoint."
        )
    if engine.startswith("zero") and any(role.sequences_per_step for role in args.all_roles.values() if role.trained):
        raise ConfigError(
            "`sequences_per_step` is not supported under DeepSpeed, whose optimizer also steps where a role has no "
            "sequence left: its moments would decay; launch with ddp or fsdp2, or set it to 0."
        )
    if args.push_to_hub:
        raise ConfigError(
            "`push_to_hub` (True) is not supported: a checkpoint holds several policies; "
            "after training upload the roles with `countdown-selfplay push <output_dir>`."
        )
    if args.enable_jit_checkpoint:
        raise ConfigError(
            "`enable_jit_checkpoint` (True) would save in the middle of a round, which cannot be resumed exactly; "
            "leave it unset: SIGTERM ends a run with a checkpoint at the end of its round anyway."
        )


def advise_threads() -> None:
    """A warning, once, where torch was loaded before this package could tell its threads not to spin."""
    if torch.get_num_threads() > 1 and not {"OMP_WAIT_POLICY", "OMP_NUM_THREADS"} & set(os.environ):
        transformers_logging.get_logger(__name__).warning_once(
            "torch was loaded before countdown_selfplay: on busy cores its threads wait for each other, and a step "
            "can take ten times as long. Import countdown_selfplay first, or set OMP_WAIT_POLICY=PASSIVE or "
            "OMP_NUM_THREADS=1."
        )


def role_objectives(
    args: JointSelfPlayConfig, roles: Mapping[str, RoleSettings], given: Mapping[str, Objective | str] | None
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
            objective = make_objective(
                objective, arguments, low=args.importance_clip_low, high=args.importance_clip_high
            )
        refuse_class(f"objectives[{role!r}]", objective)
        if not hasattr(objective, "advantages") or not hasattr(objective, "loss"):
            raise ConfigError(f"The {role}'s objective ({objective!r}) must have `advantages` and `loss`.")
        refuse_ignored_charges(args, settings.kind, f"objectives[{role!r}]", type(objective).__name__, objective)
        check_state(f"objective/{role}", objective)
        found[role] = objective
    return found


def conjecturer_reward_of(args: JointSelfPlayConfig, given: ConjecturerReward | str | None) -> ConjecturerReward:
    """The user's callable if there is one, else the reward that is named."""
    if given is None or isinstance(given, str):
        return make_conjecturer_reward(given or args.conjecturer_reward, {} if given else args.reward_arguments)
    if not callable(given):
        raise ConfigError(
            f"`conjecturer_reward` ({given!r}) must be a callable (solve_rate_P, ctx) -> reward_P, or a name in "
            "CONJECTURER_REWARDS."
        )
    takes_context(given)
    return given


def refuse_class(name: str, part: object) -> None:
    """A part of a user's own is an object; a class has the same methods, and none that can be called."""
    if isinstance(part, type):
        raise ConfigError(f"`{name}` is the class {part.__name__}; pass an object of it, such as {part.__name__}().")


def refuse_unfit_prompts(args: JointSelfPlayConfig, domain: Any, rows: Any, tokenizer: Any) -> None:
    """A chat prompt for a model that knows no chats would fail in the first round, as would a stop string that its
    tokenizer cannot write."""
    said = domain.to_dict()
    chats = [
        f"`{kind}_prompt` ({said.get(f'{kind}_prompt', name_of(domain))})"
        for kind, row in examples(args, domain, rows).items()
        if isinstance(row["prompt"], list)
    ]
    if chats and not getattr(tokenizer, "chat_template", None):
        cure = "set `tokenizer.chat_template`, or play a domain with prompts of plain text."
        if "prover_prompt" in said:
            cure = (
                "set both to compact (the embedded model and what was warm-started from it), or "
                "prover_prompt=tinyzero and conjecturer_prompt=completion."
            )
        raise ConfigError(
            f"{' and '.join(chats)} {'holds' if len(chats) == 1 else 'hold'} a chat, and the tokenizer has no chat "
            f"template; {cure}"
        )
    for settings in args.all_roles.values():
        check_stop_strings(tokenizer, settings.stops(domain))


def check_parts(args: JointSelfPlayConfig, reward_funcs: Any, **objects: object) -> None:
    """Reward functions are functions, ids or models, and other parts are objects. The two charges belong to the
    default rewards; beside a user's own they would be skipped."""
    for name, part in objects.items():
        refuse_class(name, part)
    for function in reward_funcs if isinstance(reward_funcs, list | tuple) else [reward_funcs]:
        refuse_class("reward_funcs", function)
        if function is not None and not isinstance(function, str) and not callable(function):
            raise ConfigError(f"`reward_funcs` holds {function!r}; a reward is a function, a model's id or a model.")
    charges = (("length_penalty", args.length_penalty), ("soft_overlong", args.added_overlong))
    for (name, charge), maker in zip(charges, ("make_length_penalty", "make_soft_overlong"), strict=True):
        if reward_funcs is not None and charge:
            raise ConfigError(
                f"`{name}` ({getattr(args, name)}) is added to the default rewards only; add {maker}(...) to your "
                "reward_funcs and leave it unset."
            )


def refuse_odd_weights(args: JointSelfPlayConfig, reward_funcs: object) -> None:
    """TRL counts them when the models have loaded, and takes any number."""
    functions, weights = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs], args.reward_weights
    if weights is not None and (len(weights) != len(functions) or not all(map(math.isfinite, weights))):
        raise ConfigError(
            f"`reward_weights` ({weights}) must hold one finite number for each of the {len(functions)} reward "
            "functions; leave it unset to add them up."
        )


def refuse_mapping(eval_dataset: object) -> None:
    if isinstance(eval_dataset, Mapping):
        raise ConfigError("`eval_dataset` is a dict of data sets; pass one, and hand the others to evaluate().")


def refuse_mixed_tables(args: JointSelfPlayConfig, domain: Any, rows: Any) -> None:
    """TRL writes the completions of all roles into one table, whose prompt column has one type."""
    if args.log_completions and len({type(row["prompt"]) for row in examples(args, domain, rows).values()}) > 1:
        raise ConfigError(
            "`log_completions` (True) cannot hold one role's chats and the other's texts in one table; "
            "leave it unset: samples.jsonl in the run folder holds examples of both."
        )


def end_tokens(args: JointSelfPlayConfig, domain: Any, rows: Any, policies: PolicySet, tokenizer: Any) -> list[int]:
    """Tokens that end a completion of any role; evaluation stops at them too. The end of a chat turn is among them."""
    chat = any(isinstance(row["prompt"], list) for row in examples(args, domain, rows).values())
    found: list[int] = []
    for role in policies.roles:
        with policies.active(role):
            found += end_token_ids(policies.module, tokenizer, chat)
    return list(dict.fromkeys(found))


def examples(args: JointSelfPlayConfig, domain: Any, rows: Any) -> dict[str, dict[str, Any]]:
    """A row that asks each kind of role that the domain knows."""
    return example_rows(domain, bool(args.players_of("conjecturer")), rows)


def checked_verdicts(domain: Any, texts: list[str], problems: list[Any]) -> list[Any]:
    """One verdict per completion; GameError if the domain returns another number."""
    found = list(domain.verify(texts, problems))
    if len(found) != len(texts):
        raise GameError(
            f"`verify` of {type(domain).__name__} returned {len(found)} verdicts for {len(texts)} completions; it "
            "must return one for each, in their order."
        )
    return found


def default_rewards(args: JointSelfPlayConfig, domain: Any) -> list[Any]:
    """The prover's reward functions where none are passed: the verifier's score, and the charges for length."""
    longest = args.solver.max_completion_length
    charges = (args.length_penalty, args.added_overlong, longest, args.length_penalty_floor)
    return default_reward_funcs(f"{name_of(domain)}_reward", *charges)


def summed_rewards(per_func: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """(B, functions) -> (B) weighted sums on the CPU; NaN where every function returned None."""
    rewards_B = (per_func * weights.to(per_func.device)).nansum(1)
    rewards_B[torch.isnan(per_func).all(1)] = torch.nan
    return rewards_B.cpu()


def check_episodes(args: JointSelfPlayConfig, domain: Any) -> list[str]:
    """The trained roles whose answers are episodes; ConfigError where a step's do not fit into its micro-batches."""
    if not in_moves(domain):
        return []
    check_episode_rows(args, int(domain.most_moves))
    return [role for role in args.trained_roles if args.role(role).kind == args.solver.kind]
