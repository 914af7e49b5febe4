# Tests: generation/colocate.py
"""vLLM in the training process on a GPU: the pushes arrive exactly, awake and after a sleep."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import GPU

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs vLLM")]

WORKER = Path(__file__).parent / "vllm_worker.py"
CACHE_BYTES = 256 * 2**20
VLLM = dict(
    generation_backend="vllm", vllm_engine_kwargs={"enforce_eager": True, "kv_cache_memory_bytes": CACHE_BYTES},
    vllm_max_model_length=64, vllm_gpu_memory_utilization=0.1, max_steps=3, temperature=0.7,
)  # fmt: skip
# Of the largest |sampler - trainer| log-prob in a rollout. float32: one may round products to TF32, the other
# not; bf16 has 8 bits, and logits are of size 10.
EXACT = {False: 0.02, True: 1.0}
MEAN = {False: 0.005, True: 0.03}  # of a round; on a CPU at most 1e-5 and 0.01 were seen


def run(output, sharing, stale=False, **changes):
    """What a run found; every role moved in it."""
    output.mkdir(exist_ok=True)
    config = {**VLLM, **GPU, "policy_sharing": sharing, **changes}
    line = [sys.executable, str(WORKER), json.dumps({"output": str(output), "config": config, "stale": stale})]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((output / "found.json").read_text())
    assert found["moved"] == found["names"] and found["device"] == "cuda"
    return found


@pytest.mark.parametrize("bf16", [False, True], ids=["float32", "bf16"])
@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_the_samplers_log_probs_are_the_trainers_after_several_updates(tmp_path, sharing, bf16):
    found = run(tmp_path, sharing, bf16=bf16)
    for role, largest in found["differences"].items():
        assert len(largest) == 3 and max(largest) < EXACT[bf16], found["differences"]
        for line in found["rounds"]:
            assert line[f"{role}/weights_pushed"] == (0 if (sharing, role) == ("tied", "prover") else 1)
            assert line[f"{role}/sampler_logp_difference"] < MEAN[bf16]


@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_an_engine_that_keeps_its_first_weights_is_off_by_more(tmp_path, sharing):
    """The check of the check: what counts as exact in float32 does not hide a push that never came."""
    found = run(tmp_path, sharing, stale=True, bf16=False)
    assert max(found["differences"]["prover"][1:]) > 2 * EXACT[False], found["differences"]


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_an_engine_that_slept_during_the_update_frees_its_cache_and_samples_from_the_new_weights(tmp_path, sharing):
    """Under `full` and `tied` its weights were dropped and are pushed again, under `lora` they waited on the CPU."""
    found = run(tmp_path, sharing, bf16=False, vllm_enable_sleep_mode=True)
    assert all(len(d) == 3 and max(d) < EXACT[False] for d in found["differences"].values()), found["differences"]
    assert [line["conjecturer/weights_pushed"] for line in found["rounds"]] == [1, 1, 1]
    assert min(found["freed"]) > 0.8 * CACHE_BYTES, found["freed"]
