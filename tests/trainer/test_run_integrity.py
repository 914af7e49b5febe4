# Tests: training/callbacks/round_end.py, training/checkpoints.py, training/rollbacks.py, training/run_lock.py
"""What a run folder survives: given-up trajectories, deaths, a second run, changed settings, damaged files."""

import fcntl
import json
import multiprocessing
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from countdown_selfplay.errors import CheckpointError, RunFolderError
from countdown_selfplay.training.callbacks.round_end import Terminated
from countdown_selfplay.training.checkpoints import manifest_of
from countdown_selfplay.training.rollbacks import Training
from countdown_selfplay.training.run_lock import run_lock

from .conftest import EVERY, Power, at_round, die, equal, make_trainer, ran, remembered, rounds, sigterm, weights
from .test_round import LORA, problems

GUARD = dict(guard=True, guard_window=1, guard_trips={"round/solve_rate_mean": [None, None]})


def tripping_after(trainer, *steps, attempt=0):
    """The guard sees no parseable proposal at the end of the rounds `steps`, and is content otherwise."""
    observe = trainer.guard.observe

    def sees(metrics):
        bad = trainer.state.global_step in steps and trainer.counts.attempt == attempt
        return observe({"conjecturer/parseable_rate": 0.0 if bad else 1.0, "round/starved": 0})

    trainer.guard.observe = sees
    return trainer


def names(folder):
    return sorted(p.name for p in Path(folder).glob("checkpoint-*"))


ROLLED_BACK = dict(max_steps=4, **EVERY, **{**GUARD, "guard_window": 2})


@pytest.fixture(scope="module")
def rolled_back(tmp_path_factory):
    """Rounds 3 and 4 are bad, window 2: it trips at 4, goes back to 2 and plays both again."""
    trainer = ran(tripping_after(make_trainer(tmp_path_factory.mktemp("rolled") / "back", **ROLLED_BACK), 3, 4))
    return trainer


@pytest.mark.matrix
def test_a_run_killed_after_a_rollback_does_not_resume_from_what_the_rollback_gave_up(build, tmp_path, rolled_back):
    """Killed in the first round of attempt 1, the resume must go on from checkpoint-2 with attempt 1, and end as the
    run that was not killed."""
    killed = at_round(tripping_after(build("killed", **ROLLED_BACK), 3, 4), 2, die, attempt=1)
    with pytest.raises(Power):
        killed.train()
    assert names(tmp_path / "killed") == ["checkpoint-0", "checkpoint-1", "checkpoint-2"]
    assert names(tmp_path / "killed" / "abandoned-1") == ["checkpoint-3"]
    again = ran(tripping_after(build("killed", **ROLLED_BACK), 3, 4), True)
    assert equal(weights(rolled_back), weights(again))
    assert remembered(rolled_back) == remembered(again)
    assert again.counts.samples["prover"] == 6 * 32  # what the two rounds that were given up cost is still counted
    assert rounds(rolled_back.args.output_dir) == rounds(tmp_path / "killed")
    assert len((tmp_path / "killed" / "rollbacks.jsonl").read_text().splitlines()) == 1


@pytest.mark.matrix
def test_a_kill_between_writing_a_rollback_down_and_setting_its_checkpoints_aside_is_made_good(
    build, tmp_path, rolled_back
):
    killed = tripping_after(build("killed", **ROLLED_BACK), 3, 4)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Power):
        patch.setattr(Training, "go_back", lambda *_: die())
        killed.train()
    assert names(tmp_path / "killed")[-1] == "checkpoint-3"  # unhealthy: of round 3, which the rollback gave up
    again = ran(tripping_after(build("killed", **ROLLED_BACK), 3, 4), True)
    assert names(tmp_path / "killed" / "abandoned-1") == ["checkpoint-3"]
    assert equal(weights(rolled_back), weights(again)) and remembered(rolled_back) == remembered(again)


def test_going_back_to_an_earlier_checkpoint_sets_the_later_ones_aside(build, tmp_path):
    """After it: the guard cannot roll forward into them, resume=True and rotation cannot meet them."""
    build(max_steps=3, **EVERY).train()
    changed = dict(learning_rate=1e-4, allow_changed="learning_rate")
    again = at_round(build(max_steps=3, **EVERY, save_total_limit=1, **changed), 2, die)
    with pytest.raises(Power):
        again.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-1"))
    assert names(tmp_path / "run") == ["checkpoint-2"]  # of the new trajectory; one is kept
    assert names(tmp_path / "run" / "abandoned-1") == ["checkpoint-3"]  # and one of the old
    ran(build(max_steps=3, **EVERY, **changed), True)
    assert [line["step"] for line in rounds(tmp_path / "run")] == [1, 2, 3]
    assert {line["lr/prover"] for line in rounds(tmp_path / "run")[1:]} == {1e-4}


def test_a_trip_before_the_first_save_goes_back_to_the_checkpoint_elsewhere_that_the_run_began_from(build, tmp_path):
    build("first", max_steps=1, **EVERY, **GUARD).train()
    second = ran(
        tripping_after(build("second", max_steps=3, save_strategy="steps", save_steps=4, **GUARD), 2),
        str(tmp_path / "first" / "checkpoint-1"),
    )
    assert second.state.global_step == 3 and second.counts.attempt == 1
    assert [line["step"] for line in rounds(tmp_path / "second")] == [2, 3]
    assert names(tmp_path / "first") == ["checkpoint-0", "checkpoint-1"]


def test_a_resume_from_elsewhere_sets_an_earlier_run_of_the_folder_aside(build, tmp_path, two_rounds, copied):
    elsewhere = Path(two_rounds.args.output_dir) / "checkpoint-2"
    build(max_steps=3, **EVERY).train(resume_from_checkpoint=str(elsewhere))
    assert names(copied) == ["checkpoint-3"]
    assert names(copied / "previous-1") == ["checkpoint-1", "checkpoint-2"]


def test_a_checkpoint_whose_replacement_died_between_two_renames_is_found(build, two_rounds, copied):
    folder = copied / "checkpoint-2"
    folder.rename(folder.with_name(".old-checkpoint-2"))
    again = ran(build(max_steps=2, **EVERY), True)
    assert folder.is_dir() and equal(weights(two_rounds), weights(again))
    assert json.loads((copied / "run.json").read_text())["resumes"] == []  # it was complete: no round was played again


def scoring(trainer, values):
    evaluate = trainer.evaluate

    def scores(*args, **kwargs):
        metrics = evaluate(*args, **kwargs)
        metrics["eval_pass@1"] = values[trainer.state.global_step]
        return metrics

    trainer.evaluate = scores
    return trainer


BEST = dict(
    **EVERY, eval_strategy="steps", eval_steps=1, metric_for_best_model="pass@1", greater_is_better=True,
    num_generations_eval=2, learning_rate=0.0,
)  # fmt: skip


def test_a_torn_last_line_of_a_log_is_no_obstacle(build, tmp_path):
    settings = dict(save_strategy="steps", save_steps=2, **GUARD)
    tripping_after(build(max_steps=3, **settings)).train()
    logs = [tmp_path / "run" / f"{name}.jsonl" for name in ("metrics", "samples", "rollbacks")]
    for log in logs:
        whole = log.read_bytes() if log.exists() else b""
        log.write_bytes(whole + b'{"step": 3, "tri')  # killed in the middle of a write
    ran(tripping_after(build(max_steps=4, **settings)), True)
    assert [line["step"] for line in rounds(tmp_path / "run")] == [1, 2, 3, 4]
    for log in logs:
        torn = log.with_suffix(".discarded.jsonl").read_text().splitlines()[-1]
        assert json.loads(torn) == {"torn": '{"step": 3, "tri'}


def hold(folder, held):
    with run_lock(folder):
        held.set()
        time.sleep(600)


def test_a_second_run_in_a_folder_that_is_in_use_is_refused_in_one_sentence(build, tmp_path):
    trainer, fork = build(max_steps=1), multiprocessing.get_context("fork")
    held = fork.Event()
    process = fork.Process(target=hold, args=(tmp_path / "run", held), daemon=True)
    process.start()
    assert held.wait(600)
    with pytest.raises(RunFolderError, match=f"is in use by process {process.pid} on .*choose another folder"):
        trainer.train()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    process.kill()  # however a run ends, the lock ends with it
    process.join()
    assert trainer.train().global_step == 1


def hold_with_a_fork(folder, held, over):
    with run_lock(folder):
        multiprocessing.get_context("fork").Process(target=over.wait, args=(600,)).start()
        hold(folder, held)


def test_a_fork_that_outlives_a_killed_run_does_not_keep_its_folder(tmp_path):
    fork = multiprocessing.get_context("fork")
    held, over = fork.Event(), fork.Event()
    process = fork.Process(target=hold_with_a_fork, args=(tmp_path, held, over))
    process.start()
    assert held.wait(600)
    process.kill()
    process.join()
    with run_lock(tmp_path):
        over.set()


def test_the_lock_of_one_process_can_be_taken_again_by_itself(tmp_path):
    """The inner end does not let go (another open file of the lock is refused by the system), the outer one does."""
    kept = tmp_path / "metrics.jsonl"
    kept.touch()  # or the folder would go with its lock
    with run_lock(tmp_path):
        with run_lock(tmp_path):
            pass
        with (tmp_path / ".lock").open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / ".lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert kept.exists()


CHANGES = {
    "seed": dict(seed=77), "learning_rate": dict(learning_rate=2e-3),
    "conjecturer_reward": dict(conjecturer_reward="sgs"), "answer_rule": dict(answer_rule="any"),
    "prover_objective": dict(prover_objective="grpo"), "beta": dict(beta=0.05), "number_high": dict(number_high=11),
    "max_steps": dict(max_steps=1),
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(two_rounds):
    return Path(two_rounds.args.output_dir) / "checkpoint-2"


@pytest.mark.parametrize("name", CHANGES)
def test_a_resume_under_another_setting_is_refused_by_name_and_both_values(build, finished, name):
    before = {"seed": 3, "learning_rate": 1e-3, "beta": 0.0, "max_steps": 2}.get(name)
    other = build("other", **{"max_steps": 3, **EVERY, **CHANGES[name]})
    said = rf"{name} \({before} there, {CHANGES[name][name]} here\)" if before is not None else name
    with pytest.raises(CheckpointError, match=rf"{said}.*allow_changed='.*{name}"):
        other.train(resume_from_checkpoint=str(finished))


def test_other_data_is_refused_and_allowed_by_name(build, finished, tmp_path):
    other = {"train_dataset": problems(41)}
    settings = dict(max_steps=3, **EVERY)
    with pytest.raises(CheckpointError, match=r"train_dataset \(2048 problems .* there, 41 problems .* here\)"):
        build("other", **settings, trainer=other).train(resume_from_checkpoint=str(finished))
    assert not (tmp_path / "other" / "metrics.jsonl").exists()
    allowed = ran(build("other", **settings, allow_changed="train_dataset", trainer=other), str(finished))
    assert allowed.state.global_step == 3


def test_cadence_trackers_paths_and_more_rounds_may_change_without_a_word(build, finished):
    free = dict(logging_steps=2, save_steps=3, save_total_limit=4, samples_per_log=1, eval_steps=7, run_name="other")
    again = ran(build("other", max_steps=3, save_strategy="steps", **free), str(finished))
    assert again.state.global_step == 3


def test_a_changed_learning_rate_acts_and_run_json_keeps_both(build, finished, tmp_path):
    """The checkpoint's optimizer and schedule would bring the old one back."""
    changed = dict(prover_learning_rate=5e-4, weight_decay=0.1, allow_changed="learning_rate, weight_decay")
    again = ran(build("other", max_steps=3, **EVERY, **changed), str(finished))
    line = rounds(tmp_path / "other")[-1]
    assert line["lr/prover"] == 5e-4 and line["lr/conjecturer"] == 1e-3
    assert {group["weight_decay"] for group in again.optimizer.param_groups} == {0.0, 0.1}
    run = json.loads((tmp_path / "other" / "run.json").read_text())
    assert run["resumes"][0]["changed"] == {"prover_learning_rate": [None, 5e-4], "weight_decay": [0.0, 0.1]}
    assert run["resumes"][0]["step"] == 2 and run["config"]["prover_learning_rate"] == 5e-4


def test_flipped_bytes_of_the_same_size_are_found(build, copied):
    path = copied / "checkpoint-2" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-4000:-3996] = bytes(byte ^ 0xFF for byte in data[-4000:-3996])
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        build(max_steps=3, **EVERY).train(resume_from_checkpoint=str(path.parent))
    again = build(max_steps=2, **EVERY)
    again.train(resume_from_checkpoint=True)  # the newest that is whole
    assert [entry["step"] for entry in json.loads((copied / "run.json").read_text())["resumes"]] == [1]
    assert again.state.global_step == 2 and names(copied / "abandoned-1") == ["checkpoint-2"]


def test_a_checkpoint_of_another_version_is_refused_in_one_sentence(copied, build):
    folder = copied / "checkpoint-2"
    manifest = manifest_of(folder)
    assert manifest.pop("format") == 3
    (folder / "complete.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="another version of countdown-selfplay wrote it"):
        build(max_steps=3, **EVERY).train(resume_from_checkpoint=str(folder))


@pytest.mark.parametrize("weights", [False, True])
def test_a_full_disk_in_a_checkpoint_is_one_sentence_that_names_what_is_left(build, tmp_path, monkeypatch, weights):
    """In the optimizer's file; or where the weights alone do not fit: safetensors raises no OSError, and leaves the
    room that the file did not fit in. Its words on a tmpfs with 1.5 MB left and 2.6 MB of weights."""
    trainer = build(max_steps=2, **EVERY)
    save, save_weights = torch.save, trainer._save

    def full(value, file, *args, **kwargs):
        if trainer.state.global_step == 2 and "optimizer" in str(file):
            raise OSError(28, "No space left on device")
        return save(value, file, *args, **kwargs)

    def full_of_weights(*given, **more):
        save_weights(*given, **more)
        if trainer.state.global_step == 2:
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(*(trainer, "_save", full_of_weights) if weights else (torch, "save", full))
    said = r"checkpoint-2 could not be written \(.*No space left on device.*\); .*newest checkpoint is .*checkpoint-1;"
    with pytest.raises(RunFolderError, match=said):
        trainer.train()
    assert not (tmp_path / "run" / ".incomplete").exists()  # it would keep the disk full


def test_sigterm_ends_a_run_with_a_checkpoint_at_the_end_of_its_round(build, tmp_path, caplog, two_rounds):
    settings = dict(max_steps=2, save_strategy="steps", save_steps=100)
    ended = build("ended", **settings)
    at_round(ended, 0, sigterm)
    with pytest.raises(Terminated) as stop:
        ended.train()
    assert stop.value.code == 143 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert names(tmp_path / "ended") == ["checkpoint-1"]
    assert "Stopped after round 1 (SIGTERM)" in caplog.text and "resume_from_checkpoint=True" in caplog.text
    again = ran(build("ended", **settings), True)
    assert equal(weights(two_rounds), weights(again))
    assert rounds(two_rounds.args.output_dir) == rounds(tmp_path / "ended")


def test_ctrl_c_names_the_last_checkpoint_and_how_to_go_on(build, caplog):
    with pytest.raises(KeyboardInterrupt):
        at_round(build(max_steps=2, **EVERY), 1, lambda: die(KeyboardInterrupt)).train()
    assert "Stopped after round 1 (KeyboardInterrupt): the newest checkpoint is" in caplog.text
    assert "checkpoint-1; resume with trainer.train(resume_from_checkpoint=True)" in caplog.text


def test_push_to_hub_says_where_each_adapter_would_go(build, tmp_path):
    trainer = ran(build(max_steps=1, policy_sharing="lora", trainer={"peft_config": LORA}))
    assert trainer.push_to_hub(repo_id="me/x", dry_run=True) == ["me/x-conjecturer", "me/x-prover"]
    for role in ("prover", "conjecturer"):
        assert f'from_pretrained("me/x-{role}")' in (tmp_path / "run" / "push" / role / "README.md").read_text()
