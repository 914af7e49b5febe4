"""Settings of the sampler in iterated play: the joint trainer's fields, by the same names."""

from dataclasses import dataclass
from typing import Literal

from ...options import Range, option


@dataclass(kw_only=True)
class EngineFields:
    """Fields of generation backends, with the joint trainer's meaning (docs/generation.md); each names its backend."""

    generation_backend: Literal["generate", "vllm", "vllm_server"] = option(
        "generate",
        "What samples completions. generate: the roles' models. vllm: one vLLM engine in each process, to which a "
        "role's weights are pushed before its turn. vllm_server: one vLLM server (weights over NCCL, on GPUs).",
    )
    vllm_gpu_memory_utilization: float = option(
        0.3, "Share of the GPU that vLLM keeps, in retraining too unless it sleeps.", Range(0, 1, above=True)
    )
    vllm_max_model_length: int | None = option(
        None, "Tokens of a prompt and its completion that vLLM holds; None: the model's most.", Range(1)
    )
    vllm_tensor_parallel_size: int = option(1, "Processes that share one vLLM engine.", Range(1))
    vllm_enable_sleep_mode: bool = option(False, "Free the engine's memory after each generation.")
    vllm_model_impl: str = option("vllm", "vLLM's own code of the model (vllm), or Transformers' (transformers).")
    vllm_engine_kwargs: dict | str | None = option(
        None,
        "Further arguments of vLLM's LLM as JSON, such as '{\"enforce_eager\": true}'. dtype defaults to bfloat16, "
        "on a CPU to float32.",
    )
    vllm_server_base_url: str | None = option(None, "The server; None: http://0.0.0.0:8000.")
    vllm_server_timeout: float = option(240.0, "Seconds to wait for a server that is starting.", Range(0, above=True))
    vllm_group_port: int = option(51216, "Port over which the weights go to the server.", Range(1, 65535))
    vllm_request_timeout: float = option(
        600.0, "Seconds that one request to the server may take.", Range(0, above=True)
    )
    vllm_request_retries: int = option(5, "How often a request that got no answer is sent again.", Range(0))
