# Tests: training/checkpoints.py, contract/stateful.py
"""What a checkpoint holds of parts that remember something: JSON values in one file, arrays in another."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from countdown_selfplay.training import checkpoints


class Part:
    def __init__(self, state=None):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class Other(Part):
    pass


def test_values_and_arrays_are_read_back_at_any_depth(tmp_path):
    arms = np.array([[0.1, 0.2], [1 / 3, np.pi]])
    plain = {"round": 3, "name": "ucb", "none": None, "rates": [0.5, 0.25]}
    state = plain | {"arms": {"values": arms, "list": [arms[0]]}}
    checkpoints.write_states(
        tmp_path, {"game": Part(state), "frame": Part({"rounds": 2})}, {"settings": {"beta": 0.0}}
    )
    found = checkpoints.read_states(tmp_path)
    assert found["settings"] == {"beta": 0.0} and found["states"]["frame"] == {"class": "Part", "state": {"rounds": 2}}
    part = Part()
    checkpoints.load_states({"game": part}, found["states"])
    assert {key: part.state[key] for key in plain} == plain
    assert part.state["arms"]["values"].tobytes() == arms.tobytes() and part.state["arms"]["values"].shape == (2, 2)
    assert part.state["arms"]["list"][0].tolist() == [0.1, 0.2]


def test_arrays_go_to_safetensors_and_the_rest_to_json(tmp_path):
    checkpoints.write_states(tmp_path, {"game": Part({"rates": np.arange(3), "best": np.float64(0.5)})}, {})
    packed = json.loads((tmp_path / checkpoints.STATES).read_text())["states"]["game"]["state"]
    assert packed == {"rates": {"__array__": "game/rates"}, "best": 0.5}
    assert load_file(tmp_path / checkpoints.ARRAYS)["game/rates"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("array", [np.array(0.5), np.zeros((0, 3)), np.arange(12).reshape(3, 4).T, np.array([True])])
def test_an_array_keeps_its_shape_and_kind(tmp_path, array):
    checkpoints.write_states(tmp_path, {"game": Part({"x": array})}, {})
    found = checkpoints.read_states(tmp_path)["states"]["game"]["state"]["x"]
    assert found.shape == array.shape and found.dtype == array.dtype and found.tolist() == array.tolist()


def test_a_part_of_another_class_starts_anew_and_a_new_one_too(tmp_path):
    checkpoints.write_states(tmp_path, {"objective/prover": Part({"baseline": 0.5})}, {})
    saved = checkpoints.read_states(tmp_path)["states"]
    other, new, same = Other("fresh"), Part("fresh"), Part("fresh")
    checkpoints.load_states({"objective/prover": other, "replay/prover": new}, saved)
    assert other.state == new.state == "fresh"
    checkpoints.load_states({"objective/prover": same}, saved)
    assert same.state == {"baseline": 0.5}
