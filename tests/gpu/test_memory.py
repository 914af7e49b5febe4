# Tests: planning/memory.py
"""The memory estimate of a dry run, a lower bound, against what the allocator peaked at."""

import importlib.util
from pathlib import Path

import pytest
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from countdown_selfplay.tiny import TINY_MODEL_PATH

pytestmark = pytest.mark.gpu

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"
RELATIVE = 0.05  # by how much the bound may be off: parts that do not peak together


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Random weights, 85M parameters: of a size at which state, activations and logits all count."""
    folder = tmp_path_factory.mktemp("model")
    config = Qwen3Config(
        vocab_size=40000, hidden_size=768, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=12,
        num_key_value_heads=4, head_dim=64, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH)).save_pretrained(folder)
    return str(folder)


def benchmark():
    spec = importlib.util.spec_from_file_location("benchmarks_memory", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "changes",
    [
        {"policy_sharing": "full"},
        {"policy_sharing": "tied", "gradient_checkpointing": True},
        {"policy_sharing": "full", "beta": 0.01, "gradient_checkpointing": True},
        {"policy_sharing": "lora"},
        {"policy_sharing": "tied", "bf16": False},
    ],
    ids=str,
)
def test_the_estimate_is_a_lower_bound_of_the_allocators_peak_in_both_halves_of_a_round(tmp_path, model, changes):
    cell = {
        "model": "made", "path": model, "per_device_train_batch_size": 32, "max_completion_length": 128,
        "prover_prompt": "compact", "conjecturer_prompt": "compact", "bf16": True, **changes,
    }  # fmt: skip
    found = benchmark().run_cell("made", cell, str(tmp_path))
    assert "failed" not in found, found
    for half in ("sampling", "training"):
        measured, estimated = found["measured"][half], found["estimated"][half]
        assert 0.1 * measured <= estimated <= (1 + RELATIVE) * measured, (half, measured, estimated)
