# Tests: training/callbacks/run_folder.py, training/checkpoints.py
"""Files of a run folder that something else damaged: one sentence, or what is not needed is passed over."""

import json
import shutil

import pytest
from safetensors import SafetensorError

from countdown_selfplay.data.run_files import GOING_BACK, ROLES_FILE, set_run_aside
from countdown_selfplay.errors import DataError, RunFolderError
from countdown_selfplay.training.callbacks.run_folder import _before
from countdown_selfplay.training.checkpoints import (
    FORMAT,
    checkpoints,
    defect,
    finish_going_back,
    how_to_go_on,
    newest,
    step_in,
)

from .conftest import EVERY, make_trainer, rounds
from .test_run_integrity import names

# run.json, which a resume does not need


def test_a_damaged_run_json_keeps_no_checkpoint_from_being_resumed_and_is_not_lost(copied, caplog):
    (copied / "run.json").write_text('{"resumes": [')
    make_trainer(copied, max_steps=2, **EVERY).train(resume_from_checkpoint=str(copied / "checkpoint-1"))
    assert (copied / "run.json.damaged").read_text() == '{"resumes": ['
    assert len(json.loads((copied / "run.json").read_text())["resumes"]) == 1
    assert "run.json' does not hold a JSON object" in caplog.text and "kept as run.json.damaged" in caplog.text


@pytest.mark.parametrize("text", ["", "[1]", '{"resumes": 3}', "{}"])
def test_a_run_json_of_any_other_shape_is_damaged_too(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    assert _before(tmp_path / "run.json") == {} and (tmp_path / "run.json.damaged").read_text() == text


# complete.json, without which the checkpoint before is taken

MANIFESTS = {
    "empty": "",
    "a list": "[1]",
    "without files": json.dumps({"step": 2, "format": FORMAT}),
    "files a list": {"files": ["model.safetensors"]},
    "a file without its digest": {"files": {"model.safetensors": 3}},
    "a step that is a text": {"step": "two"},
    "healthy is no truth value": {"healthy": 1},
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_of_a_checkpoint_with_a_damaged_manifest_the_one_before_is_taken(copied, name, caplog):
    place, damage = copied / "checkpoint-2" / "complete.json", MANIFESTS[name]
    place.write_text(damage if isinstance(damage, str) else json.dumps(json.loads(place.read_text()) | damage))
    assert "it has no readable complete.json" in str(defect(copied / "checkpoint-2", 1))
    assert newest(copied, 1) == copied / "checkpoint-1"
    assert "Skipping checkpoint-2: it has no readable complete.json" in caplog.text
    assert "checkpoint-1; resume" in how_to_go_on(copied)


# a checkpoint under another number


def test_a_copy_under_a_higher_number_is_as_new_as_the_step_that_it_was_written_at(copied, tmp_path):
    """checkpoint-7 is of step 1: the newest is checkpoint-2, and at step 1 the one that is called so."""
    shutil.copytree(copied / "checkpoint-1", copied / "checkpoint-7")
    assert [folder.name for folder in checkpoints(copied)] == ["checkpoint-7", "checkpoint-1", "checkpoint-2"]
    assert newest(copied, 1) == copied / "checkpoint-2"
    make_trainer(copied, max_steps=3, **EVERY).train(resume_from_checkpoint=True)
    assert names(copied) == ["checkpoint-1", "checkpoint-2", "checkpoint-3", "checkpoint-7"]
    assert [line["step"] for line in rounds(copied)] == [1, 2, 3]


def test_a_copy_under_a_higher_number_can_be_resumed_by_name(copied):
    """What is set aside lies beyond step 1; the copy is not, nor is it lost where its number is reached."""
    (copied / "checkpoint-1").rename(copied / "checkpoint-3")
    make_trainer(copied, max_steps=3, **EVERY).train(resume_from_checkpoint=str(copied / "checkpoint-3"))
    assert [line["step"] for line in rounds(copied)] == [1, 2, 3]
    assert names(copied) == ["checkpoint-2", "checkpoint-3"] and names(copied / "abandoned-1") == ["checkpoint-2"]
    assert names(copied / "abandoned-2") == ["checkpoint-3"]
    assert [step_in(place / "checkpoint-3") for place in (copied, copied / "abandoned-2")] == [3, 1]


# the note of a way back


@pytest.mark.parametrize("text", ["{", "", "[]", "{}", '{"to": "1"}'])
def test_a_damaged_note_of_a_way_back_is_one_sentence_and_moves_nothing(copied, text):
    (copied / GOING_BACK).write_text(text)
    with pytest.raises(
        DataError, match=r"going_back\.json' does not hold .*remove it, and resume from a checkpoint's"
    ):
        finish_going_back(copied)
    assert names(copied) == ["checkpoint-1", "checkpoint-2"]


# what a fresh run leaves where it was


def test_a_fresh_run_moves_the_exports_of_any_game_the_control_and_the_note_of_a_way_back(tmp_path):
    for role in ("prover", "helpful", "my_role", "control"):
        (tmp_path / role).mkdir()
        (tmp_path / role / ROLES_FILE).write_text("{}")
    (tmp_path / "prover_0" / "round_3" / "model").mkdir(parents=True)
    (tmp_path / "data").mkdir()  # of the user
    for name in ("run.json", GOING_BACK, "notes.txt"):
        (tmp_path / name).write_text("{}")
    aside = set_run_aside(tmp_path)
    moved = ["control", "helpful", "my_role", "prover", "prover_0", "run.json", GOING_BACK]
    assert sorted(p.name for p in aside.iterdir()) == sorted(moved)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "notes.txt", "previous-1"]
    assert set_run_aside(tmp_path) is None
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / ROLES_FILE).write_text("{}")  # where no run was, it is what this one starts from
    assert set_run_aside(tmp_path) is None


# a disk with a little room left


def test_a_disk_on_which_the_weights_alone_do_not_fit_is_the_same_sentence(tmp_path, monkeypatch):
    """safetensors raises no OSError, and leaves the room that the file did not fit in: its words on a tmpfs
    with 1.5 MB left and 2.6 MB of weights."""
    trainer = make_trainer(tmp_path / "run", max_steps=2, **EVERY)
    save = trainer._save

    def full(output_dir=None, state_dict=None):
        save(output_dir, state_dict)
        if trainer.state.global_step == 2:
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(trainer, "_save", full)
    with pytest.raises(
        RunFolderError, match=r"checkpoint-2 could not be written \(No space left on device\); free space"
    ):
        trainer.train()
    assert not (tmp_path / "run" / ".incomplete").exists() and "checkpoint-1" in names(tmp_path / "run")


def test_staging_goes_whatever_ended_the_save(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path / "run", max_steps=1, **EVERY)

    def fails(output_dir=None, state_dict=None):
        raise RuntimeError("of a user's callback")

    monkeypatch.setattr(trainer, "_save", fails)
    with pytest.raises(RuntimeError, match="of a user's callback"):
        trainer.train()
    assert not (tmp_path / "run" / ".incomplete").exists()
