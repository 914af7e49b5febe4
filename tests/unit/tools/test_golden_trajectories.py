# Tests: tools/golden_trajectories.py
"""What tools/golden_trajectories.py calls a difference, on made-up results."""

import json
import struct
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"

PLAYED = {
    "weights": {"prover: w": "aa", "prover: v": "bb"},
    "metrics": {"loss": [[1, 0.5], [2, 0.25]], "round/new": [[1, 3], [2, 4]]},
}


@pytest.fixture
def golden(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import golden_trajectories

    yield golden_trajectories
    for name in ("golden_trajectories", "convert_settings", "trees"):
        del sys.modules[name]


def changed(**parts):
    return {part: {**PLAYED[part], **parts.get(part, {})} for part in PLAYED}


def test_the_last_bit_of_a_metric_is_a_difference_unless_it_is_ignored(golden):
    other = changed(metrics={"loss": [[1, 0.5], [2, 0.25000000000000006]], "round/new": [[1, 2], [2, 4]]})
    first, second = (
        "metric round/new: 3 at step 1 != 2 at step 1",
        "metric loss: 0.25 at step 2 != 0.25000000000000006",
    )
    assert golden.compare(PLAYED, other, []) == ([first, f"{second} at step 2"], [])
    assert golden.compare(PLAYED, other, ["round/*"]) == ([f"{second} at step 2"], [])


def test_a_metric_of_one_tree_alone_is_a_note_and_weights_of_one_tree_alone_are_a_difference(golden):
    other = changed(metrics={"own": [[1, 1]]}, weights={"prover: v": "bc", "conjecturer: w": "aa"})
    wrong, notes = golden.compare(PLAYED, other, ["*"])
    named = "conjecturer: w (only in head), prover: v (other values)"
    assert (wrong, notes) == ([f"weights: 2 tensors, among them {named}"], ["only head logs own"])


def saved(path, **tensors):
    """A file of safetensors by its specification: length of the header, header, bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        own = struct.pack(f"<{len(values)}f", *values)
        place = [len(data), len(data) + len(own)]
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": place}
        data += own
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_all_weights_of_a_run_count_except_those_of_its_checkpoints(golden, tmp_path):
    saved(tmp_path / "prover" / "model.safetensors", w=[1.0, 2.0], v=[1.0, 2.0])
    saved(tmp_path / "iteration-1" / "prover" / "model.safetensors", w=[1.0, 2.0000002])
    saved(tmp_path / "checkpoint-2" / "model.safetensors", w=[0.0])
    found = dict(golden.weights(tmp_path))
    assert set(found) == {"prover: w", "prover: v", "iteration-1/prover: w"}
    assert found["prover: w"] == found["prover: v"] != found["iteration-1/prover: w"]
