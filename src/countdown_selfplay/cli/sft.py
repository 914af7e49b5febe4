"""`countdown-selfplay sft`: fine-tune a prover or a conjecturer on demonstrations, evaluate before and after."""

from __future__ import annotations

import sys
from collections import Counter

from trl import ModelConfig

from ..config.checks import check_run
from ..config.starts import check_starts
from ..contract.domain import in_moves
from ..data.files import held_out_problems
from ..tiny import resolve_model
from ..warm_starts.configs import SFTArguments, SFTSettings
from ..warm_starts.demonstrations import generated_rows, read_demonstrations
from ..warm_starts.filters import Kept, clean_demonstrations
from .options import parse_options
from .warm_start_dry_run import print_dry_run


def main(argv: list[str] | None = None) -> int:
    script, args, model = parse_options("sft", sys.argv[1:] if argv is None else argv)
    if not script.dry_run:
        check_run(args)
        check_starts(model.model_name_or_path, script.dataset_name)
    held_out = held_out_problems(script, script.played)
    kept = demonstrations(script, args.seed, {script.played.key(problem) for problem in held_out})
    if script.dry_run:
        print_dry_run(script, args, model, [kept.sentence("demonstrations")], len(kept.rows))
        return 0
    run_sft(script, args, model, kept, held_out)
    return 0


def demonstrations(script: SFTArguments, seed: int, evaluated: set[str]) -> Kept:
    """What is trained on, checked; DataError if nothing is left."""
    if script.dataset_name is None:
        n, each = script.demonstrations, script.demonstrations_per_problem
        rows = generated_rows(
            n, script.role, script.played, seed=seed, exclude=evaluated, per_problem=each, schema=script.schema
        )
        source = "generated"
    else:
        rows, source = read_demonstrations(script.dataset_name, script.dataset_train_split), script.dataset_name
    kept = clean_demonstrations(rows, script.role, script.played, evaluated, script.keep_wrong, source)
    return kept.insist("demonstrations")


def run_sft(script: SFTArguments, args: SFTSettings, options: ModelConfig, kept: Kept, held_out: list) -> None:
    """Train and leave a model folder in `args.output_dir`."""
    from datasets import Dataset
    from trl import SFTTrainer

    from ..evaluation.token_ids import demonstration_ids
    from ..warm_starts.filters import TOO_LONG, drop_long
    from ..warm_starts.run import load, longest, run

    model, tokenizer, peft_config = load(args, options)
    chat = not isinstance(kept.rows[0]["prompt"], str)
    rows = [demonstration_ids(tokenizer, row["prompt"], row["completion"]) for row in kept.rows]
    rows, cut = drop_long(rows, ("input_ids",), longest(args, model))
    kept = Kept(rows, kept.read, kept.left_out + Counter({TOO_LONG: cut} if cut else {})).insist("demonstrations")
    trainer = SFTTrainer(
        model=model,
        args=args,
        train_dataset=Dataset.from_list(kept.rows),
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    made = "planted" if in_moves(script.played) else "made by the exact solver"
    source = made if script.dataset_name is None else f"from {script.dataset_name}"
    data = [f"{kept.sentence('demonstrations')}, {source}"]
    trainer.accelerator.print(data[0])
    path = resolve_model(options.model_name_or_path)
    run(script, args, trainer, tokenizer, held_out, path, "sft", data, chat)
