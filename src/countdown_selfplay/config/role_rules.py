"""Rules on roles: their names, numbers of players and samples, and resolved settings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, get_args

from ..errors import ConfigError
from ..games import GAMES
from ..objectives import make_objective
from ..options import hints_of
from ..registry import suggestion
from .fields import RoleFields
from .roles import Role, check_number

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig

_TRAINING = (
    *("objective", "objective_kwargs", "learning_rate", "warmup_steps", "max_grad_norm", "beta", "entropy_coef"),
    *("entropy_target", "sft_coef"),
)
_NUMBERS = ("learning_rate", "beta", "warmup_steps", "max_grad_norm", "entropy_coef", "temperature", "top_p", "top_k")


def check_kinds(config: JointSelfPlayConfig) -> None:
    """Check that the configured roles are those of the game and that each has a valid number of players."""
    game = "The game" if config.game is None else f"`game` ({config.game})"
    for kind in dict.fromkeys([*config.named_kinds, *sorted(kind for kind, _ in config.written)]):
        if kind in config.kinds or (kind == "conjecturer" and not config.given(kind, "players")):
            continue  # conjecturer_players=0 in a game without a conjecturer
        roles: Any = config.roles
        fields = sorted(s for (k, s), name in config.written.items() if k == kind and name == f"{kind}_{s}")
        where = config.shown(kind, fields[0]) if fields else f"`roles.{kind}` ({roles[kind]})"
        raise ConfigError(
            f"{where} is of a role that the game does not have: {game} has {', '.join(config.kinds)}; leave it out, "
            "or put your game into GAMES (or pass game=None and its object to the trainer)."
            f"{suggestion(kind, list(config.kinds))}"
        )
    for kind in config.kinds:
        optional = kind in config.optional or kind == "conjecturer"
        if kind in config.configured_kinds:
            _check_counts(config, kind, optional)
        elif not optional:
            raise ConfigError(
                f"{game} has a role '{kind}' that is not configured; add `roles.{kind}`, which may be empty: "
                f"{{{kind}: {{}}}}."
            )


def _check_counts(config: JointSelfPlayConfig, kind: str, optional: bool) -> None:
    """Check the number of players of a role, and that `each` has one mapping per player."""
    players, name = config.given(kind, "players"), config.field_of(kind, "players")
    check_number(name, "players", players)
    if not optional and players == 0:
        raise ConfigError(f"`{name}` (0) leaves out a role that the game needs; give it at least 1 player.")
    each = config.given(kind, "each")
    if each is not None and len(each) != players:
        raise ConfigError(
            f"`{config.field_of(kind, 'each')}` has {len(each)} mappings and `{name}` is {players}; give each player "
            "one, {} for a player without separate settings."
        )


def check_players(config: JointSelfPlayConfig) -> None:
    """Check the ranges of role settings; refuse settings that a role with frozen or shared weights would ignore."""
    for (kind, setting), name in config.written.items():
        check_number(name, setting, config.given(kind, setting))
    for s in config.one_of_each_kind:
        weights = config.shown(s.kind, "weights")
        for setting in _TRAINING if s.weights is None else ():
            if config.was_given(s.kind, setting):
                raise ConfigError(
                    f"{config.shown(s.kind, setting)} is for a role that is trained, and {weights} freezes this one; "
                    "leave one of them unset."
                )
        if s.weights is not None and s.model is not None and config.was_given(s.kind, "weights"):
            raise ConfigError(
                f"{config.shown(s.kind, 'model')} would not be read beside {weights}, whose weights it plays; leave "
                "one of them unset."
            )


def check_settings(config: JointSelfPlayConfig) -> None:
    """Check that numeric settings of roles have a value, that objectives fit their roles, and the sizes of a round."""
    trained = {s.kind: s for s in config.one_of_each_kind if s.trained}
    for kind in config.configured_kinds:
        for name in _NUMBERS:
            if config.given(kind, name) is None and getattr(config, name) is None:
                raise ConfigError(
                    f"`{name}` (None) must be a number, for `{config.field_of(kind, name)}` is not set either."
                )
        if config.given(kind, "entropy_target") is not None and not config.use_adaptive_entropy:
            raise ConfigError(
                f"{config.shown(kind, 'entropy_target')} is read under use_adaptive_entropy=True only; set that too, "
                "or leave it unset."
            )
        name, arguments = config.given(kind, "objective"), config.given(kind, "objective_kwargs")
        clips = {"low": config.importance_clip_low, "high": config.importance_clip_high}
        objective = make_objective(name, arguments, **clips)  # refuses wrong arguments of a frozen role too
        if kind in trained:
            _check_objective(config, trained[kind], objective)
    check_sizes(config)


def _check_objective(config: JointSelfPlayConfig, role: Role, objective: Any) -> None:
    """Check the settings of a trained role that its objective, its KL term and its supervised term depend on."""
    kind, field = role.kind, config.field_of(role.kind, "objective")
    shown = config.shown(kind, "objective")
    if kind == "conjecturer" and objective.needs_correctness:
        raise ConfigError(
            f"{shown} needs the verifier's bit, which only the prover has; use rloo, reinforce, grpo or rest."
        )
    if role.demonstrations_per_step and not role.sft_coef:
        raise ConfigError(
            f"{config.shown(kind, 'demonstrations_per_step')} has no effect with "
            f"`{config.field_of(kind, 'sft_coef')}` 0, the weight of the supervised term; set that too, such as 0.3."
        )
    for name in ("kl_estimator", "kl_reduction"):
        value, allowed = getattr(role, name), get_args(hints_of(RoleFields)[name])
        chosen = config.field_of(kind, name) if config.was_given(kind, name) else name
        if value not in allowed:
            raise ConfigError(f"`{chosen}` ({value!r}) must be one of {', '.join(allowed)}.")
        if config.kl_in == "reward" and value != allowed[0]:
            raise ConfigError(
                f"`{chosen}` ({value}) is of the KL as a loss term, and kl_in=reward charges the sum of log-ratios; "
                "set kl_in=loss, or leave it unset."
            )
    if kind == "prover" and not objective.reads_rewards and config.kl_in == "reward" and role.beta > 0:
        raise ConfigError(
            f"`kl_in` (reward) has no effect on {shown}, which looks at the verifier's bit alone; set kl_in=loss, or "
            f"{config.field_of(kind, 'beta')}=0."
        )
    refuse_ignored_charges(config, kind, field, role.objective, objective)
    if role.sft_coef:
        _check_supervised(config, role, objective)
    needed = max(objective.needs_samples, objective.needs_answers if kind == "prover" else 0)
    if role.num_generations < needed:
        if role.objective_kwargs:
            raise ConfigError(
                f"`{field}` ({role.objective}, {role.objective_kwargs}) needs at least {needed} samples per prompt "
                f"and `{_group_name(config, kind)}` is {role.num_generations}; raise that or change "
                f"`{config.field_of(kind, 'objective_kwargs')}`."
            )
        raise ConfigError(
            f"`{_group_name(config, kind)}` ({role.num_generations}) must be at least {needed}: {shown} compares a "
            "sample with others of its prompt; raise it, or use an objective without such a baseline, as reinforce."
        )


def _check_supervised(config: JointSelfPlayConfig, role: Role, objective: Any) -> None:
    """Check that a role with `sft_coef` has samples for the supervised term."""
    kind, start = role.kind, f"`{config.field_of(role.kind, 'sft_coef')}` ({role.sft_coef}) has no effect"
    if role.demonstrations_per_step:
        if kind != config.solver.kind:
            raise ConfigError(
                f"{config.shown(kind, 'demonstrations_per_step')} are right answers, and the {kind} gives none; set "
                f"it to 0, or give it to the {config.solver.kind}."
            )
    elif config.game is not None and kind not in GAMES.load(config.game).imitated:
        raise ConfigError(
            f"{start}: the game {config.game} marks no samples of the {kind} for a supervised term; set it to 0, "
            "or give it demonstrations_per_step."
        )
    elif objective.replay is not None:
        raise ConfigError(
            f"{start} beside `{config.field_of(kind, 'objective')}`, which imitates kept samples; set it to 0, or "
            "take an objective that weighs samples, such as grpo."
        )


def refuse_ignored_charges(config: JointSelfPlayConfig, kind: str, field: str, name: str, objective: Any) -> None:
    """Raise ConfigError for a length penalty that the prover's objective does not read. `field`, `name`: name and
    value of the setting that chose the objective."""
    if kind != "prover" or objective.reads_rewards:
        return
    cures = {
        "length_penalty": "set it to 0, or use an objective that reads rewards, such as rloo",
        "soft_overlong": "set overlong=replace, which acts under every objective, or soft_overlong=0",
    }
    for charge, acts in (("length_penalty", config.length_penalty), ("soft_overlong", config.added_overlong)):
        if acts:
            raise ConfigError(
                f"`{charge}` ({getattr(config, charge)}) has no effect on `{field}` ({name}), which looks at the "
                f"verifier's bit alone; {cures[charge]}."
            )


def check_sizes(config: JointSelfPlayConfig) -> None:
    """Check that proposals form whole groups, every step has a sample, and a token budget holds an answer."""
    writing, proposals = config.players_of("conjecturer"), config.proposals_per_round
    if writing and not proposals:
        raise ConfigError(
            "`proposals_per_round` (0) must be at least 1; for no conjecturer set conjecturer_players=0."
        )
    if writing and proposals % (group := config.role(writing[0]).num_generations):
        below = proposals // group * group
        near = " or ".join(str(size) for size in (below, below + group) if size)
        raise ConfigError(
            f"`proposals_per_round` ({proposals}) must be a multiple of `{_group_name(config, 'conjecturer')}` "
            f"({group}), the proposals that a conjecturer writes to one prompt; set it to {near}."
        )
    for s in config.one_of_each_kind:
        if s.trained and not s.sequences_per_step and config.samples()[s.role] < config.steps_per_round:
            raise ConfigError(
                f"`steps_per_round` ({config.steps_per_round}) must be at most the {config.samples()[s.role]} samples "
                f"of the {s.kind} in a round, which the steps share; lower it, or set sequences_per_step."
            )
    check_tokens(config, {})


def _group_name(config: JointSelfPlayConfig, kind: str) -> str:
    given = config.was_given(kind, "num_generations")
    return config.field_of(kind, "num_generations") if given else "num_generations"


def check_tokens(config: JointSelfPlayConfig, prompts: Mapping[str, int], moves: int = 1) -> None:
    """Raise ConfigError if `max_tokens_per_micro_batch` cannot hold a prompt with one answer of each trained role.
    `prompts`: tokens of the longest prompt by role, where known. `moves`: most moves in a solver's answer."""
    budget = config.max_tokens_per_micro_batch
    for s in (s for s in config.one_of_each_kind if s.trained and budget):
        prompt, rows = prompts.get(s.kind), moves if s.kind == config.solver.kind else 1
        if budget < (least := rows * ((prompt or 1) + s.max_completion_length)):
            length = "a prompt" if prompt is None else f"{prompt} tokens of prompt"
            raise ConfigError(
                f"`max_tokens_per_micro_batch` ({budget}) must hold one answer of the {s.kind}, {length} and "
                f"{s.max_completion_length} of completion{f' in each of {rows} moves' * (rows > 1)}; set it to "
                f"{least} or more, to 0 for no bound, or lower max_completion_length."
            )


def check_sharing(config: JointSelfPlayConfig) -> None:
    """Check that players of the same weights, or of adapters over one base, agree in the settings that they share."""
    players, sharing = list(config.all_roles.values()), config.policy_sharing
    under, cure = f"under policy_sharing='{sharing}', where both roles share it", "use policy_sharing='full'"
    separate = next((s for s in players if s.model is not None), None)
    if sharing == "tied" and separate is not None:
        raise ConfigError(
            f"`{config.field_of(separate.kind, 'model')}` ({separate.model}) is not read under "
            f"policy_sharing='tied', where all roles are the run's model; leave it unset, or {cure}."
        )
    for first, other in combinations(players, 2):
        alike = first.model == other.model
        same = first.weights == other.weights and (first.weights is not None or alike)
        if sharing == "full":
            whose = "the initial weights" if first.weights is None else f"the weights of {first.weights}"
            under, cure = f"where both play {whose}", "give each separate weights"
        # One fused LM head is patched once with one temperature.
        shared = ["temperature"] if same or (alike and sharing != "full") else []
        shared += ["learning_rate", "warmup_steps", "max_grad_norm"] if same and first.weights is not None else []
        for name in shared:
            a, b = getattr(first, name), getattr(other, name)
            if a != b:
                raise ConfigError(
                    f"`{config.field_of(first.kind, name)}` ({a}) and `{config.field_of(other.kind, name)}` ({b}) "
                    f"must be equal {under}; set `{name}` alone, or {cure}."
                )


def check_guard_scope(config: JointSelfPlayConfig) -> None:
    """Check that a conjecturer can be rolled back alone, if `guard_scope` is conjecturer."""
    roles = config.all_roles
    conjecturers = [roles[player] for player in config.players_of("conjecturer")]
    if not config.guard or config.guard_scope != "conjecturer" or not conjecturers:
        return
    names = {s.weights for s in conjecturers}
    start = "`guard_scope` (conjecturer) takes a conjecturer's weights back alone, and"
    if not all(s.trained for s in conjecturers):
        raise ConfigError(f"{start} these are frozen; set guard_scope=run.")
    shared = next((s.role for s in roles.values() if s.kind != "conjecturer" and s.weights in names), None)
    if shared is not None:
        raise ConfigError(f"{start} the {shared} plays the same; set guard_scope=run, or give each separate weights.")
    if config.policy_sharing == "lora" and any(s.model is not None for s in roles.values()):
        raise ConfigError(f"{start} adapters over several models lie in one file; set guard_scope=run.")
    if config.save_strategy == "no":
        raise ConfigError(f"{start} `save_strategy` (no) leaves no checkpoint to restore; set it to steps.")
