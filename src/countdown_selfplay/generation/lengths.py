"""Prompts that an engine could not hold with their completions: said before the engine cuts or refuses them."""

from __future__ import annotations

from ..errors import GenerationError
from ..policies.base import plain_role


def check_lengths(role: str, longest: int, completion: int, context: int | None) -> None:
    """GenerationError if a prompt of `longest` tokens and `completion` more do not fit into `context`: vLLM would
    shorten the completion without a word, or refuse the prompt each time that it is sent. `longest`: over all
    processes, so that they fail together."""
    if context is not None and longest + completion > context:
        raise GenerationError(
            f"A prompt of the {role} has {longest} tokens, which with {completion} for the completion is more than "
            f"the {context} that vLLM holds; raise vllm_max_model_length (or the server's --max-model-len), or lower "
            f"{plain_role(role)}_max_completion_length."
        )
