# Tests: training/callbacks/round_end.py, training/callbacks/run_folder.py, training/checkpoints.py
"""Run folders that were moved, checkpoints that were renamed or set aside, attempts and parts of a run elsewhere."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, TrainerCallback

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.data.run_files import GOING_BACK, ROLES_FILE, set_run_aside
from countdown_selfplay.errors import CheckpointError, DataError
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.callbacks.round_end import Terminated
from countdown_selfplay.training.callbacks.run_folder import _before, describe_run
from countdown_selfplay.training.checkpoints import (
    FORMAT,
    checkpoints,
    defect,
    finish_going_back,
    how_to_go_on,
    newest,
    restore_replaced,
    step_in,
)

from .conftest import EVERY, Power, at_round, equal, goes_on, make_config, make_trainer, ran, rounds, sigterm, weights
from .test_round import LORA, problems
from .test_run_integrity import BEST, GUARD, names, scoring, tripping_after


def test_a_rollback_of_a_run_that_began_from_a_rolled_back_one_samples_anew(build, tmp_path):
    """`first` ends in attempt 1. `second` goes on from there and trips in it: its one rollback must lead to attempt 2,
    for attempt 1 would draw the samples that tripped. A resume that is not told of it by a checkpoint knows it too."""
    tripping_after(build("first", max_steps=2, **EVERY, **GUARD), 1).train()
    start = str(tmp_path / "first" / "checkpoint-2")
    settings = dict(max_steps=3, **EVERY, **GUARD)
    second = ran(tripping_after(build("second", **settings), 3, attempt=1), start)
    assert second.counts.attempt == 2
    record = json.loads((tmp_path / "second" / "rollbacks.jsonl").read_text())
    assert (record["to"], record["attempt"]) == ("checkpoint-2", 2)


def test_a_way_back_that_died_between_two_moves_is_finished_by_the_next_resume(build, tmp_path):
    """From checkpoint-3 back to 1, killed when checkpoint-2 had been moved: 3 must not be taken for the newest."""
    build(max_steps=3, **EVERY).train()
    rename, moves = Path.rename, []

    def dies(path, target):
        moves.append(target)
        if len(moves) == 2:
            raise Power
        return rename(path, target)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Power):
        patch.setattr(Path, "rename", dies)
        build(max_steps=3, **EVERY).train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-1"))
    assert names(tmp_path / "run") == ["checkpoint-1", "checkpoint-3"]
    build(max_steps=3, **EVERY).train(resume_from_checkpoint="auto")
    assert [resume["step"] for resume in json.loads((tmp_path / "run" / "run.json").read_text())["resumes"]] == [1, 1]
    assert names(tmp_path / "run" / "abandoned-2") == ["checkpoint-3"]


def test_a_checkpoint_that_was_set_aside_can_be_gone_on_from(build, tmp_path, copied):
    """The whole run, with abandoned-1, moves to previous-1: the checkpoint is found there."""
    changed = dict(learning_rate=1e-4, allow_changed="learning_rate")
    build(max_steps=2, **EVERY, **changed).train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-1"))
    again = ran(build(max_steps=3, **EVERY), str(tmp_path / "run" / "abandoned-1" / "checkpoint-2"))
    assert again.state.global_step == 3 and names(tmp_path / "run") == ["checkpoint-3"]
    assert names(tmp_path / "run" / "previous-1" / "abandoned-1") == ["checkpoint-2"]


def test_a_checkpoint_under_another_name_is_resumed_and_rolled_back_to(build, tmp_path):
    build("first", max_steps=2, seed=8, **EVERY, **GUARD).train()
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "first" / "checkpoint-2", kept)
    second = ran(tripping_after(build("second", max_steps=3, seed=8, **EVERY, **GUARD), 3), str(kept))
    assert second.state.global_step == 3 and second.counts.attempt == 1


def test_the_best_checkpoint_of_a_run_folder_that_was_moved_is_kept(build, tmp_path):
    values, data = {1: 0.9, 2: 0.3, 3: 0.2}, {"eval_dataset": problems(4)}
    scoring(build(max_steps=2, save_total_limit=1, **BEST, trainer=data), values).train()
    (tmp_path / "run").rename(tmp_path / "moved")
    again = ran(scoring(build("moved", max_steps=3, save_total_limit=1, **BEST, trainer=data), values), True)
    # the newest and the best: at save_total_limit=1 the stock Trainer deletes the newest when training ends
    assert names(tmp_path / "moved") == ["checkpoint-1", "checkpoint-3"] and again.state.best_metric == 0.9
    state = json.loads((tmp_path / "moved" / "checkpoint-3" / "trainer_state.json").read_text())
    assert state["best_model_checkpoint"] == str(tmp_path / "moved" / "checkpoint-1")


def test_what_a_finished_replacement_left_is_not_taken_for_a_checkpoint_later(tmp_path):
    """Killed before the old one was deleted; then the new one is set aside."""
    for name in ("checkpoint-2", ".old-checkpoint-2"):
        (tmp_path / name).mkdir()
    restore_replaced(tmp_path)
    (tmp_path / "checkpoint-2").rename(tmp_path / "abandoned")
    restore_replaced(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("end", [1, 2])
def test_callbacks_of_a_user_see_the_checkpoint_that_sigterm_leaves(build, end):
    """One may copy checkpoints away. end=1: it comes in the last round."""
    seen = []

    class Copies(TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            seen.append(state.global_step)

    settings = dict(max_steps=end, save_strategy="steps", save_steps=100)
    with pytest.raises(Terminated):
        at_round(build(trainer={"callbacks": [Copies()]}, **settings), 0, sigterm).train()
    assert seen == [1]


def my_reward(completions, **columns):
    return [0.5 for _ in completions]


def test_parts_that_only_one_of_the_two_runs_was_given_are_compared(build, tmp_path):
    build(max_steps=1, **EVERY, trainer={"domain": CountdownDomain.tiny()}).train()
    folder = str(tmp_path / "run" / "checkpoint-1")
    wider = CountdownDomain.tiny()
    wider = replace(wider, spec=replace(wider.spec, target_high=98))
    other = build("other", max_steps=2, **EVERY, trainer={"domain": wider, "reward_funcs": my_reward})
    with pytest.raises(CheckpointError, match=r"domain .*reward_funcs \(null there, my_reward here\)"):
        other.train(resume_from_checkpoint=folder)


def test_what_only_saves_memory_may_change_and_changes_no_number(build, two_rounds):
    goes_on(two_rounds, build("again", max_steps=2, gradient_checkpointing=True, **EVERY), 1)


@pytest.mark.parametrize(
    ("sharing", "beta", "counts"), [("full", 0.0, False), ("full", 0.05, True), ("lora", 0.0, True)]
)
def test_another_model_is_refused_where_it_is_a_reference_or_lies_under_adapters(
    build, tmp_path, sharing, beta, counts
):
    """Elsewhere the checkpoint's weights replace all of it."""
    other = AutoModelForCausalLM.from_pretrained(TINY_MODEL_PATH, dtype=torch.float32)
    with torch.no_grad():
        other.model.embed_tokens.weight += 0.01
    adapter = {"trainer": {"peft_config": LORA}} if sharing == "lora" else {}
    settings = dict(policy_sharing=sharing, beta=beta, **EVERY, **adapter)
    build(max_steps=1, **settings).train()
    same, another = build(max_steps=2, **settings), build("other", max_steps=2, model=other, **settings)
    folder = str(tmp_path / "run" / "checkpoint-1")
    if counts:
        with pytest.raises(CheckpointError, match=r"differs .* in model \(\d+ tensors .* there, .* here\)\. Keep"):
            another.train(resume_from_checkpoint=folder)
    else:
        another.train(resume_from_checkpoint=folder)
        same.train(resume_from_checkpoint=folder)
        assert equal(weights(same), weights(another))


def test_a_resume_leaves_the_command_of_the_start_and_is_listed_with_its_own(tmp_path, monkeypatch):
    args, domain = make_config(tmp_path), CountdownDomain.tiny()
    monkeypatch.setattr("sys.argv", ["bin/countdown-selfplay", "joint", "--seed", "3"])
    describe_run(args, domain, [])
    begun = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(begun | {"started": "long ago"}))
    monkeypatch.setattr("sys.argv", ["bin/countdown-selfplay", "joint", "--resume_from_checkpoint", "true"])
    held_out = [Problem((1, 2, 3), target) for target in (5, 6, 1, 100)]  # the last one is beyond the range
    describe_run(args, domain, [], tmp_path / "checkpoint-1", 1, {"learning_rate": [1, 2]}, held_out)
    said = json.loads((tmp_path / "run.json").read_text())
    (resume,) = said["resumes"]
    assert said["held_out"] == {"target": {"1-5": 2, "6-12": 1}}
    assert (said["started"], said["command"]) == ("long ago", "countdown-selfplay joint --seed 3")
    assert resume["command"] == "countdown-selfplay joint --resume_from_checkpoint true"
    assert (resume["step"], resume["changed"]) == (1, {"learning_rate": [1, 2]})


# Files of a run folder that something else damaged: one sentence, or what is not needed is passed over.


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
    "empty": "", "a list": "[1]", "without files": json.dumps({"step": 2, "format": FORMAT}),
    "files a list": {"files": ["model.safetensors"]}, "a file without its digest": {"files": {"model.safetensors": 3}},
    "a step that is a text": {"step": "two"}, "healthy is no truth value": {"healthy": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFESTS)
def test_of_a_checkpoint_with_a_damaged_manifest_the_one_before_is_taken(copied, name, caplog):
    place, damage = copied / "checkpoint-2" / "complete.json", MANIFESTS[name]
    place.write_text(damage if isinstance(damage, str) else json.dumps(json.loads(place.read_text()) | damage))
    assert "it has no readable complete.json" in str(defect(copied / "checkpoint-2", 1))
    assert newest(copied, 1) == copied / "checkpoint-1"
    assert "Skipping checkpoint-2: it has no readable complete.json" in caplog.text
    assert "checkpoint-1; resume" in how_to_go_on(copied)


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


@pytest.mark.parametrize("text", ["{", "", "[]", "{}", '{"to": "1"}'])
def test_a_damaged_note_of_a_way_back_is_one_sentence_and_moves_nothing(copied, text):
    (copied / GOING_BACK).write_text(text)
    with pytest.raises(
        DataError, match=r"going_back\.json' does not hold .*remove it, and resume from a checkpoint's"
    ):
        finish_going_back(copied)
    assert names(copied) == ["checkpoint-1", "checkpoint-2"]


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
