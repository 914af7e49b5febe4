"""Rules on the settings of a role as they resolve, its own field or the plain one it falls back on; and on choices."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from ..errors import ConfigError
from ..games import game_class
from ..registry import suggestion
from .countdown_fields import CountdownFields
from .curriculum_fields import CurriculumFields
from .generation_fields import GenerationFields
from .group_checks import check_groups, group_name, needed_samples, objective_of, one_of_each_kind
from .guard_fields import GuardFields
from .number_checks import check_number
from .players import RoleSettings, field_of, role_config, was_given
from .roles import FLAT, RoleFields

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig


def check_choices(config: JointSelfPlayConfig) -> None:
    """Fields with a fixed set of values: a dataclass takes any other, and the code behind it one of its branches."""
    for fields in (RoleFields, CurriculumFields, GuardFields, CountdownFields, GenerationFields):
        for name, hint in get_type_hints(fields).items():
            value = getattr(config, name)
            if get_origin(hint) is Literal and value not in get_args(hint):
                allowed = [str(choice) for choice in get_args(hint)]
                raise ConfigError(
                    f"`{name}` ({value!r}) must be one of {', '.join(allowed)}.{suggestion(str(value), allowed)}"
                )


def check_kinds(config: JointSelfPlayConfig) -> None:
    """Do the roles that are configured and those of the game fit?"""
    game = "The game" if config.game is None else f"`game` ({config.game})"
    given = dict.fromkeys([*config._asked, *(name.partition("_")[0] for name in sorted(config._flat))])
    for kind in given:
        if kind in config._kinds:
            continue
        names = sorted(name for name in config._flat if name.startswith(f"{kind}_"))
        if names == ["conjecturer_micro_batches"] and config.conjecturer_micro_batches == 0:
            continue  # "no conjecturer", which is so
        where = f"`{names[0]}` ({getattr(config, names[0])})" if names else f"`roles.{kind}` ({config._asked[kind]})"
        raise ConfigError(
            f"{where} is of a role that the game does not have: {game} has {', '.join(config._kinds)}; leave it out, "
            "or put your game into GAMES (or pass game=None and its object to the trainer)."
            f"{suggestion(kind, list(config._kinds))}"
        )
    for kind in config._kinds:
        optional = kind in config._optional or kind == "conjecturer"
        if not optional and kind not in FLAT and kind not in config._asked:
            raise ConfigError(
                f"{game} has a role '{kind}' that is not configured; add `roles.{kind}`, such as "
                f"{{{kind}: {{micro_batches: 1}}}}."
            )
        if kind in config.configured_kinds:
            _check_counts(config, kind, optional)


def _check_counts(config: JointSelfPlayConfig, kind: str, optional: bool) -> None:
    """How many players, and how much each can hold."""
    role = role_config(config, kind)
    players = field_of(config, kind, "players")
    if role.players < 0:
        raise ConfigError(f"`{players}` ({role.players}) must be at least 0: 0 leaves the role out.")
    if not optional and role.players == 0:
        raise ConfigError(f"`{players}` (0) leaves out a role that the game needs; give it at least 1 player.")
    least, meaning = (0, "0 means that there is no conjecturer") if kind == "conjecturer" else (1, "it has to sample")
    meaning = "the prover is always there" if kind == "prover" else meaning
    if role.micro_batches < least:
        raise ConfigError(
            f"`{field_of(config, kind, 'micro_batches')}` ({role.micro_batches}) must be a finite number of at least "
            f"{least}: {meaning}."
        )


def check_players(config: JointSelfPlayConfig) -> None:
    """What must hold before TRL derives its batch sizes: numbers, weights that lead somewhere, whole groups."""
    for kind, settings in config._asked.items():
        for name, value in settings.items():
            check_number(f"roles.{kind}.{name}", name, value)
    for s in one_of_each_kind(config):
        if s.weights is None:
            _refuse_training(config, s.kind)
        elif s.model is not None and was_given(config, s.kind, "weights"):
            raise ConfigError(
                f"`{field_of(config, s.kind, 'model')}` ({s.model}) would not be read beside "
                f"`{field_of(config, s.kind, 'weights')}` ({role_config(config, s.kind).weights}), whose weights it "
                "plays; leave one of them unset."
            )
        check_groups(config, s)


_TRAINING = (
    *("objective", "objective_kwargs", "learning_rate", "warmup_steps", "max_grad_norm", "beta", "entropy_coef"),
    *("entropy_target", "sft_coef"),
)


def _refuse_training(config: JointSelfPlayConfig, kind: str) -> None:
    for name in _TRAINING:
        if was_given(config, kind, name):
            raise ConfigError(
                f"`{field_of(config, kind, name)}` ({getattr(role_config(config, kind), name)}) is for a role that is "
                f"trained, and `{field_of(config, kind, 'weights')}` ({role_config(config, kind).weights}) freezes "
                "this one; leave one of them unset."
            )


_NUMBERS = (
    *("learning_rate", "beta", "warmup_steps", "max_grad_norm", "entropy_coef", "temperature", "top_p", "top_k"),
)


def check_settings(config: JointSelfPlayConfig) -> None:
    """That each setting has a value, the objective and what goes with it; number_checks.py has the ranges."""
    present = {s.kind: s for s in one_of_each_kind(config)}
    for kind in config.configured_kinds:
        role = role_config(config, kind)
        for name in _NUMBERS:
            if getattr(role, name) is None and getattr(config, name) is None:
                raise ConfigError(
                    f"`{name}` (None) must be a number, for `{field_of(config, kind, name)}` is not set either."
                )
        if role.entropy_target is not None and not config.use_adaptive_entropy:
            raise ConfigError(
                f"`{field_of(config, kind, 'entropy_target')}` ({role.entropy_target}) is read under "
                "use_adaptive_entropy=True only; set that too, or leave it unset."
            )
        _check_objective(config, kind, kind in present and present[kind].trained)


def _check_objective(config: JointSelfPlayConfig, kind: str, trained: bool) -> None:
    role = role_config(config, kind)
    name, arguments = role.objective, role.arguments
    field, arguments_field = (field_of(config, kind, f) for f in ("objective", "objective_kwargs"))
    objective = objective_of(config, kind)
    if not trained:
        return
    if kind == "conjecturer" and getattr(objective, "needs_correctness", False):
        raise ConfigError(
            f"`{field}` ({name}) needs the verifier's bit, which only the prover has; use rloo, "
            "reinforce, grpo or rest."
        )
    settings = config.role(kind)
    _check_kl(config, kind)
    blind = not getattr(objective, "reads_rewards", True)
    if kind == "prover" and blind and config.kl_in == "reward" and settings.beta > 0:
        raise ConfigError(
            f"`kl_in` (reward) has no effect on `{field}` ({name}), which looks at the verifier's bit alone; "
            f"set kl_in=loss, or {field_of(config, kind, 'beta')}=0."
        )
    refuse_ignored_charges(config, kind, field, name, objective)
    if settings.sft_coef:
        _check_supervised(config, kind, objective)
    group, needed = settings.num_generations, needed_samples(objective, kind)
    if group < needed and not arguments:
        raise ConfigError(
            f"`{group_name(config, kind)}` ({group}) must be at least {needed}: `{field}` ({name}) compares a sample "
            "with others of its prompt; raise it, or use an objective without such a baseline, as reinforce."
        )
    if group < needed:
        raise ConfigError(
            f"`{field}` ({name}, {arguments}) needs at least {needed} samples per prompt and "
            f"`{group_name(config, kind)}` is {group}; raise that or change `{arguments_field}`."
        )


def _check_supervised(config: JointSelfPlayConfig, kind: str, objective: Any) -> None:
    """Is there anything that `sft_coef` would act on?"""
    if config.role(kind).demonstrations_per_step:
        return
    start = f"`{field_of(config, kind, 'sft_coef')}` ({config.role(kind).sft_coef}) has no effect"
    if config.game is not None and kind not in game_class(config.game).imitated:
        raise ConfigError(
            f"{start}: the game {config.game} marks no samples of the {kind} for a supervised term; set it to 0, "
            "or give it demonstrations_per_step."
        )
    if getattr(objective, "replay", None) is not None:
        raise ConfigError(
            f"{start} beside `{field_of(config, kind, 'objective')}`, which imitates kept samples; set it to 0, or "
            "take an objective that weighs samples, such as grpo."
        )


def refuse_ignored_charges(config: JointSelfPlayConfig, kind: str, field: str, name: str, objective: Any) -> None:
    """A charge on the prover's reward that its objective would not see. `field`: where the objective was given."""
    if kind != "prover" or getattr(objective, "reads_rewards", True):
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


def _check_kl(config: JointSelfPlayConfig, kind: str) -> None:
    """The form of a KL term, and that there is one."""
    settings = config.role(kind)
    for name in ("kl_estimator", "kl_reduction"):
        value, allowed = getattr(settings, name), get_args(get_type_hints(RoleFields)[name])
        own = field_of(config, kind, name) if was_given(config, kind, name) else name
        if value not in allowed:
            raise ConfigError(f"`{own}` ({value!r}) must be one of {', '.join(allowed)}.")
        if config.kl_in == "reward" and value != allowed[0]:
            raise ConfigError(
                f"`{own}` ({value}) is of the KL as a loss term, and kl_in=reward charges the sum of log-ratios; set "
                "kl_in=loss, or leave it unset."
            )


def check_sharing(config: JointSelfPlayConfig) -> None:
    """What players of the same weights, or of adapters over one base, cannot set apart."""
    players, sharing = list(config.all_roles.values()), config.policy_sharing
    under, cure = f"under policy_sharing='{sharing}', where both roles share it", "use policy_sharing='full'"
    own = next((s for s in players if s.model is not None), None)
    if sharing == "tied" and own is not None:
        raise ConfigError(
            f"`{field_of(config, own.kind, 'model')}` ({own.model}) is not read under policy_sharing='tied', where "
            f"all roles are the run's model; leave it unset, or {cure}."
        )
    for first, other in combinations(players, 2):
        alike = first.model == other.model
        same = first.weights == other.weights and (first.weights is not None or alike)
        if sharing == "full":
            whose = "the initial weights" if first.weights is None else f"the weights of {first.weights}"
            under, cure = f"where both play {whose}", "give each separate weights"
        # One fused LM head is patched once with one temperature (rule 17 of the design).
        if same or (alike and sharing != "full"):
            _equal(config, first, other, "temperature", under, cure)
        if same and first.weights is not None:
            for name in ("learning_rate", "warmup_steps", "max_grad_norm"):
                _equal(config, first, other, name, under, cure)


def check_guard_scope(config: JointSelfPlayConfig) -> None:
    """Can a conjecturer go back by itself?"""
    roles = config.all_roles
    own = [roles[player] for player in config.players_of("conjecturer")]
    if not config.guard or config.guard_scope != "conjecturer" or not own:
        return
    names = {s.weights for s in own}
    start = "`guard_scope` (conjecturer) takes a conjecturer's weights back alone, and"
    if not all(s.trained for s in own):
        raise ConfigError(f"{start} these are frozen; set guard_scope=run.")
    shared = next((s.role for s in roles.values() if s.kind != "conjecturer" and s.weights in names), None)
    if shared is not None:
        raise ConfigError(f"{start} the {shared} plays the same; set guard_scope=run, or give each separate weights.")
    if config.policy_sharing == "lora" and any(s.model is not None for s in roles.values()):
        raise ConfigError(f"{start} adapters over several models lie in one file; set guard_scope=run.")
    if config.save_strategy == "no":
        raise ConfigError(f"{start} `save_strategy` (no) leaves no checkpoint to restore; set it to steps.")


def _equal(
    config: JointSelfPlayConfig, first: RoleSettings, other: RoleSettings, name: str, under: str, cure: str
) -> None:
    a, b = getattr(first, name), getattr(other, name)
    if a != b:
        raise ConfigError(
            f"`{field_of(config, first.kind, name)}` ({a}) and `{field_of(config, other.kind, name)}` ({b}) must be "
            f"equal {under}; set `{name}` alone, or {cure}."
        )
