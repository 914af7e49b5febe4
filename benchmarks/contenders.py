"""What throughput.py compares: our joint round, our single-policy run, and stock TRL trainers on the same batches.

All of them get the same model, prompts, samples per prompt, micro-batches, lengths, sampling settings, end tokens,
precision and learning rate (1e-6, so that the policies stay what they were and lengths do not drift apart), beta 0,
and one optimizer step per batch of samples.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from pacing import Phases
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PrinterCallback,
    Qwen2Config,
    Qwen3Config,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown import CountdownDomain, Problem, Verdict, generate_problems
from countdown_selfplay.countdown.proposals import Proposal, ProposalReason
from countdown_selfplay.rewards.prover.verifier import make_countdown_reward
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC

NAMES = ("joint", "single", "trl_rloo", "trl_grpo", "trl_rloo_conjecturer", "trl_grpo_conjecturer")


@dataclass(frozen=True)
class Setting:
    """One comparison. batch: samples in a micro-batch; prover, conjecturer: micro-batches of the role; group: answers
    per problem; length: most tokens of a completion; dense: rewards that give every sample a signal, or Countdown's
    own."""

    model: str
    folder: str  # where the model and its tokenizer lie
    batch: int
    prover: int
    conjecturer: int
    group: int
    length: int
    steps: int
    dense: bool = True
    checkpointing: bool = False
    sharing: str = "full"
    vllm_memory: float | None = None
    attention: str | None = None
    optim: str = "adamw_torch_fused"
    compact: bool = True  # the tiny model's short prompts, or the public data set's chat


def shape_of(model: str) -> Any:
    """Configurations of models that are filled with random weights: from the models' own published config.json."""
    if model.startswith("qwen2.5"):
        width, inner, layers, heads = (896, 4864, 24, 14) if model == "qwen2.5-0.5b" else (1536, 8960, 28, 12)
        return Qwen2Config(
            vocab_size=151936, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=2, max_position_embeddings=32768, tie_word_embeddings=True,
        )  # fmt: skip
    return Qwen3Config(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, tie_word_embeddings=True,
    )  # fmt: skip


TOKENIZER = "HuggingFaceTB/SmolLM2-135M-Instruct"


def prepare_model(model: str, given: str | None, tokenizer: str, folder: Path, mean: int | None = None) -> str:
    """A folder (or hub id) with the model and a tokenizer. Random shapes borrow `tokenizer` ("tiny": the embedded
    model's): all its ids must exist in the model; with `mean`, so many of their tokens end a text that a text has
    about `mean` tokens, as random weights draw all tokens alike. SystemExit with one sentence if either cannot be
    reached."""
    if model == "tiny":
        return str(TINY_MODEL_PATH)
    if given or model == "smollm2-135m":
        name = given or "HuggingFaceTB/SmolLM2-135M-Instruct"
        _reached(AutoConfig, name, "--model_path FOLDER")
        return name
    tokens = _reached(
        AutoTokenizer,
        str(TINY_MODEL_PATH) if tokenizer == "tiny" else tokenizer,
        "--tokenizer FOLDER, or --tokenizer tiny (with --prompts compact), which needs no hub",
    )
    config = shape_of(model)
    if len(tokens) > config.vocab_size:
        raise SystemExit(
            f"The tokenizer '{tokenizer}' has {len(tokens)} tokens and {model} {config.vocab_size}: take another one."
        )
    more = [] if mean is None else range(config.vocab_size - config.vocab_size // mean, config.vocab_size)
    ends = [tokens.eos_token_id, *more] if more else tokens.eos_token_id
    config.update({"pad_token_id": tokens.pad_token_id, "eos_token_id": ends})
    torch.manual_seed(0)
    path = folder / model
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    tokens.save_pretrained(path)
    return str(path)


def _reached(kind: Any, name: str, instead: str) -> Any:
    try:
        return kind.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise SystemExit(
            f"'{name}' is not a folder here, and the hub (or its cache) does not give it ({type(error).__name__}): "
            f"download it once with `hf download {name}` and leave HF_HUB_OFFLINE unset, or pass {instead}."
        ) from error


def hashed(*parts: object) -> float:
    """A number in [0, 1) that is the same in every process."""
    return zlib.crc32(repr(parts).encode()) / 2**32


@dataclass(frozen=True)
class TimedDomain(CountdownDomain):
    """Differs from CountdownDomain in that its parts are timed, and that with `stand_ins` a text that holds no problem
    stands for one of them: an untrained model writes none, and the round would have no work to do."""

    phases: Any = None
    stand_ins: tuple[Problem, ...] = ()

    def parse(self, texts: Iterable[object]) -> list[Proposal]:
        with self.phases("verify"):
            texts = list(texts)
            return [self._stand_in(*pair) for pair in zip(texts, super().parse(texts), strict=True)]

    def _stand_in(self, text: object, found: Proposal) -> Proposal:
        if found.problem is not None or not self.stand_ins:
            return found
        return Proposal(self.stand_ins[int(hashed(text) * len(self.stand_ins))], ProposalReason.OK)

    def solvable_batch(self, problems: Any) -> list[bool]:
        with self.phases("solve"):
            return super().solvable_batch(problems)

    def verify(self, texts: Iterable[object], problems: Iterable[Problem]) -> list[Verdict]:
        with self.phases("verify"):
            return super().verify(texts, problems)


def domain_of(setting: Setting, phases: Phases) -> TimedDomain:
    base = CountdownDomain.tiny() if setting.compact else replace(CountdownDomain(), conjecturer_prompt="json")
    stand_ins = generate_problems(512, base.spec, seed=5) if setting.dense else ()
    return TimedDomain(
        base.spec, base.rules, base.prover_prompt, base.conjecturer_prompt, phases=phases, stand_ins=tuple(stand_ins)
    )


def dense_reward(completions: list[Any], prompts: list[Any], **_: Any) -> list[float]:
    """A reward of its own for nearly every sample: no group is without signal, as in the middle of a run."""
    return [hashed(str(prompt), str(completion)) for prompt, completion in zip(prompts, completions, strict=True)]


def dense_problem_reward(solve_rate_P: np.ndarray, ctx: Any) -> np.ndarray:
    """The same for the conjecturer's problems."""
    return np.asarray([hashed(problem.key) for problem in ctx.problems[: len(solve_rate_P)]])


def common(setting: Setting, folder: str) -> dict[str, Any]:
    settings: dict[str, Any] = dict(
        output_dir=folder, max_steps=setting.steps, per_device_train_batch_size=setting.batch,
        num_generations=setting.group, learning_rate=1e-6, max_completion_length=setting.length, temperature=1.0,
        gradient_checkpointing=setting.checkpointing, save_strategy="no", report_to="none", disable_tqdm=True,
        logging_steps=1, lr_scheduler_type="constant", seed=0, beta=0.0, optim=setting.optim,
    bf16=torch.cuda.is_available(), )  # fmt: skip
    if setting.vllm_memory:  # TRL's own fields; ours has one that they follow from
        settings |= dict(
            use_vllm=True, vllm_mode="colocate", vllm_gpu_memory_utilization=setting.vllm_memory,
        )  # fmt: skip
    if setting.attention:
        settings["model_init_kwargs"] = {"attn_implementation": setting.attention}
    return settings


def ours(name: str, setting: Setting, folder: str, phases: Phases) -> JointConjecturerProverTrainer:
    domain = domain_of(setting, phases)
    settings = common(setting, folder)
    if settings.pop("use_vllm", False):
        settings.pop("vllm_mode")
        settings["generation_backend"] = "vllm"
    config = JointSelfPlayConfig(
        **settings, problems_per_round=setting.batch * setting.prover // setting.group,
        proposals_per_round=setting.batch * setting.conjecturer, conjecturer_players=int(name == "joint"),
        conjecturer_num_generations=setting.batch * setting.conjecturer,
        policy_sharing=setting.sharing, guard=False,
    )  # fmt: skip
    trainer = JointConjecturerProverTrainer(
        model=setting.folder, args=config, domain=domain, train_dataset=anchors(setting),
        reward_funcs=dense_reward if setting.dense else None,
        conjecturer_reward=dense_problem_reward if setting.dense else None,
    )  # fmt: skip
    phases.wrap(trainer.round_loop, "play", "bookkeeping")
    phases.wrap(trainer.engine, "clip", "optimizer")
    phases.wrap(trainer.sampler, "push", "sync")
    # other: TRL's padding, decoding and counting around generation
    phases.wrap(trainer, "_generate_and_score_completions", "other")
    for callback in trainer.callback_handler.callbacks:
        if type(callback).__module__.startswith("countdown_selfplay"):
            for event in ("on_step_begin", "on_pre_optimizer_step", "on_step_end", "on_log"):
                phases.wrap(callback, event, "bookkeeping")
    return trainer


def stock(name: str, setting: Setting, folder: str, phases: Phases) -> RLOOTrainer | GRPOTrainer:
    """TRL's own trainer on the prover's batch, or on the conjecturer's."""
    domain = domain_of(setting, phases)
    settings = common(setting, folder)
    init = settings.pop("model_init_kwargs", {})
    if name.endswith("_conjecturer"):
        settings |= {
            "gradient_accumulation_steps": setting.conjecturer,
            "num_generations": setting.batch * setting.conjecturer,
        }
        rows = Dataset.from_list([domain.propose_row(domain.spec.operands[0])] * 64)
        reward: Any = proposal_reward(domain, setting.dense)
    else:
        settings["gradient_accumulation_steps"] = setting.prover
        rows = Dataset.from_list([domain.prove_row(problem) for problem in problems_of(setting)])
        reward = dense_reward if setting.dense else make_countdown_reward(domain.rules)
    config, trainer = (GRPOConfig, GRPOTrainer) if name.startswith("trl_grpo") else (RLOOConfig, RLOOTrainer)
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(setting.folder, dtype=torch.float32, **init)
    tokenizer = AutoTokenizer.from_pretrained(setting.folder, padding_side="left")
    made = trainer(
        model=model, reward_funcs=reward, args=config(**settings), train_dataset=rows, processing_class=tokenizer
    )
    phases.wrap(made, "_calculate_rewards", "verify")
    phases.wrap(made.accelerator, "clip_grad_norm_", "optimizer")
    return made


def proposal_reward(domain: TimedDomain, dense: bool) -> Any:
    """What the joint round does with a proposal besides having it solved: parse, range, solvability."""

    def reward(completions: list[Any], prompts: list[Any], **_: Any) -> list[float]:
        texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
        found = [p.problem for p in domain.parse(texts)]
        asked = [p for p in found if p is not None and domain.in_range(p)]
        solvable = dict(zip(asked, domain.solvable_batch(asked), strict=True))
        if dense:
            return dense_reward(completions, prompts)
        return [float(problem is not None and solvable.get(problem, False)) for problem in found]

    return reward


def problems_of(setting: Setting) -> list[Problem]:
    spec = TINY_SPEC if setting.compact else CountdownDomain().spec
    return generate_problems(1024, spec, seed=0)


def anchors(setting: Setting) -> Dataset:
    return Dataset.from_list([{"numbers": list(p.numbers), "target": p.target} for p in problems_of(setting)])


class _TimeOptimizer(TrainerCallback):
    def __init__(self, phases: Phases) -> None:
        self.phases = phases

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        self.phases.wrap(optimizer, "step", "optimizer")


def build(name: str, setting: Setting, folder: str) -> tuple[Any, Phases, list[list[int]]]:
    """The trainer, its phases, and a list that gets [prompt tokens, completion tokens] of every generation call."""
    phases = Phases()
    make = ours if name in ("joint", "single") else stock
    trainer: Any = make(name, setting, f"{folder}/{name}", phases)
    counts: list[list[int]] = []
    generate = phases.wrapped(trainer._generate_single_turn, "generate")

    def counted(prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        found = generate(prompt_ids, *args, **kwargs)
        completions = found[0] if isinstance(found, tuple) else found  # GRPO's come with log-probs, RLOO's do not
        counts.append([sum(map(len, prompt_ids)), sum(map(len, completions))])
        return found

    trainer._generate_single_turn = counted
    scores = "_get_per_token_logps_and_entropies"
    phases.wrap(trainer, scores, lambda: "forward" if torch.is_grad_enabled() else "log-probs")
    phases.wrap(trainer.accelerator, "backward", "backward")
    if getattr(trainer, "vllm_generation", None) is not None:
        phases.wrap(trainer.vllm_generation, "sync_weights", "sync")
    trainer.add_callback(_TimeOptimizer(phases))
    trainer.pop_callback(PrinterCallback)
    return trainer, phases, counts
