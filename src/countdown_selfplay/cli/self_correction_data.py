"""`countdown-selfplay eval --task self_correction --training_data FILE`: the data of the paper's supervised stage."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data.files import load_problem_rows
from ..domains import is_held_out
from ..errors import ConfigError, DataError
from ..evaluation.critics.policy import Policy
from ..evaluation.setting import Setting
from ..warm_starts.self_correction import EACH, SAMPLES, self_correction_rows

PROBLEMS = 1024


def write_training_data(
    options: argparse.Namespace, setting: Setting, policy_of: Callable[[], Policy]
) -> tuple[dict[str, Any], str]:
    """Rows for `sft --keep_wrong true`, and with --add the rows that a prover was trained on: Wang et al. 2025,
    appendix C.3, fine-tunes the initial model on both together. policy_of loads the model; (counts, a sentence
    for the user)."""
    domain, path = setting.domain, options.training_data
    problems = training_problems(options, domain)
    added = [] if options.add is None else added_rows(options.add, domain, problems)
    rows, counts = self_correction_rows(
        policy_of(), domain, problems, options.samples or SAMPLES, options.each or EACH, options.seed
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*rows, *added]), encoding="utf-8")
    said = (
        f"Wrote {path}: {len(rows)} rows, half of them kept and half corrected (there were {counts['kept']} and "
        f"{counts['corrected']}), and {len(added)} added ones; train with `sft --dataset_name {path} --keep_wrong "
        "true`"
    )
    return {"counts": counts, "rows": len(rows), "added": len(added), "problems": len(problems)}, said


def training_problems(options: argparse.Namespace, domain: Any) -> list[Any]:
    """Those of --problems that are not held out, or as many of the training side as --n_problems says."""
    count = options.n_problems or PROBLEMS
    if options.problems is not None:
        read = [domain.problem(row, i) for i, row in enumerate(load_problem_rows(options.problems, options.split))]
        kept = [problem for problem in read if not is_held_out(domain, problem)]
        if not kept:
            raise DataError(f"'{options.problems}' has no problem of the training side.")
        return kept[: options.n_problems]
    if domain.random is None:
        raise ConfigError("The domain does not generate problems; pass those of its training set as --problems.")
    return list(domain.random(count, options.seed, frozenset()))


def added_rows(path: Path, domain: Any, problems: list[Any]) -> list[dict[str, Any]]:
    """The prover's data set of an iterated run, with the columns of each row's problem. DataError for another role's,
    or one of pairs, whose better texts may be single steps."""
    from ..warm_starts.iterated import select

    known = {domain.key(problem): problem for problem in problems}
    by_key = None if domain.mutations is None else domain.mutations.problem_of_key
    found = []
    rows = select.read(path, cure="pass an iteration's prover.parquet")
    if any("rejected" in row or row.get("role") != "prover" for row in rows):
        raise DataError(
            f"`--add` ({path}) must be what a prover was trained on to imitate, `prover.parquet` of a run with "
            "algorithm rest or expert_iteration; this one holds pairs or another role's samples."
        )
    for row in rows:
        problem = known.get(row["problem"]) or (by_key(row["problem"]) if by_key is not None else None)
        if problem is None:
            raise DataError(
                f"'{path}' holds the problem '{row['problem'][:60]}', which --problems does not; pass the file that "
                "its run played."
            )
        asked = {**domain.prove_row(problem), "prompt": select.prompt_of(row)}
        found.append(asked | {"completion": row["completion"], "label": row["label"]})
    return found
