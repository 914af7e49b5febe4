"""Parts of a run, named in the configuration or passed as objects: game, guards, prover rewards, tokenizer."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from ..asking import check_generation_kwargs, check_token_ids
from ..chat_templates import prompt_ids, ready
from ..config import JointSelfPlayConfig
from ..config.role_rules import check_sharing, check_tokens
from ..config.roles import FLAT
from ..contract.domain import in_moves
from ..contract.game import Game
from ..contract.metric import UNBOUNDED, Metric, Range, declaration_of, for_players
from ..contract.trainer_metrics import TRAINER_METRICS
from ..curriculum import CollapseGuard, ConjecturerGuard
from ..domains import example_prompts, example_rows, name_of
from ..errors import ConfigError, PromptError
from ..evaluation.sampling import check_stop_strings, end_token_ids
from ..games import GAMES, check_game
from ..guides import check_guide
from ..options import is_number
from ..policies import PolicySet
from ..policies.base import cut_up
from ..proposers import check_proposer
from ..registry import suggestion
from ..rewards import ConjecturerReward, make_conjecturer_reward
from ..rewards.base import takes_context
from ..rewards.prover.verifier import default_reward_funcs
from .checkpoints import check_state, refuse_class

logger = logging.getLogger(__name__)


def settled_for(args: JointSelfPlayConfig, game: Any, peft_config: Any) -> JointSelfPlayConfig:
    """Return `args` adapted to the roles of a game object; with `peft_config`, policy_sharing=full becomes lora."""
    if peft_config is not None and args.policy_sharing == "full":
        args = copy.copy(args)
        args.policy_sharing = "lora"
        check_sharing(args)
    if game is None:
        if args.game is None:
            raise ConfigError("`game` (None) says that the trainer is given a game; pass it, or name one of GAMES.")
        return args
    refuse_class("game", game)
    check_game(f"`game` ({type(game).__name__})", game)
    return args.with_kinds(game.roles, game.optional_roles)


def game_of(
    args: JointSelfPlayConfig, domain: Any, conjecturer_reward: ConjecturerReward | str | None, game: Any = None
) -> Game:
    """Return `game`, or else the game that `args` names. Raises ConfigError if game or proposer does not support the
    run or the domain. `conjecturer_reward`: a callable or a name that replaces the reward in `args`."""
    entry = GAMES.load(str(args.game)) if game is None else game
    if game is None and entry.from_config is not None:
        reward = None if conjecturer_reward is None else conjecturer_reward_of(args, conjecturer_reward)
        made = entry.from_config(args, reward=reward)
    else:
        if conjecturer_reward is not None:
            cure = "give it to the game, such as ProposeAndSolve(reward=...)"
            raise ConfigError(f"`conjecturer_reward` ({conjecturer_reward!r}) is not read by your own game; {cure}.")
        made = GAMES.make(str(args.game), args.game_arguments) if game is None else game
        checks: dict[str, Any] = {"proposer": check_proposer, "guide": check_guide}
        for kind, check in checks.items():
            part = getattr(made, kind)
            if part is not None:
                refuse_class(kind, part)
                check(f"`{kind}` of the game ({type(part).__name__})", part, args.players_by_kind)
        made.check(args)
    made.check_domain(domain)
    if made.proposer is not None:
        made.proposer.check(args.players_by_kind, domain)
    check_state("game", made)
    return made


def conjecturer_reward_of(args: JointSelfPlayConfig, given: ConjecturerReward | str) -> ConjecturerReward:
    """Return the user's callable, or the named reward. Raises ConfigError for another object."""
    if isinstance(given, str):
        return make_conjecturer_reward(given or args.conjecturer_reward, {} if given else args.reward_arguments)
    if not callable(given):
        allowed = "a callable (solve_rate_P, ctx) -> reward_P, or a name in CONJECTURER_REWARDS"
        raise ConfigError(f"`conjecturer_reward` ({given!r}) must be {allowed}.")
    takes_context(given)
    return given


def declared_metrics(
    game: Game, players: Mapping[str, Sequence[str]], cures: Mapping[str, str] = MappingProxyType({})
) -> list[Metric]:
    """Return the metrics of trainer, game, proposer and guide, those of a role once per player; of equal names the
    last wins. `players`: role -> its players. `cures`: metric -> the domain's text in place of the metric's `cure`."""
    metrics_written: list[Metric] = []
    for what, part in (("game", game), ("proposer", game.proposer), ("guide", game.guide)):
        declared = () if part is None else part.metrics
        if not isinstance(declared, list | tuple) or not all(isinstance(metric, Metric) for metric in declared):
            raise ConfigError(f"`metrics` of the {what} ({declared!r}) must be a list of Metric(name, help, ...).")
        metrics_written += [replace(metric, cure=cures.get(metric.name, metric.cure)) for metric in declared]
    # Metrics of proposals without a player have the name `proposer`.
    written = {kind: list(names) or ["proposer"] for kind, names in players.items()}
    metrics = [*for_players(TRAINER_METRICS, players), *for_players(metrics_written, written)]
    return list({metric.name: metric for metric in metrics}.values())


def guard_of(args: JointSelfPlayConfig, metrics: Iterable[Metric]) -> CollapseGuard:
    """Return the collapse guard over the declared metrics, with the ranges of `guard_trips` in place of the declared
    ones. Under guard_scope=conjecturer only `guard_trips` and metrics that must be finite are watched."""
    declared, alone = list(metrics), conjecturer_guard_of(args)
    trips: dict[str, Range] = {metric.name: UNBOUNDED for metric in declared} if alone else {}
    names = {metric.name for metric in declared}
    for name, bounds in args.trips.items():
        declared_metric = declaration_of(name, declared)
        if declared_metric is None:
            raise ConfigError(
                f"`guard_trips` names '{name}', which no round of this run logs.{suggestion(name, sorted(names))} "
                "docs/metrics.md lists them; the guard sees no times and no evaluations."
            )
        declared += [] if name in names else [declared_metric]
        trips[name] = bounds
    if alone:
        trips |= {f"{player}/parseable_rate": UNBOUNDED for player in alone.lowest}
    return CollapseGuard(declared, args.guard_window, trips)


def conjecturer_guard_of(args: JointSelfPlayConfig) -> ConjecturerGuard | None:
    """Return the guard of the conjecturers alone; None without guard_scope=conjecturer, `guard` or a conjecturer."""
    players = args.players_of("conjecturer")
    if not args.guard or args.guard_scope == "run" or not players:
        return None
    paper = (0.5, 1.0)  # Allen and Ståblein, section 3.2
    ranges = {one: args.trips.get(f"{one}/parseable_rate", paper) for one in players}
    for one, (low, high) in ranges.items():
        if low > 1 or high < 1:
            allowed = "must be [low, null] with a share as low end under guard_scope=conjecturer"
            raise ConfigError(f"`guard_trips` of '{one}/parseable_rate' ({low:g} to {high:g}) {allowed}.")
    return ConjecturerGuard({one: low for one, (low, _) in ranges.items()})


def prover_rewards(args: JointSelfPlayConfig, domain: Any, given: Any) -> Any:
    """Return the reward functions `given`, or the default ones for None. Raises ConfigError for an element that is no
    function, id or model, for `reward_weights` of another length, and for penalties that only default rewards have."""
    functions = given if isinstance(given, list | tuple) else [given]
    for function in functions:
        refuse_class("reward_funcs", function)
        if function is not None and not isinstance(function, str) and not callable(function):
            raise ConfigError(f"`reward_funcs` holds {function!r}; a reward is a function, a model's id or a model.")
    charges = {"length_penalty": args.length_penalty, "soft_overlong": args.added_overlong}
    if given is None:
        longest = args.solver.max_completion_length
        shaping = (args.length_penalty, args.added_overlong, longest, args.length_penalty_floor)
        given = functions = default_reward_funcs(f"{name_of(domain)}_reward", *shaping)
    elif name := next((name for name, charge in charges.items() if charge), ""):
        cure = f"add make_{name}(...) to your reward_funcs and leave it unset"
        raise ConfigError(f"`{name}` ({getattr(args, name)}) is added to the default rewards only; {cure}.")
    weights = args.reward_weights
    if weights is not None and (len(weights) != len(functions) or not all(map(is_number, weights))):
        allowed = f"one finite number for each of the {len(functions)} reward functions"
        raise ConfigError(f"`reward_weights` ({weights}) must hold {allowed}; leave it unset to add them up.")
    return given


def ready_tokenizer(args: JointSelfPlayConfig, domain: Any, rows: Any, tokenizer: Any) -> Any:
    """Return the tokenizer with a chat template that renders the run's prompts. Raises ConfigError for a tokenizer,
    chat template or stop string that cannot be used, for text and chat prompts together under `log_completions`, and
    for a `max_tokens_per_micro_batch` that cannot hold a prompt and its completion."""
    description = domain.to_dict()
    examples = example_rows(domain, bool(args.players_of("conjecturer")), rows)
    chats = [
        f"`{kind}_prompt` ({description.get(f'{kind}_prompt', name_of(domain))})"
        for kind, row in examples.items()
        if isinstance(row["prompt"], list)
    ]
    if chats and not getattr(tokenizer, "chat_template", None):
        cure = "set `tokenizer.chat_template`, or take plain text (reasoning_gym: domain_kwargs prompt=text)"
        if "prover_prompt" in description:
            cure = "set both to compact (embedded models), or prover_prompt=tinyzero and conjecturer_prompt=completion"
        hold = "holds" if len(chats) == 1 else "hold"
        raise PromptError(f"{' and '.join(chats)} {hold} a chat, and the tokenizer has no chat template; {cure}.")
    if tokenizer.eos_token_id is None and tokenizer.pad_token_id is None:
        raise ConfigError("The tokenizer has neither `eos_token` nor `pad_token`; set one: it ends and pads texts.")
    if tokenizer("1")["input_ids"][-1:] == [tokenizer.eos_token_id]:
        raise ConfigError(
            f"The tokenizer puts its end token ({tokenizer.eos_token!r}) behind every text, also behind prompts; set "
            "add_eos_token=false in its tokenizer_config.json."
        )
    for settings in args.all_roles.values():
        check_stop_strings(tokenizer, settings.stops(domain))
    if args.log_completions and 0 < len(chats) < len(examples):
        raise ConfigError(
            "`log_completions` (True) cannot hold chats and texts in one table; leave it unset: samples.jsonl in the "
            "run folder has examples of both."
        )
    critics = {*args.configured_kinds} - {*FLAT, "guide"}  # a guide samples once
    prompts = example_prompts(domain, examples, dialogues=bool(critics))
    made = ready(tokenizer, prompts, args.chat_template_kwargs)
    tokens = {kind: len(prompt_ids(made, row["prompt"])) for kind, row in examples.items()}
    check_tokens(args, tokens, int(domain.most_moves) if in_moves(domain) else 1)
    return made


def end_tokens(args: JointSelfPlayConfig, domain: Any, rows: Any, policies: PolicySet, tokenizer: Any) -> list[int]:
    """Return the ids of the tokens that end a completion of any role, including the end of a chat turn. Raises
    ConfigError if a role's model has no embedding for a token id of the prompts, settings or tokenizer."""
    prompts = [row["prompt"] for row in example_rows(domain, bool(args.players_of("conjecturer")), rows).values()]
    chat = any(isinstance(prompt, list) for prompt in prompts)
    used = {i for prompt in prompts for i in prompt_ids(tokenizer, prompt)}
    used |= {i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if i is not None}
    largest, ends = max(used), list[int]()
    for role in policies.roles:
        with policies.active(role):
            count = policies.module.get_input_embeddings().num_embeddings
            ends += end_token_ids(policies.module, tokenizer, chat)
        check_token_ids(check_generation_kwargs(args.generation_kwargs), count)
        if largest >= count:
            raise ConfigError(
                f"The model of {role} has embeddings for {count} tokens, and the tokenizer gives "
                f"{tokenizer.convert_ids_to_tokens(largest)!r} the id {largest}; pass the model's own tokenizer."
            )
    return list(dict.fromkeys(ends))


def warn_of_lost_steps(policies: PolicySet, learning_rate: float) -> None:
    """Warn if an Adam step, whose size is about `learning_rate`, rounds to 0 for most of the bfloat16 weights."""
    kept = whole = 0
    for name in policies.weight_names:
        for _, weight in policies.named_parameters(name):
            if weight.dtype == torch.bfloat16 and not cut_up(policies.module):
                some = weight.detach().flatten()[:65_536]
                moved = (some.float() + learning_rate).bfloat16() != some
                moved |= (some.float() - learning_rate).bfloat16() != some
                kept, whole = kept + int(moved.sum()), whole + some.numel()
    if kept < 0.5 * whole:
        logger.warning(
            "The weights are in bfloat16: a step of learning_rate %g moves about %.0f%% of them; the rest rounds "
            "back. Set dtype=float32 (with bf16=true for the passes), or a higher rate.",
            learning_rate, 100 * kept / whole,
        )  # fmt: skip
