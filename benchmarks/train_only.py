"""The update alone, at prime-rl's published setting: forward, loss, backward and optimizer on rows of random tokens.

    python benchmarks/train_only.py --model qwen3-0.6b --sequence_length 16384 --attention flash_attention_2
    python benchmarks/train_only.py --model qwen3-0.6b --sequence_length 16384 --attention flash_attention_2 --lora 16

prime-rl's benchmark of its trainer (its repository, benchmarks/baselines: one H100, Qwen3-0.6B, RL, sequences of
16,384 tokens, two micro-batches a step, recomputed activations, FlashAttention 3, no sampling) reports 11,896 tokens
a second for full weights, and 13,342 for LoRA of rank 16. Here the same work goes through our trainer's loss: half of
each row is prompt, half is completion, every row has credit. `--padded`: completions of lengths from a quarter to the
whole, with and without `--padding_free`. Weights are random and rows hold no text, so nothing comes from the hub but
for `--model smollm2-135m`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from contenders import prepare_model
from passes import backward, random_pass
from peft import LoraConfig
from results import machine, spread, write_json
from throughput import MODELS
from transformers.modeling_layers import GradientCheckpointingLayer

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.training.plan import Pass


def rows(batch: int, length: int, vocabulary: int, padded: bool) -> Pass:
    """One micro-batch of random tokens, half prompt and half completion."""
    half = length // 2
    lengths = torch.linspace(half // 4 if padded else half, half, batch).long().tolist()
    return random_pass(lengths, length - half, vocabulary)


def build(options: argparse.Namespace, folder: str) -> Any:
    model = prepare_model(options.model, options.model_path, options.tokenizer, Path(folder))
    config = JointSelfPlayConfig(
        output_dir=folder, per_device_train_batch_size=options.batch, problems_per_round=1, conjecturer_players=0,
        num_generations=options.batch * options.micro_batches,
        gradient_checkpointing=not options.no_gradient_checkpointing, report_to="none", bf16=torch.cuda.is_available(),
        save_strategy="no", policy_sharing="lora" if options.lora else "full", guard=False, max_steps=1,
        model_init_kwargs={"attn_implementation": options.attention} if options.attention else None,
        domain_kwargs=dict(prover_prompt="compact", conjecturer_prompt="compact"), padding_free=options.padding_free,
    )  # fmt: skip
    lora = LoraConfig(r=options.lora, target_modules="all-linear", task_type="CAUSAL_LM") if options.lora else None
    return JointConjecturerProverTrainer(model=model, args=config, peft_config=lora)


def ready(trainer: Any) -> torch.nn.Module:
    """The wrapped module as the Trainer's own loop has it in a step, which is not run here: recomputing activations if
    the config says so, and in training mode, without which layers recompute nothing."""
    args = trainer.args
    if args.gradient_checkpointing:
        trainer.model.activation_checkpointing_enable(
            activation_checkpointing_kwargs=dict(args.activation_checkpointing_kwargs)
        )
    wrapped = trainer.accelerator.prepare(trainer.model)
    wrapped.train()
    layers = recomputing(trainer.model)
    if not layers or set(layers.values()) != {bool(args.gradient_checkpointing)}:
        raise SystemExit(f"Recomputed activations were asked for: {args.gradient_checkpointing}; layers: {layers}")
    return wrapped


def recomputing(module: torch.nn.Module) -> dict[str, bool]:
    """Per layer that can recompute its activations, whether it will."""
    return {
        name: bool(m.gradient_checkpointing and m.training)
        for name, m in module.named_modules()
        if isinstance(m, GradientCheckpointingLayer)
    }


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Tokens/s of the update alone.")
    made.add_argument("--model", choices=MODELS, default="qwen3-0.6b")
    made.add_argument("--model_path")
    made.add_argument("--tokenizer", default="tiny", help="for random weights: a name for the pad and end tokens")
    made.add_argument("--sequence_length", type=int, default=16384)
    made.add_argument("--batch", type=int, default=1, help="rows in a micro-batch")
    made.add_argument("--micro_batches", type=int, default=2)
    made.add_argument("--steps", type=int, default=10)
    made.add_argument("--warmup", type=int, default=3)
    made.add_argument("--lora", type=int, help="rank; default: full weights")
    made.add_argument("--attention", help="attn_implementation")
    made.add_argument("--padded", action="store_true", help="completions of unequal length")
    made.add_argument("--padding_free", action="store_true", help="lay rows end to end; needs flash attention")
    made.add_argument("--no_gradient_checkpointing", action="store_true")
    made.add_argument("--output", type=Path)
    return made


def main() -> None:
    options = parser().parse_args()
    transformers.logging.set_verbosity_error()
    gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        trainer = build(options, folder)
        wrapped = ready(trainer)
        optimizer = trainer.create_optimizer()
        vocabulary = trainer.policies.module.get_input_embeddings().num_embeddings
        batch = rows(options.batch, options.sequence_length, vocabulary, options.padded)
        tokens = options.micro_batches * sum(len(s.prompt) + s.tokens for s in batch.parts[0][1])
        rate = []
        for i in range(options.warmup + options.steps):
            if gpu:
                torch.cuda.synchronize()
            start = time.perf_counter()
            backward(trainer, wrapped, [batch] * options.micro_batches)
            optimizer.step()
            optimizer.zero_grad()
            if gpu:
                torch.cuda.synchronize()
            if i >= options.warmup:
                rate.append(tokens / (time.perf_counter() - start))
        memory = torch.cuda.max_memory_allocated() / 2**30 if gpu else None
        recomputed = sum(recomputing(trainer.model).values())
    result = {
        "machine": machine(), "setting": {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()},
        "tokens_per_step": tokens, "tokens_per_second": spread(rate), "peak_memory_gib": memory,
        "recomputed_layers": recomputed,
    }  # fmt: skip
    low, high = result["tokens_per_second"]["interval"]
    print(f"{result['tokens_per_second']['median']:,.0f} tokens/s [{low:,.0f}, {high:,.0f}], peak memory {memory} GiB")
    write_json(options.output, result)


if __name__ == "__main__":
    main()
