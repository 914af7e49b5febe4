"""Memory of the warm starts and of iterated play: whole weights while models sample, an engine's share while one model
trains."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ..asking import prompt_ids, ready
from ..domains import longest_problem
from ..errors import CountdownSelfPlayError, PromptError
from ..planning.dry_run import memory_table, unreadable
from ..planning.memory import Launch, MemoryEstimate, ModelShape, Parts, Vllm, estimate_memory, model_shape
from ..policies.adapters import config_of
from ..policies.build import read_tokenizer
from ..tiny import resolve_model

TURNS = 3
"""Texts that a row of iterated play holds at most beside the question: an answer, a critique and the revision."""
SHARDED = ("zero3", "fsdp2")
UNKNOWN_PROMPT = 512
"""Tokens of a question of a domain that makes none."""


def trained_model(
    shape: ModelShape, launch: Launch, rows: int, tokens: int, pairs: bool = False, lora_rank: int | None = None
) -> MemoryEstimate:
    """One model that is loaded in float32 and trained on `rows` rows of `tokens` tokens at once; of `pairs` both texts
    are in a pass, and there is a frozen reference unless an adapter is trained."""
    role: Any = SimpleNamespace(
        role="model", kind="model", weights="model", trained=True, model=None, beta=float(pairs), temperature=1.0,
        max_completion_length=tokens, top_p=1.0, micro_batches=1, samples_per_round=None,
    )  # fmt: skip
    rows *= 2 if pairs else 1
    return estimate_memory(shape, [role], launch, {"model": 0}, rows=rows, lora_rank=lora_rank)


def sampling_models(
    shape: ModelShape, launch: Launch, models: int, texts: int, tokens: int, top_p: float, vllm: Vllm | None = None
) -> Parts:
    """`models` whole copies, one of which generates `texts` texts of `tokens` tokens at once; with an engine of the
    process's own (`vllm`) they wait in the main memory."""
    role: Any = SimpleNamespace(
        role="a role", kind="model", weights=None, trained=False, model=None, beta=0.0, temperature=1.0,
        max_completion_length=tokens, top_p=top_p, micro_batches=1, samples_per_round=None,
    )  # fmt: skip
    size, on = (4, "float32") if launch.device == "cpu" else (2, "bfloat16")
    alone = Launch(device=launch.device, bf16=size == 2, total=launch.total)
    trained: Any = SimpleNamespace(**{**vars(role), "trained": True, "weights": "model"})
    found = estimate_memory(shape, [trained], alone, {"model": 0}, rows=texts, weight_bytes=size, vllm=vllm)
    if vllm is not None and not vllm.server and launch.device != "cpu":
        return found.sampling
    weights = models * shape.parameters * float(size), f"{models} x {shape.parameters / 1e6:.1f}M, whole, in {on}"
    return {"weights, sampling": weights, **found.sampling}


def iterated_memory(settings: Any, shape: ModelShape, question: int, launch: Launch) -> MemoryEstimate:
    """Of iterated play and retraining, which take turns; texts of full length."""
    tokens = question + TURNS * settings.max_completion_length
    backend, lasting, vllm = settings.generation_backend, {}, None
    if backend != "generate":
        tensor = settings.vllm_tensor_parallel_size
        vllm = Vllm(settings.vllm_gpu_memory_utilization, True, backend == "vllm_server", tensor)
    texts = settings.per_device_eval_batch_size
    play = sampling_models(shape, launch, len(settings.kinds), texts, tokens, settings.top_p, vllm)
    if "vLLM" in play and not settings.vllm_enable_sleep_mode:  # it keeps its memory while the roles are trained
        lasting = {"vLLM": play.pop("vLLM")}
    row = min(tokens, settings.max_length or tokens)
    found = trained_model(shape, launch, settings.per_device_train_batch_size, row, settings.algorithm.endswith("dpo"))
    return MemoryEstimate(lasting, play, {**found.lasting, **found.training})


def iterated_lines(settings: Any, domain: Any, model_path: str, launch: Launch) -> Iterator[str]:
    """The memory of a dry run of `cdg --training iterated`."""
    yield f"\n# Memory per process, estimated in GiB ({launch.sentence})"
    path = resolve_model(model_path)
    try:
        shape, question = (
            model_shape(config_of(path)),
            question_tokens(path, domain, settings.chat_template_kwargs),
        )
    except (OSError, ValueError) as error:
        yield unreadable(path, error)
    else:
        yield memory_table(iterated_memory(settings, shape, question, launch))


def warm_start_lines(args: Any, options: Any, pairs: bool, launch: Launch) -> Iterator[str]:
    """The memory of a dry run of `sft`, and of `ipo` (`pairs`), without the keys and values of its texts."""
    yield f"\n# Memory per process, estimated in GiB ({launch.sentence})"
    path, rank = resolve_model(options.model_name_or_path), options.lora_r if options.use_peft else None
    try:
        config = config_of(path)
    except (OSError, ValueError) as error:
        yield unreadable(path, error)
        return
    longest = getattr(config.get_text_config(), "max_position_embeddings", None) or 0
    tokens = min(filter(None, (args.max_length, longest)), default=UNKNOWN_PROMPT)
    shape = model_shape(config)
    found = trained_model(shape, launch, args.per_device_train_batch_size, tokens, pairs, rank)
    whole: Parts = {"whole weights": (shape.parameters * 4.0, "to sample, and to measure the result")}
    yield memory_table(MemoryEstimate(found.lasting, whole if launch.kind in SHARDED else {}, found.training))


def question_tokens(path: str, domain: Any, kwargs: Any = None) -> int:
    """Tokens of a prover's prompt, one of the longest."""
    tokenizer: Any = read_tokenizer(path)
    try:
        prompt = domain.prove_row(longest_problem(domain))["prompt"]
        return len(prompt_ids(ready(tokenizer, [prompt], kwargs), prompt))
    except PromptError:
        raise
    except CountdownSelfPlayError:  # without its data set a domain may make no problem
        return UNKNOWN_PROMPT
