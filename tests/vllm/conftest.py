"""A vLLM that runs on a CPU (`make test-vllm`): what its CPU build lacks is mended here."""

import os
import socket

os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest

CACHE_BYTES = 64 * 2**20  # of keys and values; an engine lives as long as its process
ENGINE = {"enforce_eager": True, "kv_cache_memory_bytes": CACHE_BYTES}
VLLM = dict(
    generation_backend="vllm", vllm_engine_kwargs=ENGINE, vllm_max_model_length=64, vllm_gpu_memory_utilization=0.1,
    max_steps=3,
)  # fmt: skip


def own_port():
    """A free port for a server that is started, killed and started again: below those that the system gives away (from
    32,768 on Linux), so that nobody gets it in between."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no port below 32,000 is free")


def keep_plain_weights():
    """The CPU build packs the weights of linear layers away when it has loaded them, and a later load writes into
    what is left of them. Plain linear layers read the weights that were pushed."""
    import torch
    import vllm.model_executor.layers.utils as utils

    def plain(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = plain


@pytest.fixture(autouse=True, scope="session")
def cpu_weights():
    pytest.importorskip("vllm")
    keep_plain_weights()
