# Tests: studies/many_runs.py
"""What studies share: runs side by side in quiet processes, results that are whole or absent, arms compared."""

import json
import os

import pytest
from many_runs import FINISHED, compared, finish, play_all, run_folder

from countdown_selfplay.errors import DataError

RIGHT = {"pool": [4, 2, 0, 2], "single": [2, 2, 0, 0]}  # of 4 answers to each of four problems


def run(task):
    """Leave a result, and how the process stands."""
    import torch

    arm, seed, root = task
    folder = run_folder(root, arm, seed)
    if (folder / FINISHED).exists():
        return
    about = {"threads": torch.get_num_threads(), "hub": os.environ.get("HF_HUB_OFFLINE"), "pid": os.getpid()}
    finish(folder, about, "about.json")
    setting = {"temperature": 1.0, "max_new_tokens": 16, "prover_prompt": "compact", "rules": {}}
    counts = {"keys": list("abcd"), "correct": RIGHT[arm], "n": 4, "setting": setting}
    finish(folder, {"after": {"prover": counts}, "settings": {"rounds": 4}})


def test_runs_are_played_in_processes_of_their_own_once_and_their_arms_compared(tmp_path):
    tasks = [(arm, 1, str(tmp_path)) for arm in RIGHT]
    play_all(run, tasks, workers=1)
    abouts = [json.loads((run_folder(tmp_path, arm, 1) / "about.json").read_text()) for arm in RIGHT]
    assert all(about["threads"] == 1 and about["hub"] == "1" and about["pid"] != os.getpid() for about in abouts)
    before = {arm: (run_folder(tmp_path, arm, 1) / "about.json").stat().st_mtime_ns for arm in RIGHT}
    for task in tasks:
        run(task)  # finished: nothing is written again
    assert before == {arm: (run_folder(tmp_path, arm, 1) / "about.json").stat().st_mtime_ns for arm in RIGHT}
    found = compared({arm: [run_folder(tmp_path, arm, 1) / FINISHED] for arm in RIGHT}, (1, 4), "single")
    # pass@1: 8 of 16 against 4 of 16; pass@4: three of four problems solved at all against two
    assert found.arms == ["single", "pool"]
    assert [(d.arm, d.k, d.percentile.difference) for d in found.differences] == [("pool", 1, 0.25), ("pool", 4, 0.25)]
    with pytest.raises(DataError, match="There is no file or run folder"):
        compared({arm: [run_folder(tmp_path, arm, 2) / FINISHED] for arm in RIGHT}, (1,), "single")
