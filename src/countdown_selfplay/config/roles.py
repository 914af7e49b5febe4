"""Settings that belong to one role. A value of None falls back on the plain field of GRPOConfig that is named in
the help."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class RoleFields:
    """One group of fields for the prover, the same group for the conjecturer."""

    prover_micro_batches: int = field(
        default=8,
        metadata={
            "help": "Micro-batches of the prover in a round, per process. The prover's samples in a round are "
            "per_device_train_batch_size x prover_micro_batches x processes."
        },
    )
    prover_num_generations: int | None = field(
        default=None, metadata={"help": "Answers sampled per problem. None: num_generations."}
    )
    prover_objective: str = field(
        default="rloo", metadata={"help": "Advantage and loss of the prover: a name in OBJECTIVES."}
    )
    prover_objective_kwargs: dict | str | None = field(
        default=None, metadata={"help": "Arguments of the prover's objective as JSON, such as '{\"k\": 4}'."}
    )
    prover_learning_rate: float | None = field(
        default=None, metadata={"help": "Peak learning rate of the prover. None: learning_rate."}
    )
    prover_warmup_steps: float | None = field(
        default=None,
        metadata={"help": "Linear warm-up of the prover in rounds, or a share of them below 1. None: warmup_steps."},
    )
    prover_max_grad_norm: float | None = field(
        default=None, metadata={"help": "The prover's gradient norm is clipped at this value. None: max_grad_norm."}
    )
    prover_beta: float | None = field(
        default=None,
        metadata={"help": "Coefficient of the prover's KL to the weights that were passed in. None: beta."},
    )
    prover_entropy_coef: float | None = field(
        default=None,
        metadata={"help": "Coefficient of the prover's entropy bonus (nats per token). None: entropy_coef."},
    )
    prover_entropy_target: float | None = field(
        default=None,
        metadata={
            "help": "Under use_adaptive_entropy: mean entropy (nats per token) at or below which the prover's bonus "
            "acts. None: entropy_target."
        },
    )
    prover_temperature: float | None = field(
        default=None, metadata={"help": "Sampling temperature of the prover. None: temperature."}
    )
    prover_top_p: float | None = field(
        default=None, metadata={"help": "Nucleus of the prover's sampling. None: top_p."}
    )
    prover_top_k: int | None = field(default=None, metadata={"help": "Top-k of the prover's sampling. None: top_k."})
    prover_max_completion_length: int | None = field(
        default=None, metadata={"help": "Most tokens in an answer. None: max_completion_length."}
    )

    conjecturer_micro_batches: int = field(
        default=1,
        metadata={
            "help": "Micro-batches of the conjecturer in a round, per process. Proposals in a round are "
            "per_device_train_batch_size x conjecturer_micro_batches x processes. 0: no conjecturer; the round is "
            "single-policy RL on the anchor problems."
        },
    )
    conjecturer_num_generations: int | None = field(
        default=None, metadata={"help": "Proposals sampled per conjecturer prompt. None: num_generations."}
    )
    conjecturer_objective: str = field(
        default="rloo", metadata={"help": "Advantage and loss of the conjecturer: a name in OBJECTIVES."}
    )
    conjecturer_objective_kwargs: dict | str | None = field(
        default=None, metadata={"help": "Arguments of the conjecturer's objective as JSON, such as '{\"k\": 4}'."}
    )
    conjecturer_learning_rate: float | None = field(
        default=None, metadata={"help": "Peak learning rate of the conjecturer. None: learning_rate."}
    )
    conjecturer_warmup_steps: float | None = field(
        default=None,
        metadata={
            "help": "Linear warm-up of the conjecturer in rounds, or a share of them below 1. None: warmup_steps."
        },
    )
    conjecturer_max_grad_norm: float | None = field(
        default=None,
        metadata={"help": "The conjecturer's gradient norm is clipped at this value. None: max_grad_norm."},
    )
    conjecturer_beta: float | None = field(
        default=None,
        metadata={"help": "Coefficient of the conjecturer's KL to the weights that were passed in. None: beta."},
    )
    conjecturer_entropy_coef: float | None = field(
        default=None,
        metadata={"help": "Coefficient of the conjecturer's entropy bonus (nats per token). None: entropy_coef."},
    )
    conjecturer_entropy_target: float | None = field(
        default=None,
        metadata={
            "help": "Under use_adaptive_entropy: mean entropy (nats per token) at or below which the conjecturer's "
            "bonus acts. None: entropy_target."
        },
    )
    conjecturer_temperature: float | None = field(
        default=None, metadata={"help": "Sampling temperature of the conjecturer. None: temperature."}
    )
    conjecturer_top_p: float | None = field(
        default=None, metadata={"help": "Nucleus of the conjecturer's sampling. None: top_p."}
    )
    conjecturer_top_k: int | None = field(
        default=None, metadata={"help": "Top-k of the conjecturer's sampling. None: top_k."}
    )
    conjecturer_max_completion_length: int | None = field(
        default=None, metadata={"help": "Most tokens in a proposal. None: max_completion_length."}
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
    importance_clip_low: float = field(
        default=0.5,
        metadata={"help": "Lower clamp of the sequence-level importance weight (seed 001: 0.5)."},
    )
    importance_clip_high: float = field(
        default=2.0,
        metadata={"help": "Upper clamp of the sequence-level importance weight (seed 001: 2)."},
    )
    drop_signalless_gradients: bool = field(
        default=True,
        metadata={
            "help": "Drop a role's gradients in a round in which all its advantages are 0, so that Adam's momentum, "
            "weight decay and the KL do not move it without a reward signal."
        },
    )
