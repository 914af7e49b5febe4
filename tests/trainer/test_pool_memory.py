# Tests: policies/full.py, proposers/tiers.py
"""A pool's memory on SmolLM2-135M: what more players cost where each is an adapter over one base."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from countdown_selfplay.tiny import TINY_MODEL_PATH

WORKER = Path(__file__).parent / "memory_worker.py"


@pytest.fixture
def smollm2(tmp_path):
    """The folder in the environment variable SMOLLM2, or random weights in the shape of SmolLM2-135M (its published
    config.json), which take as much memory."""
    if given := os.environ.get("SMOLLM2"):
        return given
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))
    shape = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True, rope_theta=100000.0,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(shape)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008  # the model card's 135M
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def needed(model, players):
    # What is freed goes back to the system at once: the allocator's own stock is not what a run needs.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment |= {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
    line = [sys.executable, str(WORKER), model, str(players)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["lengths"]) == 2 * players and set(found["lengths"].values()) == {16}
    return found["bytes"]


@pytest.mark.slow
def test_two_and_two_adapters_over_one_base_need_at_most_half_as_much_again_as_one_and_one(smollm2):
    one, two = needed(smollm2, 1), needed(smollm2, 2)
    print(f"1 x 1: {one / 2**30:.2f} GiB, 2 x 2: {two / 2**30:.2f} GiB, {two / one:.2f} times as much")
    assert 4 * 134_515_008 < one <= two <= 1.5 * one  # the base alone takes 4 bytes a weight
