# Tests: planning/memory.py, cli/launch.py, planning/dry_run.py, planning/probe.py
"""What a dry run says of memory, against built models and by hand; a probe against what it must hold."""

import json
import re
import subprocess
import sys

import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM
from trl import ModelConfig

from countdown_selfplay.config.script import JointScriptArguments
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.planning import memory
from countdown_selfplay.planning.dry_run import Plans, _prompts
from countdown_selfplay.planning.memory import (
    GIB,
    Launch,
    activations,
    kv_cache,
    memory_table,
    narrowed_of,
    parameters_of,
    planned_launch,
    state,
)
from countdown_selfplay.policies.build import read_tokenizer
from countdown_selfplay.tiny import TINY_MODEL_PATH
from tests.joint_config import joint_config
from tests.toy_domain import Sums

CONFIG = AutoConfig.for_model(
    "qwen2", vocab_size=500, hidden_size=96, intermediate_size=320, num_attention_heads=6, num_key_value_heads=2,
    num_hidden_layers=2, max_position_embeddings=512, tie_word_embeddings=True,
)  # fmt: skip


class Questions(Sums):
    """A domain whose problems are rows of a data set, as they stand there."""

    random = None
    longest = None

    def problem(self, row, index=0):
        return row["problem"]

    def prove_row(self, problem):
        return {"prompt": problem}


def planned_parts(args, launch):
    """GiB: 40 that last, on one process, a tenth a row of a turn or an evaluation, and ten a trained one, half of it
    recomputed."""
    rows = 10 * args.per_device_train_batch_size / (2 if args.gradient_checkpointing else 1)
    lasting = (8 if args.policy_sharing == "lora" else args.size) / launch.processes
    gib = (
        {"weights": lasting},
        {"cache": max(args.generation_rows, args.per_device_eval_batch_size) / 10},
        {"gradients (training)": 1, "kept": rows},
    )
    return tuple({name: (size * GIB, "") for name, size in part.items()} for part in gib)


def test_the_parameters_are_those_of_models_that_were_built():
    adapter = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    model = AutoModelForCausalLM.from_config(CONFIG)
    whole = sum(p.numel() for p in model.parameters())
    peft = get_peft_model(model, adapter)
    trained = sum(p.numel() for p in peft.parameters() if p.requires_grad)
    assert parameters_of(CONFIG, adapter) == (whole, trained) and parameters_of(CONFIG) == (whole, 0)
    # by hand: q 96x96, k and v 96x32, o 96x96, gate and up 96x320, down 320x96, twice
    assert trained == 4 * 2 * ((96 + 96) + 2 * (96 + 32) + (96 + 96) + 3 * (96 + 320))


@pytest.mark.parametrize(
    ("launch", "weights", "optimizer", "gradients"),
    [  # bytes of 12 weights of which 8 are trained, by hand
        (Launch(), 12 * 4, 8 * 8, 8 * 4),
        (Launch("ddp", 4, bf16=True), 12 * 4, 8 * 8, 8 * 4),
        (Launch("zero2", 4), 12 * 4, 8 * 12 / 4, 8 * 4 / 4),  # float32 throughout: a master copy all the same
        (Launch("zero2", 4, bf16=True), 12 * 2, 8 * 12 / 4, 8 * 2 / 4),
        (Launch("zero3", 4), 12 * 4 / 4, 8 * 12 / 4, 8 * 4 / 4),
        (Launch("fsdp2", 4, bf16=True), 12 * 4 / 4, 8 * 8 / 4, 8 * 4 / 4),
    ],
    ids=str,
)
def test_the_state_is_spread_as_the_engine_spreads_it(launch, weights, optimizer, gradients):
    lasting, training = state(launch, 12, 8)
    assert {name: size for name, (size, _) in {**lasting, **training}.items()} == {
        "weights": weights, "optimizer": optimizer, "gradients (training)": gradients
    }  # fmt: skip


def test_the_cache_holds_keys_and_values_of_all_texts_of_the_greediest_role():
    """320 tokens and 200; two layers, 2 heads of 16, a key and a value of 4 or 2 bytes."""
    texts = [("prover", 8, 40), ("conjecturer", 4, 50)]
    assert kv_cache(CONFIG, texts, 4) == {"KV cache (sampling)": (320 * 2 * 32 * 8, "prover: 8 texts of 40 tokens")}
    assert kv_cache(CONFIG, texts, 2)["KV cache (sampling)"][0] == 320 * 2 * 32 * 4


def test_frozen_linear_layers_take_two_bytes_under_autocast_where_weights_are_whole():
    """By hand: q, o 96x96, k, v 96x32, gate, up, down 96x320, biases of q, k and v, twice; not the embeddings."""
    frozen = narrowed_of(CONFIG)
    assert frozen == 2 * (2 * 96 * 96 + 2 * 96 * 32 + 3 * 96 * 320 + 96 + 32 + 32)
    found = {
        kind: state(Launch(kind, 2, bf16=True), 10**6, 8, 4, frozen)[0]["weights"][0] for kind in ("ddp", "fsdp2")
    }
    assert found == {"ddp": 4 * 10**6 - 2 * frozen, "fsdp2": 4 * 10**6 / 2}
    assert state(Launch("ddp", 2), 10**6, 8, 4, frozen)[0]["weights"][0] == 4 * 10**6  # float32: nothing is cast


def said_of(launch=None, model=None, what=1, **changes):
    """Part -> how it comes about (what=0: its GiB), of a joint run of the tiny model."""
    args = joint_config(
        output_dir="unused", use_cpu=True, bf16=False, report_to="none",
        **{"problems_per_round": 2, "num_generations": 4, "proposals_per_round": 4, "operands": [3],
           "prover_prompt": "compact", "conjecturer_prompt": "compact", "max_completion_length": 30,
           "per_device_eval_batch_size": 1, "num_generations_eval": 1, **changes},
    )  # fmt: skip
    plans = Plans(JointScriptArguments(), args, model or ModelConfig(), str(TINY_MODEL_PATH))
    table = memory_table(*plans(args, launch or Launch()))
    cells = (re.split(r"\s{2,}", line, maxsplit=2) for line in table.splitlines()[2:-2])
    return {name: (size, words)[what] for name, size, words in cells}


def cached(**how):
    """GiB of the KV cache of a large round."""
    return float(said_of(what=0, problems_per_round=800, generation_rows=3200, **how)["KV cache (sampling)"])


def test_a_joint_run_counts_its_policies_frozen_copies_bases_and_texts():
    pool = {"prover": {"players": 4}, "conjecturer": {"players": 4}}
    adapter = LoraConfig(r=16, target_modules="all-linear")
    whole, adapted = parameters_of(AutoConfig.from_pretrained(TINY_MODEL_PATH), adapter)
    tiny, two = whole / 1e6, 2 * whole / 1e6

    def weights(**how):
        found = said_of(**how)
        return found["weights"], found["optimizer"]

    assert weights() == (f"{two:.1f}M x 4 bytes", f"{two:.1f}M x 8 bytes")
    assert weights(policy_sharing="tied") == (f"{tiny:.1f}M x 4 bytes", f"{tiny:.1f}M x 8 bytes")
    assert weights(conjecturer_weights="start") == (f"{two:.1f}M x 4 bytes", f"{tiny:.1f}M x 8 bytes")
    assert weights(roles=pool)[0] == f"{8 * tiny:.1f}M x 4 bytes"
    lora = f"{(whole + 8 * adapted) / 1e6:.1f}M x 4 bytes", f"{8 * adapted / 1e6:.1f}M x 8 bytes"
    assert weights(roles=pool, policy_sharing="lora") == lora
    assert weights(model=ModelConfig(dtype="bfloat16"))[0] == f"{two:.1f}M x 2 bytes"
    found = said_of(problems_per_round=6)["KV cache (sampling)"]
    assert found.startswith("prover: 24 texts of ") and said_of()["KV cache (sampling)"] == found.replace("24", "8")
    four = said_of(problems_per_round=6, launch=Launch("ddp", 4))["KV cache (sampling)"]
    assert four == found.replace("24", "8")  # 6 problems on 4 processes: 2 on one of them
    assert said_of(problems_per_round=6, generation_rows=10)["KV cache (sampling)"] == found.replace("24", "10")
    evaluated = said_of(problems_per_round=6, per_device_eval_batch_size=64)["KV cache (sampling)"]
    assert evaluated == found.replace("prover: 24", "evaluation: 64")
    assert "of 20" in said_of(eval_preset="joint_rloo")["KV cache (sampling)"]  # 2,048 tokens and a short prompt
    assert "KV cache (sampling)" not in said_of(generation_backend="vllm")


@pytest.mark.parametrize(("launch", "dtype", "smaller"), [
    (Launch(), "bfloat16", 2),
    (Launch(bf16=True, device="cuda"), None, 2),  # float32 weights under autocast
    (Launch("fsdp2", 2, bf16=True, device="cuda"), None, 4),  # and half of the texts a process
], ids=str)  # fmt: skip
def test_the_cache_is_in_the_type_that_attention_reads(launch, dtype, smaller):
    whole, found = cached(), cached(launch=launch, model=ModelConfig(dtype=dtype))
    assert whole == pytest.approx(smaller * found, abs=0.003)


PROBED = """
import json, sys
from transformers import AutoTokenizer
from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.planning.probe import probe, probe_table
from countdown_selfplay.tiny import TINY_MODEL_PATH

path, output = str(TINY_MODEL_PATH), sys.argv[1]
args = JointSelfPlayConfig(
    output_dir=output, use_cpu=True, bf16=False, report_to="none", max_steps=50,
    per_device_train_batch_size=64, problems_per_round=128, num_generations=4, max_completion_length=16, beta=0.0,
    domain_kwargs={
        "prover_prompt": "compact", "conjecturer_prompt": "compact", "operands": [3], "number_high": 12,
        "target_high": 99,
    },
    gradient_checkpointing=False,
)
found = probe(args, {"model": path, "processing_class": AutoTokenizer.from_pretrained(path, padding_side="left")})
told = {"kept": [args.max_steps, args.output_dir], "table": probe_table(found)}
print(json.dumps(told | {name: found[name] for name in ("log", "training", "sampling")}))
"""


@pytest.mark.matrix
def test_a_probe_plays_full_texts_reads_both_halves_and_leaves_nothing(tmp_path):
    """In a process of its own, as the command is: pages that earlier tests have freed would count as there before."""
    output = str(tmp_path / "run")
    done = subprocess.run([sys.executable, "-c", PROBED, output], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert list(tmp_path.iterdir()) == [] and found["kept"] == [50, output]
    assert found["log"]["prover/completion_length_max"] == found["log"]["conjecturer/completion_length_max"] == 16
    # Two models of 0.65M float32 parameters with gradients and Adam's two moments are 2 x 16 x 0.65M = 0.02 GiB, and
    # a process that plays rounds of the tiny model stays well below one GiB.
    assert 0.02 < found["training"] < 1 and 0.005 < found["sampling"] < 1
    lines = found["table"].splitlines()
    assert lines[2].split() == ["sampling", f"{found['sampling']:.3f}"]
    assert lines[-1].endswith("longest texts: conjecturer 16, prover 16 tokens.")


def test_a_probe_of_a_pool_gives_every_trained_kind_an_entropy_bonus(tmp_path):
    """Also where a role says 0 itself, in a flat field or under `roles`; one that has a bonus keeps it."""
    from countdown_selfplay.planning.probe import _SMALL, _give_entropy

    roles = {
        "prover": {"players": 2, "entropy_coef": 0.0},
        "conjecturer": {"players": 2, "entropy_coef": 0.5},
        "guide": {"objective": "rest", "entropy_coef": 0.0},
    }
    args = joint_config(output_dir=str(tmp_path), use_cpu=True, bf16=False, guide="judge", roles=roles)
    _give_entropy(args)
    found = {name: settings.entropy_coef for name, settings in args.all_roles.items()}
    assert found == {
        **{f"prover/{i}": _SMALL for i in range(2)}, **{f"conjecturer/{i}": 0.5 for i in range(2)}, "guide": _SMALL
    }  # fmt: skip


def test_a_layer_more_keeps_its_input_where_it_is_recomputed_and_all_it_reads_otherwise():
    """By hand: 3 rows of 10 tokens of 96 numbers in float32, and two tiles of TRL's head over 500 words."""
    three = AutoConfig.for_model(**{**CONFIG.to_dict(), "num_hidden_layers": 3, "layer_types": None})
    few, more = (activations(config, None, 3, 10, True, True)[0] for config in (CONFIG, three))
    assert more - few == 30 * 96 * 4 and few > 2 * 4 * 30 * 500 + 2 * 30 * 96 * 4
    few, more = (activations(config, None, 3, 10, True, False)[0] for config in (CONFIG, three))
    # of the MLP alone: gate, up and their product in bf16, the norm's input in float32
    assert more - few > 30 * (3 * 320 * 2 + 96 * 4)


@pytest.mark.parametrize(("size", "rows", "batch", "said"), [
    (40, 256, 2, "Fits a GPU of 79 GiB."),  # 65.6 and 61
    (40, 1024, 2, "79 GiB; the least change: generation_rows=256."),  # 91.2 with 512 rows
    (40, 512, 2, "the least change: generation_rows=256 and per_device_eval_batch_size=256."),  # 142.4, of both
    (40, 256, 4, "79 GiB; the least change: gradient_checkpointing=true."),  # 81, then 61
    (60, 256, 8, "generation_rows=128 and gradient_checkpointing=true and per_device_train_batch_size=2."),
    (79, 8, 1, "and a GPU has 79; the least change that fits: policy_sharing=lora."),
])  # fmt: skip
def test_what_does_not_fit_is_told_the_least_change_that_does(size, rows, batch, said, monkeypatch):
    monkeypatch.setattr(memory, "room_of", lambda launch: 79.0 * GIB)
    args = joint_config("unused", use_cpu=True, generation_rows=rows, gradient_checkpointing=False)
    args.per_device_eval_batch_size = 1024 if rows == 512 else 8
    vars(args).update(size=size, per_device_train_batch_size=batch)
    gpu, planned = Launch(device="cuda", bf16=True), []

    def plans(args, launch):
        rows, batches = args.generation_rows, (args.per_device_eval_batch_size, args.per_device_train_batch_size)
        planned.append((rows, *batches, args.gradient_checkpointing, args.policy_sharing, launch))
        return planned_parts(args, launch)

    assert memory.fitting(plans, args, Launch()) == ""
    if size < 79:
        assert memory.fitting(plans, args, gpu).endswith(said)
        assert len(set(planned)) == len(planned)  # none is counted twice
        return
    with pytest.raises(ConfigError, match=re.escape(said)):
        memory.fitting(planned_parts, args, gpu)
    args.policy_sharing, args.size = "tied", 400  # 8 processes hold 50 each
    monkeypatch.setattr(memory, "room_of", lambda launch: 79.0 * GIB if launch.processes > 1 else 7.0 * GIB)
    with pytest.raises(ConfigError, match="a GPU has 7; the least change that fits: more GPUs"):
        memory.fitting(planned_parts, args, gpu)


def test_prompts_are_those_of_the_rows_at_hand_or_512_tokens(tmp_path):
    """Of a domain without problems of its own; the second question is the longer one."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"problem": "1 2"}\n{"problem": "1 2 3 4 5"}\n')
    args = joint_config(
        "unused", use_cpu=True, domain=f"{__name__}:Questions", conjecturer_players=0, max_completion_length=30
    )
    tokenizer = read_tokenizer(str(TINY_MODEL_PATH))
    for name, tokens in ((str(rows), len(tokenizer("1 2 3 4 5")["input_ids"])), ("not/here", 512)):
        script = JointScriptArguments(dataset_name=name)
        assert _prompts(str(TINY_MODEL_PATH), script, args)["prover"][0] == tokens
    with pytest.raises(DataError, match="does not generate problems; pass a data set of them"):
        _prompts(str(TINY_MODEL_PATH), JointScriptArguments(), args)


def test_a_change_of_the_weights_is_one_that_the_rules_allow_and_the_rest_fits_under_it(monkeypatch):
    """By hand: 90 GiB on two processes are 45, with 26 sampled rows and gradients below 79; another temperature of one
    role forbids adapters over one base."""
    monkeypatch.setattr(memory, "room_of", lambda launch: 79.0 * GIB)
    args = joint_config("unused", use_cpu=True, generation_rows=512, conjecturer_temperature=0.5, guard=False)
    args.per_device_eval_batch_size = 8
    vars(args).update(size=90, per_device_train_batch_size=1)
    said = "fits: generation_rows=256 and --accelerate_config zero3 --num_processes 2."
    with pytest.raises(ConfigError, match=re.escape(said)):
        memory.fitting(planned_parts, args, Launch(device="cuda", bf16=True))


def test_an_engine_without_room_for_weights_and_scores_is_refused():
    assert planned_launch({"mixed_precision": "bf16"}, None) == Launch("none", 1, "cuda", True)
    assert planned_launch({"num_processes": 2, "use_cpu": True}, None) == Launch("ddp", 2, "cpu", False)
    with pytest.raises(ConfigError, match=r"`vllm_gpu_memory_utilization` \(1e-06\) gives vLLM .* set at least 0.05"):
        said_of(launch=Launch(device="cuda"), generation_backend="vllm", vllm_gpu_memory_utilization=1e-6)
    assert said_of(launch=Launch(device="cuda"), generation_backend="vllm")["vLLM"] == "0.3 of the GPU"
