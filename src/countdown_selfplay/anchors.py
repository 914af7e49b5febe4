"""Anchor problems: from a data set (or the exact generator) to rows that the trainer's data loader can repeat."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from datasets import Dataset, IterableDataset

from .config import JointSelfPlayConfig
from .countdown import CountdownDomain, Problem, generate_problems, problem_from_row
from .errors import DataError

logger = logging.getLogger(__name__)

GENERATED_ANCHORS = 2048  # many epochs of a tiny run; generated in seconds


def anchor_dataset(
    dataset: Dataset | IterableDataset | None, domain: CountdownDomain, seed: int
) -> Dataset | IterableDataset:
    """Rows `{"prompt", "numbers", "target"}`, rendered from the parsed integers whatever the source's own prompt
    column says.

    None: problems of the domain's spec from the exact generator, reproducible from `seed`, never held-out ones.
    A row that holds no problem is a DataError that names row and column.
    """
    if dataset is None:
        problems = generate_problems(GENERATED_ANCHORS, domain.spec, seed=seed, split="train")
        return Dataset.from_list([domain.prove_row(problem) for problem in problems])
    if isinstance(dataset, IterableDataset):
        return IterableDataset.from_generator(_rendered, gen_kwargs={"rows": dataset, "domain": domain})
    return Dataset.from_list(list(_rendered(dataset, domain)))


def _rendered(rows: Any, domain: CountdownDomain) -> Iterator[dict[str, Any]]:
    for index, row in enumerate(rows):
        yield domain.prove_row(problem_from_row(row, index))


def listed_keys(rows: Dataset | IterableDataset) -> list[str] | None:
    """Identities of the problems in an anchor data set, in its order; None for a stream."""
    if isinstance(rows, IterableDataset):
        return None
    return [Problem(tuple(row["numbers"]), row["target"]).key for row in rows]


def problem_keys(rows: Dataset | None) -> frozenset[str]:
    """Identities of the problems in a data set; none for None."""
    return frozenset() if rows is None else frozenset(listed_keys(rows) or ())


def check_enough(rows: Dataset | IterableDataset, args: JointSelfPlayConfig) -> None:
    """DataError if a round draws more distinct problems than there are, or a setting counts in epochs of a stream."""
    needed = args.loader_problems
    if isinstance(rows, IterableDataset):
        counted = [name for name in ("save_strategy", "eval_strategy") if getattr(args, name) == "epoch"]
        if args.max_steps <= 0 or counted:
            cure = f"{counted[0]}=steps" if counted else "max_steps to the number of rounds"
            raise DataError(f"train_dataset is a stream, which has no length to count epochs by; set {cure}.")
    elif len(rows) < needed:
        raise DataError(
            f"train_dataset holds {len(rows)} problems and every round draws {needed}; pass at least {needed}, or "
            "lower per_device_train_batch_size or the micro-batches."
        )


def warn_overlap(rows: Dataset | IterableDataset, held_out: frozenset[str]) -> None:
    """Say how many training problems are held-out ones; training goes on, the numbers would be contaminated."""
    if held_out and isinstance(rows, Dataset):
        overlap = len(problem_keys(rows) & held_out)
        if overlap:
            logger.warning(
                "%d problems of train_dataset are also in eval_dataset: its pass@k will be contaminated; remove them.",
                overlap,
            )


def anchors_of_batch(rows: list[dict[str, Any]], repeats: int) -> list[Problem]:
    """The distinct problems of a gathered generation batch, in which the sampler repeated each `repeats` times."""
    return [Problem(tuple(row["numbers"]), row["target"]) for row in rows[::repeats]]
