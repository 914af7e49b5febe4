"""A joint run from end to end: data, evaluation before, training, evaluation after, exports, table, report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datasets import Dataset
from huggingface_hub.utils import disable_progress_bars as disable_hub_progress_bars
from transformers.utils import logging as transformers_logging

from ..config import JointSelfPlayConfig
from ..config.countdown_fields import domain_from
from ..config.script import JointScriptArguments
from ..countdown import Problem, generate_problems, problem_from_row
from ..data.files import load_problem_rows
from ..data.run_files import write_atomically
from ..evaluation.progress import ProgressLine
from ..evaluation.roles import evaluate_conjecturer, evaluate_prover
from ..evaluation.terminal import before_after_table
from ..statistics.bootstrap import paired_bootstrap
from .exports import export_policies
from .rollbacks import resolve
from .run_lock import run_lock
from .trainer import JointConjecturerProverTrainer

SOLVE_RATE_PROBLEMS = 256  # unique solvable proposals on which the conjecturer's mean solve rate is measured
SOLVE_RATE_ANSWERS = 8


def run_joint(
    script: JointScriptArguments, args: JointSelfPlayConfig, trainer_arguments: dict[str, Any]
) -> JointConjecturerProverTrainer:
    """Train and leave in `args.output_dir`: policies, metrics.jsonl, evaluation.json, plots, report.html."""
    with run_lock(args.output_dir):
        return _run_joint(script, args, trainer_arguments)


def _run_joint(
    script: JointScriptArguments, args: JointSelfPlayConfig, trainer_arguments: dict[str, Any]
) -> JointConjecturerProverTrainer:
    # Bars of single model files only tear the training bar apart.
    transformers_logging.disable_progress_bar()
    disable_hub_progress_bars()
    domain = domain_from(args)
    train = None if script.dataset_name is None else load_problem_rows(script.dataset_name, script.dataset_train_split)
    held_out = held_out_problems(script, args)
    rows = [{"numbers": list(p.numbers), "target": p.target} for p in held_out]
    trainer = JointConjecturerProverTrainer(
        args=args,
        train_dataset=train,
        eval_dataset=Dataset.from_list(rows) if rows else None,
        domain=domain,
        **trainer_arguments,
    )
    say = trainer.accelerator.print
    output = Path(args.output_dir)
    resume = resolve(trainer, args.resume_from_checkpoint)  # a wrong one is reported before minutes of evaluation
    before = measure(trainer, script, held_out, say, "before training")
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    for folder in export_policies(trainer, output):  # before anything that could still fail
        say(f"Exported {folder}")
    after = measure(trainer, script, held_out, say, "after training")
    if trainer.processes.main:
        if before:
            result = {"before": before, "after": after, "difference": differences(before, after)}
            write_atomically(output / "evaluation.json", json.dumps(result, indent=1) + "\n")
            say(before_after_table(result))
        if script.report:
            from ..evaluation.report import write_report

            say(f"Report: {write_report([output], output / 'report.html')}")
    trainer.processes.wait()
    return trainer


def held_out_problems(script: JointScriptArguments, args: JointSelfPlayConfig) -> list[Problem]:
    """The problems of eval_dataset_name, or of the generator's held-out side; at most `eval_problems` of them."""
    if script.eval_problems == 0:
        return []
    if script.eval_dataset_name is None:
        return generate_problems(script.eval_problems, domain_from(args).spec, seed=0, split="heldout")
    rows = load_problem_rows(script.eval_dataset_name, script.eval_dataset_split)
    return [problem_from_row(row, i) for i, row in enumerate(rows)][: script.eval_problems]


def measure(
    trainer: JointConjecturerProverTrainer,
    script: JointScriptArguments,
    problems: list[Problem],
    say: Any,
    when: str,
) -> dict[str, Any]:
    """Evaluate both roles with private randomness; {} without held-out problems. The processes share the work out, for
    one that worked alone could outlast the others' time limit, and all return the same."""
    result: dict[str, Any] = {}
    if problems:
        answers = trainer.num_generations_eval
        say(f"Evaluating {when} on {len(problems)} held-out problems, {answers} answers each ...")
        result["prover"] = evaluate_role(trainer, "prover", problems, answers, "prover")
        if "conjecturer" in trainer.roles:
            result["conjecturer"] = evaluate_proposals(trainer, script.eval_proposals)
    trainer.processes.wait()
    return result


@contextmanager
def evaluating_as(
    trainer: JointConjecturerProverTrainer, role: str, label: str, unit: str
) -> Iterator[dict[str, Any]]:
    """Inside the block the module generates as `role`; yields the role's sampling and how processes share the work."""
    settings, main = trainer.roles[role], trainer.processes.main
    bar = ProgressLine(label, unit, enabled=main and not trainer.args.disable_tqdm)
    with trainer.sampling_as(role), trainer.engine.whole_weights(trainer.model_wrapped), bar:
        yield {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "max_new_tokens": settings.max_completion_length,
            "processes": trainer.processes,
            "progress": bar,
        }


def evaluate_role(
    trainer: JointConjecturerProverTrainer, role: str, problems: list[Problem], n: int, label: str
) -> dict[str, Any]:
    with evaluating_as(trainer, role, label, "answers") as sampling:
        found = evaluate_prover(
            trainer.policies.module,
            trainer.processing_class,
            problems,
            trainer.domain,
            n=n,
            ks=tuple(k for k in (1, 4, 8, 16, 32) if k <= n),
            batch_size=max(trainer.args.per_device_eval_batch_size, n),
            **sampling,
        )
    return found.to_dict()


def evaluate_proposals(trainer: JointConjecturerProverTrainer, n: int) -> dict[str, Any]:
    """Rates of `n` proposals, and the prover's mean solve rate on the unique solvable ones among them."""
    with evaluating_as(trainer, "conjecturer", "conjecturer", "proposals") as sampling:
        found = evaluate_conjecturer(
            trainer.policies.module,
            trainer.processing_class,
            trainer.domain,
            n=n,
            batch_size=trainer.args.per_device_eval_batch_size,
            **sampling,
        )
    result = found.to_dict()
    domain = trainer.domain
    unique = list({p.key: p for p in found.problems if domain.in_range(p)}.values())
    known = domain.solvable_batch(unique)
    solvable = [p for p, ok in zip(unique, known, strict=True) if ok][:SOLVE_RATE_PROBLEMS]
    if solvable:
        solved = evaluate_role(trainer, "prover", solvable, SOLVE_RATE_ANSWERS, "prover on proposals")
        result["solve_rate"] = solved["pass_at"]["1"]
    return result


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[float]]:
    """after - before of the prover's pass@k, paired over problems, with 95% percentile intervals."""
    a, b = before["prover"], after["prover"]
    found = {}
    for k in a["pass_at"]:
        interval = paired_bootstrap(a["correct"], b["correct"], a["n"], k=int(k))
        found[f"pass@{k}"] = [interval.difference, interval.low, interval.high]
    return found
