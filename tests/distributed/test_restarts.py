# Tests: training/store.py, training/callbacks/round_end.py
"""Two processes, one of which is killed or told to end: the run ends as if nothing had been."""

import json
import signal

import pytest

from tests.trainer.conftest import rounds

from .test_two_processes import SAVING, equal_ranks, launch, run, same_state

pytestmark = pytest.mark.distributed


RESTARTS = ["--max-restarts", "3"]  # one is needed; the others are for a port that was taken meanwhile
# Without it a restarted process would find the address of one that has died. With it torch 2.13 closes a free port
# before the first process binds it.
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    return run(folder, **SAVING), rounds(folder)


@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_starts_a_killed_run_again_from_its_newest_checkpoint(straight, tmp_path, rank):
    """SIGKILL in round 4, of which round 2 is saved: the second start plays rounds 3 and 4 again."""
    killed = {"rank": rank, "number": int(signal.SIGKILL), "round_": 3}
    process = launch(tmp_path, "auto", killed, RESTARTS, OWN_STORE, **SAVING)
    assert process.returncode == 0, process.stderr[-9000:]
    same_state(equal_ranks(tmp_path), straight[0])
    assert rounds(tmp_path) == straight[1]
    run_json = json.loads((tmp_path / "run.json").read_text())
    assert [entry["step"] for entry in run_json["resumes"]] == [2]


def test_sigterm_to_one_process_ends_both_at_the_end_of_the_round_with_a_checkpoint(straight, tmp_path):
    told = {"rank": 1, "number": int(signal.SIGTERM), "round_": 2}
    process = launch(tmp_path, None, told, **{**SAVING, "save_steps": 100})
    assert process.returncode != 0 and "Stopped after round 3 (SIGTERM)" in process.stderr, process.stderr[-9000:]
    assert (tmp_path / "checkpoint-3" / "complete.json").exists()
    same_state(run(tmp_path, "auto", **{**SAVING, "save_steps": 100}), straight[0])


def test_what_fails_on_the_main_process_alone_is_said_by_both_and_none_waits_for_it(tmp_path):
    (tmp_path / ".run.json.new").mkdir()  # in the way of run.json, which the main process writes
    process = launch(tmp_path, None, **SAVING)
    assert process.returncode != 0
    assert process.stderr.count("RunFolderError: " + str(tmp_path / "run.json")) == 2, process.stderr[-9000:]
