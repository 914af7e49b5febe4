"""Settings of the generation backend: what samples the completions of a round."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class GenerationFields:
    """One field chooses the backend; docs/generation.md lists the `vllm_*` fields of TRL that are read beside it."""

    generation_backend: Literal["generate", "continuous_batching", "vllm", "vllm_server"] = field(
        default="generate",
        metadata={
            "help": "What samples completions. generate: the trained model itself. continuous_batching: the trained "
            "model, with Transformers' paged cache. vllm: one vLLM engine for all roles in the training process. "
            "vllm_server: one vLLM server for all roles, or one per role."
        },
    )
    vllm_engine_kwargs: dict | str | None = field(
        default=None,
        metadata={
            "help": "Further arguments of vLLM's LLM under generation_backend=vllm, as JSON, such as "
            "'{\"enforce_eager\": true}'. dtype defaults to the precision of the loss: bfloat16 with bf16, else "
            "float32."
        },
    )
    vllm_adapter_dir: str | None = field(
        default=None,
        metadata={
            "help": "Folder through which adapters reach the vLLM servers, which must see it under the same path. "
            "None: vllm_adapters in output_dir."
        },
    )
    vllm_request_timeout: float = field(
        default=600.0, metadata={"help": "Seconds that one request to a vLLM server may take."}
    )
    vllm_request_retries: int = field(
        default=5,
        metadata={"help": "How often a request that a vLLM server did not answer, or refused as busy, is sent again."},
    )
    vllm_retry_backoff: float = field(
        default=2.0, metadata={"help": "Seconds before the first retry; each further pause is twice as long."}
    )
