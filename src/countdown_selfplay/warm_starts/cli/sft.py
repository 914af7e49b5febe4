"""`countdown-selfplay sft`: fine-tune a prover or a conjecturer on demonstrations, evaluate before and after."""

import sys
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from ...cli.options import parse_options
from ...config.script import check_starts
from ...config.settled import check_run
from ...contract.domain import in_moves
from ...data.files import held_out_problems, load_problem_rows
from ..configs import SFTArguments
from ..demonstrations import generated_rows
from ..filters import Kept
from ..planning import print_plan
from ..readers import clean_demonstrations
from ..training import run

PLANNED = 512
"""Largest number of problems of which a dry run generates demonstrations."""


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """Run `countdown-selfplay sft`; return 0. `launch`: options of a launch for which a dry run plans."""
    script, args, model = parse_options("sft", sys.argv[1:] if argv is None else argv)
    if not script.dry_run:
        check_run(args)
        check_starts(model.model_name_or_path, script.dataset_name)
    held_out = held_out_problems(script, script.played)
    count, made = script.demonstrations, copy(script)
    if script.dry_run and script.dataset_name is None:  # a few, as a sample
        made.demonstrations = min(count, PLANNED)
    kept = demonstrations(made, args.seed, {script.played.key(problem) for problem in held_out})
    if script.dry_run:
        rows, note = len(kept.rows), kept.sentence("demonstrations")
        if made.demonstrations < count:
            rows = rows * count // made.demonstrations
            note = f"about {rows} demonstrations; of the first {made.demonstrations} problems of {count}: {note}"
        print_plan(script, args, model, note, rows, launch)
        check_starts(model.model_name_or_path, script.dataset_name)
        return 0
    made = "planted" if in_moves(script.played) else "made by the exact solver"
    source = made if script.dataset_name is None else f"from {script.dataset_name}"
    run("sft", script, args, model, held_out, lambda *_: (kept, "demonstrations", source))
    return 0


def demonstrations(script: SFTArguments, seed: int, evaluated: set[str]) -> Kept[dict[str, Any]]:
    """Return the verified rows to train on. Raises DataError if nothing is left."""
    rows: Iterable[Mapping[str, Any]]
    if script.dataset_name is None:
        n, each = script.demonstrations, script.demonstrations_per_problem
        rows = generated_rows(n, script.role, script.played, seed, evaluated, each, script.schema)
    else:
        rows = load_problem_rows(script.dataset_name, script.dataset_train_split)
    source = script.dataset_name or "generated"
    kept = clean_demonstrations(rows, script.role, script.played, evaluated, script.keep_wrong, source)
    return kept.insist("demonstrations")
