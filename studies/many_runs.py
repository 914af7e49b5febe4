"""What studies of arms and training seeds share: their runs side by side, what a finished one leaves, and the
comparison of all. A run lies in FOLDER/ARM/seed-SEED; one with an evaluation.json is finished."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from countdown_selfplay.data.jsonl import json_file
from countdown_selfplay.data.run_files import write_atomically
from countdown_selfplay.errors import DataError
from countdown_selfplay.lab.compare import Comparison, aligned_arms, compare_arms, load_arms

FINISHED = "evaluation.json"


def run_folder(root: Path | str, arm: str, seed: int) -> Path:
    """Where the run of an arm with a seed lies."""
    return Path(root) / arm / f"seed-{seed}"


def play_all(run: Callable[[Any], None], tasks: Sequence[Any], workers: int = 2) -> None:
    """`run(task)` for all tasks, `workers` at a time, in processes of one thread each, without the hub and the bars of
    Transformers. `run` returns at once where a task is finished already. What one raises ends the study."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _alone_and_quiet, maxtasksperchild=10) as pool:
        for _ in pool.imap_unordered(run, tasks):
            pass


def _alone_and_quiet() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def finished(folder: Path, settings: Mapping[str, Any], file: str = FINISHED) -> bool:
    """Whether a run is finished: `file` is there. DataError where it was played with other `settings` than these, as
    far as it says with which (`finish` with an entry "settings"), for then its numbers are of another study."""
    if not (folder / file).exists():
        return False
    cure = "remove it to repeat the run"
    there = json_file(folder / file, cure).get("settings", {}) if (folder / file).stat().st_size else {}
    other = [f"{name} {there[name]}" for name, value in settings.items() if there.get(name, value) != value]
    if other:
        here = ", ".join(f"{name} {value}" for name, value in settings.items())
        raise DataError(
            f"'{folder}' holds a finished run with {', '.join(other)}, and this study is of {here}; repeat it with "
            "those, or set another --folder."
        )
    return True


def finish(folder: Path, result: Mapping[str, Any], file: str = FINISHED) -> None:
    """Write what a run found, whole or not at all; FINISHED comes last, for its presence says that all is done."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / file, json.dumps(result) + "\n")


def compared(results: Mapping[str, Sequence[Path]], ks: Sequence[int], baseline: str) -> Comparison:
    """Arms against `baseline`, each by the files of its training seeds. DataError where one is not there; ConfigError
    for a single arm."""
    words = [f"{arm}={','.join(map(str, paths))}" for arm, paths in results.items()]
    arms = aligned_arms(load_arms(words))
    return compare_arms(sorted(arms, key=lambda arm: arm.name != baseline), ks)
