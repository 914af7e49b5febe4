# Tests: lab/cli/headroom.py, lab/headroom/measure.py
"""`countdown-selfplay headroom` on the embedded ladder, as small as it gets, and what it refuses."""

import fcntl
import json

import pytest
from tests.made_up_runs import printed

from countdown_selfplay.lab.proposers.rungs import read_gains

SIZES = {"rounds": 2, "stage": 1, "probe": 1, "problems": 2, "samples": 16}
MANY = ["--operands", *"3456"]
SMALL = [word for name, size in SIZES.items() for word in (f"--gate_{name}", str(size))] + MANY


def test_gates_are_measured_and_written(tmp_path, capsys):
    """A folder that is called headroom gets no second one."""
    folder = tmp_path / "headroom"
    asked = ["headroom", "--output_dir", folder, *SMALL, "--gates", 1, 2, 3, "--gate_rounds", 1]
    code, out, _ = printed(capsys, *asked)
    found = json.loads((folder / "headroom.json").read_text())
    assert code == 0 and found["verdict"] in out
    assert [gate["number"] for gate in found["gates"]] == [1, 2, 3]
    assert found["cpu_seconds"].keys() == {"1", "2", "3"}
    assert (folder / "headroom.svg").read_text().startswith("<svg")
    assert not (folder / "gains.json").exists()


@pytest.mark.slow
def test_an_oracle_is_searched_for_and_leaves_its_table(tmp_path, capsys):
    assert printed(capsys, "headroom", "--output_dir", tmp_path, *SMALL, "--gates", 4)[0] == 0
    folder = tmp_path / "headroom"
    (gate,) = json.loads((folder / "headroom.json").read_text())["gates"]
    arms = {"uniform", "frozen", "trained", "oracle_gain", "oracle_half"}
    assert set(gate["figures"]["mean_pass_at"]) == arms
    # A search before round 0 and one before round 1, in the form that oracle_rungs reads.
    gains = read_gains(str(folder / "gains.json"))
    assert gains.keys() == {0, 1} and all(set(own) <= {3, 4, 5, 6} for own in gains.values())
    assert not [*folder.glob("probe_*")]


@pytest.mark.parametrize(("flags", "said"), [
    (["--recipe", "tiny/default", "--domain", "math_qa"], "The domain 'math_qa' has no rungs"),
    (["--recipe", "tiny/default"], "The domain 'countdown' has no rungs"),  # of three numbers alone
    (["--operands", "3", "4", "5"], "and this domain has 3 (3, 4, 5); widen it"),
    (["--gate_samples", "4", "--gate_k", "4"], "`gate_samples` (4) must be at least the answers of a group"),
    (["--recipe", "tiny/default", *MANY, "--prover_prompt", "countdown_3to4"], "the tokenizer has no chat template"),
    (["--recipe", "tiny/ladder", "--model_name_or_path", "tiny"], "The prover has not learned to answer in moves"),
])  # fmt: skip
def test_bad_input_is_one_sentence_before_anything_is_played(tmp_path, capsys, flags, said):
    code, _, error = printed(capsys, "headroom", "--output_dir", tmp_path, *flags)
    assert code == 2 and said in error and "Traceback" not in error
    assert not (tmp_path / "headroom" / "headroom.json").exists()


def test_a_folder_in_use_is_refused(tmp_path, capsys):
    folder = tmp_path / "headroom"
    folder.mkdir()
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as another process would hold it: locks are of open files
        code, _, error = printed(capsys, "headroom", "--output_dir", tmp_path)
    assert code == 2 and "is in use by another run" in error
