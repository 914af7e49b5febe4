"""What `sft` and `ipo` share: loading, measuring before and after, and the folder that is left behind."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from datasets.utils import disable_progress_bars as disable_dataset_progress_bars
from huggingface_hub.utils import disable_progress_bars as disable_hub_progress_bars
from transformers import AutoTokenizer, TrainerCallback
from transformers.utils import logging as transformers_logging
from trl import ModelConfig, get_peft_config

from .. import __version__, _trl  # noqa: F401  (the seam quiets a warning of TRL that nobody can act on)
from ..countdown import Problem, generate_problems, problem_from_row
from ..data.files import load_problem_rows
from ..distributed.processes import processes_of
from ..errors import CheckpointError, DataError
from ..evaluation.progress import ProgressLine
from ..evaluation.roles import evaluate_conjecturer, evaluate_prover
from ..evaluation.terminal import aligned, before_after_table
from ..policies.build import load_pretrained
from ..statistics.bootstrap import paired_bootstrap
from ..tiny import resolve_model
from ..training.run_lock import run_lock
from .configs import WarmStartArguments
from .encoding import end_of_turn

_PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets")


def held_out_problems(script: WarmStartArguments) -> list[Problem]:
    """The problems of eval_dataset_name, or of the generator's held-out side; at most `eval_problems` of them."""
    if script.eval_dataset_name is not None:
        rows = load_problem_rows(script.eval_dataset_name, script.eval_dataset_split)
        return [problem_from_row(row, i) for i, row in enumerate(rows)][: script.eval_problems or None]
    if script.eval_problems == 0 or script.role == "conjecturer":
        return []
    return generate_problems(script.eval_problems, script.domain.spec, seed=0, split="heldout")


def load(args: Any, options: ModelConfig) -> tuple[Any, Any, Any]:
    """(model on the training device, tokenizer, PEFT config or None). An adapter folder is merged into its base."""
    transformers_logging.disable_progress_bar()
    disable_hub_progress_bars()
    disable_dataset_progress_bars()
    path = resolve_model(options.model_name_or_path)
    kwargs = {
        "dtype": options.dtype,
        "revision": options.model_revision,
        "attn_implementation": options.attn_implementation,
        "trust_remote_code": args.trust_remote_code,
        **(
            json.loads(args.model_init_kwargs)
            if isinstance(args.model_init_kwargs, str)
            else args.model_init_kwargs or {}
        ),
    }
    args.model_init_kwargs = None  # the model is passed as an object
    model = load_weights(path, kwargs)
    tokenizer = AutoTokenizer.from_pretrained(
        path, revision=options.model_revision, trust_remote_code=args.trust_remote_code
    )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(args.device), tokenizer, get_peft_config(options)


def load_weights(path: str, kwargs: Mapping[str, Any]) -> Any:
    """A causal language model; DataError if `path` leads to none."""
    if not (Path(path) / "adapter_config.json").is_file():
        return load_pretrained(path, kwargs)
    from peft import AutoPeftModelForCausalLM

    try:
        return AutoPeftModelForCausalLM.from_pretrained(path, dtype=kwargs["dtype"]).merge_and_unload()
    except (OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"The adapter '{path}' cannot be loaded ({first})") from error


def longest(args: Any, model: Any) -> int | None:
    """Most tokens of a row: max_length, and what the model has positions for."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    limits = [limit for limit in (args.max_length, positions) if limit]
    return min(limits) if limits else None


def measure(
    model: Any, tokenizer: Any, script: WarmStartArguments, args: Any, problems: Sequence[Problem], accelerator: Any
) -> dict:
    """The role's figures with private randomness; {} if evaluation is off. The processes share the work out and all
    return the same."""
    if script.eval_problems == 0:
        return {}
    batch_size = max(args.per_device_eval_batch_size, script.eval_samples)
    unit = "proposals" if script.role == "conjecturer" else "answers"
    bar = ProgressLine(script.role, unit, enabled=accelerator.is_main_process and not args.disable_tqdm)
    shared = {"processes": processes_of(accelerator), "progress": bar, "batch_size": batch_size}
    sampling = {**script.sampling, **shared}
    with bar:
        if script.role == "conjecturer":
            found = evaluate_conjecturer(model, tokenizer, script.domain, n=script.eval_proposals, **sampling)
            return {"conjecturer": found.to_dict()}
        n = script.eval_samples
        ks = tuple(k for k in (1, 2, 4, 8, 16, 32) if k <= n)
        answered = evaluate_prover(model, tokenizer, problems, script.domain, n=n, ks=ks, **sampling)
        return {"prover": answered.to_dict()}


def compare(before: dict, after: dict) -> tuple[dict[str, Any], str]:
    """(what evaluation.json holds, the table for the terminal)."""
    result: dict[str, Any] = {"before": before, "after": after}
    if "prover" in before:
        a, b = before["prover"], after["prover"]
        result["difference"] = {}
        for k in a["pass_at"]:
            interval = paired_bootstrap(a["correct"], b["correct"], a["n"], k=int(k))
            result["difference"][f"pass@{k}"] = [interval.difference, interval.low, interval.high]
        return result, before_after_table(result)
    rows: list[tuple[str, ...]] = [("", "before", "after")]
    for name in ("parseable", "in_range", "solvable", "unique"):
        pair = [figures["conjecturer"].get(name) for figures in (before, after)]
        cells = ["-" if e is None else f"{e['value']:.3f} [{e['low']:.3f}, {e['high']:.3f}]" for e in pair]
        rows.append((f"conjecturer {name.replace('_', ' ')}", *cells))
    return result, aligned(rows)


def train(trainer: Any, resume: str | None) -> None:
    """`trainer.train`, from the last checkpoint if `resume` says true."""
    start: bool | str | None = {"true": True, "True": True}.get(resume or "", resume)
    if isinstance(start, str) and not Path(start).is_dir():
        raise CheckpointError(f"`resume_from_checkpoint` ({start}) is not a folder; pass a checkpoint or true.")
    if start is True and not any(Path(trainer.args.output_dir).glob("checkpoint-*")):
        raise CheckpointError(f"'{trainer.args.output_dir}' holds no checkpoint to resume from.")
    trainer.train(resume_from_checkpoint=start)


class MetricsFile(TrainerCallback):
    """One line of metrics.jsonl per log, as in a joint run."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and logs:
            with (Path(args.output_dir) / "metrics.jsonl").open("a") as file:
                file.write(json.dumps({"step": state.global_step, **logs}) + "\n")


def describe(script: WarmStartArguments, args: Any, path: str, method: str, data: Sequence[str]) -> None:
    """run.json: the setting in which `countdown-selfplay eval` then scores the model."""
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    if args.resume_from_checkpoint is None:
        (folder / "metrics.jsonl").unlink(missing_ok=True)
    settings = {**args.to_dict(), **vars(script)}
    content = {
        "name": folder.name,
        "method": method,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "start": path,
        "data": list(data),
        "config": {name: value for name, value in settings.items() if not name.endswith("_token")},
        "rules": script.domain.rules.to_dict(),
        "environment": {
            "countdown-selfplay": __version__,
            "python": platform.python_version(),
            "device": str(args.device),
            "processes": args.world_size,
            **{name: version(name) for name in _PACKAGES},
        },
    }
    (folder / "run.json").write_text(json.dumps(content, indent=2, default=str) + "\n")


def export(trainer: Any, tokenizer: Any, script: WarmStartArguments) -> Any:
    """Write whole weights (an adapter is merged) and the tokenizer to the output folder; returns the model."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    row = script.domain.prove_row(Problem((1, 2), 3)) if script.role == "prover" else script.domain.propose_row(3)
    if not isinstance(row["prompt"], str):  # who samples without this library shall stop at the end of the turn too
        known = model.generation_config.eos_token_id
        known = [] if known is None else [known] if isinstance(known, int) else list(known)
        model.generation_config.eos_token_id = list(dict.fromkeys([*known, end_of_turn(tokenizer)]))
    if trainer.accelerator.is_main_process:
        model.save_pretrained(trainer.args.output_dir)
        tokenizer.save_pretrained(trainer.args.output_dir)
    return model


_CARD = """---
library_name: transformers
pipeline_tag: text-generation
tags:
- trl
- countdown-selfplay
- {method}
---
# countdown-selfplay {role}, warm-started with {method}

Trained with countdown-selfplay {version} on TRL's {trainer}, from `{start}`, {steps} optimizer steps.

| setting | value |
|---|---|
{rows}

Data: {data}. Problems on the generator's held-out side, and those it was evaluated on, were not trained on.

Answers are judged by the exact verifier under these rules: `{rules}`.
{table}"""


def write_card(
    script: WarmStartArguments, trainer: Any, path: str, method: str, data: Sequence[str], table: str
) -> None:
    """README.md of the finished folder."""
    args = trainer.args
    rows = {
        "learning rate": args.learning_rate,
        "rows per optimizer step": args.per_device_train_batch_size
        * args.gradient_accumulation_steps
        * args.world_size,
        "seed": args.seed,
        f"{script.role} prompt": getattr(script, f"{script.role}_prompt"),
        "operands": list(dict.fromkeys(script.operands)),
        "numbers": f"{script.number_low} to {script.number_high}",
        "targets": f"{script.target_low} to {script.target_high}",
    }
    if method == "ipo":
        rows["beta"] = args.beta
    text = _CARD.format(
        method=method,
        role=script.role,
        version=__version__,
        trainer={"sft": "SFTTrainer", "ipo": "DPOTrainer (loss ipo)"}[method],
        start="the embedded tiny model" if path == resolve_model("tiny") else path,
        steps=trainer.state.global_step,
        rows="\n".join(f"| {name} | {value} |" for name, value in rows.items()),
        data="; ".join(data),
        rules=script.domain.rules.to_dict(),
        table=f"\nMeasured at temperature {script.temperature:g}:\n\n```\n{table}\n```\n" if table else "",
    )
    (Path(args.output_dir) / "README.md").write_text(text)


def run(
    script: Any, args: Any, trainer: Any, tokenizer: Any, held_out: Any, path: str, method: str, data: list[str]
) -> None:
    """Measure, train, export, measure again; leaves the finished folder."""
    with run_lock(args.output_dir):
        say = trainer.accelerator.print
        main = trainer.accelerator.is_main_process
        trainer.add_callback(MetricsFile())
        if main:
            describe(script, args, path, method, data)
        start = trainer.accelerator.unwrap_model(trainer.model)
        before = measure(start, tokenizer, script, args, held_out, trainer.accelerator)
        trainer.accelerator.wait_for_everyone()
        train(trainer, args.resume_from_checkpoint)
        model = export(trainer, tokenizer, script)
        table = ""
        after = measure(model, tokenizer, script, args, held_out, trainer.accelerator)
        if main:
            if before:
                result, table = compare(before, after)
                (Path(args.output_dir) / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
                say(table)
            write_card(script, trainer, path, method, data, table)
            say(f"Model: {args.output_dir}")
        trainer.accelerator.wait_for_everyone()
