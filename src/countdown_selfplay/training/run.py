"""Joint run from end to end: data, evaluations, training, exports, table and report."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from huggingface_hub.utils import disable_progress_bars as disable_hub_progress_bars
from transformers.utils import logging as transformers_logging

from ..config import JointSelfPlayConfig
from ..config.script import JointScriptArguments
from ..data.files import data_sets
from ..data.run_files import write_atomically
from ..domains import domain_from
from ..evaluation.findings import cost_of_the_conjecturer, summary
from ..evaluation.load import load_run
from ..evaluation.summary import differences, write_evaluation
from ..evaluation.terminal import control_table
from ..packages import CALLED, absent_package
from .callbacks.run_folder import report_line
from .exports import check_saved, write_cards
from .run_lock import run_lock
from .trainer import JointConjecturerProverTrainer


def run_joint(
    script: JointScriptArguments,
    args: JointSelfPlayConfig,
    trainer_arguments: dict[str, Any],
    control: tuple[JointSelfPlayConfig, dict[str, Any]] | None = None,
) -> JointConjecturerProverTrainer:
    """Train a run and write policies, metrics.jsonl, evaluation.json, plots and report.html to `args.output_dir`.
    `control`: (settings, trainer arguments) of a subsequent run without a conjecturer; the difference is printed."""
    quiet_loading()
    with run_lock(args.output_dir):
        domain = domain_from(args)
        data = data_sets(script, domain)
        held_out = [domain.problem(row, i) for i, row in enumerate(data["eval_dataset"] or ())]
        trainer = JointConjecturerProverTrainer(args=args, domain=domain, **data, **trainer_arguments)
        resume = trainer.store.resolve(args.resume_from_checkpoint)  # first, to report a wrong checkpoint at once
        if resume is None:
            trainer.evaluator.probe_format()
        if absent_package(CALLED["write_report"]) is None:
            watch = shlex.join(["countdown-selfplay", "report", str(args.output_dir), "--watch"])
            trainer.accelerator.print(f"Watch this run in a browser: {watch}")
        before = trainer.evaluator.measure(held_out, script.eval_proposals, "before training")
        saved = trained(trainer, resume)
        after = trainer.evaluator.measure(held_out, script.eval_proposals, "after training")
        if trainer.processes.main:
            tell(Path(args.output_dir), before, after, script.report)
        trainer.processes.wait()
        if control is not None:
            saved += play_control(script, *control, data, held_out, before, after)
        check_saved(saved)
        return trainer


def trained(trainer: JointConjecturerProverTrainer, resume: Path | None) -> list[tuple[Path, str, bool]]:
    """Train, export the policies, verify them and print their folders; return the result of `Exports.write_last`."""
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    exports = trainer.exports.write_last(Path(trainer.args.output_dir))
    for folder, fault, _ in exports:
        trainer.accelerator.print(f"Exported {folder}{f': {fault}' if fault else ''}")
    return exports


def play_control(
    script: JointScriptArguments,
    args: JointSelfPlayConfig,
    trainer_arguments: dict[str, Any],
    data: dict[str, Any],
    held_out: list[Any],
    before: dict[str, Any],
    after: dict[str, Any],
) -> list[tuple[Path, str, bool]]:
    """Train the prover alone, from the same weights and on the same number of samples per round; write control.json
    and print the differences. `before`, `after`: evaluations of the main run. Returns the control's exports."""
    trainer = JointConjecturerProverTrainer(args=args, domain=domain_from(args), **data, **trainer_arguments)
    trainer.accelerator.print(f"Control: the same run without a conjecturer, in {args.output_dir}")
    resume = trainer.store.resolve("auto" if args.resume_from_checkpoint else None)
    saved = trained(trainer, resume)
    alone = trainer.evaluator.measure(held_out, script.eval_proposals, "the control")
    if trainer.processes.main:
        folder, start = Path(args.output_dir), {"prover": before["prover"]}
        tell(folder, start, alone, script.report)
        report = {"control": alone, "run": after, "difference": differences(alone, after)}
        write_atomically(folder.parent / "control.json", json.dumps(report, indent=1) + "\n")
        print("What the conjecturer was worth, on as many samples of the prover:")
        print("\n".join([*cost_of_the_conjecturer(load_run(folder.parent)), control_table(report)]))
        if script.report:  # again, with the control's rows
            print(report_line(folder.parent))
    trainer.processes.wait()
    return saved


def quiet_loading() -> None:
    """Hide the loading bars of model files, which break the training bar."""
    transformers_logging.disable_progress_bar()
    disable_hub_progress_bars()


def tell(folder: Path, before: dict[str, Any], after: dict[str, Any], report: bool) -> None:
    """Write evaluation.json and model cards, print the run's summary, and write the report if `report`."""
    result = write_evaluation(folder, before, after) if before else None
    write_cards(folder)
    print(summary(folder, result))
    if report:
        print(report_line(folder))
