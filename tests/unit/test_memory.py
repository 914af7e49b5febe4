"""The memory estimate against counts made another way: real saved tensors, and arithmetic by hand."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from countdown_selfplay.cli.launch import config_path, planned
from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.planning.memory import GIB, _Numbers, estimate_memory
from countdown_selfplay.planning.model_shape import Engine, bytes_of, model_shape, planned_engine

SIZES = dict(
    vocab_size=500, hidden_size=96, intermediate_size=320, num_attention_heads=6, num_key_value_heads=2,
    max_position_embeddings=512, tie_word_embeddings=True,
)  # fmt: skip
BATCH, LENGTH = 3, 40
PROMPT = {"prover": 10, "conjecturer": 20}


def config(kind="qwen2", layers=2, **changes):
    return AutoConfig.for_model(kind, num_hidden_layers=layers, **{**SIZES, **changes})


def saved_bytes(kind, layers, bf16, checkpointing=False):
    """What autograd really keeps of a forward pass, without the parameters: the sum over distinct storages."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config(kind, layers))
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    ids = torch.randint(0, 500, (BATCH, LENGTH))
    mask = torch.ones_like(ids)
    mask[0, :3] = 0  # padding on the left, as in every real batch
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=bf16),
    ):
        model(input_ids=ids, attention_mask=mask, labels=ids, fused_lm_head=True)
    return sum(size for size, _ in kept.values())


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("bf16", [False, True])
def test_a_layers_activations_are_those_that_autograd_keeps(kind, bf16):
    """Two layers keep one layer more than one layer does; under autocast also the bf16 copies of its weights."""
    layer = saved_bytes(kind, 2, bf16) - saved_bytes(kind, 1, bf16)
    shapes = [model_shape(config(kind, layers)) for layers in (1, 2)]
    numbers = _Numbers(shapes[1], Engine(bf16=bf16), 4)
    casts = 2 * (shapes[1].linear - shapes[0].linear) if bf16 else 0
    assert numbers.layer(BATCH * LENGTH, LENGTH) + casts == pytest.approx(layer, rel=0.01)


def test_the_shape_is_that_of_a_model_that_was_built():
    model = AutoModelForCausalLM.from_config(config(layers=2))
    shape = model_shape(config(layers=2))
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert shape.block == sum(p.numel() for p in model.model.layers[0].parameters())
    assert shape.tensor == shape.embedding == 500 * 96 and (shape.query, shape.key) == (96, 32)
    # by hand: q 96x96, k and v 96x32, o 96x96, gate and up 96x320, down 320x96, twice; the head 96x500
    assert shape.linear == 2 * (96 * (96 + 64 + 96) + 3 * 96 * 320) + 96 * 500
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


def parts(engine=None, lora_rank=None, **changes):
    shape = model_shape(config())
    found = estimate_memory(shape, settings(**changes), engine or Engine(), PROMPT, lora_rank=lora_rank)
    return {name: size * GIB for name, (size, _) in found.parts.items()}, found


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
    found, _ = parts(Engine(engine, 1 if engine == "none" else 4), policy_sharing=sharing)
    expected = {"weights": weights * P, "gradients": gradients * P, "optimizer": optimizer * P}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert ("gradient buckets" in found) == (engine == "ddp")
    assert found.get("gradient buckets", 8 * P) == pytest.approx(8 * P)


def test_deepspeed_in_bf16_holds_two_bytes_of_weights_and_twelve_of_optimizer():
    found, _ = parts(Engine("zero2", 8, "cuda", bf16=True), policy_sharing="tied")
    assert found["weights"] == pytest.approx(2 * P) and found["gradients"] == pytest.approx(2 * P / 8)
    assert found["optimizer"] == pytest.approx(12 * P / 8) and "bf16 copies" not in found
    found, _ = parts(Engine("none", 1, "cuda", bf16=True), policy_sharing="tied")
    assert found["weights"] == pytest.approx(4 * P)
    assert found["bf16 copies"] == pytest.approx(2 * model_shape(config()).linear)


def test_references_are_shared_by_roles_of_one_temperature_and_absent_with_adapters():
    assert parts(beta=0.1)[0]["references"] == pytest.approx(4 * P)
    two = parts(beta=0.1, conjecturer_temperature=0.7)[0]["references"]
    assert two == pytest.approx(8 * P)
    assert parts(Engine("zero3", 4), beta=0.1)[0]["references"] == pytest.approx(4 * P / 4)
    assert "references" not in parts()[0]
    assert "references" not in parts(beta=0.1, policy_sharing="lora", lora_rank=4)[0]


def test_adapters_leave_one_base_and_train_little():
    found, _ = parts(policy_sharing="lora", lora_rank=4)
    adapters = 2 * 4 * model_shape(config()).adapted
    assert found["weights"] == pytest.approx(4 * (P + adapters))
    assert found["gradients"] == pytest.approx(4 * adapters) and found["optimizer"] == pytest.approx(8 * adapters)


POOL = {"prover": {"players": 4}, "conjecturer": {"players": 4}}


def test_a_pool_counts_its_players_frozen_copies_and_bases():
    rank4 = 4 * model_shape(config()).adapted
    assert parts(roles=POOL)[0]["weights"] == pytest.approx(8 * 4 * P)
    assert parts(roles=POOL, policy_sharing="lora", lora_rank=4)[0]["weights"] == pytest.approx(4 * (P + 8 * rank4))
    two = {"prover": {}, "conjecturer": {"players": 2, "model": "other"}}
    assert parts(roles=two, policy_sharing="lora", lora_rank=4)[0]["weights"] == pytest.approx(4 * (2 * P + 3 * rank4))
    assert parts(roles=two, beta=0.1)[0]["references"] == pytest.approx(2 * 4 * P)  # one per start
    for sharing in ("full", "tied"):
        frozen, _ = parts(conjecturer_weights="start", policy_sharing=sharing)
        assert frozen["weights"] == pytest.approx(2 * 4 * P) and frozen["gradients"] == pytest.approx(4 * P)
    shared, _ = parts(conjecturer_weights="prover", beta=0.1)
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
    found = estimate_memory(shape, args, Engine("none", 1, "cuda", bf16=True), prompt, lora_rank=16)
    # by hand: an adapter has 16 x (q 896+896, k and v 896+128, o 896+896, gate and up 896+4864, down 4864+896) a layer
    adapter = 16 * 24 * (2 * (896 + 896) + 2 * (896 + 128) + 3 * (896 + 4864))
    assert found.parts["weights"][0] * GIB == pytest.approx(4 * (494_032_768 + 8 * adapter))
    assert found.parts["optimizer"][0] * GIB == pytest.approx(8 * 8 * adapter)
    assert found.peak < 80e9 / GIB - 5  # what the estimate leaves out: the CUDA context, fragmentation


def test_the_cache_holds_keys_and_values_of_all_texts_of_the_greedier_role():
    """The prover: 4 x 2 texts of 10 + 30 tokens; the conjecturer: 4 of 20 + 30. Two layers, 2 heads of 16."""
    found, _ = parts()
    assert found["KV cache"] == pytest.approx(8 * 40 * 2 * 2 * 32 * 4)


def test_checkpointing_keeps_one_hidden_state_per_layer_and_one_layer():
    shape = model_shape(config(layers=12))
    numbers = _Numbers(shape, Engine(), 4)
    full, less = (numbers.activations(1000, 50, checkpointed) for checkpointed in (False, True))
    one = numbers.layer(1000, 50)
    assert full - less == pytest.approx(11 * one - 12 * 1000 * 96 * 4)


def test_the_peak_is_the_larger_half_and_holds_the_lasting_parts():
    """The conjecturer plays last and has one micro-batch, the one with the most tokens: the prover's gradients are
    there, its own, half of all, appear while its activations go."""
    found, estimate = parts(beta=0.1)
    lasting = found["weights"] + found["references"] + found["optimizer"]
    training = lasting + found["gradients"] / 2 + found["activations"] + found["logits, training"]
    sampling = lasting + found["KV cache"] + found["logits, sampling"] + found["sampling work"]
    assert estimate.training * GIB == pytest.approx(training) and estimate.sampling * GIB == pytest.approx(sampling)
    assert estimate.peak == max(estimate.training, estimate.sampling)
    twice, estimate = parts(beta=0.1, conjecturer_micro_batches=2)  # from its second one on all gradients are there
    assert estimate.training * GIB == pytest.approx(training + twice["gradients"] / 2)


def test_an_adapter_leaves_the_head_without_a_gradient():
    full, adapter = parts(policy_sharing="tied")[0], parts(policy_sharing="lora", lora_rank=4)[0]
    assert full["logits, training"] - adapter["logits, training"] == pytest.approx(4 * 500 * 96)


def test_vllm_takes_its_share_of_the_device_in_both_halves_unless_it_sleeps():
    args = settings()
    args.generation_backend, args.vllm_gpu_memory_utilization = "vllm", 0.3
    shape = model_shape(config())
    engine = Engine("none", 1, "cuda", True, total=80 * GIB)
    awake = estimate_memory(shape, args, engine, PROMPT)
    assert awake.parts["vLLM"][0] == pytest.approx(24) and "KV cache" not in awake.parts
    args.vllm_enable_sleep_mode = True
    asleep = estimate_memory(shape, args, engine, PROMPT)
    assert awake.training - asleep.training == pytest.approx(24)
    args.generation_backend = "vllm_server"
    assert estimate_memory(shape, args, engine, PROMPT).parts["vLLM"][0] == 0


@pytest.mark.parametrize(
    ("kind", "rank", "pushed"),
    [  # by hand: the largest matrix is the embedding, 500 x 96; ZeRO-3 holds bf16, FSDP2 float32; an adapter of rank 4
        ("zero3", None, 500 * 96 * 2),
        ("fsdp2", None, 500 * 96 * 4),
        ("zero3", 4, 4 * 2 * (192 + 2 * 128 + 192 + 3 * 416) * 2),
    ],
)
def test_vllm_needs_one_tensor_of_cut_up_weights_at_a_time_and_no_copies_of_autocast(kind, rank, pushed):
    """Nothing but what lasts, the engine's share and what is being pushed is there while vLLM samples."""
    args = settings(policy_sharing="full" if rank is None else "lora")
    args.generation_backend, args.vllm_gpu_memory_utilization = "vllm", 0.3
    shape = model_shape(config())
    found = estimate_memory(shape, args, Engine(kind, 4, "cuda", True, total=80 * GIB), PROMPT, lora_rank=rank)
    lasting = sum(found.parts[name][0] for name in ("weights", "optimizer")) + 24
    assert (found.sampling - lasting) * GIB == pytest.approx(pushed, abs=16)  # 24 GiB leave 16 bytes of precision
    args.generation_backend = "generate"
    whole = estimate_memory(shape, args, Engine(kind, 4, "cuda", True), PROMPT, lora_rank=rank)
    copies = {"zero3": (2 if rank is None else 1) * P * 2, "fsdp2": (2 * shape.block + 500 * 96) * 2}[kind]
    beside = sum(whole.parts[name][0] for name in ("KV cache", "logits, sampling", "sampling work"))
    assert (whole.sampling - (lasting - 24) - beside) * GIB == pytest.approx(copies)


@pytest.mark.parametrize(("backend", "copies"), [("generate", 1), ("continuous_batching", 0), ("vllm_server", 0)])
def test_autocast_copies_the_weights_while_sampling_only_where_the_trained_module_runs_under_it(backend, copies):
    args = settings()
    args.generation_backend = backend
    shape = model_shape(config())
    found = estimate_memory(shape, args, Engine("none", 1, "cuda", True), PROMPT)
    there = [found.parts[n][0] for n in ("weights", "optimizer", "KV cache", "logits, sampling", "sampling work")
             if n in found.parts]  # fmt: skip
    assert (found.sampling - sum(there)) * GIB == pytest.approx(copies * 2 * shape.linear)
    assert found.parts["bf16 copies"][0] * GIB == pytest.approx(2 * shape.linear)  # while training, in any case


@pytest.mark.parametrize(
    ("name", "kind"),
    [("zero2", "zero2"), ("zero3", "zero3"), ("fsdp2", "fsdp2"), ("ddp", "ddp"), ("single_gpu", "none")],
)
def test_a_launch_config_names_its_engine(name, kind):
    engine = planned({"accelerate_config": name, **({} if kind == "none" else {"num_processes": "4"})})
    assert (engine.kind, engine.processes, engine.device) == (kind, 1 if kind == "none" else 4, "cuda")
    assert engine.bf16 and config_path(name).is_file()


def test_a_config_for_the_cpu_is_planned_for_the_cpu():
    engine = planned_engine({"use_cpu": True, "distributed_type": "MULTI_GPU", "num_processes": 2}, None)
    assert (engine.kind, engine.processes, engine.device, engine.bf16) == ("ddp", 2, "cpu", False)


def test_wrong_engines_are_refused():
    with pytest.raises(ConfigError, match="must be one of none, ddp, zero2, zero3, fsdp2"):
        Engine("zero4")
    with pytest.raises(ConfigError, match="must be at least 1"):
        Engine("ddp", 0)


def test_the_bytes_of_a_weight_follow_the_model_options():
    found = [bytes_of(None), bytes_of("bfloat16"), bytes_of("auto", torch.bfloat16), bytes_of("auto", None)]
    assert found == [4, 2, 2, 4]
