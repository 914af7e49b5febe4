# Tests: planning/memory.py, cli/launch.py, planning/dry_run.py, planning/probe.py
"""The memory estimate against models that were built and arithmetic by hand; a probe against what it must hold."""

import json
import subprocess
import sys

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from countdown_selfplay.cli.launch import config_path, planned
from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.planning.dry_run import estimate_of
from countdown_selfplay.planning.memory import (
    GIB,
    Launch,
    Vllm,
    bytes_of,
    estimate_memory,
    model_shape,
    planned_launch,
)
from countdown_selfplay.tiny import TINY_MODEL_PATH

SIZES = dict(
    vocab_size=500, hidden_size=96, intermediate_size=320, num_attention_heads=6, num_key_value_heads=2,
    max_position_embeddings=512, tie_word_embeddings=True,
)  # fmt: skip
PROMPT = {"prover": 10, "conjecturer": 20}


def config(kind="qwen2", layers=2, **changes):
    return AutoConfig.for_model(kind, num_hidden_layers=layers, **{**SIZES, **changes})


def test_the_shape_is_that_of_a_model_that_was_built():
    model = AutoModelForCausalLM.from_config(config(layers=2))
    shape = model_shape(config(layers=2))
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert (shape.embedding, shape.key, shape.layers, shape.vocabulary) == (500 * 96, 32, 2, 500)
    # by hand: q 96x96, k and v 96x32, o 96x96, gate and up 96x320, down 320x96, twice
    assert shape.adapted == 2 * ((96 + 96) + 2 * (96 + 32) + (96 + 96) + 3 * (96 + 320))


def test_an_adapter_of_rank_r_has_the_weights_that_peft_gives_it():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(
        AutoModelForCausalLM.from_config(config()), LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == 4 * model_shape(config()).adapted


def settings(**changes):
    return JointSelfPlayConfig(
        output_dir="unused", use_cpu=True, bf16=False, report_to="none",
        **{"per_device_train_batch_size": 4, "num_generations": 4, "prover_micro_batches": 2,
           "gradient_checkpointing": False, "max_completion_length": 30, "beta": 0.0, **changes},
    )  # fmt: skip


def estimate(engine=None, lora_rank=None, vllm=None, **changes):
    args = settings(**changes)
    return estimate_memory(
        model_shape(config()), list(args.all_roles.values()), engine or Launch(), PROMPT,
        rows=args.per_device_train_batch_size, sharing=args.policy_sharing, lora_rank=lora_rank, vllm=vllm,
    )  # fmt: skip


def parts(*args, **changes):
    found = estimate(*args, **changes)
    return {name: size for half in (found.lasting, found.sampling, found.training) for name, (size, _) in half.items()}


P = model_shape(config()).parameters


@pytest.mark.parametrize(
    ("engine", "sharing", "weights", "gradients", "optimizer"),
    [  # bytes per parameter of one model, by hand; `full` holds two models
        ("none", "full", 2 * 4, 2 * 4, 2 * 8),
        ("none", "tied", 4, 4, 8),
        ("ddp", "full", 2 * 4, 2 * 4, 2 * 8),
        ("zero2", "full", 2 * 4, 2 * 4 / 4, 2 * 12 / 4),  # float32 throughout: a master copy all the same
        ("zero3", "full", 2 * 4 / 4, 2 * 4 / 4, 2 * 12 / 4),
        ("fsdp2", "tied", 4 / 4, 4 / 4, 8 / 4),
    ],
)
def test_the_state_is_spread_as_the_engine_spreads_it(engine, sharing, weights, gradients, optimizer):
    found = parts(Launch(engine, 1 if engine == "none" else 4), policy_sharing=sharing)
    expected = {"weights": weights * P, "gradients": gradients * P, "optimizer": optimizer * P}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert ("gradient buckets" in found) == (engine == "ddp")
    assert found.get("gradient buckets", 8 * P) == pytest.approx(8 * P)


def test_deepspeed_in_bf16_holds_two_bytes_of_weights_and_twelve_of_optimizer():
    found = parts(Launch("zero2", 8, "cuda", bf16=True), policy_sharing="tied")
    assert found["weights"] == pytest.approx(2 * P) and found["gradients"] == pytest.approx(2 * P / 8)
    assert found["optimizer"] == pytest.approx(12 * P / 8)
    found = parts(Launch("none", 1, "cuda", bf16=True), policy_sharing="tied")
    assert found["weights"] == pytest.approx(4 * P)


def test_references_are_shared_by_roles_of_one_temperature_and_absent_with_adapters():
    assert parts(beta=0.1)["references"] == pytest.approx(4 * P)
    two = parts(beta=0.1, conjecturer_temperature=0.7)["references"]
    assert two == pytest.approx(8 * P)
    assert parts(Launch("zero3", 4), beta=0.1)["references"] == pytest.approx(4 * P / 4)
    assert "references" not in parts()
    assert "references" not in parts(beta=0.1, policy_sharing="lora", lora_rank=4)


def test_adapters_leave_one_base_and_train_little():
    found = parts(policy_sharing="lora", lora_rank=4)
    adapters = 2 * 4 * model_shape(config()).adapted
    assert found["weights"] == pytest.approx(4 * (P + adapters))
    assert found["gradients"] == pytest.approx(4 * adapters) and found["optimizer"] == pytest.approx(8 * adapters)


POOL = {"prover": {"players": 4}, "conjecturer": {"players": 4}}


def test_a_pool_counts_its_players_frozen_copies_and_bases():
    rank4 = 4 * model_shape(config()).adapted
    assert parts(roles=POOL)["weights"] == pytest.approx(8 * 4 * P)
    assert parts(roles=POOL, policy_sharing="lora", lora_rank=4)["weights"] == pytest.approx(4 * (P + 8 * rank4))
    two = {"prover": {}, "conjecturer": {"players": 2, "model": "other"}}
    assert parts(roles=two, policy_sharing="lora", lora_rank=4)["weights"] == pytest.approx(4 * (2 * P + 3 * rank4))
    assert parts(roles=two, beta=0.1)["references"] == pytest.approx(2 * 4 * P)  # one per start
    for sharing in ("full", "tied"):
        frozen = parts(conjecturer_weights="start", policy_sharing=sharing)
        assert frozen["weights"] == pytest.approx(2 * 4 * P) and frozen["gradients"] == pytest.approx(4 * P)
    shared = parts(conjecturer_weights="prover", beta=0.1)
    assert shared["weights"] == shared["references"] == pytest.approx(4 * P)


def test_a_pool_of_four_by_four_adapters_over_half_a_billion_weights_fits_one_gpu_of_80_gb():
    """Qwen2.5-0.5B (its config.json: 494,032,768 parameters) in bf16 over float32 weights, adapters of rank 16 on all
    linear layers, 128 answers of 1,024 tokens a prover and round."""
    qwen = AutoConfig.for_model(
        "qwen2", hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True,
    )  # fmt: skip
    shape = model_shape(qwen)
    assert shape.parameters == 494_032_768
    args = settings(
        roles=POOL, policy_sharing="lora", per_device_train_batch_size=16, prover_micro_batches=8, num_generations=8,
        max_completion_length=1024, gradient_checkpointing=True, beta=0.02,
    )  # fmt: skip
    prompt = {"prover": 150, "conjecturer": 200}
    engine = Launch("none", 1, "cuda", bf16=True)
    found = estimate_memory(
        shape, list(args.all_roles.values()), engine, prompt, rows=16, sharing="lora", lora_rank=16
    )
    # by hand: an adapter has 16 x (q 896+896, k and v 896+128, o 896+896, gate and up 896+4864, down 4864+896) a layer
    adapter = 16 * 24 * (2 * (896 + 896) + 2 * (896 + 128) + 3 * (896 + 4864))
    assert found.lasting["weights"][0] == pytest.approx(4 * (494_032_768 + 8 * adapter))
    assert found.lasting["optimizer"][0] == pytest.approx(8 * 8 * adapter)
    assert found.peak < 80e9 / GIB - 5  # what the estimate leaves out: the CUDA context, fragmentation


def test_the_cache_holds_keys_and_values_of_all_texts_of_the_greedier_role():
    """The prover: 4 x 2 texts of 10 + 30 tokens; the conjecturer: 4 of 20 + 30. Two layers, 2 heads of 16."""
    found = parts()
    assert found["KV cache"] == pytest.approx(8 * 40 * 2 * 2 * 32 * 4)


@pytest.mark.parametrize(
    ("engine", "bytes_of_a_pair"),
    [  # a key and a value: float32; under autocast rotated keys are float32 and values bf16; DeepSpeed casts both
        (Launch(), 8),
        (Launch("none", 1, "cuda", bf16=True), 6),
        (Launch("zero2", 2, "cuda", bf16=True), 4),
    ],
)
def test_the_cache_has_the_precision_of_the_sampling(engine, bytes_of_a_pair):
    assert parts(engine)["KV cache"] == pytest.approx(8 * 40 * 2 * 32 * bytes_of_a_pair)


def test_the_logits_are_a_tile_while_training_and_the_last_position_while_sampling():
    found = parts()
    # the prover's 4 x (10 + 30) tokens, the conjecturer's 4 x (20 + 30) = 200; 500 words, 4 + 8 x 4 bytes on a CPU
    assert found["logits, training"] == pytest.approx(200 * 500 * 36 + 4 * 500 * 96)
    assert found["logits, sampling"] == pytest.approx(8 * 500 * 20)  # 8 texts; 36 bytes with top-p below 1
    assert parts(top_p=0.9)["logits, sampling"] == pytest.approx(8 * 500 * 36)
    found = parts(Launch("none", 1, "cuda"))  # the completion's 4 x 30 tokens in tiles 32768 wide, in one kernel
    assert found["logits, training"] == pytest.approx(120 * 32768 * 4 + 4 * 500 * 96)


def test_the_peak_is_the_larger_half_and_holds_the_lasting_parts():
    found, whole = parts(beta=0.1), estimate(beta=0.1)
    lasting = found["weights"] + found["references"] + found["optimizer"]
    training = lasting + found["gradients"] + found["logits, training"]
    sampling = lasting + found["KV cache"] + found["logits, sampling"]
    assert whole.gib("training") * GIB == pytest.approx(training)
    assert whole.gib("sampling") * GIB == pytest.approx(sampling)
    assert whole.peak == max(whole.gib("training"), whole.gib("sampling"))


def test_sixteen_adapters_over_one_base_cost_their_own_state_and_no_second_base():
    args = settings(policy_sharing="lora", roles={"prover": {"players": 16}, "conjecturer": {"players": 0}})
    players = list(args.all_roles.values())
    found = estimate_memory(
        model_shape(config()), players, Launch(), PROMPT, rows=4, sharing="lora", lora_rank=4
    ).lasting
    adapters = 16 * 4 * model_shape(config()).adapted
    assert found["weights"][0] == pytest.approx(4 * (P + adapters))
    assert found["optimizer"][0] == pytest.approx(8 * adapters)


@pytest.mark.parametrize(("engine", "copies"), [("none", 1), ("ddp", 3)])
def test_a_pass_over_the_rows_of_three_adapters_counts_them_all(engine, copies):
    """A copy of all players' A and B lies beside them, whose gradient is theirs; DDP has one more in the graph, and a
    gradient of its own. Logits: a tile of 3 x 4 rows of 50 tokens, of 500 words and 36 bytes."""
    shape, how = model_shape(config()), dict(policy_sharing="lora", roles={"prover": {"players": 2}})
    players = list(settings(**how).all_roles.values())
    asked = dict(rows=4, sharing="lora", lora_rank=4)
    mixed, apart = (
        estimate_memory(shape, players, Launch(engine, 2 if copies > 1 else 1), PROMPT, mixed=mixed, **asked)
        for mixed in (True, False)
    )
    assert mixed.training["mixed adapters"][0] == copies * 3 * 4 * shape.adapted * 4
    assert mixed.training["logits, training"][0] == 3 * apart.training["logits, training"][0] == 3 * 4 * 50 * 500 * 36
    assert "mixed adapters" not in apart.training and mixed.lasting == apart.lasting


@pytest.mark.parametrize(
    ("changes", "rank", "engine", "plain", "expected"),
    [
        ({}, 4, Launch(), True, True),
        ({"mixed_adapters": "off"}, 4, Launch(), True, False),
        ({}, 4, Launch("none", 1, "cuda"), True, False),  # auto: on a CPU alone
        ({"mixed_adapters": "on"}, 4, Launch("none", 1, "cuda"), True, True),
        ({"mixed_adapters": "on"}, 4, Launch("fsdp2", 2), True, False),
        ({"mixed_adapters": "on"}, 4, Launch(), False, False),  # dropout, DoRA
        ({"mixed_adapters": "on"}, 4, Launch("ddp", 2), True, True),
    ],
)
def test_a_dry_run_counts_mixed_rows_where_the_trainer_would_mix_them(changes, rank, engine, plain, expected):
    args = settings(policy_sharing="lora", prover_prompt="compact", conjecturer_prompt="compact", **changes)
    found = estimate_of(str(TINY_MODEL_PATH), args, engine, lora_rank=rank, plain_lora=plain).training
    assert ("mixed adapters" in found) == expected


def test_an_adapter_leaves_the_head_without_a_gradient():
    full, adapter = parts(policy_sharing="tied"), parts(policy_sharing="lora", lora_rank=4)
    assert full["logits, training"] - adapter["logits, training"] == pytest.approx(4 * 500 * 96)


def test_vllm_takes_its_share_of_the_device_in_both_halves_unless_it_sleeps():
    engine = Launch("none", 1, "cuda", True, total=80 * GIB)
    awake, asleep = (estimate(engine, vllm=Vllm(0.3, sleeps)) for sleeps in (False, True))
    assert awake.lasting["vLLM"][0] == pytest.approx(24 * GIB) and awake.sampling == {}
    assert awake.gib("training") - asleep.gib("training") == pytest.approx(24)
    assert awake.gib("sampling") == pytest.approx(asleep.gib("sampling"))
    assert parts(engine, vllm=Vllm(server=True))["vLLM"] == 0
    # without a device: two bytes a weight and the cache of 8 texts of 40 tokens in bf16
    elsewhere = parts(Launch("none", 1, "cuda", True), vllm=Vllm(0.3))
    assert elsewhere["vLLM"] == pytest.approx(2 * P + 4 * 2 * 32 * 8 * 40)


PROBED = """
import json, sys
from transformers import AutoTokenizer
from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.planning.probe import probe, probe_table
from countdown_selfplay.tiny import TINY_MODEL_PATH

path, output = str(TINY_MODEL_PATH), sys.argv[1]
args = JointSelfPlayConfig(
    output_dir=output, use_cpu=True, bf16=False, report_to="none", max_steps=50,
    per_device_train_batch_size=64, num_generations=4, max_completion_length=16, beta=0.0,
    prover_prompt="compact", conjecturer_prompt="compact", operands=[3], number_high=12, target_high=99,
    gradient_checkpointing=False,
)
found = probe(args, {"model": path, "processing_class": AutoTokenizer.from_pretrained(path, padding_side="left")})
told = {"kept": [args.max_steps, args.output_dir], "table": probe_table(found, None)}
print(json.dumps(told | {name: found[name] for name in ("log", "training", "sampling")}))
"""


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
    assert lines[2].split() == ["sampling", "-", f"{found['sampling']:.3f}"]
    assert lines[-1].endswith("longest texts: conjecturer 16, prover 16 tokens.")


def test_a_probe_of_a_pool_gives_every_trained_kind_an_entropy_bonus(tmp_path):
    """Also where a role says 0 itself, in a flat field or under `roles`; one that has a bonus keeps it."""
    from countdown_selfplay.planning.probe import _SMALL, _give_entropy

    roles = {
        "prover": {"players": 2, "entropy_coef": 0.0},
        "conjecturer": {"players": 2, "entropy_coef": 0.5},
        "guide": {"micro_batches": 1, "objective": "rest", "entropy_coef": 0.0},
    }
    args = JointSelfPlayConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, guide="judge", roles=roles)
    _give_entropy(args)
    found = {name: settings.entropy_coef for name, settings in args.all_roles.items()}
    assert found == {
        **{f"prover/{i}": _SMALL for i in range(2)}, **{f"conjecturer/{i}": 0.5 for i in range(2)}, "guide": _SMALL
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [("zero2", "zero2"), ("zero3", "zero3"), ("fsdp2", "fsdp2"), ("ddp", "ddp"), ("single_gpu", "none")],
)
def test_a_launch_config_names_its_engine(name, kind):
    engine = planned({"accelerate_config": name, **({} if kind == "none" else {"num_processes": "4"})})
    assert (engine.kind, engine.processes, engine.device) == (kind, 1 if kind == "none" else 4, "cuda")
    assert engine.bf16 and config_path(name).is_file()


def test_a_config_for_the_cpu_is_planned_for_the_cpu():
    engine = planned_launch({"use_cpu": True, "distributed_type": "MULTI_GPU", "num_processes": 2}, None)
    assert (engine.kind, engine.processes, engine.device, engine.bf16) == ("ddp", 2, "cpu", False)


def test_the_bytes_of_a_weight_follow_the_model_options():
    found = [bytes_of(None), bytes_of("bfloat16"), bytes_of("auto", torch.bfloat16), bytes_of("auto", None)]
    assert found == [4, 2, 2, 4]


def test_a_turn_samples_what_all_steps_of_its_round_are_trained_on():
    def sampled(steps):
        args = settings(steps_per_round=steps, prover_prompt="compact", conjecturer_prompt="compact")
        return estimate_of(str(TINY_MODEL_PATH), args).sampling["KV cache"][0]

    assert sampled(3) == 3 * sampled(1)
