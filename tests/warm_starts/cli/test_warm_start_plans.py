# Tests: warm_starts/planning.py, warm_starts/cli/cdg.py, warm_starts/cli/sft.py, warm_starts/cli/ipo.py
"""The memory that a dry run of a warm start or of iterated play plans, for a model that is not there: an 8B."""

import json
import shutil

import pytest

from countdown_selfplay.cli.main import main
from countdown_selfplay.tiny import TINY_MODEL_PATH

GIB = 2**30
# Llama-3.1-8B by hand: two embeddings, a norm; in each of 32 layers q, o, k, v, the MLP's three and two norms.
LAYER = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
WEIGHTS = 2 * 128256 * 4096 + 32 * LAYER + 4096
SHAPE = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture
def llama(tmp_path):
    """The folder of an 8B without weights; its tokenizer, which only counts a prompt's tokens, is another one."""
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SHAPE))
    for file in TINY_MODEL_PATH.glob("*token*"):
        shutil.copy(file, folder)
    return str(folder)


def planned(capsys, *argv):
    """GiB of each part; without a launch file a dry run plans for one process on this machine's device."""
    assert main([*argv, "--dry_run"]) == 0
    table = capsys.readouterr().out.partition("# Memory per process in GiB")[2].splitlines()
    found = {}
    for line in table[3:]:
        name, _, rest = line.partition("  ")
        if not rest:
            break
        found[name] = float(rest.split()[0])
    return found


# Bytes a weight, by hand: float32 weights, gradients and two moments over 8; under DeepSpeed bf16 weights and
# gradients and the optimizer's 4 + 8, of which ZeRO-2 keeps whole weights; DDP all on each.
@pytest.mark.parametrize(
    ("engine", "weights", "optimizer", "gradients"),
    [("fsdp2", 4 / 8, 8 / 8, 4 / 8), ("zero3", 2 / 8, 12 / 8, 2 / 8), ("zero2", 2, 12 / 8, 2 / 8), ("ddp", 4, 8, 4)],
)
def test_the_8b_recipe_of_iterated_play_by_engine(engine, weights, optimizer, gradients, llama, capsys):
    launch = ["--accelerate_config", engine, "--num_processes", "8"]
    found = planned(capsys, "cdg", "--recipe", "llama-3.1-8b/iterated_cdg", "--model_name_or_path", llama, *launch)
    # three roles in bfloat16; 16 texts of a question (512), an answer, a critique and a revision (4,096 each), and for
    # each token 32 layers of 1,024 keys and values in bfloat16
    cache = 16 * (512 + 3 * 4096) * 32 * 1024 * 2 * 2
    assert found["weights, sampling"] == pytest.approx(3 * 2 * WEIGHTS / GIB, abs=0.001)
    assert found["KV cache (sampling)"] == pytest.approx(cache / GIB, abs=0.001)
    for name, each in (("weights", weights), ("optimizer", optimizer), ("gradients (training)", gradients)):
        assert found[name] == pytest.approx(each * WEIGHTS / GIB, abs=0.001), name
    assert (found["at least"] < 75) == (engine != "ddp")  # of an accelerator's 80 GB, which are 74.5 GiB


def test_with_vllm_the_models_leave_the_device_and_a_model_that_is_not_here_has_no_estimate(llama, capsys):
    launch = ["--accelerate_config", "zero3", "--num_processes", "8", "--generation_backend", "vllm"]
    found = planned(capsys, "cdg", "--recipe", "llama-3.1-8b/iterated_cdg", "--model_name_or_path", llama, *launch)
    assert found["at least"] == pytest.approx(16 / 8 * WEIGHTS / GIB, abs=0.002)
    assert set(found) == {"weights", "optimizer", "gradients (training)", "at least"}
    assert main(["cdg", "--recipe", "llama-3.1-8b/iterated_cdg", "--dry_run"]) == 0
    assert "No figures: the config of 'meta-llama/Llama-3.1-8B-Instruct' cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["sft", "ipo"])
def test_a_warm_start_trains_shards(command, llama, capsys):
    argv = [command, "--recipe", f"tiny/{command}", "--model_name_or_path", llama, "--accelerate_config", "fsdp2"]
    found = planned(capsys, *argv, "--demonstrations" if command == "sft" else "--problems", "20")
    assert found["at least"] == pytest.approx(2 * WEIGHTS / GIB, abs=0.002)
