"""What `sft` and `ipo` share: loading, measuring before and after, and the folder that is left behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets.utils import disable_progress_bars as disable_dataset_progress_bars
from transformers import AutoTokenizer, TrainerCallback
from trl import ModelConfig, get_peft_config

from .. import __version__, _trl  # noqa: F401  (the seam quiets a warning of TRL that nobody can act on)
from ..countdown.rows import compact_solution
from ..data.run_files import append_lines
from ..distributed.processes import processes_of
from ..errors import CheckpointError
from ..evaluation.progress import ProgressLine
from ..evaluation.reviews import evaluate_guide
from ..evaluation.roles import evaluate_conjecturer, evaluate_prover
from ..evaluation.rungs import differences_by_rung
from ..evaluation.sampling import id_list
from ..evaluation.terminal import before_after_table
from ..evaluation.token_ids import end_of_turn
from ..policies.build import load_pretrained, model_arguments
from ..tiny import resolve_model
from ..training.callbacks.run_folder import command_line, record_of, write_description
from ..training.cards import card, example_prompt
from ..training.evaluation import differences
from ..training.run import quiet_loading
from ..training.run_lock import run_lock
from .configs import WarmStartArguments


def load(args: Any, options: ModelConfig) -> tuple[Any, Any, Any]:
    """(model on the training device, tokenizer, PEFT config or None). An adapter folder is merged into its base."""
    quiet_loading()
    disable_dataset_progress_bars()
    path = resolve_model(options.model_name_or_path)
    kwargs, args.model_init_kwargs = model_arguments(options, args), None  # the model is passed as an object
    model = load_pretrained(path, kwargs, "merge")
    tokenizer = AutoTokenizer.from_pretrained(
        path, revision=options.model_revision, trust_remote_code=args.trust_remote_code
    )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(args.device), tokenizer, get_peft_config(options)


def longest(args: Any, model: Any) -> int | None:
    """Most tokens of a row: max_length, and what the model has positions for."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min((limit for limit in (args.max_length, positions) if limit), default=None)


def measure(
    model: Any, tokenizer: Any, script: WarmStartArguments, args: Any, problems: Sequence[Any], accelerator: Any
) -> dict:
    """The role's figures with private randomness; {} if evaluation is off. The processes share the work out and all
    return the same."""
    if script.eval_problems == 0:
        return {}
    batch_size = max(args.per_device_eval_batch_size, script.eval_samples)
    unit = {"conjecturer": "proposals", "guide": "reviews"}.get(script.role, "answers")
    bar = ProgressLine(script.role, unit, enabled=accelerator.is_main_process and not args.disable_tqdm)
    shared = {"processes": processes_of(accelerator), "progress": bar, "batch_size": batch_size}
    sampling = {**script.evaluated_as, **shared}
    with bar:
        if script.role == "guide":
            return {"guide": evaluate_guide(model, tokenizer, problems, script.played, **sampling)}
        if script.role == "conjecturer":
            domain = asking(script, problems)
            found = evaluate_conjecturer(model, tokenizer, domain, n=script.eval_proposals, **sampling)
            return {"conjecturer": found.to_dict()}
        n = script.eval_samples
        ks = tuple(k for k in (1, 2, 4, 8, 16, 32) if k <= n)
        answered = evaluate_prover(model, tokenizer, problems, script.played, n=n, ks=ks, **sampling)
        return {"prover": answered.to_dict()}


def asking(script: WarmStartArguments, problems: Sequence[Any]) -> Any:
    """The domain, asking for proposals as the demonstrations did, for the sake of 64 of `problems` at most."""
    if getattr(script, "helping", False):
        return Asking(script.played, [{"target": problem} for problem in problems[:64]])
    if getattr(script, "variants", False):
        shown = [(problem, compact_solution(problem, script.played.rules)) for problem in problems[:64]]
        return Asking(script.played, [{"variant_of": problem, "solution": text} for problem, text in shown])
    return script.played


class Asking:
    """A domain whose proposals are asked for with `asks`, in turn."""

    def __init__(self, domain: Any, asks: Sequence[dict[str, Any]]) -> None:
        self._domain, self.asks = domain, asks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)


def train(trainer: Any, resume: str | None) -> None:
    """`trainer.train`, from the last checkpoint if `resume` says true."""
    last = resume in ("true", "True")
    if resume and not last and not Path(resume).is_dir():
        raise CheckpointError(f"`resume_from_checkpoint` ({resume}) is not a folder; pass a checkpoint or true.")
    if last and not any(Path(trainer.args.output_dir).glob("checkpoint-*")):
        raise CheckpointError(f"'{trainer.args.output_dir}' holds no checkpoint to resume from.")
    trainer.train(resume_from_checkpoint=last or resume)


class MetricsFile(TrainerCallback):
    """One line of metrics.jsonl per log, as in a joint run."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and logs:
            append_lines(Path(args.output_dir) / "metrics.jsonl", [record_of(state.global_step, logs)])


def export(trainer: Any, tokenizer: Any, chat: bool) -> Any:
    """Write whole weights (an adapter is merged) and the tokenizer to the output folder; returns the model."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    if chat:  # who samples without this library shall stop at the end of the turn too
        known = id_list(model.generation_config.eos_token_id)
        model.generation_config.eos_token_id = list(dict.fromkeys([*known, end_of_turn(tokenizer)]))
    if trainer.accelerator.is_main_process:
        model.save_pretrained(trainer.args.output_dir)
        tokenizer.save_pretrained(trainer.args.output_dir)
    return model


def write_card(
    script: WarmStartArguments, trainer: Any, path: str, method: str, data: Sequence[str], table: str
) -> None:
    """README.md of the finished folder."""
    args = trainer.args
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    rows = {"learning rate": args.learning_rate, "rows per optimizer step": batch, "seed": args.seed}
    rows |= {"beta": args.beta} if method == "ipo" else {}
    name = {"sft": "SFTTrainer", "ipo": "DPOTrainer (loss ipo)"}[method]
    heat = script.evaluated_as["temperature"]
    said = (
        f"Data: {'; '.join(data)}. Problems on the domain's held-out side, and those it was evaluated on, were not "
        "trained on."
    )
    text = card(
        f"countdown-selfplay {script.role}, warm-started with {method}",
        f"Trained with countdown-selfplay {__version__} on TRL's {name}, {trainer.state.global_step} optimizer steps.",
        rows,
        script.played.to_dict(),
        (method,),
        base=path,
        place=args.output_dir,
        said=said,
        results=f"Measured at temperature {heat:g}:\n\n```\n{table}\n```" if table else "",
        command=command_line(sys.argv),
        prompt=example_prompt(script.played, script.role),
        most_tokens=script.max_completion_length,
    )
    (Path(args.output_dir) / "README.md").write_text(text, encoding="utf-8")


def run(
    script: Any,
    args: Any,
    trainer: Any,
    tokenizer: Any,
    held_out: Any,
    path: str,
    method: str,
    data: list[str],
    chat: bool,
) -> None:
    """Measure, train, export, measure again; leaves the finished folder. `chat`: what was trained on are chats."""
    with run_lock(args.output_dir):
        say = trainer.accelerator.print
        main = trainer.accelerator.is_main_process
        trainer.add_callback(MetricsFile())
        if main:
            if args.resume_from_checkpoint is None:
                (Path(args.output_dir) / "metrics.jsonl").unlink(missing_ok=True)
            # run.json: the setting in which `countdown-selfplay eval` then scores the model
            more = {"method": method, "start": path, "data": list(data)}
            write_description(args, {**args.to_dict(), **vars(script)}, script.played, **more)
        start = trainer.accelerator.unwrap_model(trainer.model)
        before = measure(start, tokenizer, script, args, held_out, trainer.accelerator)
        trainer.accelerator.wait_for_everyone()
        train(trainer, args.resume_from_checkpoint)
        model = export(trainer, tokenizer, chat)
        table = ""
        after = measure(model, tokenizer, script, args, held_out, trainer.accelerator)
        if main:
            if before:
                paired: dict[str, Any] = {"difference": differences(before, after)} if "prover" in before else {}
                if "prover" in before and (by_rung := differences_by_rung(before["prover"], after["prover"])):
                    paired["difference_by_rung"] = by_rung
                result = {"before": before, "after": after, **paired}
                table = before_after_table(result)
                (Path(args.output_dir) / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
                say(table)
            write_card(script, trainer, path, method, data, table)
            say(f"Model: {args.output_dir}")
        trainer.accelerator.wait_for_everyone()
