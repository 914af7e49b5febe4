"""The configuration of the joint trainer and the resolved settings of a role."""

import copy
import json
import math
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from transformers import TrainingArguments
from trl import GRPOConfig

from ..errors import ConfigError
from . import checks
from .curriculum_fields import CurriculumFields
from .generation_fields import GenerationFields
from .guard_fields import GuardFields
from .roles import RoleFields

ROLES = ("prover", "conjecturer")

_ROLE_FALLBACK = {  # field of a role -> field of GRPOConfig that holds its default
    "num_generations": "num_generations",
    "learning_rate": "learning_rate",
    "warmup_steps": "warmup_steps",
    "max_grad_norm": "max_grad_norm",
    "beta": "beta",
    "entropy_coef": "entropy_coef",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_completion_length": "max_completion_length",
    "entropy_target": "entropy_target",
}


@dataclass(frozen=True)
class RoleSettings:
    """What a role trains and samples with, every fallback resolved. Units as in the config fields of the same
    names."""

    role: str
    objective: str
    micro_batches: int
    num_generations: int
    learning_rate: float
    warmup_steps: float
    max_grad_norm: float
    beta: float
    entropy_coef: float
    temperature: float
    top_p: float
    top_k: int
    max_completion_length: int
    objective_kwargs: dict[str, Any] = field(default_factory=dict)
    entropy_target: float | None = None  # None: the coefficient is constant
    entropy_coef_delta: float = 0.005
    entropy_coef_min: float = 0.0
    entropy_coef_max: float = 1.0
    kl_in: str = "loss"
    soft_overlong: float = 0.0
    # Of a sampler that is not the trained model itself; as TRL's vllm_importance_sampling_* fields.
    sampler_correction: bool = True
    sampler_correction_mode: str = "sequence_mask"
    sampler_correction_min: float | None = None
    sampler_correction_max: float | None = 3.0


@dataclass(repr=False)  # TrainingArguments' own repr hides tokens; the generated one would print hub_token
class JointSelfPlayConfig(RoleFields, CurriculumFields, GuardFields, GenerationFields, GRPOConfig):
    """Differs from GRPOConfig in that batch, sampling and optimisation settings exist once per role.

    A round is one optimizer step of `prover_micro_batches + conjecturer_micro_batches` micro-batches;
    `gradient_accumulation_steps` is derived from them. Every cross-field rule is checked here, before a model is
    loaded.
    """

    output_dir: str = field(default="joint-selfplay", metadata={"help": "The run folder."})
    allow_changed: str | None = field(
        default=None,
        metadata={
            "help": "Settings that a resume may change, with commas between them (learning_rate,beta); train_dataset, "
            "eval_dataset and reward_funcs are names too. Cadence, trackers, paths and a larger max_steps always may."
        },
    )
    gradient_accumulation_steps: int = field(
        default=None,  # type: ignore[assignment]
        metadata={"help": "Derived: prover_micro_batches + conjecturer_micro_batches. Leave it unset."},
    )
    logging_steps: float = field(default=1, metadata={"help": "Log every this many rounds."})
    per_device_eval_batch_size: int = field(
        default=128, metadata={"help": "Answers that are generated at once in evaluation, per process."}
    )
    num_generations_eval: int = field(
        default=16, metadata={"help": "Answers per problem in evaluation, the n of pass@k."}
    )
    ddp_find_unused_parameters: bool | None = field(
        default=True,
        metadata={"help": "Must stay true: a micro-batch holds one role, so the other role's parameters are unused."},
    )

    def __post_init__(self) -> None:
        checks.before_trl(self)
        # Kept per role, for TRL wants a group size that divides the whole round: its data loader repeats every anchor
        # that often, and the game takes the distinct ones.
        self.prover_num_generations = self.prover_num_generations or self.num_generations
        self.conjecturer_num_generations = self.conjecturer_num_generations or self.num_generations
        round_size = self.per_device_train_batch_size * (self.prover_micro_batches + self.conjecturer_micro_batches)
        self.num_generations = math.gcd(int(self.prover_num_generations or 1), round_size)
        self.gradient_accumulation_steps = self.prover_micro_batches + self.conjecturer_micro_batches
        # TRL derives both; a config that was written out resolved and read again must resolve again.
        self.steps_per_generation = None
        self.generation_batch_size = None
        if self.bf16 is None:
            # TRL's default is bf16 everywhere, which fails on CPUs without it (FACTS section 4): decide by device.
            self.bf16 = bool(
                not self.fp16 and not self.use_cpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
            )
        if not torch.accelerator.is_available() or self.use_cpu:
            self.dataloader_pin_memory = False  # torch warns at every start that there is nothing to pin for
        # transformers renamed these two; TRL still sets the old names, which would warn.
        if self.activation_checkpointing is None:
            self.activation_checkpointing = self.gradient_checkpointing
        if self.activation_checkpointing_kwargs is None:
            self.activation_checkpointing_kwargs = self.gradient_checkpointing_kwargs
        if self.activation_checkpointing and not self.activation_checkpointing_kwargs:
            self.activation_checkpointing_kwargs = {"use_reentrant": False}
        super().__post_init__()
        checks.after_trl(self)

    @classmethod
    def from_recipe(cls, name: str, **changes: Any) -> Self:
        """The settings of a recipe, such as tiny/default, with `changes` over them: a plain field such as
        learning_rate also over the recipe's prover_learning_rate. The recipe's model and data are not settings of the
        trainer; pass those to it."""
        from .recipes import recipe_fields

        return cls(**recipe_fields(name, changes, cls))

    def role(self, role: str) -> RoleSettings:
        """The settings of `role` ("prover" or "conjecturer")."""
        if role not in ROLES:
            raise ConfigError(f"There is no role '{role}'; the roles are {', '.join(ROLES)}.")
        values: dict[str, Any] = {}
        for name, fallback in _ROLE_FALLBACK.items():
            own = getattr(self, f"{role}_{name}")
            values[name] = getattr(self, fallback) if own is None else own
        if not self.use_adaptive_entropy:
            values["entropy_target"] = None
        return RoleSettings(
            role=role,
            objective=getattr(self, f"{role}_objective"),
            objective_kwargs=self.objective_arguments(role),
            entropy_coef_delta=self.entropy_coef_delta,
            entropy_coef_min=self.entropy_coef_min,
            entropy_coef_max=self.entropy_coef_max,
            kl_in=self.kl_in,
            soft_overlong=self.soft_overlong if role == "prover" else 0.0,
            micro_batches=getattr(self, f"{role}_micro_batches"),
            sampler_correction=self.vllm_importance_sampling_correction,
            sampler_correction_mode=self.vllm_importance_sampling_mode,
            sampler_correction_min=self.vllm_importance_sampling_clip_min,
            sampler_correction_max=self.vllm_importance_sampling_clip_max,
            **values,
        )

    @property
    def trained_roles(self) -> tuple[str, ...]:
        """Roles that have micro-batches in a round."""
        return tuple(role for role in ROLES if getattr(self, f"{role}_micro_batches") > 0)

    @property
    def slots_per_round(self) -> int:
        """Problems that the prover attempts in a round, over all processes."""
        prover = self.role("prover")
        return self.per_device_train_batch_size * prover.micro_batches * self.world_size // prover.num_generations

    @property
    def anchor_slots(self) -> int:
        """Slots of a round that are kept for anchor problems."""
        if self.conjecturer_micro_batches == 0:
            return self.slots_per_round
        return round(self.anchor_fraction * self.slots_per_round)

    @property
    def random_slots(self) -> int:
        """Slots of a round that get new problems from the exact solver."""
        return round(self.random_fraction * self.slots_per_round)

    @property
    def loader_repeat(self) -> int:
        """How often TRL's data loader repeats every anchor (its group size; see __post_init__)."""
        return int(self.num_generations or 1)

    @property
    def loader_problems(self) -> int:
        """Distinct anchors that the data loader draws for a round, over all processes; never fewer than the slots."""
        return int(self.generation_batch_size or 0) // self.loader_repeat

    @property
    def reward_arguments(self) -> dict[str, Any]:
        """`conjecturer_reward_kwargs` as a dict."""
        given = self.conjecturer_reward_kwargs
        return dict(json.loads(given) if isinstance(given, str) else given or {})

    @property
    def proposer_arguments(self) -> dict[str, Any]:
        """`proposer_kwargs` as a dict."""
        return _arguments(self.proposer_kwargs)

    @property
    def game_arguments(self) -> dict[str, Any]:
        """`game_kwargs` as a dict."""
        return _arguments(self.game_kwargs)

    steps_per_round = 1

    def capacity(self, role: str) -> int:
        """Samples that the role's micro-batches of a round hold, over all processes."""
        return (
            self.per_device_train_batch_size * self.role(role).micro_batches * self.steps_per_round * self.world_size
        )

    def objective_arguments(self, role: str) -> dict[str, Any]:
        """`<role>_objective_kwargs` as a dict."""
        given = getattr(self, f"{role}_objective_kwargs")
        return dict(json.loads(given) if isinstance(given, str) else given or {})

    # hub_token stays in memory only: TrainingArguments is pickled into every checkpoint (training_args.bin).
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "hub_token": None}

    def __copy__(self) -> "JointSelfPlayConfig":
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> "JointSelfPlayConfig":
        new = object.__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        return new

    __repr__ = TrainingArguments.__str__


def _arguments(given: dict[str, Any] | str | None) -> dict[str, Any]:
    return dict(json.loads(given) if isinstance(given, str) else given or {})
