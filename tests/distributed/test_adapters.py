# Tests: policies/adapters.py, training/exports.py
"""A run that starts from an adapter's folder under engines that cut weights up: it is merged whole, its exports hold
what was trained, and they are loaded again by one process."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from countdown_selfplay.data.run_files import BASE
from countdown_selfplay.policies.build import load_pretrained
from countdown_selfplay.tiny import load_tiny_model
from tests.distributed.two_processes import ranks_of

pytestmark = pytest.mark.distributed


@pytest.mark.parametrize("engine", ["zero3", "fsdp2"])
def test_an_adapter_is_merged_trained_and_exported_whole(engine, tmp_path):
    model, tokenizer = load_tiny_model()
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for parameter in (p for p in model.parameters() if p.requires_grad):
            parameter += 0.05
    start = tmp_path / "start"
    model.save_pretrained(start)
    tokenizer.save_pretrained(start)
    found, _ = ranks_of(engine, "adapters_worker", tmp_path, start=str(start), sharings=["full", "lora"])
    told = [["prover", "", True], ["conjecturer", "", True]]
    assert found == {"full": told, "lora": told}
    begun = load_pretrained(str(start), {"dtype": "float32"}).state_dict()
    base = load_pretrained(str(tmp_path / "lora" / BASE), {"dtype": "float32"}).state_dict()
    assert all(torch.allclose(base[key], value, atol=1e-5) for key, value in begun.items())
    for sharing in ("full", "lora"):  # a step of Adam at 1e-3 lies near the start, and the bare base does not
        found = load_pretrained(str(tmp_path / sharing / "prover"), {"dtype": "float32"}).state_dict()
        gaps = [(found[key] - value).abs().max().item() for key, value in begun.items()]
        assert 1e-5 < max(gaps) < 1e-2
