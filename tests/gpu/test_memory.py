# Tests: planning/dry_run.py, planning/memory.py, policies/decode.py
"""What a dry run says of memory against the peak of the device, for recipes at a toy's width."""

import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from countdown_selfplay.cli.joint import build_arguments, parse
from countdown_selfplay.planning.dry_run import Plans
from countdown_selfplay.planning.memory import GIB, launch_of, total
from countdown_selfplay.planning.probe import probe
from tests.cli.stand_in import make_tokenizer

EMULATED = "fakecuda" in sys.modules
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not EMULATED, reason="the libraries of a GPU keep buffers that are larger than this model"),
]
SIZES = (
    "--eval_problems 0 --dataset_name null --eval_dataset_name null --per_device_train_batch_size 4 "
    "--problems_per_round 32 --num_generations 2 --max_completion_length 60 --prover_max_completion_length 60"
)
FEW = "--proposals_per_round 16 --conjecturer_num_generations 4"
LONG = f"{FEW} --conjecturer_max_completion_length 480"


def without_scores(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Attention without a matrix of tokens by tokens, as the kernels of a GPU; the emulated one has none of them."""
    groups = query.size(1) // key.size(1) if enable_gqa else 1
    key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
    if torch.is_autocast_enabled("cuda"):
        query, key, value = (part.bfloat16() for part in (query, key, value))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, -torch.inf)
    own = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return own(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Qwen2.5-0.5B's proportions at an eighth of its width, six layers."""
    folder, tokenizer = str(tmp_path_factory.mktemp("toy")), make_tokenizer()
    config = Qwen2Config(
        hidden_size=112, intermediate_size=608, num_hidden_layers=6, num_attention_heads=14, num_key_value_heads=2,
        vocab_size=len(tokenizer), tie_word_embeddings=True,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("recipe", "more", "halves"),
    [
        ("qwen2.5-0.5b/anchored_shaped_fixed", LONG, ("sampling", "training")),  # the conjecturer's texts need most
        ("qwen2.5-3b/anchored_shaped_fixed", FEW, ("round",)),
        ("qwen2.5-0.5b/rloo", "", ("sampling", "round")),  # prompts are read
        ("qwen2.5-0.5b/rloo", "--generation_rows 16", ("sampling", "round")),  # in four calls
        ("qwen2.5-0.5b/rloo", "--policy_sharing lora", ("sampling",)),
    ],
)
def test_the_estimate_is_the_peak_to_a_tenth(recipe, more, halves, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", without_scores)
    flags = f"--recipe {recipe} --model_name_or_path {toy} --output_dir {tmp_path / 'run'} {SIZES} {more}"
    options = parse(flags.split())
    lasting, sampling, training = Plans(*options, toy)(options[1], launch_of(options[1]))
    counted = {"sampling": total(lasting, sampling), "training": total(lasting, training)}
    found = probe(options[1], build_arguments(*options))
    for one in (counted, found):
        one["round"] = max(one["sampling"], one["training"])
    assert [counted[half] / GIB for half in halves] == pytest.approx([found[half] for half in halves], rel=0.1)
