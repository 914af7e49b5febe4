# Tests: tools/convert_settings.py, tools/golden_trajectories.py
"""Settings that counted rows, in problems and proposals, by hand; what is a difference of two golden runs."""

import json
import struct
import sys
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"

RECIPES = {
    # 64 x 4 rows are 16 problems x 16 answers; 64 x 1 are 64 proposals
    "tiny/whole": {"per_device_train_batch_size": 64, "prover_micro_batches": 4, "num_generations": 16},
    # 512 episodes are 64 problems x 8; 96 proposals
    "tiny/moves": {
        "per_device_train_batch_size": 512, "prover_micro_batches": 10, "prover_samples_per_round": 512,
        "prover_num_generations": 8, "conjecturer_samples_per_round": 96, "conjecturer_num_generations": 96,
    },
}  # fmt: skip


@pytest.fixture
def load(monkeypatch):
    """Imports a tool, which imports its neighbours by their bare names."""
    monkeypatch.syspath_prepend(str(TOOLS))
    yield import_module
    for name in ("convert_settings", "golden_trajectories", "trees"):
        sys.modules.pop(name, None)


@pytest.fixture
def tool(load, monkeypatch):
    module = load("convert_settings")
    monkeypatch.setattr(module, "recipe_at", lambda base, name: dict(RECIPES[name]))
    return module


@pytest.fixture
def golden(load):
    return load("golden_trajectories")


@pytest.mark.parametrize(("old", "new"), [
    # two steps of 16 rows each: 32 rows x 2 / 4
    ({"roles": {"prover": {"micro_batches": 2, "num_generations": 4, "players": 2},
                "conjecturer": {"micro_batches": 1}},
      "per_device_train_batch_size": 16, "steps_per_round": 2},
     {"problems_per_round": 16, "proposals_per_round": 32,
      "roles": {"prover": {"num_generations": 4, "players": 2}, "conjecturer": {}},
      "per_device_train_batch_size": 16, "steps_per_round": 2}),
    # samples count over all processes and steps; 40 proposals in groups of 16 were 32
    ({"prover_samples_per_round": 24, "conjecturer_samples_per_round": 40, "conjecturer_num_generations": 16},
     {"problems_per_round": 3, "proposals_per_round": 32, "conjecturer_num_generations": 16}),
    # 64 x 5 rows / (4 answers + 4 x 2 critiques x 2 revisions) = 16; 64 x 2 / (4 x 2) = 16
    ({"game": "critic_discernment", "game_kwargs": {"revisions": 2}, "per_device_train_batch_size": 64,
      "roles": {"prover": {"micro_batches": 5, "num_generations": 4},
                "helpful": {"micro_batches": 2, "num_generations": 2}}},
     {"game": "critic_discernment", "game_kwargs": {"revisions": 2}, "per_device_train_batch_size": 64,
      "problems_per_round": 16, "roles": {"prover": {"num_generations": 4}, "helpful": {"num_generations": 2}}}),
    # over a recipe: what differs from it, and nothing else
    ({"recipe": "tiny/whole", "prover_micro_batches": 4}, {"recipe": "tiny/whole"}),
    ({"recipe": "tiny/whole", "per_device_train_batch_size": 16, "prover_micro_batches": 16},
     {"recipe": "tiny/whole", "per_device_train_batch_size": 16, "proposals_per_round": 16}),
    # a plain num_generations hides a role's: 512 / 4
    ({"recipe": "tiny/moves", "num_generations": 4},
     {"recipe": "tiny/moves", "num_generations": 4, "problems_per_round": 128}),
])  # fmt: skip
def test_a_round_keeps_its_problems_and_proposals(tool, old, new):
    assert tool.convert(old) == new


def test_the_folder_of_a_run_with_its_checkpoints(tool, tmp_path):
    settings = {"prover_micro_batches": 4, "roles.guide.micro_batches": 1, "roles": ["guide"], "seed": 0}
    run = {"name": "run", "config": settings | {"roles": None}, "environment": {"processes": 2}}
    (tmp_path / "run.json").write_text(json.dumps(run, indent=2) + "\n")
    folder = tmp_path / "checkpoint-5"
    folder.mkdir()
    (folder / "selfplay_state.json").write_text(json.dumps({"loop": 5, "settings": settings, "states": {}}))
    (folder / "complete.json").write_text(json.dumps({"processes": 2, "files": {"selfplay_state.json": [0, ""]}}))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "prover/dropped_rows": 3, "loss": 0.5}\n')
    tool.rewrite(tmp_path, "any")
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "loss": 0.5}\n'
    own = {"problems_per_round": 8, "proposals_per_round": 16}  # 8 rows x 4 x 2 / 8, 8 x 1 x 2
    assert json.loads((tmp_path / "run.json").read_text())["config"] == {**own, "roles": None, "seed": 0}
    state = (folder / "selfplay_state.json").read_bytes()
    assert json.loads(state) == {"loop": 5, "settings": {**own, "roles": ["guide"], "seed": 0}, "states": {}}
    said = json.loads((folder / "complete.json").read_text())["files"]["selfplay_state.json"]
    assert said == [len(state), sha256(state).hexdigest()]


PLAYED = {
    "weights": {"prover: w": "aa", "prover: v": "bb"},
    "metrics": {"loss": [[1, 0.5], [2, 0.25]], "round/new": [[1, 3], [2, 4]]},
}


def changed(**parts):
    return {part: {**PLAYED[part], **parts.get(part, {})} for part in PLAYED}


def test_the_last_bit_of_a_metric_is_a_difference_unless_it_is_ignored(golden):
    other = changed(metrics={"loss": [[1, 0.5], [2, 0.25000000000000006]], "round/new": [[1, 2], [2, 4]]})
    first = "metric round/new: 3 at step 1 != 2 at step 1"
    second = "metric loss: 0.25 at step 2 != 0.25000000000000006 at step 2"
    assert golden.compare(PLAYED, other, []) == ([first, second], [])
    assert golden.compare(PLAYED, other, ["round/*"]) == ([second], [])


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
