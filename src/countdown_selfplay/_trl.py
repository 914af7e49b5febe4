"""The seam: every private name of TRL and of the Trainer that this library touches, in one file.

Overridden in JointConjecturerProverTrainer: `_prepare_inputs`, `_calculate_rewards`, `_save_checkpoint`. Called there,
never
copied: `_generate_and_score_completions`, `_get_per_token_logps_and_entropies`. Attributes read or swapped:
`_metrics`, `_step`, `num_generations`, `eos_token_ids`, `generation_config`, `generation_kwargs`,
`vllm_generation`. tests/contract asserts that exactly these exist in the pinned TRL, with these parameters and these
output keys.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import GenerationConfig
from trl.trainer.utils import add_fused_lm_head

# TRL 1.16 asks a model for `is_gradient_checkpointing`, which transformers renamed; nothing a user could change.
warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning)

OVERRIDDEN = ("_prepare_inputs", "_calculate_rewards", "_save_checkpoint")
CALLED = ("_generate_and_score_completions", "_get_per_token_logps_and_entropies")
ATTRIBUTES = ("_metrics", "_step", "num_generations", "eos_token_ids", "generation_config", "generation_kwargs")
ROLLOUT_KEYS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "num_items_in_batch")


def patch_lm_head(model: Any, temperature: float) -> None:
    """Give a causal LM the fused log-prob head that the trainer's forward pass asks for, at the role's temperature."""
    add_fused_lm_head(model, temperature=temperature, outputs=("log_probs", "entropy"))


@contextmanager
def trl_defaults(args: Any) -> Iterator[None]:
    """While GRPOTrainer.__init__ runs, hide the settings that this library handles itself.

    beta: with beta > 0 TRL would reload a reference from the model's path; ours is the weights that were passed in.
    model_init_kwargs: the models are built already. entropy_coef, use_adaptive_entropy: the bonus is per role.
    """
    hidden = {"beta": 0.0, "model_init_kwargs": None, "entropy_coef": 0.0, "use_adaptive_entropy": False}
    kept = {name: getattr(args, name) for name in hidden}
    for name, value in hidden.items():
        setattr(args, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(args, name, value)


def sampling_overrides(trainer: Any, settings: Any, stop_strings: list[str] | None) -> dict[str, Any]:
    """The attributes of the trainer that must hold a role's values while that role samples.

    `settings`: RoleSettings. Returned as {attribute: value}; the caller swaps them in and back.
    """
    values: dict[str, Any] = {"num_generations": settings.num_generations}
    kwargs = {
        **trainer.generation_kwargs,
        "eos_token_id": trainer.eos_token_ids,
        "max_new_tokens": settings.max_completion_length,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
    }
    if stop_strings:
        kwargs["stop_strings"] = stop_strings
    return {
        **values,
        "generation_kwargs": kwargs,
        "generation_config": GenerationConfig(**kwargs, disable_compile=True),
    }
