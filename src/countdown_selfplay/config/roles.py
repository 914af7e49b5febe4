"""Roles as data: what a role can be given, and the flat fields (`prover_learning_rate`) that are made from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

FLAT = ("prover", "conjecturer")
"""Kinds of roles whose settings are fields of the configuration too."""


def _help(text: str, default: Any = None) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class RoleConfig:
    """What the roles of one kind are, train and sample with: an entry of `roles`. None falls back on the plain field
    of GRPOConfig of that name. In the help, {role} stands for the kind."""

    players: int = _help(
        "How many of the {role} there are; several are called {role}/0, {role}/1 and so on. 0: none.", 1
    )
    """0: the role is absent."""
    model: str | None = _help("What the {role} starts from. None: the run's model.")
    """A hub id or a folder."""
    weights: str | None = _help(
        "Whose weights the {role} plays: another role's name shares that role's, player by player; start: those that "
        "were passed in, sampled and never trained. None: as policy_sharing says."
    )
    """A role's name, or start."""
    micro_batches: int = _help("Micro-batches that hold the {role}'s samples in an optimizer step, per process.", 1)
    """The role's capacity, trained or not."""
    sequences_per_step: int | None = _help(
        "Trained sequences of the {role} in an optimizer step, over all processes. None: sequences_per_step."
    )
    """0: the round's samples in steps_per_round equal parts."""
    samples_per_round: int | None = _help(
        "Samples of the {role} in a round, over all processes; needs sequences_per_step, or answers in moves, whose "
        "micro-batches hold the rows that a step trains on. None: what its micro-batches hold."
    )
    """Samples, an episode being one."""
    num_generations: int | None = _help("Samples per prompt of the {role}. None: num_generations.")
    """Samples of one group."""
    objective: str = _help("Advantage and loss of the {role}: a name in OBJECTIVES.", "rloo")
    """A name in OBJECTIVES."""
    objective_kwargs: dict | str | None = _help(  # noqa: RUF009 -- it is a field
        "Arguments of the {role}'s objective as JSON, such as '{\"k\": 4}'."
    )
    """A mapping, or its JSON."""
    learning_rate: float | None = _help("Peak learning rate of the {role}. None: learning_rate.")
    """0 freezes the weights."""
    warmup_steps: float | None = _help(
        "Linear warm-up of the {role} in rounds, or a share of them below 1. None: warmup_steps."
    )
    """Rounds, or a share of them below 1."""
    max_grad_norm: float | None = _help("The {role}'s gradient norm is clipped at this value. None: max_grad_norm.")
    """0: no clip."""
    beta: float | None = _help("Coefficient of the {role}'s KL to the weights that were passed in. None: beta.")
    """0: no KL term."""
    kl_estimator: str | None = _help("Estimate of the {role}'s KL: k3 or k1. None: kl_estimator.")
    """k3, k1."""
    kl_reduction: str | None = _help("How the {role}'s KL is reduced over tokens: sum or mean. None: kl_reduction.")
    """sum, mean."""
    entropy_coef: float | None = _help(
        "Coefficient of the {role}'s entropy bonus (nats per token). None: entropy_coef."
    )
    """0: no bonus."""
    entropy_target: float | None = _help(
        "Under use_adaptive_entropy: mean entropy (nats per token) at or below which the {role}'s bonus acts. None: "
        "entropy_target."
    )
    """Nats per token."""
    sft_coef: float = _help(
        "Weight of a supervised term on samples that the game marks for it (critic_discernment: right first answers) "
        "and on demonstrations (demonstrations_per_step).",
        0.0,
    )
    """0: no such term."""
    demonstrations_per_step: int = _help(
        "Demonstrations of the domain beside the {role}'s own answers in each optimizer step, over all processes, in "
        "the supervised term (sft_coef): an anchor that keeps what it can do.",
        0,
    )
    """0: none."""
    temperature: float | None = _help("Sampling temperature of the {role}. None: temperature.")
    """Above 0."""
    top_p: float | None = _help("Nucleus of the {role}'s sampling. None: top_p.")
    """1: off."""
    top_k: int | None = _help("Top-k of the {role}'s sampling. None: top_k.")
    """0: off."""
    max_completion_length: int | None = _help("Most tokens in a sample of the {role}. None: max_completion_length.")
    """Tokens."""
    stop: list | str | None = _help(  # noqa: RUF009
        "Texts that end a sample of the {role}: one text, or a list as JSON. None: the domain's."
    )
    """Texts; [] for none."""
    each: list | str | None = _help(  # noqa: RUF009
        "What tells several players of the {role} apart: a list with a mapping for each player, as JSON, such as "
        '\'[{"temperature": 0.8}, {"temperature": 1.2}]\'; model, temperature, top_p, top_k and learning_rate.'
    )
    """One mapping for each player, over the settings of the kind."""
    vllm_server_base_url: str | None = _help(
        "The {role}'s own vLLM server. None: vllm_server_base_url, or host and port."
    )
    """http://host:port."""

    @property
    def arguments(self) -> dict[str, Any]:
        """`objective_kwargs` as a dict, once JSON was read."""
        return dict(self.objective_kwargs or {})  # type: ignore[arg-type]


EACH = ("model", "temperature", "top_p", "top_k", "learning_rate")
"""Settings in which players of one kind may differ (`each`)."""

FIELDS = {f.name: f for f in dataclasses.fields(RoleConfig)}
TYPES: dict[str, Any] = get_type_hints(RoleConfig)


class _UnsetInt(int):
    """A default that can be told from the same number written by a user."""


class _UnsetStr(str):
    """The same for a text. argparse puts a default that is a text through `str`, and must get it back."""

    def __str__(self) -> str:
        return self


_DEFAULTS: dict[str, Any] = {
    "prover_micro_batches": _UnsetInt(8),
    "conjecturer_micro_batches": _UnsetInt(1),
    "prover_objective": _UnsetStr("rloo"),
    "conjecturer_objective": _UnsetStr("rloo"),
}
_WORDS = {
    "prover_micro_batches": "Micro-batches of the prover in a round, per process. The prover's samples in a round are "
    "per_device_train_batch_size x prover_micro_batches x processes.",
    "conjecturer_micro_batches": "Micro-batches of the conjecturer in a round, per process. Proposals in a round are "
    "per_device_train_batch_size x conjecturer_micro_batches x processes. 0: no conjecturer; the round is "
    "single-policy RL on the anchor problems.",
    "prover_num_generations": "Answers sampled per problem. None: num_generations.",
    "conjecturer_num_generations": "Proposals sampled per conjecturer prompt. None: num_generations.",
    "prover_max_completion_length": "Most tokens in an answer. None: max_completion_length.",
    "conjecturer_max_completion_length": "Most tokens in a proposal. None: max_completion_length.",
}


def flat(*kinds: str) -> Callable[[type], type]:
    """Class decorator, under @dataclass: declares `<kind>_<setting>` for each setting of RoleConfig, with its help. A
    default is None, or (the two of _DEFAULTS) a value that counts as not given."""

    def declare(cls: type) -> type:
        made: dict[str, Any] = {}
        for name, kind, setting in ((f"{kind}_{setting}", kind, setting) for kind in kinds for setting in FIELDS):
            default = _DEFAULTS.get(name)
            optional = type(None) in get_args(TYPES[setting]) or default is not None
            made[name] = TYPES[setting] if optional else TYPES[setting] | None
            words = _WORDS.get(name, FIELDS[setting].metadata["help"]).replace("{role}", kind)
            setattr(cls, name, field(default=default, metadata={"help": words}))
        cls.__annotations__ = made | cls.__annotations__
        return cls

    return declare


def flat_name(name: str) -> tuple[str, str] | None:
    """("prover", "learning_rate") for the field `prover_learning_rate`; None for any other field."""
    kind, _, setting = name.partition("_")
    return (kind, setting) if kind in FLAT and setting in FIELDS else None


def is_given(config: object, name: str) -> bool:
    """Was the flat field set to a value?"""
    value = getattr(config, name)
    return value is not None and value is not _DEFAULTS.get(name)


@dataclass
@flat(*FLAT)
class RoleFields:
    """Who plays what: `roles` for any game, and the same settings as flat fields for the prover and the
    conjecturer."""

    if TYPE_CHECKING:  # the generated fields

        def __getattr__(self, name: str) -> Any: ...

    game: str | None = field(
        default="propose_and_solve",
        metadata={"help": "What a round is: a name in GAMES. None: the object that the trainer is given as its game."},
    )
    roles: dict | str | None = field(
        default=None,
        metadata={
            "help": "Settings per role, as a mapping in YAML and Python and as JSON here, such as "
            '\'{"prover": {"players": 4}}\'. A flat field of the same source (prover_learning_rate) wins over it.'
        },
    )
    steps_per_round: int = field(
        default=1,
        metadata={
            "help": "Optimizer steps into which the samples of a round are cut; with sequences_per_step the most that "
            "a round may take."
        },
    )
    sequences_per_step: int = field(
        default=0,
        metadata={
            "help": "Sequences with credit in an optimizer step of each role, over all processes (SGS, appendix C.1: "
            "32), so that the number of steps in a round follows the data. 0: steps_per_round steps of equally many "
            "samples, with and without credit."
        },
    )
    policy_sharing: Literal["full", "lora", "tied"] = field(
        default="full",
        metadata={
            "help": "full: one model per role (the papers' setting). lora: one frozen base, one adapter per role. "
            "tied: both roles are the same weights under different prompts."
        },
    )
    padding_free: bool = field(
        default=False,
        metadata={
            "help": "Score packed rows without their padding. Needs flash attention (model_init_kwargs: "
            "attn_implementation), which keeps packed rows apart."
        },
    )
    kl_in: Literal["loss", "reward"] = field(
        default="loss",
        metadata={
            "help": "Where the KL to the weights that were passed in enters. loss: a loss term (k3 estimate per "
            "token). reward: subtracted from each sample's reward (sum of log-ratios, as in TRL's RLOO trainer)."
        },
    )
    kl_estimator: Literal["k3", "k1"] = field(
        default="k3",
        metadata={
            "help": "Per-token KL of the loss term. k3: exp(d) - d - 1 with d = log ref - log pi. k1: -d (the code of "
            "Allen and Ståblein), whose gradient has mean 0 on-policy: as a loss term it anchors nothing."
        },
    )
    kl_reduction: Literal["sum", "mean"] = field(
        default="sum",
        metadata={
            "help": "sum: as the objective reduces its own loss (rloo: a sum over a completion's tokens). mean: over "
            "all trained tokens of the round (Allen and Ståblein), weaker by the number of tokens of a completion."
        },
    )
    importance_clip_low: float = field(
        default=0.5,
        metadata={"help": "Lower clamp of the sequence-level importance weight (Allen and Ståblein: 0.5)."},
    )
    importance_clip_high: float = field(
        default=2.0,
        metadata={"help": "Upper clamp of the sequence-level importance weight (Allen and Ståblein: 2)."},
    )
    drop_signalless_gradients: bool = field(
        default=True,
        metadata={
            "help": "Drop a role's gradients in a round in which all its advantages are 0, so that Adam's momentum, "
            "weight decay and the KL do not move it without a reward signal."
        },
    )
