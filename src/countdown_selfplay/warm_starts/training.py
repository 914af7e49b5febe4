"""Training stack of SFT and DPO: load, evaluate, train on token ids of demonstrations or pairs, evaluate again, and
write a folder of whole weights.

SFTTrainer takes rows with `input_ids` and `labels` as they are. DPOTrainer always tokenizes and averages IPO's
log-ratios over tokens, so two private methods of it are overridden; tests/warm_starts/trainer/test_warm_starts.py
asserts that they exist in the pinned TRL with these parameters."""

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from datasets import Dataset
from datasets.utils import disable_progress_bars as disable_dataset_progress_bars
from peft import PeftModel, get_peft_model
from torch.utils.data import BatchSampler
from transformers import AutoModelForCausalLM, TrainerCallback
from transformers.integrations.deepspeed import unset_hf_deepspeed_config
from trl import DPOTrainer, ModelConfig, SFTTrainer, get_peft_config

from .. import __version__, _trl
from ..chat_templates import ready
from ..countdown import CountdownDomain, Problem
from ..countdown.rows import compact_solution
from ..data.run_files import append_lines
from ..distributed.choose import choose_engine
from ..distributed.processes import ALONE, Processes, processes_of
from ..distributed.sharded import full_precision_outputs
from ..domains import example_rows
from ..errors import CheckpointError
from ..evaluation.roles import evaluate_conjecturer, evaluate_prover
from ..evaluation.sampling import IGNORED, demonstration_ids, end_token_id, id_list, pair_ids, sample_texts, text_of
from ..evaluation.summary import write_evaluation
from ..evaluation.terminal import ProgressLine, before_after_table
from ..policies.build import load_pretrained, model_arguments, read_tokenizer
from ..statistics.bootstrap import wilson_interval
from ..tiny import resolve_model
from ..training.callbacks.run_folder import command_line, record_of, write_description
from ..training.exports import card, example_prompt
from ..training.run import quiet_loading
from ..training.run_lock import run_lock
from .configs import WarmStartArguments
from .filters import Kept, PreferencePair, drop_long
from .rows import ROW_SCHEMAS


def load(args: Any, options: ModelConfig, script: Any) -> tuple[Any, Any, Any]:
    """Return (model on the training device, tokenizer, PEFT config or None). An adapter folder is merged into its
    base. Every process has whole weights for sampling and evaluation; the engine shards them when training begins. The
    tokenizer is prepared for the role's prompts (`ready`)."""
    quiet_loading()
    disable_dataset_progress_bars()
    path = resolve_model(options.model_name_or_path)
    kwargs, args.model_init_kwargs = model_arguments(options, args), None  # the model is passed as an object
    tokenizer: Any = read_tokenizer(path, options.model_revision, trust_remote_code=args.trust_remote_code)
    domain = script.played
    if domain.random is not None:  # else the data's own prompts are tried
        rows = example_rows(domain, script.role == "conjecturer")
        tokenizer = ready(tokenizer, [row["prompt"] for row in rows.values()], script.chat_template_kwargs)
    model = load_whole(path, kwargs)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(args.device), tokenizer, get_peft_config(options)


def trainer_of(ids: list[dict[str, Any]], model: Any, tokenizer: Any, args: Any, peft_config: Any = None) -> Any:
    """Return TRL's trainer, bound to the launch's engine as `trainer.engine`. `ids`: rows of `demonstration_ids`
    (SFT), or of `pair_ids` (DPO, with the model's weights as reference)."""
    engine = choose_engine(args)
    if engine.shards_weights:  # the engine brings each process its part
        model = model.cpu()
    given: dict[str, Any] = {"args": args, "train_dataset": Dataset.from_list(ids), "processing_class": tokenizer}
    given |= {"model": model, "peft_config": peft_config}
    if "input_ids" in ids[0]:
        trainer: Any = FilledSFTTrainer(**given)
    else:  # with an adapter TRL takes the base as reference; else a copy of these weights, not a reload of their path
        reference = None if peft_config is not None else copy.deepcopy(model)
        trainer = TokenizedDPOTrainer(ref_model=reference, **given)
    engine.wrapped = lambda: trainer.model_wrapped
    engine.bind(trainer.accelerator, None, args.max_grad_norm)
    trainer.engine = engine
    return trainer


def train(trainer: Any, tokenizer: Any, chat: bool = False) -> tuple[Any, float]:
    """Train, from a checkpoint if `resume_from_checkpoint` names one, and write whole weights (an adapter is merged)
    and the tokenizer to the output folder; return the model (None if the engine shards it) and the loss, the mean over
    steps and processes. chat: whether rows are chats, so that a turn's end ends a sample. All processes call it."""
    folder, resume = Path(trainer.args.output_dir), trainer.args.resume_from_checkpoint
    last = resume in ("true", "True")
    if resume and not last and not Path(resume).is_dir():
        raise CheckpointError(f"`resume_from_checkpoint` ({resume}) is not a folder; pass a checkpoint or true.")
    if last and not any(folder.glob("checkpoint-*")):
        raise CheckpointError(f"'{folder}' holds no checkpoint to resume from.")
    processes, engine = processes_of(trainer.accelerator), trainer.engine
    loss = trainer.train(resume_from_checkpoint=last or resume).training_loss
    loss = processes.total([loss / processes.world])[0]
    model, state = trainer.accelerator.unwrap_model(trainer.model), engine.full_state()
    if processes.main or not engine.shards_weights:
        model = model if state is None else with_weights(model, state)
        if hasattr(model, "merge_and_unload"):
            model = model.merge_and_unload()
        if chat:  # for programs that sample without this library
            known = id_list(model.generation_config.eos_token_id)
            model.generation_config.eos_token_id = list(dict.fromkeys([*known, end_token_id(tokenizer)]))
    if processes.main:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    processes.wait()
    return None if engine.shards_weights else model, loss


class FilledSFTTrainer(SFTTrainer):
    """SFTTrainer that fills the last batches of an epoch with rows without a loss: on several processes accelerate
    repeats the first rows, which would count twice."""

    def get_train_dataloader(self) -> Any:
        if self.args.world_size == 1 or self.args.train_sampling_strategy == "batch_rebalance":
            return super().get_train_dataloader()
        with _trl.swapped(self, {"train_dataset": Filling(self.train_dataset)}):
            loader = super().get_train_dataloader()
        shard: Any = loader.batch_sampler
        shard.batch_sampler = FilledBatches(shard.batch_sampler, self.args.world_size)
        return loader


class Filling(torch.utils.data.Dataset[Any]):
    """Data set whose row FILLER is its first row, without a loss."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[max(index, 0)]
        return row if index != FILLER else {**row, "labels": [IGNORED] * len(row["labels"])}


class FilledBatches(BatchSampler):
    """Batch sampler that fills another's batches by FILLER: all are full, and `world` divides their number."""

    def __init__(self, batches: Any, world: int) -> None:
        self.batches, self.world = batches, world
        self.sampler, self.batch_size, self.drop_last = batches.sampler, batches.batch_size, batches.drop_last

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches:
            yield batch + [FILLER] * (self.batch_size - len(batch))
        for _ in range(len(self) - len(self.batches)):
            yield [FILLER] * self.batch_size

    def __len__(self) -> int:
        return -(-len(self.batches) // self.world) * self.world


FILLER = -1


class TokenizedDPOTrainer(DPOTrainer):
    """DPOTrainer for `pair_ids`, which are not tokenized again. IPO's log-ratios may be those of whole sequences
    (`args.ipo_reduction` sum), and under FSDP2 in bf16 the reference computes as the policy does: otherwise the
    log-ratios of equal weights are not 0."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.is_fsdp_enabled and self.ref_model is not None:  # whose forward accelerate has not prepared
            self.ref_model.forward = self.accelerator.autocast()(self.ref_model.forward)

    def create_accelerator_and_postprocess(self) -> None:
        """Set float32 outputs under FSDP2, before the constructor shards the reference."""
        super().create_accelerator_and_postprocess()
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if plugin is not None:
            plugin.mixed_precision_policy = full_precision_outputs(plugin.mixed_precision_policy)

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        if {"prompt_ids", "chosen_ids", "rejected_ids"} <= set(dataset.column_names or ()):
            return dataset
        return super()._prepare_dataset(dataset, processing_class, args, dataset_name)

    def _compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        """Return TRL's loss; with `ipo_reduction` sum, the IPO loss of log-probs summed over each sequence."""
        if getattr(self.args, "ipo_reduction", "mean") == "mean":
            return super()._compute_loss(model, inputs, return_outputs)
        seen: list[torch.Tensor] = []  # of the policy, then the reference: (2B, T) log-probs, 0 outside completions
        modules = [self.accelerator.unwrap_model(model), self.ref_model]
        hooks = [
            m.register_forward_hook(lambda *call: seen.append(call[-1].log_probs)) for m in modules if m is not None
        ]
        try:
            super()._compute_loss(model, inputs, False)
        finally:
            for hook in hooks:
                hook.remove()
        policy, reference = seen
        chosen, rejected = (policy - reference).sum(1).chunk(2)
        return ((chosen - rejected - 1 / (2 * self.beta)) ** 2).mean()


def run(
    method: Literal["sft", "ipo"],
    script: Any,
    args: Any,
    options: ModelConfig,
    held_out: list[Any],
    data_of: Callable[[Any, Any], tuple[Kept[Any], str, str]],
) -> None:
    """Train on data_of(model, tokenizer), evaluate the model on `held_out` before and after, and write its folder.
    data_of returns demonstrations or pairs, their plural noun, and their source as a phrase. Raises DataError if all
    of them are too long for the model."""
    model, tokenizer, peft_config = load(args, options, script)
    data, what, source = data_of(model, tokenizer)
    tokenizer = ready(tokenizer, map(_prompt, data.rows), script.chat_template_kwargs)
    chat = not isinstance(_prompt(data.rows[0]), str)
    kept_rows = drop_long([_ids(tokenizer, row) for row in data.rows], longest(args, model))
    kept = Kept(kept_rows.rows, data.read, data.left_out + kept_rows.left_out).insist(what)
    sentence = f"{kept.sentence(what)}, {source}"
    if method == "ipo":
        sentence = f"{len(kept.rows)} pairs of {kept.read} {what} {source}; {what} left out: {kept.reasons}"
    processes = processes_of(args.distributed_state)
    path, folder = resolve_model(options.model_name_or_path), Path(args.output_dir)
    with run_lock(args.output_dir):
        if processes.main:
            print(sentence, flush=True)
        before = measure(model, tokenizer, script, args, held_out, processes)
        trainer = trainer_of(kept.rows, model, tokenizer, args, peft_config)
        del model
        trainer.add_callback(MetricsFile())
        if processes.main:
            if args.resume_from_checkpoint is None:
                (folder / "metrics.jsonl").unlink(missing_ok=True)
            # run.json: the setting in which `countdown-selfplay eval` then scores the model
            more = {"method": method, "start": path, "data": [sentence]}
            write_description(args, {**args.to_dict(), **vars(script)}, script.played, **more)
        processes.wait()
        trained, _ = train(trainer, tokenizer, chat)
        if trained is None and script.eval_problems:
            trained = load_whole(str(folder), model_arguments(options, args)).to(args.device)
        after = measure(trained, tokenizer, script, args, held_out, processes)
        if processes.main:
            table = before_after_table(write_evaluation(folder, before, after)) if before else ""
            if table:
                print(table)
            _write_card(script, trainer, path, method, sentence, table)
            print(f"Model: {args.output_dir}")
        processes.wait()


def longest(args: Any, model: Any) -> int | None:
    """Return the largest number of tokens of a row: the smaller of max_length and the model's positions."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min((limit for limit in (args.max_length, positions) if limit), default=None)


def _prompt(row: Any) -> Any:
    return row.prompt if isinstance(row, PreferencePair) else row["prompt"]


def _ids(tokenizer: Any, row: Any) -> dict[str, list[int]]:
    if isinstance(row, PreferencePair):
        return pair_ids(tokenizer, row.prompt, row.chosen, row.rejected)
    return demonstration_ids(tokenizer, row["prompt"], row["completion"])


def measure(
    model: Any, tokenizer: Any, script: WarmStartArguments, args: Any, problems: Sequence[Any], processes: Processes
) -> dict[str, Any]:
    """Evaluate the role with private random generators; return its figures, {} if evaluation is off. Processes share
    the work and return the same figures."""
    if script.eval_problems == 0:
        return {}
    batch_size = max(args.per_device_eval_batch_size, script.eval_samples)
    unit = {"conjecturer": "proposals", "guide": "reviews"}.get(script.role, "answers")
    with ProgressLine(script.role, unit, enabled=processes.main and not args.disable_tqdm) as bar:
        how = {"processes": processes, "progress": bar, "batch_size": batch_size}
        how |= script.evaluated_as
        if script.role == "guide":
            return {"guide": evaluate_guide(model, tokenizer, problems, script.played, **how)}
        if script.role == "conjecturer":
            domain = asking(script, problems)
            evaluation = evaluate_conjecturer(model, tokenizer, domain, script.eval_proposals, **how)
            return {"conjecturer": evaluation.to_dict()}
        return measure_prover(model, tokenizer, problems, script.played, script.eval_samples, **how)


def evaluate_guide(
    model: Any,
    tokenizer: Any,
    targets: Sequence[Problem],
    domain: CountdownDomain,
    *,
    processes: Processes = ALONE,
    seed: int = 0,
    **sampling: Any,
) -> dict[str, Any]:
    """Sample one review per target, of a problem that may help with it. Returns {"n", "readable", "as the rubric"}:
    the count, and the shares that parse and that score as the rubric, with Wilson's 95% intervals."""
    rows = [ROW_SCHEMAS["reviewed"](target, domain) for target in targets]
    prompts = [row["prompt"] for row in rows]
    texts, _ = sample_texts(model, tokenizer, prompts, 1, processes=processes, seed=seed, **sampling)
    reviews = [domain.helping.read_review(text) for (text,) in texts]
    wanted = [domain.helping.read_review(text_of(row["completion"])) for row in rows]
    same = sum(a is not None and b is not None and a.score == b.score for a, b in zip(reviews, wanted, strict=True))
    readable = len(reviews) - reviews.count(None)
    shares = {"readable": readable, "as the rubric": same}
    figures = {name: wilson_interval(count, len(reviews)) for name, count in shares.items()}
    return {"n": len(reviews), **{name: one.to_dict() for name, one in figures.items()}}


def measure_prover(
    model: Any, tokenizer: Any, problems: Sequence[Any], domain: Any, n: int, **how: Any
) -> dict[str, Any]:
    """Return pass@k of `n` answers to each problem, for k = 1, 2, 4, ... up to 32. how:
    arguments of evaluate_prover."""
    ks = tuple(k for k in (1, 2, 4, 8, 16, 32) if k <= n)
    return {"prover": evaluate_prover(model, tokenizer, problems, domain, n, ks, **how).to_dict()}


def asking(script: WarmStartArguments, problems: Sequence[Any]) -> Any:
    """Return the domain with the demonstrations' requests for proposals: with at most 64 of `problems` as targets."""
    if getattr(script, "helping", False):
        return Asking(script.played, [{"target": problem} for problem in problems[:64]])
    if getattr(script, "variants", False):
        shown = [(problem, compact_solution(problem, script.played.rules)) for problem in problems[:64]]
        return Asking(script.played, [{"variant_of": problem, "solution": text} for problem, text in shown])
    return script.played


class Asking:
    """Domain whose requests for proposals are `asks`, in turn."""

    def __init__(self, domain: Any, asks: Sequence[dict[str, Any]]) -> None:
        self._domain, self.asks = domain, asks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)


class MetricsFile(TrainerCallback):
    """Callback that writes one line of metrics.jsonl per log, as in a joint run."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and logs:
            append_lines(Path(args.output_dir) / "metrics.jsonl", [record_of(state.global_step, logs)])


def _write_card(script: WarmStartArguments, trainer: Any, path: str, method: str, data: str, table: str) -> None:
    args = trainer.args
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    rows = {"learning rate": args.learning_rate, "rows per optimizer step": batch, "seed": args.seed}
    rows |= {"beta": args.beta} if method == "ipo" else {}
    name = {"sft": "SFTTrainer", "ipo": "DPOTrainer (loss ipo)"}[method]
    heat = script.evaluated_as["temperature"]
    note = f"Data: {data}. Problems on the domain's held-out side, and those it was evaluated on, were not trained on."
    text = card(
        f"countdown-selfplay {script.role}, warm-started with {method}",
        f"Trained with countdown-selfplay {__version__} on TRL's {name}, {trainer.state.global_step} optimizer steps.",
        rows, script.played.to_dict(), (method,), base=path, place=args.output_dir, said=note,
        results=f"Measured at temperature {heat:g}:\n\n```\n{table}\n```" if table else "",
        command=command_line(sys.argv), prompt=example_prompt(script.played, script.role), sampling=script.sampling,
    )  # fmt: skip
    (Path(args.output_dir) / "README.md").write_text(text, encoding="utf-8")


def load_whole(path: str, kwargs: Mapping[str, Any]) -> Any:
    """Load a causal language model with all weights on each process, an adapter merged into its base, also under
    ZeRO-3, whose settings would make transformers shard the model while loading it."""
    unset_hf_deepspeed_config()
    return load_pretrained(path, kwargs)


def with_weights(model: Any, state: Mapping[str, torch.Tensor]) -> Any:
    """Return a model of the architecture of the sharded `model` with the tensors of `state`, to be saved."""
    unset_hf_deepspeed_config()
    adapted = isinstance(model, PeftModel)
    base = model.get_base_model() if adapted else model
    with torch.device("meta"):
        whole: Any = AutoModelForCausalLM.from_config(base.config)
        if adapted:
            whole = get_peft_model(whole, model.active_peft_config)
    whole.load_state_dict(state, strict=False, assign=True)
    inner = whole.get_base_model() if adapted else whole
    inner.tie_weights()
    inner.generation_config = base.generation_config
    return whole
